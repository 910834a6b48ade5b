"""Closed loops at screening scale, through `beebo-scale simulate`: docking scores and GB1, recall of the best rows.

    python scripts/benchmarks/screening.py --data DATA --seeds 3

DATA holds docking/Enamine50k_scores.csv.gz; GB1 comes with the package. What is finished is kept in --work, and the
same command goes on with it. Writes scripts/benchmarks/results/screening.md and .json, and pictures of the curves.
"""

from __future__ import annotations

import argparse
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import RESULTS, machine_words, read_results, write_results

from beebo_scale.cli.main import build_parser
from beebo_scale.cli.simulate import run
from beebo_scale.simulation import Results

ENAMINE = "docking/Enamine50k_scores.csv.gz"
GB1 = "--landscape gb1 --top 100 -q 1536 --rounds 4 --temperatures 0.5"


@dataclass(frozen=True)
class Case:
    """A command and what it is about; {data} stands for the folder of data."""

    name: str
    words: str
    options: str


CASES = (
    Case(
        "enamine50k",
        "Enamine50k, docking scores: 497 of 49,706 rows (1 %), then 5 rounds of 497; recall of the top 500",
        f"--landscape {{data}}/{ENAMINE} --target score --features smiles:smiles --minimize --top 500 "
        "-q 497 --rounds 5 --temperatures 0.5 --strategies random rf-greedy mean-beebo",
    ),
    Case(
        "gb1_1536",
        "GB1: 1,536 of 149,361 variants at random, then 4 rounds of 1,536; recall of the top 100; exact surrogate",
        f"{GB1} --strategies random rf-greedy mean-beebo",
    ),
    Case(
        "gb1_1536_svgp",
        "GB1, the same with SVGP, 512 inducing points",
        f"{GB1} --kind svgp --strategies mean-beebo",
    ),
)


def figures(results: Results) -> dict[str, Any]:
    """Recall by seed and round, and seconds of a whole run, by strategy."""
    found = {}
    for name, rows in results.rounds.groupby("strategy", sort=False):
        recall = rows.pivot(index="seed", columns="round", values="recall")
        seconds = rows.groupby("seed")[["fit_seconds", "choice_seconds"]].sum().mean()
        found[str(name)] = {
            "recall_mean": recall.mean().tolist(),
            "recall_by_seed": recall.round(4).to_numpy().tolist(),
            "fit_seconds": float(seconds["fit_seconds"]),
            "choice_seconds": float(seconds["choice_seconds"]),
        }
    measured = sorted(int(count) for count in results.summary["measured"].unique())
    return {"measured": measured, "strategies": found}


def page(cases: dict[str, dict[str, Any]]) -> str:
    """The result page."""
    lines = [
        "# Closed loops at screening scale",
        "",
        f"`scripts/benchmarks/screening.py`, one thread, {machine_words()}. "
        "Recall of the true best rows, ties at the last place counted up to their number; mean over the seeds, the "
        "range of the seeds at the end. Seconds are those of all rounds of a run, fit and choice.",
    ]
    for name, case in cases.items():
        lines += ["", f"## {case['words']}", "", f"    beebo-scale simulate {case['options']}", ""]
        lines += [f"![Curves](screening_{name}.png)", ""]
        lines.append(f"| strategy | seeds | {' | '.join(f'{m:,}' for m in case['measured'])} | range | fit | choice |")
        lines.append("|---" * (len(case["measured"]) + 5) + "|")
        for strategy, own in case["strategies"].items():
            last = [curve[-1] for curve in own["recall_by_seed"]]
            cells = " | ".join(f"{value:.3f}" for value in own["recall_mean"])
            lines.append(
                f"| {strategy} | {len(last)} | {cells} | {min(last):.3f} to {max(last):.3f} | "
                f"{own['fit_seconds']:.0f} | {own['choice_seconds']:.0f} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("runs/screening"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=[case.name for case in CASES])
    options = parser.parse_args()
    done = read_results("screening")
    for case in CASES:
        if options.only and case.name not in options.only:
            continue
        words = [word.format(data=options.data) for word in case.options.split()]
        folder = options.work / case.name
        words += ["--seeds", str(options.seeds), "--run-dir", str(folder)]
        results = run(build_parser("simulate").parse_args(["simulate", *words]).simulate)
        shown = case.options.format(data="DATA")
        done[case.name] = {"words": case.words, "options": shown, **figures(results)}
        done = {c.name: done[c.name] for c in CASES if c.name in done}
        shutil.copyfile(folder / "curves.png", RESULTS / f"screening_{case.name}.png")
        write_results("screening", done, page(done))


if __name__ == "__main__":
    main()
