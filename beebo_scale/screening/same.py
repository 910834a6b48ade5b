"""When two cells mean the same: numbers that differ by rounding, and ids that differ by how a program wrote them.

Two numbers a, b of a column are one if

    |a - b| <= min(max(2^-23 max(|a|, |b|), 6e-10 w), 1e-4 w),      w the width of the column's range,

which holds for a number and itself in float32, in nine digits, or after sums such as 0.1 + 0.2. Whole numbers are one
only if they are equal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    import torch

RELATIVE = 2.0**-23  # twice the rounding of float32
ABSOLUTE = 6e-10  # of the range: numbers written with nine decimals of it
LARGEST = 1e-4  # of the range: beyond, neighbours of a narrow range far from zero would be one
WHOLE = re.compile(r"^([+-]?\d+)\.0+$")
BLANKS = " \t\r\n\v\f\u00a0\u2007\u202f\u200b\ufeff"  # around a cell, also those that nobody sees


@dataclass(frozen=True, eq=False)
class SameNumbers:
    """Known numbers of a column, of which those that differ by rounding are one.

    Attributes:
        values: n known numbers, rising.
        names: n, the first of those that each is one with.
        low: what an encoded 0 means, in the column's own unit; 0 where numbers are not encoded ...
        scale: ... and the length of an encoded unit.
        width: of the range, in the column's own unit.
        whole: whether all known numbers are whole ones.
    """

    values: np.ndarray
    names: np.ndarray
    low: float
    scale: float
    width: float
    whole: bool

    @classmethod
    def of(cls, numbers: np.ndarray, low: float = 0.0, scale: float = 1.0) -> SameNumbers:
        """Learn from numbers (encoded ones with `low` and `scale`)."""
        values = np.unique(numbers + 0.0)  # -0 and 0 are one
        values = values[np.isfinite(values)]
        own = low + scale * values
        size = float(np.abs(own).max(initial=0.0))
        width = float(own[-1] - own[0]) if len(own) and own[-1] > own[0] else size
        whole = bool((np.abs(own - np.rint(own)) <= 4 * np.finfo(float).eps * size).all())
        same = cls(values, values, low, scale, width, whole)
        starts = np.diff(values, prepend=-np.inf) > same._tolerance(values)
        names = values[starts][starts.cumsum() - 1] if len(values) else values
        return cls(values, names, low, scale, width, whole)

    def _tolerance(self, numbers: np.ndarray) -> np.ndarray:
        """How far numbers (encoded) may be from one that they are one with."""
        own = np.abs(self.low + self.scale * numbers)
        most = np.minimum(np.maximum(RELATIVE * own, ABSOLUTE * self.width), LARGEST * self.width)
        return (np.minimum(most, 0.25) if self.whole else most) / self.scale

    def named(self, numbers: np.ndarray) -> np.ndarray:
        """Numbers (n) with those that are one with a known number replaced by its name."""
        if not len(self.values):
            return numbers + 0.0
        right = np.searchsorted(self.values, numbers).clip(max=len(self.values) - 1)
        left = (right - 1).clip(min=0)
        nearer = np.abs(self.values[left] - numbers) < np.abs(self.values[right] - numbers)
        nearest = np.where(nearer, left, right)
        one = np.abs(self.values[nearest] - numbers) <= self._tolerance(numbers)
        return np.where(one, self.names[nearest], numbers + 0.0)


def number_columns(columns: Sequence[Any], places: Sequence[int] | None = None) -> dict[int, Any]:
    """Where the numbers of the continuous ones of an encoder's columns begin in a row of bytes.

    Args:
        columns: of an encoder.
        places: where each begins, for packed rows; None for rows of float64.
    """
    if places is None:
        places = np.cumsum([0, *(8 * column.width for column in columns)])[:-1].tolist()
    return {place: column for place, column in zip(places, columns, strict=True) if column.kind == "continuous"}


@dataclass(frozen=True, eq=False)
class SameRows:
    """One spelling for rows of bytes that are the same experiment: numbers as those known that they are one with.

    Attributes:
        numbers: first byte of a number -> what is known of its column.
    """

    numbers: Mapping[int, SameNumbers]

    @classmethod
    def of(cls, rows: np.ndarray, columns: Mapping[int, Any]) -> SameRows:
        """Learn from n rows of bytes."""
        return cls({i: SameNumbers.of(_float64(rows, i), c.low, c.scale) for i, c in columns.items()})

    def spelled(self, rows: np.ndarray) -> np.ndarray:
        """The rows (p x bytes) in that spelling."""
        if not self.numbers:
            return rows
        new = rows.copy()
        for place, same in self.numbers.items():
            new[:, place : place + 8] = same.named(_float64(rows, place)).view(np.uint8).reshape(-1, 8)
        return new


def spelled_alike(X: torch.Tensor, columns: Sequence[Any]) -> torch.Tensor:
    """Encoded rows (n x d) in which numbers that differ by rounding are equal; `columns` are those of the encoder."""
    import torch

    rows = as_bytes(X.numpy())
    return torch.from_numpy(SameRows.of(rows, number_columns(columns)).spelled(rows).view(np.float64))


def _float64(rows: np.ndarray, place: int) -> np.ndarray:
    """The number that begins at a byte of each row."""
    return np.ascontiguousarray(rows[:, place : place + 8]).view(np.float64).ravel()


def as_bytes(X: np.ndarray) -> np.ndarray:
    """Rows of float64 (n x d) as rows of bytes (n x 8 d); -0 becomes 0, to which it is equal."""
    return np.ascontiguousarray(X + 0.0, dtype=np.float64).view(np.uint8).reshape(len(X), 8 * X.shape[1])


def id_texts(cells: pd.Series | Sequence[object]) -> np.ndarray:
    """Ids (n) in one spelling: without blanks around them, whole numbers without '.0'."""
    import pandas as pd

    values = pd.Series(cells)
    if values.dtype.kind in "iu":
        return values.astype(str).to_numpy(dtype=object)
    text = values.astype(object).astype(str).str.strip(BLANKS)
    return text.str.replace(WHOLE, r"\1", regex=True).where(lambda t: ~values.isna(), "").to_numpy(dtype=object)


def alike(names: Iterable[str], known: Iterable[str]) -> dict[str, str]:
    """Of some ids, those that differ from a known one in capitals alone -> the known one."""
    folded = {name.casefold(): name for name in known}
    return {name: folded[name.casefold()] for name in names if name.casefold() in folded}


def told_unknown(what: str, where: str, asked: Sequence[str], unknown: Iterable[str], known: Iterable[str] = ()) -> str:
    """Say which ids are in no row, and which ids are written nearly alike.

    Args:
        what: the ids are, such as 'excluded'.
        where: they were looked for, such as 'row of the library'.
        asked: all of them.
        unknown: those that were not found.
        known: ids that there are, or some of them.
    """
    missing = list(unknown)
    near = alike(missing, known)
    shown = ", ".join(f"{name} (did you mean {near[name]}?)" if name in near else name for name in missing[:5])
    more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
    ids, are = ("ids", "are") if len(asked) > 1 else ("id", "is")
    return f"{len(missing)} of {len(asked)} {what} {ids} {are} in no {where}: {shown}{more}"
