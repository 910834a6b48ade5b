"""The picture of a trade-off: what was measured, the front, the reference point, and a batch as it is predicted."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

INK, MEASURED, FRONT, BATCH = "#333333", "#9aa5b1", "#0072B2", "#D55E00"  # the last two of Okabe and Ito
PREDICTED = "batch, predicted (one standard deviation)"


def draw_front(frame: pd.DataFrame, outcomes: Mapping[str, Any], path: Path | BinaryIO, batch: str = PREDICTED) -> None:
    """Write a PNG file; two targets as a plane, more as parallel coordinates. Needs matplotlib.

    Args:
        frame: of a batch, with `noiseless_mean of NAME` and `noiseless_std of NAME`.
        outcomes: of its run file: aims, reference, measured and front.
        path: of the file, or an open one.
        batch: what its rows are, for the legend.
    """
    from matplotlib.figure import Figure

    names = list(outcomes["reference"])
    figure = Figure(
        figsize=(6.4, 4.8) if len(names) == 2 else (2.2 + 1.9 * len(names), 4.8), dpi=120, layout="constrained"
    )
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    mean = frame[[f"noiseless_mean of {name}" for name in names]].to_numpy(dtype=float)
    std = frame[[f"noiseless_std of {name}" for name in names]].to_numpy(dtype=float)
    measured = np.array(outcomes["measured"], dtype=float).reshape(-1, len(names))
    front = np.array([[row[name] for name in names] for row in outcomes["front"]], dtype=float).reshape(-1, len(names))
    reference = np.array([outcomes["reference"][name] for name in names])
    signs = np.array([1.0 if outcomes["aims"][name] == "max" else -1.0 for name in names])
    draw = _plane if len(names) == 2 else _parallel
    draw(axes, names, signs, measured, front, reference, mean, std, batch)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    figure.savefig(path, format="png", metadata={"Software": None})


def _words(name: str, sign: float) -> str:
    return f"{name} ({'large' if sign > 0 else 'small'} is good)"


def _plane(
    axes: Any, names: list[str], signs: Any, measured: Any, front: Any, reference: Any, mean: Any, std: Any, batch: str
) -> None:
    from matplotlib.patches import Ellipse

    axes.scatter(*measured.T, s=14, color=MEASURED, label="measured", zorder=2)
    for center, size in zip(mean, std, strict=True):
        axes.add_patch(Ellipse(center, *(2 * size), facecolor=BATCH, alpha=0.10, edgecolor="none", zorder=1))
    axes.scatter(*mean.T, s=22, color=BATCH, marker="D", label=batch, zorder=4)
    if len(front):
        rows = front[np.argsort(front[:, 0])]
        edge = np.concatenate([_end(rows, reference, signs, 0), rows, _end(rows, reference, signs, -1)])
        # the dominated region ends in steps: of two neighbours, the corner has the worse value of each target
        steps = [edge[0]]
        for a, b in itertools.pairwise(edge):
            steps += [np.where(signs > 0, np.minimum(a, b), np.maximum(a, b)), b]
        axes.plot(*np.array(steps).T, color=FRONT, linewidth=1.4, zorder=3)
        axes.scatter(*rows.T, s=26, color=FRONT, label="measured front", zorder=5)
    axes.scatter(*reference, s=60, color=INK, marker="x", label="reference point", zorder=5)
    axes.set(xlabel=_words(names[0], signs[0]), ylabel=_words(names[1], signs[1]))
    axes.autoscale_view()


def _end(rows: Any, reference: Any, signs: Any, end: int) -> Any:
    """Where the region of a front ends beside its outermost row."""
    row = rows[end].copy()
    other = 0 if (end == 0) == (signs[0] > 0) else 1
    row[other] = reference[other]
    return row[None]


def _parallel(
    axes: Any, names: list[str], signs: Any, measured: Any, front: Any, reference: Any, mean: Any, std: Any, batch: str
) -> None:
    every = np.concatenate([measured, mean, reference[None]])
    low, high = every.min(0), every.max(0)
    width = np.where(high > low, high - low, 1.0)
    place = np.arange(len(names))

    def shown(rows: Any) -> Any:  # up is good on every axis
        up = (rows - low) / width
        return np.where(signs > 0, up, 1 - up).T

    axes.plot(place, shown(measured), color=MEASURED, linewidth=0.6, alpha=0.5)
    axes.plot(place, shown(mean), color=BATCH, linewidth=0.9, alpha=0.7)
    axes.plot(place, shown(front), color=FRONT, linewidth=1.4)
    axes.plot(place, shown(reference[None]), color=INK, linewidth=1.2, linestyle="--")
    marks = {"measured": MEASURED, batch.partition(" (")[0]: BATCH, "measured front": FRONT, "reference point": INK}
    for label, colour in marks.items():
        axes.plot([], [], color=colour, label=label)
    ends = [(a, b) if s > 0 else (b, a) for a, b, s in zip(low, high, signs, strict=True)]
    axes.set_xticks(
        place, [f"{_words(name, s)}\n{a:.4g} to {b:.4g}" for name, s, (a, b) in zip(names, signs, ends, strict=True)]
    )
    axes.tick_params(axis="x", labelsize=8)
    axes.set(yticks=[], xlim=(-0.2, len(names) - 0.8))
    for x in place:
        axes.axvline(x, color=INK, linewidth=0.8)
    axes.spines[["left", "bottom"]].set_visible(False)
