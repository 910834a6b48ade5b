"""What the benchmarks share: time, memory, the machine, and the files of results."""

from __future__ import annotations

import json
import os
import platform
import re
import resource
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

RESULTS = Path(__file__).parent / "results"


# --- time and memory -------------------------------------------------------------------------------------------


def timed(run: Callable[[], object]) -> float:
    """Seconds of one call, by the wall clock."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def ratio_of_medians(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Median of ours / median of theirs."""
    return statistics.median(ours) / statistics.median(theirs)


def median_of_ratios(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Median of the ratios of pairs that ran one after the other: a drift of the machine's speed cancels."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def peak_gigabytes() -> float:
    """Most memory that this process has held (GiB); where the process was forked, at least that of its parent."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


# --- the machine -----------------------------------------------------------------------------------------------


def cpu_name() -> str:
    """Name of the processor, or its architecture where the system does not tell the name."""
    info = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.*)", info.read_text()) if info.exists() else []
    return names[0] if names else platform.processor() or platform.machine()


def machine() -> dict[str, Any]:
    """Processor, cores, threads of torch and versions, for a JSON file."""
    return {
        "machine": cpu_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def machine_words() -> str:
    """Architecture and version of torch, for a page."""
    return f"{platform.machine()}, torch {torch.__version__}"


# --- files -----------------------------------------------------------------------------------------------------


def read_results(name: str, folder: Path = RESULTS) -> dict[str, Any]:
    """What NAME.json holds; nothing if there is none."""
    path = folder / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def write_results(name: str, content: Any, page: str | None = None, folder: Path = RESULTS) -> None:
    """Write NAME.json and, if there is a page, NAME.md, each whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    _replace(folder / f"{name}.json", json.dumps(content, indent=1) + "\n")
    if page is not None:
        _replace(folder / f"{name}.md", page)


def _replace(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Rows of figures as lines of a Markdown table; a column for each key of any row."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [[_shown(row.get(column)) for column in columns] for row in rows]
    return [f"| {' | '.join(line)} |" for line in (columns, ["---"] * len(columns), *cells)]


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)
