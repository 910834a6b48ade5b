"""Choice from a library on disk: time, memory, certificate, and the same by plain means.

    python scripts/benchmarks/stream.py --parts a c d            # all parts: a b c d e
    python scripts/benchmarks/stream.py --parts a --threads 2

a  1,000,000 rows, d = 10, 512 centers, q = 384, against the bare scoring pass
b  10,000,000 rows
c  100,000 rows: the same batch as full greedy, and how much faster
d  botorch's optimize_acqf_discrete, the same GP, 20,000 rows
e  q = 10,000 from 1,000,000 rows

Every measurement is a process of its own, so that its peak memory is its own. Writes
scripts/benchmarks/results/stream.json and .md; each run replaces only its own rows.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from common import cpu_name, read_results, table, write_results

import beebo_scale as bs
from beebo_scale.kernels.stationary import gram
from beebo_scale.posterior import Posterior
from beebo_scale.proposal.library.certified import CertifiedBatch, choose_certified
from beebo_scale.proposal.library.encoded import EncodedLibrary
from beebo_scale.proposal.library.exclusion import Rules
from beebo_scale.screening import ContinuousColumn, Encoder
from beebo_scale.screening.library import Library, open_library
from beebo_scale.specs import Choice, Limits

D, CENTERS, MEASURED, CHUNK = 10, 512, 4000, 1024
NAMES = [f"x{i}" for i in range(D)]
TEMPERATURES = (0.05, 0.5, 5.0)
KEYS = ("threads", "rows", "temperature", "q", "acquisition")  # what tells rows of one part apart
BARS = {"seconds": 75.0, "gigabytes": 2.0, "times_bare": 2.0, "lazy": 3.0, "botorch": 150.0, "q10000_gigabytes": 8.0}


def target(X: np.ndarray) -> np.ndarray:
    """A smooth function of seven of the ten inputs."""
    rest = 0.5 * X[:, 5] - 0.3 * X[:, 6] ** 2
    return np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + np.cos(2 * X[:, 3] * X[:, 4]) + rest


def fit_surrogate(folder: Path) -> None:
    """SGPR with 512 inducing points on 4,000 noisy measurements."""
    draw = np.random.default_rng(0)
    X = draw.random((MEASURED, D))
    frame = pd.DataFrame(X, columns=NAMES).assign(y=target(X) + 0.1 * draw.standard_normal(MEASURED))
    bs.fit(bs.read_table(frame, "y"), "sgpr", iterations=15, fit_rows=1000).save(folder / "sgpr.ckpt")


def write_library(folder: Path, rows: int) -> Path:
    """Uniform rows with text ids, a million to a row group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path, writer, draw = folder / f"library-{rows}.parquet", None, np.random.default_rng(1)
    for start in range(0, rows, 1_000_000):
        count = min(1_000_000, rows - start)
        columns = {"id": [f"c{i:08d}" for i in range(start, start + count)]}
        table = pa.table(columns | dict(zip(NAMES, draw.random((count, D)).T, strict=True)))
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()
    return path


Rows = Iterator[dict[str, Any]]


# --- what is measured, each in a process of its own ------------------------------------------------------


def opened(folder: Path, rows: int) -> tuple[bs.Surrogate, Posterior, Library]:
    surrogate = bs.load_surrogate(folder / "sgpr.ckpt")
    library = open_library(folder / f"library-{rows}.parquet", surrogate.encoder.kinds, "id")
    return surrogate, surrogate.posterior(), library


def chosen(
    posterior: Posterior, encoder: Encoder, library: Library, choice: Choice, rules: Rules | None = None
) -> CertifiedBatch:
    """The certified choice from a library."""
    return choose_certified(posterior, EncodedLibrary(library, encoder, rules or Rules(), Limits()), choice)


def stream(folder: Path, rows: int, q: int, temperature: float) -> dict[str, Any]:
    """The certified choice, from opening the library to the rows of the batch."""
    bs.load_surrogate(folder / "sgpr.ckpt").posterior().mean(torch.zeros(1, D, dtype=torch.float64))  # imports
    start = time.perf_counter()
    surrogate, posterior, library = opened(folder, rows)
    ready = time.perf_counter()
    choice = chosen(posterior, surrogate.encoder, library, Choice(q, temperature=temperature), Rules(surrogate.data.X))
    end = time.perf_counter()
    names = ("certified", "certified_points", "passes", "shortlist", "smallest_accepted_gain", "best_score_left_out")
    return {
        "seconds": end - start,
        "of_which_opening": ready - start,
        **{name: choice.certificate[name] for name in names},
        "rows_chosen": choice.rows.tolist(),
    }


