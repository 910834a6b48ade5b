"""Where cells stand, and errors that say so: source, column and rows."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from ..errors import InputError

WAY = "--drop-invalid"
WITHOUT_WAY = re.compile(rf",?( or)? leave (the|these) rows? out \({WAY}\)| \(or {WAY}\)")
SHEET = re.compile(r"\.xls[xm]#", re.IGNORECASE)  # in the name of a sheet of a workbook


class CellError(InputError):
    """Cells that are not usable.

    Attributes:
        bad: n booleans, which of the column's cells these are.
        why: what is wrong with them.
    """

    def __init__(self, text: str, bad: np.ndarray | None = None, why: str = "") -> None:  # defaults: for pickle
        super().__init__(text)
        self.bad, self.why = np.empty(0, dtype=bool) if bad is None else bad, why


@dataclass(frozen=True)
class Place:
    """Where a column's values stand.

    Attributes:
        source: name of the file or table.
        column: name of the column.
        rows: n row numbers, 1-based, the header not counted.
    """

    source: str
    column: str
    rows: np.ndarray

    def error(self, problem: str, bad: np.ndarray, advice: str, why: str | None = None) -> CellError:
        """The error for the rows marked in `bad` (n booleans, at least one true); `why` holds for each of them."""
        text = f"{self.source}: column {self.column!r} {problem} {self.where(bad)}; {advice}"
        return CellError(text, bad, why or problem)

    def where(self, bad: np.ndarray) -> str:
        """Say 'in rows 3, 5' for the rows marked in `bad`."""
        below = " below the header" if SHEET.search(self.source) else ""  # spreadsheets number the header, too
        return rows_text(self.rows[bad]) + below


def rows_text(rows: np.ndarray, limit: int = 3) -> str:
    """Say 'in row 3' or 'in rows 3, 5, 8 and 20 more'."""
    first = ", ".join(str(row) for row in rows[:limit])
    more = f" and {len(rows) - limit} more" if len(rows) > limit else ""
    return f"in row{'s' if len(rows) > 1 else ''} {first}{more}"


def shown(value: object, limit: int = 40) -> str:
    """Quote a cell, cut to a length that fits one line."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def reworded(message: str, way: str = "") -> str:
    """A message with another way to leave rows out, or with none where there is none."""
    return message.replace(WAY, way) if way else WITHOUT_WAY.sub("", message)
