"""What came out of the runs: a line for each round of each run, means over seeds, and a page and curves of these."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..screening.batch import write_text
from .curves import draw_curves, drawable
from .loop import Run, read_run
from .tradeoffs import TradeoffLandscape
from .world import Points, World, Yardstick

if TYPE_CHECKING:
    import pandas as pd

FIGURES = (
    *("best", "normalised", "best_rank", "recall", "batch_mean", "relative_regret", "batch_rank"),
    *("fit_seconds", "choice_seconds"),
)
FOUND = {"recall": "Share of the best found"}
BY_VALUE = {"normalised": "Best so far", "relative_regret": "Regret of the batch"}
BY_RANK = {"best_rank": "Rank of the best so far", "batch_rank": "Rank of the batch"}


@dataclass(frozen=True, eq=False)
class Results:
    """Results of all runs of a folder.

    Attributes:
        rounds: strategy, seed, round, measured and FIGURES; a row for each round of each run.
        summary: strategy, round, measured, seeds and mean, sd and se (of the mean) of each of FIGURES.
        title: what was measured, in a line.
        notes: what the figures mean.
        last: draws the last round of a run for several targets; None where there is one target.
        by_rank: whether page and picture show ranks, as values crowd at the good end, see `Yardstick.crowded`.
    """

    rounds: pd.DataFrame
    summary: pd.DataFrame
    title: str
    notes: tuple[str, ...]
    by_rank: bool = False
    last: Callable[[Path], None] | None = None

    @property
    def shown(self) -> dict[str, str]:
        """Figures of page and picture with their headings, those first that say most."""
        figures = FOUND | (BY_RANK if self.by_rank else BY_VALUE)
        return {name: words for name, words in figures.items() if self.summary[f"{name}_mean"].notna().any()}

    def markdown(self) -> str:
        """The page: a table of means (standard errors) for each figure shown, strategies by points measured."""
        lines = [f"# {self.title}", "", *(f"- {note}" for note in self.notes)]
        for figure, words in self.shown.items():
            lines += ["", f"## {words}", "", *self._table(figure)]
        return "\n".join([*lines, "", "## Seconds of a round", "", *self._seconds()]) + "\n"

    def _table(self, figure: str) -> list[str]:
        shown = self.summary[self.summary[f"{figure}_mean"].notna()]
        measured = sorted(shown["measured"].unique())
        lines = [f"| strategy | {' | '.join(map(str, measured))} |", "|---" * (len(measured) + 1) + "|"]
        digits = 1 if figure == "best_rank" else 3
        for strategy, rows in shown.groupby("strategy", sort=False):
            cells = [
                f"{m:.{digits}f}" + (f" ({e:.{digits}f})" if e == e else "")
                for m, e in zip(rows[f"{figure}_mean"], rows[f"{figure}_se"], strict=True)
            ]
            lines.append(f"| {strategy} | {' | '.join(cells)} |")
        return lines

    def _seconds(self) -> list[str]:
        lines = ["| strategy | fit | choice |", "|---|---|---|"]
        for strategy, rows in self.summary.groupby("strategy", sort=False):
            fit, choice = rows["fit_seconds_mean"].mean(), rows["choice_seconds_mean"].mean()
            lines.append(f"| {strategy} | {fit:.2f} | {choice:.2f} |")
        return lines

    def write(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write rounds.csv, summary.csv and summary.md, and curves.png if matplotlib is installed."""
        base = Path(folder)
        written = [base / name for name in ("rounds.csv", "summary.csv", "summary.md")]
        contents: tuple[pd.DataFrame | str, ...] = (self.rounds, self.summary, self.markdown())
        for path, content in zip(written, contents, strict=True):
            write_text(path, content)
        if drawable():
            draw_curves(self.summary, list(self.shown)[:2], self.title, base / "curves.png")
            written.append(base / "curves.png")
            if self.last is not None:
                self.last(base / "front.png")
                written.append(base / "front.png")
        return written