@torch.no_grad()
def bare(folder: Path, rows: int) -> dict[str, Any]:
    """Kernel and matrix products over as many rows, nothing else; then the same with reading and encoding."""
    surrogate, posterior, library = opened(folder, rows)
    X = torch.from_numpy(np.random.default_rng(2).random((65_536, D)))
    R = torch.from_numpy(np.random.default_rng(3).random((len(posterior.centers), posterior.rank)))
    figures = {}
    for products in (1, 2):
        start = time.perf_counter()
        for first in range(0, rows, CHUNK):
            place = first % (len(X) - CHUNK)
            F = gram(posterior.kernel, X[place : place + CHUNK], posterior.centers)
            for _ in range(products):
                F = F @ R
        figures[f"kernel_and_{products}_products_seconds"] = time.perf_counter() - start
    start = time.perf_counter()
    for _, rows in library.chunks():
        surrogate.encoder.encode(rows)
    return figures | {"reading_seconds": time.perf_counter() - start}


@torch.no_grad()
def full(folder: Path, rows: int, q: int, temperature: float) -> dict[str, Any]:
    """Plain full greedy: the gains of all rows at every step."""
    surrogate, posterior, library = opened(folder, rows)
    T = temperature * math.sqrt(posterior.amplitude)
    start = time.perf_counter()
    X = torch.cat([surrogate.encoder.encode(table) for _, table in library.chunks()])
    parts = [posterior.mean_variance_and_features(x) for x in X.split(CHUNK)]
    mean, v, F = (torch.cat(part) for part in zip(*parts, strict=True))
    noise, columns = posterior.noise(X), X.new_zeros(rows, q)
    chosen: list[int] = []
    for t in range(q):
        gain = mean + 0.5 * T * torch.log1p(v.clamp_min(0) / noise)
        gain[chosen] = -torch.inf
        best = int(gain.argmax())
        chosen.append(best)
        C = posterior.cross_covar(X, F, X[best : best + 1], F[best : best + 1]).squeeze(-1)
        C -= columns[:, :t] @ columns[best, :t]
        columns[:, t] = C / (v[best] + noise[best]).sqrt()
        v = v - columns[:, t].square()
    return {"seconds": time.perf_counter() - start, "rows_chosen": chosen}


def botorch_choice(folder: Path, name: str, q: int) -> dict[str, Any]:
    """The greedy discrete optimiser of botorch, or ours, on one GP with 500 measurements and 20,000 candidates."""
    from botorch.acquisition import qLogExpectedImprovement, qUpperConfidenceBound
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.optim import optimize_acqf_discrete
    from gpytorch.mlls import ExactMarginalLogLikelihood

    draw = np.random.default_rng(4)
    X = draw.random((500, D))
    y = torch.from_numpy(target(X) + 0.1 * draw.standard_normal(500)).unsqueeze(-1)
    gp = SingleTaskGP(torch.from_numpy(X), y)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(gp.likelihood, gp))
    pool = draw.random((20_000, D))
    if name == "beebo":
        encoder = Encoder(tuple(ContinuousColumn(column, 0.0, 1.0) for column in NAMES))
        posterior, frame = bs.posterior_of(gp), pd.DataFrame(pool, columns=NAMES)
        chosen(posterior, encoder, open_library(frame.iloc[:100], encoder.kinds), Choice(2))  # imports
        start = time.perf_counter()
        choice = chosen(posterior, encoder, open_library(frame, encoder.kinds), Choice(q))
        return {"seconds": time.perf_counter() - start, "certified": choice.certificate["certified"]}
    torch.manual_seed(0)
    acqf = qLogExpectedImprovement(gp, y.max()) if name == "qLogEI" else qUpperConfidenceBound(gp, 2.0)
    start = time.perf_counter()
    optimize_acqf_discrete(acqf, q, torch.from_numpy(pool))
    return {"seconds": time.perf_counter() - start}


TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    "stream": stream,
    "bare": bare,
    "full": full,
    "botorch": botorch_choice,
}


def peak() -> float:
    """Most memory that this process has held; what getrusage says would count the process that started it."""
    status = Path("/proc/self/status").read_text().split()
    return int(status[status.index("VmHWM:") + 1]) / 2**20


def measure(task: str, folder: Path, threads: int, *arguments: Any) -> dict[str, Any]:
    """Run a task in a process of its own."""
    command = [sys.executable, __file__, "--task", json.dumps([task, str(folder), *arguments])]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "PYTHONPATH": str(Path(__file__).parents[2])}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        raise RuntimeError(result.stderr)
    figures: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    print(task, arguments, {name: value for name, value in figures.items() if name != "rows_chosen"}, flush=True)
    return figures


