"""The columns of a measurement beside its features: targets, known variances, batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...errors import InputError
from ...specs import Columns
from ..columns import (
    LARGEST,
    LEAST,
    check_amounts,
    check_numbers,
    check_odd,
    check_scalars,
    check_size,
    missing_text,
)
from ..files.numerals import Numbers, numbers
from ..files.quantities import advice_on
from ..files.source import Source
from ..invalid import Fault, faults_of
from ..places import CellError, Place, shown

if TYPE_CHECKING:
    import pandas as pd

NOT_MEASURED = "empty them where nothing was measured, or leave these rows out (--drop-invalid)"


def targets_of(file: Source, raw: pd.DataFrame, columns: Columns) -> tuple[np.ndarray, list[Fault], dict[str, str]]:
    """All targets as n or n x t numbers, the cells of them that are left out as no number, and their units.

    Raises:
        InputError: as in `target_of`.
    """
    parsed, faults, units = [], list[Fault](), {}
    for name in columns.targets:
        place = Place(file.name, name, file.numbers(len(raw)))
        found = target_of(raw[name], place, columns.drop_invalid, columns.unit(name))
        parsed.append(found.values)
        units[name] = columns.unit(name) or found.unit
        faults += faults_of(raw[name], found.bad, place)
    return np.stack(parsed, axis=-1) if columns.several else parsed[0], faults, units


def target_of(values: pd.Series, place: Place, drop_invalid: bool = False, unit: str | None = None) -> Numbers:
    """Return a whole target column: NaN where the target is missing, and which cells are no number.

    Args:
        values: n cells.
        place: where they stand.
        drop_invalid: leave out words, see `numbers_or_words`.
        unit: that they may have; None for any one.

    Raises:
        InputError: text (unless it is left out), infinite, or nothing to learn from.
    """
    source, column = place.source, place.column
    if not len(values):
        raise InputError(f"{source} has a header but no rows; give at least two measurements")
    check_scalars(values, place)
    found = numbers_or_words(values, place, drop_invalid, NOT_MEASURED, unit)
    if found.bad.sum() > len(values) / 2:
        check_amounts(values, place, "give a numeric column as the target", unit)
    y = found.values
    if np.isinf(y).any():
        raise place.error("is infinite", np.isinf(y), "correct the cell, or empty it to drop the row")
    check_size(y, place)
    measured = y[~np.isnan(y)]
    if (measured != 0).any() and np.abs(measured).max() < LEAST:
        tiny = np.nan_to_num(y) != 0
        what = f"is {y[np.argmax(tiny)]:g}, and all of it too small to compute with,"
        raise place.error(what, tiny, "give the column in a smaller unit")
    if not len(measured):
        raise InputError(f"{source}: column {column!r} is empty in all {len(y)} rows; name the measured column")
    check_learnable(source, measured, column)
    return found


def numbers_or_words(
    values: pd.Series, place: Place, drop_invalid: bool, advice: str, unit: str | None = None
) -> Numbers:
    """A column of results, in which words are left out only where that is asked for.

    Limits, other units and commas say more than a word does, so that they are refused in any case. No list says which
    words stand for a failure.

    Raises:
        CellError: a cell is neither empty nor a number.
    """
    found = numbers(values, unit)
    bad, around = found.bad, found.unit or unit or ""
    if not bad.any():
        return found
    meant = bad & np.array([isinstance(cell, str) and advice_on(cell, around) is not None for cell in values])
    if meant.any():
        check_amounts(values.where(meant | ~bad, ""), place, "", unit)
    if drop_invalid:
        return found
    check_odd(values, place)
    cells = values[bad]
    if not all(isinstance(cell, str) for cell in cells) or bad.sum() > len(values) / 2:
        check_amounts(values, place, "give a numeric column as the target", unit)
    different = list(dict.fromkeys(cells))
    shown_ones = ", ".join(map(shown, different[:4])) + (f" and {len(different) - 4} more" if different[4:] else "")
    raise CellError(
        f"{place.source}: column {place.column!r} is text ({shown(cells.iloc[0])} {place.where(bad)}): {bad.sum()} of "
        f"{len(values)} cells hold no number ({shown_ones}); {advice}",
        bad,
        "is no number",
    )


def check_learnable(source: str, measured: np.ndarray, column: str) -> None:
    """Refuse targets (n float64, none missing) from which nothing can be learned.

    Raises:
        InputError: fewer than two, or all of them equal.
    """
    if len(measured) < 2:
        few = "only one row" if len(measured) else "no row that can be read"
        raise InputError(f"{source}: column {column!r} has a value in {few}; give at least two measurements")
    if (measured == measured[0]).all():
        raise InputError(
            f"{source}: column {column!r} is {measured[0]:g} in every measured row, so there is nothing to learn; "
            "name another column"
        )


def noise_of(values: pd.Series, place: Place) -> np.ndarray:
    """Return known variances as n float64.

    Raises:
        InputError: one is missing, not a number, or not above 0.
    """
    check_scalars(values, place)
    noise = check_numbers(values, place, "give a numeric column of variances")
    bad = ~((noise >= LEAST**2) & (noise <= LARGEST**2))
    if bad.any():
        first = noise[np.argmax(bad)]
        what = "empty" if np.isnan(first) else f"{first:g}"
        raise place.error(f"(noise variance) is {what}", bad, "give a finite variance above 0 for every target")
    return noise


def batch_labels(cells: pd.Series, place: Place) -> np.ndarray:
    """The batch of each row as n texts, empty where it is missing.

    Raises:
        InputError: all are missing.
    """
    check_scalars(cells, place)
    missing = missing_text(cells)
    if missing.all():
        raise place.error("(batch) is empty", missing, "name the column of plates, or leave batch out")
    text = cells.astype(object).astype(str).str.strip()
    return np.where(missing, "", text).astype(object)
