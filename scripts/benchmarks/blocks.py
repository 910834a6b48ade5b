"""Blocks beside inducing points on measured and made data: error, calibration, time and memory.

    python scripts/benchmarks/blocks.py uci --data FOLDER       # as uci.py, beside its stored figures of the other kinds
    python scripts/benchmarks/blocks.py gain --data FOLDER      # error of I, and what a batch loses, on 10,000 rows
    python scripts/benchmarks/blocks.py million                 # one million made rows, 384 of a million candidates
    python scripts/benchmarks/blocks.py loop --seeds 0          # closed loop, 250,000 rows, 10 rounds of 1,000

Writes scripts/benchmarks/results/blocks.json and .md after every case; cases that are there are left out, so that a run
can be stopped at any time and started again. Seconds are of the processor, those of the wall clock beside them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import torch
import uci
from blocks_page import page
from common import machine, peak_gigabytes, read_results, write_results

import beebo_scale as bs

SETS = ("kin40k", "pol", "bike", "elevators", "keggdirected")
ROWS = 10_000  # at which the exact surrogate says what a batch is worth
BATCHES = (96, 384)


def keep(part: str, key: str, run: Callable[[], dict[str, Any]]) -> None:
    """A case, unless it is there, with its seconds and its peak memory."""
    content = read_results("blocks")
    if key in content.get(part, {}):
        return
    print(part, key, flush=True)
    wall, cpu = time.monotonic(), time.process_time()
    found = run()
    found |= {"cpu_seconds": time.process_time() - cpu, "wall_seconds": time.monotonic() - wall}
    found |= {"peak_gb": peak_gigabytes(), "threads": torch.get_num_threads()}
    content = read_results("blocks")
    content[part] = content.get(part, {}) | {key: found}
    write_results("blocks", content | {"machine": machine()}, page(content, read_results("uci")))
    print({k: v for k, v in found.items() if isinstance(v, (int, float))}, flush=True)


def of_set(options: argparse.Namespace, name: str, split: int) -> tuple[bs.Table, pd.DataFrame, Any, float]:
    """Training table, test rows, the exact surrogate with its hyperparameters and their seconds, as in uci.py."""
    train, test = uci.read(options.data, name, split)
    features = {column: "continuous" for column in train.columns[:-1]}
    table = bs.read_table(train, "y", features=features)
    first, before = uci.hyperparameters(options.work / f"{name}_{split}", table)
    return table, test, first, before


def on_set(options: argparse.Namespace, name: str, split: int) -> dict[str, Any]:
    """One UCI case: hyperparameters of the exact surrogate, sizes by default."""
    table, test, first, before = of_set(options, name, split)
    start = time.process_time()
    size = bs.Approximation(inducing_points=options.m, block_rows=options.rows)
    surrogate = bs.fit(table, "blocks", transform="none", warm_start=first, iterations=0, approximation=size)
    fitted = time.process_time() - start
    features = {column: "continuous" for column in table.frame.columns if column != "y"}
    X, y = surrogate.encoder.encode(bs.read_library(test, features)), torch.tensor(test["y"].to_numpy())
    order = surrogate.posterior().parts(X).argsort(stable=True)
    figures = uci.score(surrogate.posterior(), surrogate, X[order], y[order])
    summary = surrogate.summary()
    sizes = {name: summary[name] for name in ("inducing_points", "blocks", "largest_block", "error_beside_half_blocks")}
    gain = {
        "gain_error": summary["information_gain_error"],
        "gain_error_beside": summary["information_gain_error_beside"],
    }
    return (
        figures | sizes | gain | {"fit_seconds": fitted, "hyperparameter_seconds": before, "rows": len(surrogate.data)}
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("uci", "gain", "million", "loop"))
    parser.add_argument("--data", type=Path, help="folder of the UCI sets")
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--m", type=lambda text: text if text == "auto" else int(text), default="auto")
    parser.add_argument("--rows", type=lambda text: text if text == "auto" else int(text), default="auto")
    parser.add_argument("--n", type=int, help="rows of the made data, where fewer are to be tried")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "uci")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    options.work.mkdir(parents=True, exist_ok=True)
    if options.part in ("uci", "gain") and options.data is None:
        parser.error("give --data")
    if options.part == "uci":
        tried = "" if options.m == options.rows == "auto" else f" m {options.m} rows {options.rows}"
        for split in options.splits:
            for name in options.sets:
                keep("uci", f"{name} {split}{tried}", lambda name=name, split=split: on_set(options, name, split))


if __name__ == "__main__":
    main()
