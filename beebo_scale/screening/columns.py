"""Checking and converting single columns; every error names the source, the column and the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from beebo_scale.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

ALPHABETS = {"protein": "ACDEFGHIKLMNPQRSTVWY", "dna": "ACGT"}
KINDS = ("continuous", "categorical", *ALPHABETS, "smiles")
# What spreadsheets and programs write in a column of numbers where there is no number.
MISSING = ("", "na", "n/a", "#n/a", "nan", "-nan", "none", "null", "<na>")


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

    def error(self, problem: str, bad: np.ndarray, advice: str) -> InputError:
        """Return the error for the rows marked in `bad` (n booleans, at least one true)."""
        return InputError(f"{self.source}: column {self.column!r} {problem} {rows_text(self.rows[bad])}; {advice}")


def rows_text(rows: np.ndarray, limit: int = 3) -> str:
    """Say 'in row 3' or 'in rows 3, 5, 8 and 20 more'."""
    first = ", ".join(str(row) for row in rows[:limit])
    more = f" and {len(rows) - limit} more" if len(rows) > limit else ""
    return f"in row{'s' if len(rows) > 1 else ''} {first}{more}"


def shown(value: object, limit: int = 40) -> str:
    """Quote a cell, cut to a length that fits one line."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def check_scalars(values: pd.Series, place: Place) -> None:
    """Refuse lists, dicts and arrays in cells.

    Raises:
        InputError: a cell holds several values.
    """
    import pandas as pd

    if pd.api.types.infer_dtype(values, skipna=True) != "mixed":
        return
    bad = np.array([not pd.api.types.is_scalar(cell) for cell in values], dtype=bool)
    if bad.any():
        raise place.error("holds several values per cell", bad, "give one value per cell")


def is_numeric(values: pd.Series, typed: bool) -> bool:
    """Tell whether a column whose kind was not given holds numbers."""
    import pandas as pd

    if typed:
        cells = values.astype(object) if isinstance(values.dtype, pd.CategoricalDtype) else values
        inferred = pd.api.types.infer_dtype(cells, skipna=True)
        return inferred in ("integer", "floating", "mixed-integer-float", "decimal")
    parsed, bad = numbers(values)
    return not bad.any() and not np.isnan(parsed).all()


