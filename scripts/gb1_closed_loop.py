"""GB1 closed loop in the published protocol: 96 random variants, then 4 rounds of 96 out of all 149,361.

    python scripts/gb1_closed_loop.py --seeds 20 --workers 2

Runs every variant of VARIANTS with the public API (one thread a process) and writes
scripts/results/gb1_closed_loop.json and .md (gb1_default with --default-only), beside the figures of 49 published
methods. Seeds that are finished are kept in --work; the same command goes on with the others.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import beebo_scale as bs

HERE = Path(__file__).parent
Q = 96


@dataclass(frozen=True)
class Variant:
    """A configuration of the loop: transform of the target and T' in each of the four rounds."""

    name: str
    transform: str
    temperatures: tuple[float, ...]
    default: bool = False


VARIANTS = (
    Variant("T' = 1 (our default)", "auto", (1.0,) * 4, default=True),
    Variant("explore throughout", "auto", (2.0,) * 4),
    Variant("explore, then balance", "auto", (2.0, 2.0, 2.0, 0.5)),
    Variant("T' = 1, then exploit", "auto", (1.0, 1.0, 1.0, 0.0)),
    Variant("balance throughout", "auto", (0.5,) * 4),
    Variant("exploit throughout (greedy mean)", "auto", (0.0,) * 4),
    Variant("no transform, T' = 1", "none", (1.0,) * 4),
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
    table = pd.read_csv(HERE / "published" / "gb1_active_learning.csv")
    return table[table["samples"] == 480].sort_values("mean_best_over_global_max", ascending=False)


def report(results: list[dict[str, Any]], seeds: int, workers: int) -> str:
    """The result page."""
    lines = [
        "# GB1 closed loop: 96 random variants, then 4 rounds of 96 out of 149,361",
        "",
        f"Best fitness found / best of the landscape, mean over {seeds} seeds (standard error after 480). "
        f"`scripts/gb1_closed_loop.py`, {workers} process(es) of one thread; {platform.machine()}, "
        f"torch {torch.__version__}.",
        "",
        "| variant | transform | T' by round | 96 | 192 | 288 | 384 | 480 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in results:
        curve = " | ".join(f"{value:.3f}" for value in r["mean"][:-1])
        temperatures = ", ".join(f"{t:g}" for t in r["temperatures"])
        lines.append(
            f"| {r['name']} | {r['transform']} | {temperatures} | {curve} | {r['mean'][-1]:.3f} ({r['stderr']:.3f}) |"
        )
    table = published()
    lines += [
        "",
        "Published after 480 measurements (70 runs; `scripts/published`), best five and the best one-hot GP:",
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
    parser.add_argument("--default-only", action="store_true", help="run only the default variant")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    results = []
    with multiprocessing.get_context("spawn").Pool(options.workers) as pool:
        for variant in VARIANTS:
            if options.default_only and not variant.default:
                continue
            found = curves(variant, options.seeds, pool, options.work)
            result = {
                "name": variant.name,
                "transform": variant.transform,
                "temperatures": variant.temperatures,
                "mean": found.mean(0).tolist(),
                "stderr": float(found[:, -1].std(ddof=1) / len(found) ** 0.5),
                "final_by_seed": found[:, -1].tolist(),
            }
            results.append(result)
            print(variant.name, np.round(result["mean"], 3), f"+- {result['stderr']:.3f}", flush=True)
    out = HERE / "results" / ("gb1_default" if options.default_only else "gb1_closed_loop")
    out.with_suffix(".json").write_text(json.dumps({"seeds": options.seeds, "variants": results}, indent=1) + "\n")
    out.with_suffix(".md").write_text(report(results, options.seeds, options.workers))


if __name__ == "__main__":
    main()
