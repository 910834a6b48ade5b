"""A proposal job killed at ten random moments ends in the same bytes as one that nobody disturbed.

    python scripts/benchmarks/kill_and_resume.py [--rows 1000000] [--kills 10]

Twice ten jobs, from a library and from a box: each is ended by SIGKILL at a moment drawn uniformly from the time that
the undisturbed job takes, then started again by another number of workers (1 and 2 in turn, one thread each). Writes
scripts/benchmarks/results/kill_and_resume.json and .md.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from common import write_results

import beebo_scale as bs

COLUMNS = [f"x{i}" for i in range(6)]


def prepare(folder: Path, rows: int) -> None:
    """A surrogate of 2,000 rows and a library."""
    random_ = np.random.default_rng(0)
    measured = pd.DataFrame(random_.random((2000, len(COLUMNS))), columns=COLUMNS)
    measured["y"] = np.sin(4 * measured[COLUMNS]).sum(axis=1) + 0.1 * random_.standard_normal(len(measured))
    table = bs.read_table(measured, target="y")
    bs.fit(table, "sgpr", iterations=20, approximation=bs.Approximation(inducing_points=128)).save(
        folder / "model.ckpt"
    )
    library = pd.DataFrame(random_.random((rows, len(COLUMNS))), columns=COLUMNS)
    library.insert(0, "name", [f"c{i}" for i in range(rows)])
    library.to_parquet(folder / "library.parquet", index=False, row_group_size=100_000)


def command(folder: Path, source: str, run: str, workers: int) -> list[str]:
    """One proposal job."""
    start = [sys.executable]
    if workers > 1:
        start += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(workers)]
    job = ["-m", "beebo_scale", "propose", "--surrogate", str(folder / "model.ckpt"), "--run-dir", str(folder / run)]
    what = {
        "library": ["--library", str(folder / "library.parquet"), "--id", "name", "--q", "384"],
        "box": ["--bounds", *(f"{name}:0:1" for name in COLUMNS), "--q", "60", "--restarts", "8", "--steps", "150"],
    }
    return start + job + what[source]


def run(words: list[str], seconds: float | None = None) -> tuple[int, float]:
    """Exit code and duration; killed, with all its workers, after so many seconds."""
    start = time.monotonic()
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL) as job:
        try:
            job.wait(seconds)
        except subprocess.TimeoutExpired:
            for pid in (*descendants(job.pid), job.pid):  # torchrun's workers would go on without it
                os.kill(pid, signal.SIGKILL)
        return job.wait(), time.monotonic() - start


def descendants(pid: int) -> list[int]:
    """Processes that a process started, and those that they started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [one for child in children for one in (*descendants(int(child)), int(child))]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def disturb(folder: Path, source: str, kills: int, seed: int) -> dict:
    """One undisturbed job, then so many killed and started again."""
    code, seconds = run(command(folder, source, f"{source}-whole", 1))
    assert code == 0, code
    expected = digest(folder / f"{source}-whole" / "batch.csv")
    moments, rows = random.Random(seed), []
    for kill in range(kills):
        name, first, then = f"{source}-{kill}", 1 + kill % 2, 2 - kill % 2
        moment = moments.uniform(0.0, seconds)
        code, _ = run(command(folder, source, name, first), moment)
        kept = len(list((folder / name / "chunks").glob("[!.]*.pt"))) if (folder / name).exists() else 0
        again, rest = run(command(folder, source, name, then))
        same = again == 0 and digest(folder / name / "batch.csv") == expected
        rows.append({"moment": moment, "killed": code == -9, "workers": [first, then], "kept": kept} | {"same": same})
        print(f"{source}: killed after {moment:.1f} s, {kept} chunks kept, {rest:.1f} s more, same bytes: {same}")
    return {"seconds": seconds, "kills": rows, "all_same": all(row["same"] for row in rows)}


def report(result: dict) -> str:
    lines = ["# Killed and started again", "", result["machine"], ""]
    lines += [
        "| job | undisturbed | killed after | by workers, then | chunks kept | same bytes |",
        "|---|---|---|---|---|---|",
    ]
    for source in ("library", "box"):
        for row in result[source]["kills"]:
            cells = [source, f"{result[source]['seconds']:.1f} s", f"{row['moment']:.1f} s"]
            cells += [", ".join(map(str, row["workers"])), str(row["kept"]), "yes" if row["same"] else "NO"]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the library")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    options = parser.parse_args()
    machine = (
        f"{platform.machine()}, {os.cpu_count()} cores, one thread for each worker; {options.rows:,} library rows."
    )
    result = {"machine": machine}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder, options.rows)
        for source in ("library", "box"):
            result[source] = disturb(folder, source, options.kills, options.seed)
    write_results("kill_and_resume", result, report(result))
    return 0 if result["library"]["all_same"] and result["box"]["all_same"] else 1


if __name__ == "__main__":
    sys.exit(main())
