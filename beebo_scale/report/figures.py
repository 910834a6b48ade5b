"""Figures of a report, as PNG images in data URIs."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import drawing
from ..errors import InputError
from ..screening.plates.front import draw_front
from .run import HeldOut, ProposedBatch

if TYPE_CHECKING:
    import pandas as pd

INK, ACCENT, PALE = "#1f2933", "#1769aa", "#b8c4ce"
SHOWN = 30  # inputs with a bar of their own
DENSITY_POINTS = 3000  # points beyond which a density is drawn


def new_figure(width: float = 5.2, height: float = 3.6) -> tuple[Any, Any]:
    """A figure with one pair of axes.

    Raises:
        InputError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("a report needs matplotlib; install it by: pip install 'beebo-scale[plot]'") from None
    figure = Figure(figsize=(width, height), dpi=110, layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def data_uri(figure: Any) -> str:
    """The figure as text for an <img> element."""
    buffer = io.BytesIO()
    drawing.save(figure, buffer, format="png", metadata={"Software": None})
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def curve(curves: pd.DataFrame, column: str, label: str) -> str:
    """A metric over the epochs."""
    figure, axes = new_figure(3.6, 2.6)
    values = curves[column].dropna()
    axes.plot(values.index + 1, values, color=ACCENT, marker="o", markersize=3, linewidth=1.5)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set(xlabel="epoch", ylabel=label)
    return data_uri(figure)


def predicted_against_measured(held_out: HeldOut, target: str) -> str:
    """Each held-out row, or their density where there are many."""
    figure, axes = new_figure()
    points = (held_out.measured, held_out.mean)
    if len(held_out.mean) > DENSITY_POINTS:
        axes.hexbin(*points, gridsize=60, bins="log", cmap="Blues", mincnt=1, linewidths=0.1)
    else:
        axes.scatter(*points, s=10, alpha=0.5, color=ACCENT, edgecolors="none")
    ends = [min(map(np.min, points)), max(map(np.max, points))]
    axes.plot(ends, ends, color=INK, linewidth=1, linestyle="--")
    axes.set(xlabel=drawing.label(f"measured {target}"), ylabel=drawing.label(f"predicted {target}"))
    return data_uri(figure)


def calibration(held_out: HeldOut) -> str:
    """Share of held-out rows inside central intervals, against the share that should be."""
    figure, axes = new_figure()
    inside = np.sort([math.erf(abs(error) / math.sqrt(2)) for error in held_out.error])  # interval that just holds it
    axes.plot([0, 1], [0, 1], color=INK, linewidth=1, linestyle="--", label="calibrated")
    axes.plot(inside, (np.arange(len(inside)) + 1) / len(inside), color=ACCENT, linewidth=2, label="observed")
    axes.set(xlabel="nominal coverage", ylabel="observed coverage", xlim=(0, 1), ylim=(0, 1))
    axes.legend(frameon=False)
    return data_uri(figure)


def residuals(held_out: HeldOut) -> str:
    """Histogram of the standardised errors beside the standard normal density."""
    figure, axes = new_figure()
    grid = np.linspace(-5, 5, 201)
    axes.hist(held_out.error.clip(-5, 5), bins=60, range=(-5, 5), density=True, color=PALE)
    axes.plot(grid, np.exp(-(grid**2) / 2) / math.sqrt(2 * math.pi), color=INK, linewidth=1, linestyle="--")
    axes.set(xlabel="(measured - predicted) / predicted standard deviation", ylabel="density")
    return data_uri(figure)


def front(batch: ProposedBatch) -> str:
    """What was measured of several targets, the front and a batch."""
    buffer = io.BytesIO()
    draw_front(batch.frame, batch.run["outcomes"], buffer)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def bars(values: Mapping[str, float], label: str) -> str:
    """The largest of some named values."""
    largest = sorted(values.items(), key=lambda item: item[1])[-SHOWN:]
    figure, axes = new_figure(5.2, 0.8 + 0.22 * len(largest))
    axes.barh([drawing.label(name) for name, _ in largest], [value for _, value in largest], color=ACCENT)
    axes.set(xlabel=label)
    axes.margins(y=0.01)
    return data_uri(figure)