def collect(runs: Sequence[Run], base: str | os.PathLike[str]) -> Results:
    """The results of finished runs in one world with one plan."""
    import pandas as pd

    parts = []
    for run in runs:
        points, notes = read_run(run, base)
        figures = judge(run.world, points)
        for name in ("fit_seconds", "choice_seconds"):
            figures[name] = [note.get(name, np.nan) for note in notes]
        figures.insert(0, "strategy", run.name)
        figures.insert(1, "seed", run.seed)
        parts.append(figures)
    rounds = pd.concat(parts, ignore_index=True)
    world, last = runs[0].world, None
    if isinstance(world, TradeoffLandscape):
        shown = next((run for run in runs if "beebo" in run.name), runs[0])
        last = partial(world.draw_last, read_run(shown, base)[0])
    return Results(rounds, summarise(rounds), *_words(runs), by_rank=_yardstick(runs[0]).crowded, last=last)


def judge(world: World, points: Sequence[Points]) -> pd.DataFrame:
    """One line for each round: round, measured, best (so far), batch_mean, and what these are worth.

    normalised: (best - floor) / (true best - floor). best_rank: rank of the best so far, 1 the best of all rows.
    recall: share of the top k found; of rows that tie at the k-th place any count, up to k. relative_regret: (true best
    - mean of the batch) / (true best - mean at random). batch_rank: mean rank of the batch / that at random, (n + 1) /
    2 but for ties. All by the truth, without noise; ranks only where the rows can be counted; see `Yardstick`.
    """
    import pandas as pd

    if isinstance(world, TradeoffLandscape):
        return world.judged(points)
    yard, sign = world.yardstick(points[0]), 1.0 if world.maximize else -1.0
    at_random = np.nan if yard.ranked is None else yard.ranks(yard.ranked).mean()
    lines, best, found, measured = [], -np.inf, 0, 0
    for round, batch in enumerate(points):
        values = world.truth(batch)
        best, measured = max(best, float((sign * values).max())), measured + len(batch)
        found += int((sign * values >= sign * yard.threshold).sum())
        line: dict[str, Any] = {"round": round, "measured": measured, "best": sign * best}
        line["normalised"] = (sign * best - yard.floor) / (yard.best - yard.floor)
        line["best_rank"] = float(yard.ranks(np.array([sign * best]))[0])
        line["recall"] = min(1.0, found / yard.top) if yard.top else np.nan
        line["batch_mean"] = float(values.mean())
        line["relative_regret"] = (yard.best - line["batch_mean"]) / (yard.best - yard.typical)
        line["batch_rank"] = float(yard.ranks(values).mean() / at_random)
        lines.append(line)
    return pd.DataFrame(lines)


def summarise(rounds: pd.DataFrame) -> pd.DataFrame:
    """Mean, standard deviation and standard error of the mean over the seeds, by strategy and round."""
    import pandas as pd

    groups = rounds.groupby(["strategy", "round", "measured"], sort=False)
    parts: dict[str, pd.Series] = {"seeds": groups.size()}
    for figure in FIGURES:
        values = groups[figure]
        parts |= {f"{figure}_mean": values.mean(), f"{figure}_sd": values.std(), f"{figure}_se": values.sem()}
    return pd.DataFrame(parts).reset_index()


def _words(runs: Sequence[Run]) -> tuple[str, tuple[str, ...]]:
    """Title and notes of the page."""
    run, plan = runs[0], runs[0].plan
    seeds, yard = sorted({r.seed for r in runs}), _yardstick(runs[0])
    notes = [
        f"start: {plan.start} points at random; rounds: {plan.rounds} of {plan.q}; seeds: {len(seeds)}; mean (s.e.); "
        "columns are points measured"
    ]
    if isinstance(run.world, TradeoffLandscape):
        return f"Closed loops: {run.world.title}", (*notes, *run.world.meaning)
    if yard.top:
        notes.append(f"share of the best found: of the top {yard.top}; ties at the last place count, up to {yard.top}")
    if yard.crowded and yard.ranked is not None:
        notes += [
            "half of the rows lie in the best quarter of the range, so that by value every strategy would seem to be "
            "at the best (`normalised` and `relative_regret` of summary.csv): ranks are shown",
            f"rank of the best so far: 1 is the best of {len(yard.ranked):,} rows",
            "rank of the batch: mean rank, divided by that of a batch at random, which is 1",
        ]
    else:
        zero = "the worst row" if yard.top else "the best of the start"
        notes += [
            f"best so far: 0 is {zero}, 1 the best there is",
            "regret of the batch: mean distance from the best there is; 1 is a batch at random",
        ]
    return f"Closed loops: {run.world.title}", tuple(notes)


def _yardstick(run: Run) -> Yardstick:
    return run.world.yardstick(run.world.start(run.plan.start, run.seed))