# --- the parts -------------------------------------------------------------------------------------------


def million(folder: Path, threads: int, rows: int = 1_000_000) -> Rows:
    write_library(folder, rows)
    plain = measure("bare", folder, threads, rows)
    for temperature in TEMPERATURES if rows == 1_000_000 else (0.5,):
        figures = measure("stream", folder, threads, rows, 384, temperature)
        del figures["rows_chosen"]
        ratios = {
            f"times_bare_{products}": figures["seconds"] / plain[f"kernel_and_{products}_products_seconds"]
            for products in (1, 2)
        }
        scale = rows / 1_000_000
        good = figures["seconds"] < BARS["seconds"] * scale and figures["gigabytes"] < BARS["gigabytes"]
        good = good and ratios["times_bare_2"] < BARS["times_bare"]
        yield {"rows": rows, "temperature": temperature, **plain, **figures, **ratios, "passes_bars": good}


def ten_million(folder: Path, threads: int) -> Rows:
    return million(folder, threads, 10_000_000)


def against_full(folder: Path, threads: int) -> Rows:
    write_library(folder, 100_000)
    for temperature in TEMPERATURES:
        lazy = measure("stream", folder, threads, 100_000, 384, temperature)
        plain = measure("full", folder, threads, 100_000, 384, temperature)
        same = lazy["rows_chosen"] == plain["rows_chosen"]
        ratio = plain["seconds"] / lazy["seconds"]
        row = {"temperature": temperature, "seconds": lazy["seconds"], "full_seconds": plain["seconds"], "ratio": ratio}
        row |= {"same_batch": same, "shortlist": lazy["shortlist"], "certified": lazy["certified"]}
        yield row | {"passes_bars": same and ratio >= BARS["lazy"]}


def against_botorch(folder: Path, threads: int) -> Rows:
    for q in (4, 8, 16):
        ours = measure("botorch", folder, threads, "beebo", q)
        for name in ("qLogEI", "qUCB"):
            seconds = measure("botorch", folder, threads, name, q)["seconds"]
            row = {"q": q, "acquisition": name, "seconds": ours["seconds"], "botorch_seconds": seconds}
            row |= {"ratio": seconds / ours["seconds"], "certified": ours["certified"]}
            yield row | {"passes_bars": row["ratio"] >= BARS["botorch"] if q == 16 else None}


def ten_thousand_points(folder: Path, threads: int) -> Rows:
    write_library(folder, 1_000_000)
    figures = measure("stream", folder, threads, 1_000_000, 10_000, 0.5)
    del figures["rows_chosen"]
    yield {"rows": 1_000_000, "q": 10_000, **figures, "passes_bars": figures["gigabytes"] < BARS["q10000_gigabytes"]}


PARTS: dict[str, tuple[str, Callable[[Path, int], Rows]]] = {
    "a": ("1,000,000 rows, d = 10, 512 centers, q = 384", million),
    "b": ("10,000,000 rows", ten_million),
    "c": ("100,000 rows: full greedy", against_full),
    "d": ("botorch optimize_acqf_discrete, N = 500, 20,000 rows", against_botorch),
    "e": ("q = 10,000 from 1,000,000 rows", ten_thousand_points),
}


def record(part: str, row: dict[str, Any]) -> None:
    """Replace the row with the same key, keep the others, write both files."""
    content = read_results("stream")
    kept = [other for other in content.get(part, []) if any(other.get(key) != row.get(key) for key in KEYS)]
    content[part] = sorted([*kept, row], key=lambda row: [row.get(key) or 0 for key in KEYS[:-1]])
    content["machine"] = cpu_name()
    lines = ["# Choice from a library on disk", ""]
    lines += [f"By `scripts/benchmarks/stream.py`, on a shared {content['machine']} with {os.cpu_count()} cores. Bars:"]
    lines += [", ".join(f"{name} {bar:g}" for name, bar in BARS.items()) + ".", ""]
    for name, (title, _) in PARTS.items():
        if name in content:
            lines += [f"**{title}**", "", *table(content[name]), ""]
    write_results("stream", content, "\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--task", help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    if options.task:
        task, folder, *arguments = json.loads(options.task)
        figures = TASKS[task](Path(folder), *arguments)
        figures["gigabytes"] = peak()
        print(json.dumps(figures))
        return
    for part in options.parts:
        with tempfile.TemporaryDirectory() as folder:
            if part != "d":
                fit_surrogate(Path(folder))
            for row in PARTS[part][1](Path(folder), options.threads):
                record(part, {"threads": options.threads, **row})


if __name__ == "__main__":
    main()
