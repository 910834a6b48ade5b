"""The picture of a plate map; imported only where matplotlib is installed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PatchCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, FancyBboxPatch, Rectangle

from ...drawing import label
from .wells import well_name

if TYPE_CHECKING:
    import pandas as pd

WELL_RADIUS = 0.42  # of a well; wells are one apart
ACROSS = 3  # panels in a row
WIDTHS = {3: 3.4, 4: 3.6, 6: 4.2, 8: 4.6, 12: 5.4, 24: 7.2, 48: 10.0}  # columns of a plate -> inches of a panel
INK, EMPTY, EDGE = "#333333", "#f4f4f4", "#c9c9c9"
CONTROLS = ("#d62728", "#1f77b4", "#ff7f0e", "#8c564b", "#e377c2", "#7f7f7f")  # apart from the colours of viridis


def picture(frame: pd.DataFrame, cells: np.ndarray, value: str, shape: tuple[int, int]) -> Figure:
    """One panel for each plate.

    Args:
        frame: a plate map.
        cells: n x 2, row and column of each well.
        value: column that colours the samples.
        shape: rows and columns of a plate.
    """
    numbers = list(dict.fromkeys(frame["plate"]))
    samples = frame["role"].eq("sample").to_numpy()
    x = frame[value].to_numpy(dtype=float, na_value=np.nan)
    norm = _norm(x[samples])
    marks = dict(zip(dict.fromkeys(frame["role"][~samples]), CONTROLS * len(frame), strict=False))
    across = min(ACROSS, len(numbers))
    down = math.ceil(len(numbers) / across)
    width = WIDTHS[shape[1]] * (1.0 if len(numbers) == 1 else 0.62)
    height = width * (shape[0] + 1.6) / (shape[1] + 1)
    figure = Figure(figsize=(across * width + 1.2, down * height + 0.5), layout=ConstrainedLayoutEngine(h_pad=0.1))
    panels = figure.subplots(down, across, squeeze=False)
    for panel in panels.flat[len(numbers) :]:
        panel.set_visible(False)
    for panel, number in zip(panels.flat, numbers, strict=False):
        here = (frame["plate"] == number).to_numpy()
        _outline(panel, shape, "" if numbers == ["P1"] else label(str(number)))
        _wells(panel, cells[here & samples], x[here & samples], norm)
        _controls(panel, cells[here & ~samples], [marks[role] for role in frame["role"][here & ~samples]])
    bar = figure.colorbar(ScalarMappable(norm, "viridis"), ax=panels, fraction=0.04, pad=0.01, aspect=30)
    bar.set_label(label(f"predicted {value}" if value == "mean" else value), fontsize=9)
    bar.ax.tick_params(labelsize=8)
    bar.outline.set_visible(False)
    _legend(figure, marks, empty=len(frame) < len(numbers) * shape[0] * shape[1])
    return figure


def _norm(values: np.ndarray) -> Normalize:
    values = values[np.isfinite(values)]
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    return Normalize(low, high) if low < high else Normalize(low - 0.5, high + 0.5)


def _outline(panel: Any, shape: tuple[int, int], title: str) -> None:
    """The plate with its empty wells and the names of rows and columns, A01 at the upper left."""
    rows, columns = shape
    panel.add_patch(
        FancyBboxPatch(
            (-0.4, -0.4), columns - 0.2, rows - 0.2, boxstyle="round,pad=0.25", facecolor="white", edgecolor=EDGE
        )
    )
    empty = [Circle((column, row), WELL_RADIUS) for row in range(rows) for column in range(columns)]
    panel.add_collection(PatchCollection(empty, facecolor=EMPTY, edgecolor=EDGE, linewidth=0.4))
    step = 1 if columns <= 24 else 2
    size = 8 if columns <= 12 else 6
    panel.set_xticks(range(0, columns, step), [str(c + 1) for c in range(0, columns, step)], fontsize=size)
    panel.set_yticks(range(0, rows, step), [well_name(r, 0)[:-2] for r in range(0, rows, step)], fontsize=size)
    panel.set(xlim=(-0.8, columns - 0.2), ylim=(rows - 0.2, -0.8), aspect="equal")
    panel.tick_params(length=0, top=False, labeltop=True, bottom=False, labelbottom=False, pad=1, colors=INK)
    panel.spines[:].set_visible(False)
    panel.set_title(title, fontsize=10, color=INK)


def _wells(panel: Any, cells: np.ndarray, values: np.ndarray, norm: Normalize) -> None:
    colours = mpl.colormaps["viridis"](norm(values))
    circles = [Circle((column, row), WELL_RADIUS) for row, column in cells]
    panel.add_collection(PatchCollection(circles, facecolor=colours, edgecolor=INK, linewidth=0.3))


def _controls(panel: Any, cells: np.ndarray, colours: list[str]) -> None:
    """Squares, which differ from the samples without colour too."""
    squares = [
        Rectangle((column - WELL_RADIUS, row - WELL_RADIUS), 2 * WELL_RADIUS, 2 * WELL_RADIUS) for row, column in cells
    ]
    panel.add_collection(PatchCollection(squares, facecolor="white", edgecolor=colours, linewidth=1.6))
    inner = [Rectangle((column - 0.16, row - 0.16), 0.32, 0.32) for row, column in cells]
    panel.add_collection(PatchCollection(inner, facecolor=colours, edgecolor="none"))


def _legend(figure: Figure, marks: dict[str, str], empty: bool) -> None:
    """Roles of the controls, and the empty well if there is one."""
    look: dict[str, Any] = {"linestyle": "none", "markersize": 8}
    handles = [
        Line2D(
            [],
            [],
            marker="s",
            markerfacecolor="white",
            markeredgecolor=colour,
            markeredgewidth=1.6,
            label=label(r),
            **look,
        )
        for r, colour in marks.items()
    ]
    if empty:
        handles.append(Line2D([], [], marker="o", markerfacecolor=EMPTY, markeredgecolor=EDGE, label="empty", **look))
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=8)
