"""Checking and converting single columns; every error names the source, the column and the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .files.numerals import hint, numbers, too_long
from .files.sheet_cells import SheetCell
from .fingerprints import check_molecules
from .places import SHEET, WAY, CellError, Place, shown
from .same import BLANKS, WHOLE

if TYPE_CHECKING:
    import pandas as pd

ALPHABETS = {"protein": "ACDEFGHIKLMNPQRSTVWY", "dna": "ACGT"}
COLUMN_KINDS = ("continuous", "categorical", *ALPHABETS, "smiles")
EMPTY = "is empty"
LARGEST, LEAST = 1e150, 1e-150  # sizes of numbers whose squares are numbers, with room for sums


def check_scalars(values: pd.Series, place: Place) -> None:
    """Refuse lists, dicts, arrays and bytes in cells.

    Raises:
        InputError: a cell holds several values.
    """
    import pandas as pd

    inferred = pd.api.types.infer_dtype(values, skipna=True)
    if inferred == "bytes":
        raise place.error("holds bytes", values.notna().to_numpy(dtype=bool), "write text, or leave the column out")
    if inferred != "mixed":
        return
    bad = np.array([not pd.api.types.is_scalar(cell) for cell in values], dtype=bool)
    if bad.any():
        raise place.error("holds several values per cell", bad, "give one value per cell")


def odd_cells(values: pd.Series, place: Place) -> np.ndarray:
    """Mark error values of a sheet, and dates that a spreadsheet may have made of labels (n booleans)."""
    if not SHEET.search(place.source):
        return np.zeros(len(values), dtype=bool)
    return np.array([isinstance(cell, SheetCell) for cell in values], dtype=bool)


def check_odd(values: pd.Series, place: Place) -> None:
    """Refuse them.

    Raises:
        CellError: there is one.
    """
    bad = odd_cells(values, place)
    if bad.any():
        cell = values.iloc[int(np.argmax(bad))]
        others = f", and {bad.sum() - 1} more of this column are like it" if bad.sum() > 1 else ""
        text = f"{place.source}: column {place.column!r}: the cell {cell.cell} holds {cell.what}{others}; {cell.way}"
        raise CellError(f"{text}, or leave the row out (--drop-invalid)", bad, f"holds {cell.what}")


def missing_text(values: pd.Series) -> np.ndarray:
    """Mark the cells that hold nothing (n booleans); the words NA and None are something."""
    empty = values.isna().to_numpy(dtype=bool)
    if values.dtype.kind not in "biuf":
        empty = empty | (values.astype(object).astype(str).str.strip() == "").to_numpy(dtype=bool)
    return empty


def check_ids(ids: pd.Series, place: Place, advice: str = "give every row an id") -> None:
    """Refuse rows without an id.

    Raises:
        CellError: an id is missing, or no single value.
    """
    check_scalars(ids, place)
    missing = missing_text(ids)
    if missing.any():
        raise place.error("(id) is empty", missing, advice)


def check_numbers(values: pd.Series, place: Place, advice: str) -> np.ndarray:
    """Return a column as n float64, NaN where a cell is missing.

    Raises:
        CellError: a cell is neither empty nor a number.
    """
    check_odd(values, place)
    parsed, bad = numbers(values)
    if bad.any():
        first = values.iloc[int(np.argmax(bad))]
        what = "is text" if isinstance(first, str) else "is not numeric"
        cell = f"({shown(first)} {place.where(bad)})"
        raise CellError(f"{place.source}: column {place.column!r} {what} {cell}; {hint(first) or advice}", bad, what)
    return parsed


def check_size(values: np.ndarray, place: Place) -> None:
    """Refuse numbers (n float64) beyond LARGEST.

    Raises:
        CellError: there is one.
    """
    bad = np.abs(values) > LARGEST
    if bad.any():
        what = f"is {values[np.argmax(bad)]:g}, too large to compute with,"
        raise place.error(what, bad, "correct the cell, or give the column in a larger unit")


def convert(values: pd.Series, kind: str, place: Place, length: int | None = None) -> pd.Series:
    """Check a feature column and bring it to the form of its kind.

    Args:
        values: n cells.
        kind: one of COLUMN_KINDS.
        place: where they stand.
        length: number of letters of a sequence; None for that of the first.

    Returns:
        n float64 (continuous), or n strings; sequences in capitals and all of one length, molecules readable.

    Raises:
        CellError: a cell is missing or does not fit the kind.
    """
    import pandas as pd

    if kind == "continuous":
        parsed = check_numbers(
            values, place, f"give numbers, leave the row out ({WAY}), or declare {place.column!r} as categorical"
        )
        if np.isnan(parsed).any():
            raise place.error(EMPTY, np.isnan(parsed), "fill the cell or leave the row out (--drop-invalid)")
        if np.isinf(parsed).any():
            raise place.error("is infinite", np.isinf(parsed), "correct the cell or leave the row out (--drop-invalid)")
        check_size(parsed, place)
        long = too_long(values, parsed)
        if long.any():
            problem = "holds whole numbers beyond 2^53, which are told apart as text only,"
            raise place.error(problem, long, f"declare {place.column!r} as categorical, or name it as the id")
        return pd.Series(parsed, index=values.index)
    check_odd(values, place)
    missing = missing_text(values)
    if missing.any():
        raise place.error(
            EMPTY, missing, "fill the cell (a level may be called None) or leave the row out (--drop-invalid)"
        )
    text: pd.Series = values.astype(object).astype(str) if values.dtype.kind == "O" else values.astype(str)
    text = text.str.strip(BLANKS)  # 'DMF ' and 'DMF' are one solvent
    if kind == "smiles":
        check_molecules(text, place)
    elif kind == "categorical":
        text = text.str.replace(WHOLE, r"\1", regex=True)  # 182.0 is the label 182
    else:
        text = text.str.upper()
        letter_codes(text, kind, place, length)
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
        CellError: a sequence has another length, or a letter outside the alphabet.
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
            "give sequences of one length (or --drop-invalid)",
            f"has not {length} letters",
        )
    # One byte per letter: whatever is not ASCII becomes '?', which no alphabet has.
    letters = np.frombuffer("".join(text.tolist()).encode("ascii", "replace"), dtype=np.uint8)
    codes = _code_table(ALPHABETS[kind])[letters].reshape(len(text), length)
    unknown = np.asarray((codes < 0).any(axis=1))
    if unknown.any():
        row = int(np.argmax(unknown))
        position = int(np.argmax(codes[row] < 0))
        why = f"has the letter {text.iloc[row][position]!r} at position {position + 1} of {shown(text.iloc[row])}"
        raise place.error(
            why,
            unknown,
            f"{kind} letters are {ALPHABETS[kind]}; declare the column as categorical, or leave the row out "
            "(--drop-invalid)",
            f"has a letter that is none of {ALPHABETS[kind]}",
        )
    return codes


def _code_table(alphabet: str) -> np.ndarray[Any, np.dtype[np.int8]]:
    table = np.full(256, -1, dtype=np.int8)
    table[np.frombuffer(alphabet.encode(), dtype=np.uint8)] = np.arange(len(alphabet), dtype=np.int8)
    return table
