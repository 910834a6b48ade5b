"""Rows and columns of measurements that look like something else: sums of the others, points between thousands."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from ...errors import InputError
from ..columns import EMPTY, missing_text
from ..files.numerals import DECIMAL_COMMA
from ..files.source import Source
from ..places import CellError, Place, shown

if TYPE_CHECKING:
    import pandas as pd

FEW = 10  # rows at the end that may sum up the others
LOOKED_AT = 1000  # cells of a column that show how its numbers are written
POINTS = r"[+-]?[1-9]\d{0,2}(?:\.\d{3})+"  # 1.234: one thousand, or one and a quarter


def below_a_gap(file: Source, raw: pd.DataFrame, rows: np.ndarray) -> list[str]:
    """Say which of the measured rows (from 0) stand below an empty one: they may sum up those above."""
    gone = np.setdiff1d(np.arange(len(raw)), rows)
    empty = gone[[missing_text(raw.iloc[i]).all() for i in gone]] if len(gone) <= len(rows) else gone[:0]
    below = rows[rows > empty.min(initial=len(raw))]
    if not 0 < len(below) <= FEW:
        return []
    where = Place(file.name, "", file.numbers(below)).where(np.ones(len(below), dtype=bool))
    return [f"{file.name}: what stands below an empty row is read, too ({where}); delete what sums up the rows above"]


def summary_rows(file: Source, error: CellError, numbers: np.ndarray) -> InputError:
    """The error, and how the rows begin if they are the last ones."""
    rows = numbers[error.bad]
    if len(rows) > FEW or error.why != EMPTY or list(rows) != list(numbers[-len(rows) :]):
        return error
    cells = file.load(file.columns[:1]).iloc[rows - 1 - file.before, 0]
    begin = ", ".join(shown(cell) for cell in cells[~missing_text(cells)].iloc[:3])
    return InputError(f"{error}; do the last rows, which begin with {begin}, sum up the others?") if begin else error


def check_points(file: Source, raw: pd.DataFrame) -> None:
    """Refuse points that may stand between thousands, where other columns have decimal commas.

    Raises:
        CellError: all numbers of a column are written like 1.234.
    """
    heads = {name: _heads(raw[name]) for name in raw} if not file.typed else {}
    commas = [name for name, cells in heads.items() if _all(cells, DECIMAL_COMMA)]
    for name in (str(name) for name, cells in heads.items() if commas and _all(cells, POINTS)):
        place = Place(file.name, name, file.numbers(len(raw)))
        bad = ~missing_text(raw[name])
        raise place.error(
            f"holds {shown(heads[name][0])}: a decimal point, or one between thousands, as column {commas[0]!r} has "
            "decimal commas;",
            bad,
            "write all columns of numbers alike",
        )


def _heads(cells: pd.Series) -> list[str]:
    """The first cells that hold something."""
    return [text for cell in cells.iloc[:LOOKED_AT] if (text := str(cell).strip()) and cell is not None]


def _all(cells: list[str], pattern: str) -> bool:
    return (
        bool(cells)
        and any(re.fullmatch(pattern, cell) for cell in cells)
        and all(re.fullmatch(pattern, cell) or cell.lstrip("+-").isdigit() for cell in cells)
    )
