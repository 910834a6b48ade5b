"""Whole numbers that only name or count the rows: no condition of an experiment, though they are numbers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from .files.numerals import numbers

if TYPE_CHECKING:
    import pandas as pd

ID_NAME = re.compile(
    r"^(?:.* )?(?:id|ids|entry|index|unnamed(?: \d+)?|no|nr|num|number|cid|sid|aid|uid|key|row|record|serial|count)$"
)
LEAST = 8  # rows from which steps of one are a count of the rows rather than a sweep
YEARS = (1900, 2100)
EPOCH = (946_684_800, 2_051_222_400)  # seconds from 1970 to the years 2000 and 2035


def counter(values: pd.Series, words: str) -> str | None:
    """Why whole numbers are no feature: they count the rows, name them, or say when; None if they may be one.

    Args:
        values: n cells.
        words: the column's name in small words.
    """
    cells, bad = numbers(values)
    cells = cells[~np.isnan(cells)]
    if bad.any() or len(cells) < 2 or not (np.isfinite(cells) & (cells == np.rint(cells))).all():
        return None
    once = len(np.unique(cells)) == len(cells)
    if once and ID_NAME.match(words):
        return "is called an id and holds another whole number in each row"
    if _days(cells):
        return "holds dates as whole numbers"
    if once and any(EPOCH[0] * unit <= cells.min() and cells.max() <= EPOCH[1] * unit for unit in (1, 1000)):
        return "holds times in seconds or milliseconds since 1970"
    if once and len(cells) >= LEAST and cells.max() - cells.min() == len(cells) - 1:
        return f"counts the rows, {cells.min():.0f} to {cells.max():.0f}"
    return None


def _days(cells: np.ndarray) -> bool:
    """Whether all numbers are days such as 20240102, and not all of them the same."""
    day, month, year = cells % 100, cells // 100 % 100, cells // 10_000
    valid = (day >= 1) & (day <= 31) & (month >= 1) & (month <= 12) & (year >= YEARS[0]) & (year <= YEARS[1])
    return bool(valid.all()) and len(np.unique(cells)) > 1