def numbers(values: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Parse a column as numbers.

    Returns:
        n float64 with NaN where the cell is missing or not a number, and n booleans that mark the
        cells that hold something else than a number.
    """
    import pandas as pd
    import pyarrow as pa

    if pd.api.types.is_numeric_dtype(values.dtype) and not pd.api.types.is_complex_dtype(values.dtype):
        return values.to_numpy(dtype=np.float64, na_value=np.nan), np.zeros(len(values), dtype=bool)
    try:
        return _numbers_of_text(values), np.zeros(len(values), dtype=bool)
    except (pa.ArrowException, TypeError, ValueError):
        return _numbers_one_by_one(values.astype(object).to_numpy())


def _numbers_of_text(values: pd.Series) -> np.ndarray:
    import pyarrow as pa
    import pyarrow.compute as pc

    text = pc.utf8_trim_whitespace(pa.array(values, type=pa.string(), from_pandas=True))
    missing = pc.is_in(pc.utf8_lower(text), value_set=pa.array(MISSING))
    parsed: np.ndarray = pc.cast(pc.if_else(missing, None, text), pa.float64()).to_numpy(zero_copy_only=False)
    return parsed


def _numbers_one_by_one(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slow way for odd columns: it tells which cells are not numbers."""
    import pandas as pd

    parsed = np.full(len(cells), np.nan)
    bad = np.zeros(len(cells), dtype=bool)
    for i, cell in enumerate(cells):
        if pd.isna(cell) or (isinstance(cell, str) and cell.strip().lower() in MISSING):
            continue
        try:
            parsed[i] = float(cell)
        except (TypeError, ValueError, OverflowError):
            bad[i] = True
        if isinstance(cell, str) and "_" in cell:  # 1_000 is a number to Python only
            bad[i] = True
    return parsed, bad


def missing_text(values: pd.Series) -> np.ndarray:
    """Mark the cells that hold nothing (n booleans); the words NA and None are something."""
    return np.asarray(values.isna() | (values.astype(object) == ""), dtype=bool)


def check_numbers(values: pd.Series, place: Place, advice: str) -> np.ndarray:
    """Return a column as n float64, NaN where a cell is missing.

    Raises:
        InputError: a cell is neither empty nor a number.
    """
    parsed, bad = numbers(values)
    if bad.any():
        first = values.iloc[int(np.argmax(bad))]
        what = "is text" if isinstance(first, str) else "is not numeric"
        rows = rows_text(place.rows[bad])
        raise InputError(f"{place.source}: column {place.column!r} {what} ({shown(first)} {rows}); {advice}")
    return parsed


def convert(values: pd.Series, kind: str, place: Place) -> pd.Series:
    """Check a feature column and bring it to the form of its kind.

    Returns:
        n float64 (continuous), or n strings; sequences in capitals and all of one length, molecules readable.

    Raises:
        InputError: a cell is missing or does not fit the kind.
    """
    import pandas as pd

    if kind == "continuous":
        parsed = check_numbers(values, place, f"give numbers, or declare {place.column!r} as categorical")
        if np.isnan(parsed).any():
            raise place.error("is empty", np.isnan(parsed), "fill the cell or leave the row out")
        if np.isinf(parsed).any():
            raise place.error("is infinite", np.isinf(parsed), "correct the cell or leave the row out")
        return pd.Series(parsed, index=values.index)
    missing = missing_text(values)
    if missing.any():
        raise place.error("is empty", missing, "fill the cell (a level may be called None) or leave the row out")
    text: pd.Series = values.astype(object).astype(str) if values.dtype.kind == "O" else values.astype(str)
    if kind == "categorical":
        return text
    if kind == "smiles":
        from .fingerprints import check_molecules

        text = text.str.strip()
        check_molecules(text, place)
        return text
    text = text.str.upper()
    letter_codes(text, kind, place)
    return text


def letter_codes(text: pd.Series, kind: str, place: Place, length: int | None = None) -> np.ndarray:
    """Turn sequences into the places of their letters in the alphabet.

    Args:
        text: n sequences in capitals.
        kind: 'protein' or 'dna'.
        place: where they stand.
        length: number of letters that each must have; None for that of the first.

    Returns:
        n x length int8.

    Raises:
        InputError: a sequence has another length, or a letter outside the alphabet.
    """
    lengths = text.str.len().to_numpy(dtype=np.int64)
    if length is None:
        length = int(lengths[0]) if len(lengths) else 0
    if (lengths != length).any():
        bad = lengths != length
        other = int(lengths[np.argmax(bad)])
        raise place.error(
            f"should hold sequences of {length} letters, but has one of {other}",
            bad,
            "give sequences of one length",
        )
    # One byte per letter: whatever is not ASCII becomes '?', which no alphabet has.
    letters = np.frombuffer("".join(text.tolist()).encode("ascii", "replace"), dtype=np.uint8)
    codes = _code_table(ALPHABETS[kind])[letters].reshape(len(text), length)
    if (codes < 0).any():
        row, position = (int(i) for i in np.argwhere(codes < 0)[0])
        raise InputError(
            f"{place.source}: column {place.column!r} has the letter {text.iloc[row][position]!r} at position "
            f"{position + 1} of {shown(text.iloc[row])} in row {place.rows[row]}; {kind} letters are "
            f"{ALPHABETS[kind]}, otherwise declare the column as categorical"
        )
    return codes


def _code_table(alphabet: str) -> np.ndarray[Any, np.dtype[np.int8]]:
    table = np.full(256, -1, dtype=np.int8)
    table[np.frombuffer(alphabet.encode(), dtype=np.uint8)] = np.arange(len(alphabet), dtype=np.int8)
    return table
