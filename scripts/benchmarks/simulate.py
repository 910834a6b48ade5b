"""Closed loops on four fully measured landscapes, through `beebo-scale simulate`, beside every baseline.

    python scripts/benchmarks/simulate.py --data DATA --seeds 20

DATA holds proteins/tfbind8_SIX6_REF_R1.txt.gz and _R2, chem_hte/DreherDoyle.csv.gz and SuzukiMiyaura.csv.gz, and
materials/Crossed_barrel_dataset.csv. What is finished is kept in --work, and the same command goes on with it. Writes
scripts/benchmarks/results/simulate.md and .json, and a picture of each landscape's curves.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import RESULTS, machine_words, read_results, write_results

from beebo_scale.cli.main import build_parser
from beebo_scale.cli.simulate import run
from beebo_scale.simulation import Results

OURS = "mean-beebo"
TIED = 2.0  # paired standard errors


@dataclass(frozen=True)
class Case:
    """A landscape, and how much of it is measured."""

    name: str
    words: str
    table: Callable[[Path], pd.DataFrame]
    target: str
    kind: str
    q: int
    rounds: int


def tfbind8(data: Path) -> pd.DataFrame:
    """Both replicates of every 8-mer (`simulate` averages them)."""
    paths = [data / f"proteins/tfbind8_SIX6_REF_{replicate}.txt.gz" for replicate in ("R1", "R2")]
    parts = [pd.read_csv(path, sep="\t").iloc[:, [0, 2]] for path in paths]
    return pd.concat([part.set_axis(["dna", "E_score"], axis=1) for part in parts], ignore_index=True)


def reactions(file: str) -> Callable[[Path], pd.DataFrame]:
    """The components of each reaction as categories; an empty cell is a component that was left out."""
    return lambda data: pd.read_csv(data / "chem_hte" / file).drop(columns="rxn").fillna("without")


def barrel(data: Path) -> pd.DataFrame:
    """Three prints of each of 600 geometries (`simulate` averages them)."""
    return pd.read_csv(data / "materials/Crossed_barrel_dataset.csv")


CASES = (
    Case("tfbind8", "TFBind8, SIX6: binding of every DNA 8-mer", tfbind8, "E_score", "dna", 96, 4),
    Case(
        "buchwald_hartwig", "Buchwald-Hartwig: yields", reactions("DreherDoyle.csv.gz"), "yield", "categorical", 24, 5
    ),
    Case("suzuki", "Suzuki-Miyaura: yields", reactions("SuzukiMiyaura.csv.gz"), "yield", "categorical", 24, 5),
    Case("crossed_barrel", "Crossed barrel: toughness", barrel, "toughness", "continuous", 12, 5),
)


def command(case: Case, data: Path, options: argparse.Namespace) -> list[str]:
    """Write the landscape as a plain file; the words after `beebo-scale simulate`."""
    frame, file = case.table(data), options.work / f"{case.name}.csv"
    if not file.exists():
        frame.to_csv(file, index=False)
    features = [f"{name}:{case.kind}" for name in frame.columns if name != case.target]
    words = ["--landscape", str(file), "--target", case.target, "--features", *features]
    words += ["-q", str(case.q), "--rounds", str(case.rounds), "--seeds", str(options.seeds)]
    return [*words, "--processes", str(options.processes), "--run-dir", str(options.work / case.name)]


def compared(results: Results) -> dict[str, Any]:
    """Paired differences of best-so-far, ours less that of each other strategy; mean and standard error by round."""
    curves = {
        str(name): rows.pivot(index="seed", columns="round", values="normalised").to_numpy()  # seeds x (rounds + 1)
        for name, rows in results.rounds.groupby("strategy", sort=False)
    }
    figures: dict[str, Any] = {"strategies": {}}
    for name, curve in curves.items():
        difference = curves[OURS][:, 1:] - curve[:, 1:]
        figures["strategies"][name] = {
            "mean": curve.mean(0).tolist(),
            "standard_error": stderr(curve).tolist(),
            "by_seed": curve.round(5).tolist(),
            "ours_less_this": difference.mean(0).tolist(),
            "ours_less_this_error": stderr(difference).tolist(),
            "ours_less_this_over_rounds": [float(difference.mean()), float(stderr(difference.mean(1)))],
        }
    return figures | {"verdict": verdict(figures["strategies"])}


def stderr(values: np.ndarray) -> np.ndarray:
    """Standard error of the mean over the first axis."""
    return np.asarray(values.std(0, ddof=1) / len(values) ** 0.5)


def verdict(strategies: dict[str, Any]) -> dict[str, Any]:
    """How we stand, see the words of the page."""
    others = {name: own for name, own in strategies.items() if name not in (OURS, "random", "max-beebo")}
    random = strategies["random"]
    last = max(others, key=lambda name: others[name]["mean"][-1])
    over = max(others, key=lambda name: sum(others[name]["mean"]))
    return {
        "rounds_below_random": sum(value < 0 for value in random["ours_less_this"]),
        "best_other_at_the_end": last,
        "at_the_end": standing(others[last]["ours_less_this"][-1], others[last]["ours_less_this_error"][-1]),
        "best_other_over_rounds": over,
        "over_rounds": standing(*others[over]["ours_less_this_over_rounds"]),
    }


def standing(difference: float, error: float) -> str:
    """'best', 'tied' or 'behind'."""
    if difference >= 0:
        return "best"
    return "tied" if -difference <= TIED * error else "behind"


def page(cases: dict[str, dict[str, Any]], options: argparse.Namespace) -> str:
    """The result page."""
    lines = [
        "# Closed loops on four measured landscapes, against every baseline",
        "",
        f"`scripts/benchmarks/simulate.py`, {options.processes} process(es) of one thread, "
        f"{machine_words()}. Every strategy starts from the same rows; all but random "
        "and rf-greedy learn from the same surrogate. Best so far: 0 is the worst row, 1 the best, mean over the seeds "
        "(standard error). **Tied**: the best other strategy is ahead by no more than two standard errors of the "
        "difference, seed by seed; *over the rounds* compares the means of the curves. Ours is mean-beebo with the "
        "defaults of the command; max-beebo is ours, too, and not among the others.",
        "",
        "| landscape | seeds | rounds below random | at the end | best other | over the rounds | best other |",
        "|---|---|---|---|---|---|---|",
    ]
    for case in cases.values():
        v = case["verdict"]
        cells = [case["words"], case["seeds"], v["rounds_below_random"], v["at_the_end"], v["best_other_at_the_end"]]
        lines.append(f"| {' | '.join(map(str, [*cells, v['over_rounds'], v['best_other_over_rounds']]))} |")
    for name, case in cases.items():
        lines += ["", f"## {case['words']} ({case['rows']:,} rows)", "", f"![Curves](simulate_{name}.png)", ""]
        lines += table(case)
    return "\n".join(lines) + "\n"


def table(case: dict[str, Any]) -> list[str]:
    """Best so far by points measured, and how far ours is ahead at the end."""
    lines = [f"| strategy | {' | '.join(map(str, case['measured']))} | ours is ahead at the end by |"]
    lines.append("|---" * (len(case["measured"]) + 2) + "|")
    for name, own in case["strategies"].items():
        cells = [f"{m:.3f} ({e:.3f})" for m, e in zip(own["mean"], own["standard_error"], strict=True)]
        ahead = f"{own['ours_less_this'][-1]:+.3f} ({own['ours_less_this_error'][-1]:.3f})" if name != OURS else ""
        lines.append(f"| {name} | {' | '.join(cells)} | {ahead} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("runs/simulate"))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=[case.name for case in CASES])
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    done = read_results("simulate").get("cases", {})
    for case in CASES:
        if options.only and case.name not in options.only:
            continue
        results = run(build_parser("simulate").parse_args(["simulate", *command(case, options.data, options)]).simulate)
        measured = sorted(int(count) for count in results.summary["measured"].unique())
        rows = len(pd.read_csv(options.work / f"{case.name}.csv").drop(columns=case.target).drop_duplicates())
        shape = {"rows": rows, "measured": measured, "seeds": options.seeds}
        done[case.name] = {"words": case.words, **shape, **compared(results)}
        done = {c.name: done[c.name] for c in CASES if c.name in done}
        shutil.copyfile(options.work / case.name / "curves.png", RESULTS / f"simulate_{case.name}.png")
        write_results("simulate", {"cases": done}, page(done, options))


if __name__ == "__main__":
    main()
