r"""Steps that make the plates of a screen comparable, one plate at a time, and rows that stand far out.

Each takes a frame with one row for each well and the names of its columns, and returns n float64 in the order of the
rows: a new column, to be used as the target. What these do to a screen is reviewed by Malo et al., Statistical
practice in high-throughput screening data analysis, Nature Biotechnology 24:167, 2006.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ...errors import InputError
from ..columns import check_numbers, missing_text
from ..files.opening import Source, open_source
from ..places import Place
from .wells import well_of

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

NORMALISE = ("percent-of-control", "robust-z", "b-score")  # what becomes of the values of a plate
MAD = 1.4826  # times the median absolute deviation is the standard deviation of a normal distribution
FAR = 8.0  # robust standard deviations from the median: one normal value in 10^15
POLISH_STEPS = 200


def percent_of_control(
    frame: pd.DataFrame,
    value: str,
    plate: str,
    role: str,
    full: str = "positive",
    zero: str | None = "negative",
) -> NDArray[np.float64]:
    r"""Each well between the controls of its plate: 100 (x - mean of zero) / (mean of full - mean of zero).

    Args:
        frame: one row for each well.
        value: column that was measured.
        plate: column that names the plate.
        role: column that says which wells are controls.
        full: role of the control that stands for 100 %.
        zero: role of the control that stands for 0 %; None where that is a value of 0, so 100 x / mean of full.

    Raises:
        InputError: a plate lacks a control, or its controls do not differ.
    """
    table, x, roles = open_source(frame), _values(frame, value), _labels(frame, role)
    result = np.empty(len(x))
    for name, rows in _plates(frame, plate):
        top = _control_mean(table, x[rows], roles[rows], role, full, name)
        bottom = 0.0 if zero is None else _control_mean(table, x[rows], roles[rows], role, zero, name)
        if top == bottom:
            other = "0" if zero is None else f"the mean of its {zero!r} wells"
            raise InputError(
                f"{table.name}: on plate {name!r} the mean of the {full!r} wells is {other}; leave the plate out"
            )
        result[rows] = 100 * (x[rows] - bottom) / (top - bottom)
    return result


def robust_z(
    frame: pd.DataFrame, value: str, plate: str, role: str | None = None, reference: str | None = None
) -> NDArray[np.float64]:
    r"""Robust standard deviations from the plate's median: (x - median) / (1.4826 MAD).

    Args:
        frame: one row for each well.
        value: column that was measured.
        plate: column that names the plate.
        role: column with the role of each well.
        reference: role of the wells that the median and the MAD are taken over (controls, or samples). Without the
            two, these are all wells of the plate, which takes most of them for inactive.

    Raises:
        InputError: a plate with fewer than two reference wells, or whose MAD is zero.
    """
    if (role is None) != (reference is None):
        raise InputError("robust_z: give both role and reference, or neither")
    table, x = open_source(frame), _values(frame, value)
    chosen = np.ones(len(x), dtype=bool) if role is None else _labels(frame, role) == reference
    result = np.empty(len(x))
    for name, rows in _plates(frame, plate):
        wells = x[rows][chosen[rows]]
        if len(wells) < 2:
            what = "wells" if reference is None else f"{reference!r} wells"
            raise InputError(f"{table.name}: plate {name!r} has {len(wells)} {what}, a spread takes 2; leave it out")
        result[rows] = (x[rows] - np.median(wells)) / _spread(table, wells, value, name, float(np.abs(wells).max()))
    return result


def b_score(frame: pd.DataFrame, value: str, plate: str, well: str) -> NDArray[np.float64]:
    r"""What rows and columns of a plate do not explain, in robust standard deviations: the B score.

    Tukey's median polish takes the medians of rows and columns out in turn until none is left; the residuals are
    divided by 1.4826 MAD of the plate's residuals (Brideau et al., J. Biomol. Screening 8:634, 2003, who leave the
    constant out). It takes most wells for inactive; leave controls out first, above all whole columns of them.

    Args:
        frame: one row for each well.
        value: column that was measured.
        plate: column that names the plate.
        well: column with positions such as A01.

    Raises:
        InputError: an unknown position, one that comes twice on a plate, or a plate whose residuals have no spread.
    """
    table, x = open_source(frame), _values(frame, value)
    cells = [well_of(text, Place(table.name, well, np.array([i + 1]))) for i, text in enumerate(_labels(frame, well))]
    row, column = np.array(cells, dtype=int).reshape(-1, 2).T
    result = np.empty(len(x))
    for name, rows in _plates(frame, plate):
        grid = np.full((row[rows].max() + 1, column[rows].max() + 1), np.nan)
        places = (row[rows], column[rows])
        grid[places] = x[rows]
        if np.isfinite(grid).sum() < len(rows):
            raise InputError(f"{table.name}: plate {name!r} has one well twice; give replicates plates of their own")
        residuals = median_polish(grid)[places]
        result[rows] = residuals / _spread(table, residuals, value, name, float(np.abs(x[rows]).max()))
    return result


def median_polish(grid: NDArray[np.float64]) -> NDArray[np.float64]:
    """Residuals of a two-way table after its row and column effects, by medians in turn; NaN where a well is empty."""
    residuals, used = grid.copy(), np.isfinite(grid)
    lines = [(axis, used.any(axis=axis, keepdims=True)) for axis in (1, 0)]
    for _ in range(POLISH_STEPS):
        before = residuals
        for axis, some in lines:
            filled = np.where(some, residuals, 0.0)  # nanmedian warns of a line without a well
            residuals = residuals - np.nanmedian(filled, axis=axis, keepdims=True)
        if np.nanmax(np.abs(residuals - before)) <= 1e-12 * np.nanmax(np.abs(grid)):
            break
    return residuals


def outliers(y: NDArray[np.float64], threshold: float = FAR) -> NDArray[np.intp]:
    """Rows (0-based) whose value lies more than `threshold` robust standard deviations from the median.

    None where more than half of the values are equal: there is no robust standard deviation then.
    """
    y = np.asarray(y, dtype=np.float64)
    far = np.abs(y - np.median(y))
    mad = MAD * np.median(far)
    return np.flatnonzero(far > threshold * mad) if mad > 0 else np.empty(0, dtype=np.intp)


def _values(frame: pd.DataFrame, value: str) -> NDArray[np.float64]:
    """The measured column, checked: n finite float64."""
    table = open_source(frame)
    cells = table.load([table.require(value, "measured")])[value]
    place = Place(table.name, value, np.arange(1, len(cells) + 1))
    x = check_numbers(cells, place, "name a numeric column")
    if not np.isfinite(x).all():
        raise place.error("is empty or infinite", ~np.isfinite(x), "leave the well out")
    return x


def _labels(frame: pd.DataFrame, column: str) -> NDArray[np.object_]:
    """A column of words, n strings; an empty cell is the empty word."""
    table = open_source(frame)
    cells = table.load([table.require(column, "plate layout")])[column]
    return np.where(missing_text(cells), "", cells.astype(object).astype(str)).astype(object)


def _plates(frame: pd.DataFrame, plate: str) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """Each plate with its rows, in order of first appearance."""
    table, names = open_source(frame), _labels(frame, plate)
    if (names == "").any():
        place = Place(table.name, plate, np.arange(1, len(names) + 1))
        raise place.error("(plate) is empty", names == "", "name the plate of every well")
    for name in dict.fromkeys(names.tolist()):
        yield name, np.flatnonzero(names == name)


def _control_mean(
    table: Source, x: NDArray[np.float64], roles: NDArray[np.object_], column: str, role: str, plate: str
) -> float:
    wells = x[roles == role]
    if not len(wells):
        there = ", ".join(repr(word) for word in dict.fromkeys(roles.tolist()))
        raise InputError(
            f"{table.name}: plate {plate!r} has no {role!r} well in column {column!r} (it has {there}); "
            "name the control, or leave the plate out"
        )
    return float(wells.mean())


def _spread(table: Source, wells: NDArray[np.float64], value: str, plate: str, size: float) -> float:
    """1.4826 MAD, refused where it is rounding of values of that size."""
    spread = MAD * float(np.median(np.abs(wells - np.median(wells))))
    if spread <= 1e-12 * size:
        raise InputError(
            f"{table.name}: on plate {plate!r} at least half of the wells of {value!r} do not differ, "
            "so there is no robust spread; leave the plate out"
        )
    return spread
