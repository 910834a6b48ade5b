"""GB1 closed loop in the published protocol: 96 random variants, then 4 rounds of 96 out of all 149,361.

    python scripts/benchmarks/gb1_closed_loop.py --seeds 50 --workers 2
    python scripts/benchmarks/gb1_closed_loop.py --seeds 50 --only explore

Runs every variant of VARIANTS, or those named, with the public API (one thread a process) and writes
scripts/benchmarks/results/gb1_closed_loop.json and .md, beside the figures of 49 published methods; what is there of
other variants stays. Seeds that are finished are kept in --work; the same command goes on with the others.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from common import machine_words, read_results, write_results

import beebo_scale as bs

HERE = Path(__file__).parent
Q = 96


@dataclass(frozen=True)
class Variant:
    """A configuration of the loop: transform of the target and T' in each of the four rounds."""

    name: str
    transform: str
    temperatures: tuple[float, ...]


VARIANTS = (
    Variant("explore", "auto", (2.0,) * 4),
    Variant("default", "auto", (1.0,) * 4),
    Variant("balance", "auto", (0.5,) * 4),
    Variant("exploit", "auto", (0.0,) * 4),
    Variant("explore-untransformed", "none", (2.0,) * 4),
)


def run(job: tuple[Variant, int]) -> list[float]:
    """One seed: best fitness so far / best of the landscape, after 96, 192, ..., 480 measurements."""
    variant, seed = job
    torch.set_num_threads(1)
    landscape = bs.datasets.gb1()
    fitness = landscape["fitness"].to_numpy()
    library = bs.read_library(landscape[["variant"]], {"variant": "protein"})
    row_of = dict(zip(landscape["variant"], range(len(landscape)), strict=True))
    measured = list(np.random.default_rng(seed).choice(len(landscape), Q, replace=False))
    best, surrogate = [float(fitness[measured].max())], None
    for temperature in variant.temperatures:
        table = bs.read_table(landscape.iloc[measured], target="fitness", features={"variant": "protein"})
        surrogate = bs.fit(table, transform=variant.transform, warm_start=surrogate)
        batch = bs.propose(surrogate, q=Q, library=library, temperature=temperature)
        assert batch.run["certificate"]["certified"]
        measured += [row_of[name] for name in batch.frame["variant"]]
        best.append(float(fitness[measured].max()))
    assert len(set(measured)) == len(measured)
    return [value / float(fitness.max()) for value in best]


def curves(variant: Variant, seeds: int, pool: Any, work: Path) -> np.ndarray:
    """Curves of all seeds, seeds x 5; those that stand in the folder are not run again."""
    temperatures = "-".join(f"{t:g}" for t in variant.temperatures)
    path = work / f"{variant.transform}-{temperatures}.json"
    found: dict[str, list[float]] = json.loads(path.read_text()) if path.exists() else {}
    missing = [seed for seed in range(seeds) if str(seed) not in found]
    for seed, curve in zip(missing, pool.imap(run, [(variant, seed) for seed in missing]), strict=True):
        found[str(seed)] = curve
        path.write_text(json.dumps(found))
    return np.array([found[str(seed)] for seed in range(seeds)])


def published() -> pd.DataFrame:
    """The published methods after 480 measurements, best first."""
    table = pd.read_csv(HERE.parent / "paper" / "published" / "gb1_active_learning.csv")
    return table[table["samples"] == 480].sort_values("mean_best_over_global_max", ascending=False)


def report(results: list[dict[str, Any]]) -> str:
    """The result page."""
    lines = [
        "# GB1 closed loop: 96 random variants, then 4 rounds of 96 out of 149,361",
        "",
        "Best fitness found / best of the landscape, mean over the seeds (standard error after 480). "
        f"`scripts/benchmarks/gb1_closed_loop.py`, one thread a process; {machine_words()}. The "
        "first seeds are the same for all variants. Variants with an earlier kernel: gb1_exchange_kernel.md.",
        "",
        "| variant | transform | T' by round | seeds | 96 | 192 | 288 | 384 | 480 |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in results:
        curve = " | ".join(f"{value:.3f}" for value in r["mean"][:-1])
        temperatures = ", ".join(f"{t:g}" for t in r["temperatures"])
        seeds = len(r["final_by_seed"])
        last = f"{r['mean'][-1]:.3f} ({r['stderr']:.3f})"
        lines.append(f"| {r['name']} | {r['transform']} | {temperatures} | {seeds} | {curve} | {last} |")
    table = published()
    lines += [
        "",
        "Published after 480 measurements (70 runs; `scripts/paper/published`), best five and the best one-hot GP:",
        "",
    ]
    lines += ["| encoding | model | acquisition | 480 |", "|---|---|---|---|"]
    onehot = table[(table["encoding"] == "onehot") & (table["model"] == "GP")].head(1)
    for _, row in pd.concat([table.head(5), onehot]).iterrows():
        value = f"{row['mean_best_over_global_max']:.3f} ({row['std']:.3f})"
        lines.append(f"| {row['encoding']} | {row['model']} | {row['acquisition']} | {value} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--work", type=Path, default=Path("runs/gb1_closed_loop"))
    parser.add_argument("--only", nargs="+", choices=[variant.name for variant in VARIANTS])
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    results = {r["name"]: r for r in read_results("gb1_closed_loop").get("variants", [])}
    with multiprocessing.get_context("spawn").Pool(options.workers) as pool:
        for variant in VARIANTS:
            if options.only and variant.name not in options.only:
                continue
            found = curves(variant, options.seeds, pool, options.work)
            results[variant.name] = result = {
                "name": variant.name,
                "transform": variant.transform,
                "temperatures": variant.temperatures,
                "mean": found.mean(0).tolist(),
                "stderr": float(found[:, -1].std(ddof=1) / len(found) ** 0.5),
                "final_by_seed": found[:, -1].tolist(),
            }
            print(variant.name, np.round(result["mean"], 3), f"+- {result['stderr']:.3f}", flush=True)
            ordered = [results[variant.name] for variant in VARIANTS if variant.name in results]
            write_results("gb1_closed_loop", {"variants": ordered}, report(ordered))


if __name__ == "__main__":
    main()
