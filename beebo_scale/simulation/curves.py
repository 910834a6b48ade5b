"""Curves of closed loops: figures of the results against points measured."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import drawing
from ..screening import atomic_write

if TYPE_CHECKING:
    import pandas as pd

# Okabe and Ito's colours, which the colour-blind can tell apart; the markers differ, too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")
MARKERS = "osD^vP*X"
LABELS = {
    "recall": "share of the best found",
    "normalised": "best so far (0 to 1)",
    "best_rank": "rank of the best so far",
    "relative_regret": "regret",
}


def drawable() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def draw_curves(summary: pd.DataFrame, figures: Sequence[str], title: str, path: Path) -> None:
    """Write a PNG file: mean over the seeds, one line for each strategy, in a band of one standard error.

    Args:
        summary: that of `Results`.
        figures: of LABELS, a panel each.
        title: of the figure.
        path: of the file.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 4.2), dpi=120, layout="constrained")
    panels = figure.subplots(1, len(figures), squeeze=False)[0]
    for axes, name in zip(panels, figures, strict=True):
        _draw(axes, summary, name)
    figure.suptitle(drawing.label(title), fontsize=11)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    atomic_write(path, lambda temporary: drawing.save(figure, temporary, format="png", metadata={"Software": None}))


def _draw(axes: Any, summary: pd.DataFrame, name: str) -> None:
    for i, (strategy, rows) in enumerate(summary.groupby("strategy", sort=False)):
        x, mean, error = rows["measured"], rows[f"{name}_mean"], rows[f"{name}_se"].fillna(0.0)
        colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
        low = (mean - error).clip(lower=1.0) if name == "best_rank" else mean - error
        axes.fill_between(x, low, mean + error, color=colour, alpha=0.15, linewidth=0)
        axes.plot(x, mean, color=colour, marker=marker, markersize=5, linewidth=1.6, label=drawing.label(strategy))
    axes.set(xlabel="points measured", ylabel=LABELS[name])
    if name == "best_rank":
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.invert_yaxis()  # up is good in every panel but that of regret
    axes.grid(axis="y", color="#d9dee3", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
