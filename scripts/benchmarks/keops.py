"""Products K V by KeOps against the package's own blocks.

    python scripts/benchmarks/keops.py --keops /tmp/keops-2.3 /tmp/keops-2.2.3 --threads 1 2
    python scripts/benchmarks/keops.py --device cuda

K is a Matern-5/2 kernel matrix of n points in d dimensions and V has c columns. Each folder of `--keops` holds one
version of pykeops (`pip install --no-deps --target FOLDER pykeops==2.3 keopscore==2.3 pybind11`); without it, the
installed version is measured. Versions and numbers of threads are processes of their own; inside one, both ways take
turns and the ratio is that of their medians, once by the clock and once by the time that the process got on the
processors, which says more where others use them too. KeOps is given all rows at once, which is its best case; the
time of its compilation is a column of its own. A case for which three turns would take longer than `--most` seconds is
left out.
Writes results/keops.json and .md beside this script; a run replaces the rows of its own versions, device and threads.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from beebo_scale.kernels.stationary import StationaryKernel
from beebo_scale.linalg.keops import keops_product
from beebo_scale.linalg.kernel_matrix import KernelMatrix

RESULTS = Path(__file__).parent / "results" / "keops.json"
SIZES, DIMENSIONS, COLUMNS = (5_000, 20_000, 50_000), (3, 10), (1, 4, 16, 65, 129)
FORMATS = {"float64": torch.float64, "float32": torch.float32}
TURNS, ENOUGH = 5, 2.0  # rounds of both ways; seconds after three of them that are enough


def processor() -> str:
    """Name of the CPU."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def seconds(work: Callable[[], Any], device: str) -> tuple[float, float]:
    """Of one call, on a GPU until it is done: by the clock, and of all threads of this process."""
    start, used = time.perf_counter(), time.process_time()
    work()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start, time.process_time() - used


def measure(n: int, d: int, c: int, format_: str, device: str) -> dict[str, Any]:
    """Median seconds of both ways, what KeOps took to compile, and the largest difference relative to the result."""
    generator = torch.Generator().manual_seed(0)
    kind = {"dtype": FORMATS[format_], "device": device}
    Z = torch.rand(n, d, generator=generator, dtype=torch.float64).to(**kind)
    V = torch.randn(n, c, generator=generator, dtype=torch.float64).to(**kind)
    kernel = StationaryKernel(2.5, torch.full((d,), 0.5, **kind), 1.0, None)
    K, product = KernelMatrix(kernel, Z, keops=False), keops_product(kernel)
    assert product is not None
    compilation, _ = seconds(lambda: product(Z[:64], Z[:64], V[:64]), device)
    expected, found = K @ V, product(Z, Z, V)
    turns: list[tuple[float, ...]] = []
    while len(turns) < 3 or (len(turns) < TURNS and sum(map(sum, turns)) < 2 * ENOUGH):
        turns.append(seconds(lambda: K @ V, device) + seconds(lambda: product(Z, Z, V), device))
    names = ("blocks", "blocks_cpu", "keops", "keops_cpu")
    median = dict(zip(names, map(statistics.median, zip(*turns, strict=True)), strict=True))
    error = float((found - expected).abs().max() / expected.abs().max())
    return {**median, "turns": len(turns), "compilation": compilation, "difference": error}


def one_process(device: str, most: float) -> None:
    """Every case, in lines of JSON; what a larger n will take is known from the one before."""
    import pykeops

    about = {"version": pykeops.__version__, "device": device, "threads": torch.get_num_threads()}
    about["on"] = torch.cuda.get_device_name() if device == "cuda" else f"{processor()}, {os.cpu_count()} cores"
    expected: dict[tuple[int, int, str], tuple[float, int]] = {}
    for n in SIZES:
        for format_ in FORMATS:
            for d in DIMENSIONS:
                for c in COLUMNS:
                    case = {"n": n, "d": d, "c": c, "format": format_}
                    before, size = expected.get((d, c, format_), (0.0, n))
                    if 4 * before * (n / size) ** 2 > most:
                        continue
                    row = measure(n, d, c, format_, device)
                    expected[d, c, format_] = (row["blocks"] + row["keops"], n)
                    print(json.dumps({**about, "torch": torch.__version__, **case, **row}), flush=True)


def record(rows: list[dict[str, Any]]) -> None:
    """Put rows into the results, in place of those of the same version, device and threads."""

    def of(row: dict[str, Any]) -> tuple[Any, ...]:
        return row["version"], row["device"], row["threads"]

    old = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    new = {of(row) for row in rows}
    rows = [row for row in old if of(row) not in new] + rows
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    lines = [
        "# K V by KeOps and by blocks",
        "",
        "By `scripts/benchmarks/keops.py`: Matern-5/2, seconds are medians.",
        "",
    ]
    for group in sorted({of(row) for row in rows}):
        some = [row for row in rows if of(row) == group]
        wins = sum(row["keops"] < row["blocks"] for row in some)
        title = f"pykeops {group[0]}, torch {some[0]['torch']}, {some[0]['on']}, threads: {group[2]}"
        lines += [f"## {title}", "", f"KeOps is faster in {wins} of {len(some)} cases.", ""]
        lines += [
            "| n | d | columns | format | blocks, s | KeOps, s | ratio | CPU ratio | compilation, s | difference |"
        ]
        lines += ["|---" * 10 + "|"]
        lines += [
            f"| {r['n']:,} | {r['d']} | {r['c']} | {r['format']} | {r['blocks']:.3g} | {r['keops']:.3g} | "
            f"{r['keops'] / r['blocks']:.2f} | {r['keops_cpu'] / r['blocks_cpu']:.2f} | {r['compilation']:.1f} | "
            f"{r['difference']:.0e} |"
            for r in some
        ]
        lines += [""]
    RESULTS.with_suffix(".md").write_text("\n".join(lines))


def main() -> None:
    """Run every version with every number of threads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keops", nargs="+", default=[""], help="folders, each with one version of pykeops")
    parser.add_argument("--threads", nargs="+", type=int, default=[1])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--most", type=float, default=60.0, help="seconds that a case may take")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one_process(options.device, options.most)
        return
    for folder in options.keops:
        for threads in options.threads:
            path = os.pathsep.join(part for part in (folder, os.environ.get("PYTHONPATH", "")) if part)
            environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": str(threads)}
            command = [sys.executable, __file__, "--one", "--device", options.device, "--most", str(options.most)]
            rows = []
            with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                for line in process.stdout:
                    print(line, end="", flush=True)
                    rows += [json.loads(line)] if line.startswith("{") else []
                    record(rows)


if __name__ == "__main__":
    main()
