"""What came out of the runs: a line for each round of each run, means over seeds, and a page and curves of these."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..screening.batch import atomic_write, write_text
from .loop import Run, read_run
from .world import Points, World

if TYPE_CHECKING:
    import pandas as pd

FIGURES = ("best", "normalised", "recall", "batch_mean", "relative_regret", "fit_seconds", "choice_seconds")
TABLES = {"normalised": "Best so far", "recall": "Recall", "relative_regret": "Regret of the batch"}
# Okabe and Ito's colours, which the colour-blind can tell apart; the markers differ, too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")
MARKERS = "osD^vP*X"
LABELS = {"normalised": "best so far (0 to 1)", "recall": "share of the top rows found", "relative_regret": "regret"}


@dataclass(frozen=True, eq=False)
class Results:
    """Results of all runs of a folder.

    Attributes:
        rounds: strategy, seed, round, measured and FIGURES; a row for each round of each run.
        summary: strategy, round, measured, seeds and mean, sd and se (of the mean) of each of FIGURES.
        title: what was measured, in a line.
        notes: what the figures mean.
    """

    rounds: pd.DataFrame
    summary: pd.DataFrame
    title: str
    notes: tuple[str, ...]

    def markdown(self) -> str:
        """The page: a table of means (standard errors) for each figure of TABLES, strategies by points measured."""
        lines = [f"# {self.title}", "", *(f"- {note}" for note in self.notes)]
        for figure, words in TABLES.items():
            if self.summary[f"{figure}_mean"].notna().any():
                lines += ["", f"## {words}", "", *self._table(figure)]
        return "\n".join([*lines, "", "## Seconds of a round", "", *self._seconds()]) + "\n"

    def _table(self, figure: str) -> list[str]:
        shown = self.summary[self.summary[f"{figure}_mean"].notna()]
        measured = sorted(shown["measured"].unique())
        lines = [f"| strategy | {' | '.join(map(str, measured))} |", "|---" * (len(measured) + 1) + "|"]
        for strategy, rows in shown.groupby("strategy", sort=False):
            cells = [
                f"{m:.3f}" + (f" ({e:.3f})" if e == e else "")
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
        written = [Path(folder) / name for name in ("rounds.csv", "summary.csv", "summary.md")]
        contents: tuple[pd.DataFrame | str, ...] = (self.rounds, self.summary, self.markdown())
        for path, content in zip(written, contents, strict=True):
            write_text(path, content)
        if find_spec("matplotlib") is not None:
            written.append(Path(folder) / "curves.png")
            draw_curves(self.summary, self.title, written[-1])
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
    return Results(rounds, summarise(rounds), *_words(runs))


def judge(world: World, points: Sequence[Points]) -> pd.DataFrame:
    """One line for each round: round, measured, best (so far), normalised, recall, batch_mean, relative_regret.

    normalised: (best - floor) / (true best - floor). recall: share of the top k found; of rows that tie at the k-th
    place any count, up to k. relative_regret: (true best - mean of the batch) / (true best - mean at random). All by
    the truth, without noise; see `Yardstick`.
    """
    import pandas as pd

    yard, sign = world.yardstick(points[0]), 1.0 if world.maximize else -1.0
    lines, best, found, measured = [], -np.inf, 0, 0
    for round, batch in enumerate(points):
        values = world.truth(batch)
        best, measured = max(best, float((sign * values).max())), measured + len(batch)
        found += int((sign * values >= sign * yard.threshold).sum())
        line: dict[str, Any] = {"round": round, "measured": measured, "best": sign * best}
        line["normalised"] = (sign * best - yard.floor) / (yard.best - yard.floor)
        line["recall"] = min(1.0, found / yard.top) if yard.top else np.nan
        line["batch_mean"] = float(values.mean())
        line["relative_regret"] = (yard.best - line["batch_mean"]) / (yard.best - yard.typical)
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
    seeds = sorted({r.seed for r in runs})
    yard = run.world.yardstick(run.world.start(plan.start, run.seed))
    zero = "the worst row" if yard.top else "the best of the start"
    notes = [
        f"start: {plan.start} points at random; rounds: {plan.rounds} of {plan.q}; seeds: {len(seeds)}; mean (s.e.)",
        f"best so far: 0 is {zero}, 1 the best there is; columns are points measured",
        "regret of the batch: mean distance from the best there is; 1 is a batch at random",
    ]
    if yard.top:
        notes.append(
            f"recall: share of the top {yard.top} that was found; ties at the last place count, up to {yard.top}"
        )
    return f"Closed loops: {run.world.title}", tuple(notes)


def draw_curves(summary: pd.DataFrame, title: str, path: Path) -> None:
    """Write a PNG file: mean over the seeds, one line for each strategy, in a band of one standard error.

    Args:
        summary: that of `Results`.
        title: of the figure.
        path: of the file.
    """
    from matplotlib.figure import Figure

    has_recall = summary["recall_mean"].notna().any()
    figures = ("normalised", "recall" if has_recall else "relative_regret")
    figure = Figure(figsize=(10.5, 4.2), dpi=120, layout="constrained")
    panels = figure.subplots(1, len(figures))
    for axes, name in zip(panels, figures, strict=True):
        _draw(axes, summary, name)
    figure.suptitle(title, fontsize=11)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    atomic_write(path, lambda temporary: figure.savefig(temporary, format="png", metadata={"Software": None}))


def _draw(axes: Any, summary: pd.DataFrame, name: str) -> None:
    for i, (strategy, rows) in enumerate(summary.groupby("strategy", sort=False)):
        x, mean, error = rows["measured"], rows[f"{name}_mean"], rows[f"{name}_se"].fillna(0.0)
        colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
        axes.fill_between(x, mean - error, mean + error, color=colour, alpha=0.15, linewidth=0)
        axes.plot(x, mean, color=colour, marker=marker, markersize=5, linewidth=1.6, label=strategy)
    axes.set(xlabel="points measured", ylabel=LABELS[name])
    axes.grid(axis="y", color="#d9dee3", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
