"""Rows whose features cannot be read: found, and listed for the user, where they are to be left out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError
from .columns import ALPHABETS, check_scalars, convert
from .places import CellError, Place, shown

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("file", "row", "column", "cell", "why")
CELL_LENGTH = 200  # characters of a cell in the list


@dataclass(frozen=True)
class Fault:
    """A row that was left out.

    Attributes:
        source: name of the file.
        row: its number there, from 1, the header not counted.
        column: the first of its features that cannot be read.
        cell: as text.
        why: what is wrong with it.
    """

    source: str
    row: int
    column: str
    cell: str
    why: str


def faults_of(cells: pd.Series, bad: np.ndarray, place: Place, why: str = "is no number") -> list[Fault]:
    """The cells (n) of a column that are marked in `bad`."""
    rows = np.flatnonzero(bad)
    texts = [str(cells.iloc[row])[:CELL_LENGTH] for row in rows]
    return [
        Fault(place.source, int(place.rows[row]), place.column, text, why)
        for row, text in zip(rows, texts, strict=True)
    ]


def find_faults(
    raw: pd.DataFrame, kinds: Mapping[str, str], source: str, numbers: np.ndarray, lengths: Mapping[str, int]
) -> tuple[np.ndarray, list[Fault]]:
    """Which rows cannot be read: exactly those that reading the table refuses.

    Args:
        raw: n rows as they stand in the file.
        kinds: feature -> kind.
        source: name of the file.
        numbers: n row numbers there.
        lengths: number of letters of sequence columns; that of most of the rows where it is not given.

    Returns:
        n booleans, true for a row to leave out, and what is wrong with each of these, in order of the rows.
    """
    bad, faults = np.zeros(len(raw), dtype=bool), []
    for name, kind in kinds.items():
        length = lengths.get(name) or (usual_length(raw[name]) if kind in ALPHABETS else None)
        while not bad.all():
            rows = np.flatnonzero(~bad)
            cells = raw[name].iloc[rows].reset_index(drop=True)
            place = Place(source, name, numbers[rows])
            try:
                check_scalars(cells, place)
                convert(cells, kind, place, length)
            except CellError as error:
                for row in rows[error.bad].tolist():
                    cell = str(raw[name].iloc[row])[:CELL_LENGTH]
                    faults.append(Fault(source, int(numbers[row]), name, cell, error.why))
                bad[rows[error.bad]] = True
            else:
                break
    return bad, sorted(faults, key=lambda fault: fault.row)


def usual_length(cells: pd.Series) -> int | None:
    """The length that most sequences of a column have; of two equally frequent ones, the shorter."""
    lengths = cells.dropna().astype(object).astype(str).str.strip().str.len()
    lengths = lengths[lengths > 0]
    return int(lengths.mode().iloc[0]) if len(lengths) else None


def all_invalid(source: str, faults: Sequence[Fault]) -> InputError:
    """What to say where nothing is left."""
    first = faults[0]
    return InputError(
        f"{source}: no row is left, all {len(faults)} are invalid: column {first.column!r} {first.why} "
        f"({shown(first.cell)} in row {first.row}); correct the file, or the kinds of its columns"
    )


def listed(faults: Sequence[Fault]) -> str:
    """The list as the text of a CSV file."""
    import pandas as pd

    frame = pd.DataFrame([astuple(fault) for fault in faults], columns=list(COLUMNS))
    return frame.to_csv(index=False, lineterminator="\n")


def told(faults: Sequence[Fault], path: str | os.PathLike[str]) -> str:
    """A line about rows left out and where they are listed."""
    sources = list(dict.fromkeys(fault.source for fault in faults))
    counts = ", ".join(f"{sum(fault.source == source for fault in faults)} of {source}" for source in sources)
    return f"invalid rows left out: {counts}; listed in {path}"
