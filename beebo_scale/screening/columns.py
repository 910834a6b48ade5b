"""Checking and converting single columns; every error names the source, the column and the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .files.numerals import Numbers, numbers, too_long
from .files.quantities import advice_on
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


def check_amounts(values: pd.Series, place: Place, advice: str, unit: str | None) -> Numbers:
    """Read a column of numbers that may have something around them: NaN where a cell is missing.

    Args:
        values: n cells.
        place: where they stand.
        advice: what to do about a cell that says nothing better itself.
        unit: that they may have; None for any one.

    Raises:
        CellError: a cell is neither empty nor a number, or in another unit than the others.
    """
    check_odd(values, place)
    found = numbers(values, unit)
    if found.bad.any():
        first = values.iloc[int(np.argmax(found.bad))]
        what = "is text" if isinstance(first, str) else "is not numeric"
        told = advice_on(first, found.unit or unit or "") if isinstance(first, str) else None
        cell = f"({shown(first)} {place.where(found.bad)})"
        raise CellError(f"{place.source}: column {place.column!r} {what} {cell}; {told or advice}", found.bad, what)
    return found


def check_numbers(values: pd.Series, place: Place, advice: str) -> np.ndarray:
    """Return a column of numbers alone as n float64, NaN where a cell is missing.

    Raises:
        CellError: a cell is neither empty nor a number.
    """
    return check_amounts(values, place, advice, "").values


def check_size(values: np.ndarray, place: Place) -> None:
    """Refuse numbers (n float64) beyond LARGEST.

    Raises:
        CellError: there is one.
    """
    bad = np.abs(values) > LARGEST
    if bad.any():
        what = f"is {values[np.argmax(bad)]:g}, too large to compute with,"
        raise place.error(what, bad, "correct the cell, or give the column in a larger unit")


def feature_numbers(values: pd.Series, place: Place, unit: str | None = None) -> Numbers:
    """Read a feature of numbers.

    Args:
        values: n cells.
        place: where they stand.
        unit: that they may have; None for any one.

    Raises:
        CellError: a cell is missing, no number, infinite, too large, or in another unit than the others.
    """
    way = f"give numbers, leave the row out ({WAY}), or declare {place.column!r} as categorical"
    found = check_amounts(values, place, way, unit)
    parsed = found.values
    if np.isnan(parsed).any():
        raise place.error(EMPTY, np.isnan(parsed), "fill the cell or leave the row out (--drop-invalid)")
    if np.isinf(parsed).any():
        raise place.error("is infinite", np.isinf(parsed), "correct the cell or leave the row out (--drop-invalid)")
    check_size(parsed, place)
    long = too_long(values, parsed)
    if long.any():
        problem = "holds whole numbers beyond 2^53, which are told apart as text only,"
        raise place.error(problem, long, f"declare {place.column!r} as categorical, or name it as the id")
    return found


def convert(
    values: pd.Series, kind: str, place: Place, length: int | None = None, unit: str | None = None
) -> pd.Series:
    """Check a feature column and bring it to the form of its kind.

    Args:
        values: n cells.
        kind: one of COLUMN_KINDS.
        place: where they stand.
        length: number of letters of a sequence; None for that of most.
        unit: that numbers may have; None for any one.

    Returns:
        n float64 (continuous), or n strings; sequences in capitals and all of one length, molecules readable.

    Raises:
        CellError: a cell is missing or does not fit the kind.
    """
    import pandas as pd

    if kind == "continuous":
        return pd.Series(feature_numbers(values, place, unit).values, index=values.index)
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
        _check_length(text, place, length)
        if kind == "protein":
            _check_capitals(text, place)
        text = text.str.upper()
        letter_codes(text, kind, place, length)
    return text


def _check_capitals(text: pd.Series, place: Place) -> None:
    """Refuse small letters among the capitals of a sequence: they stand for D-amino acids, or mark something.

    Raises:
        CellError: some letters of a sequence are small, others are not.
    """
    small = ((text != text.str.upper()) & (text != text.str.lower())).to_numpy(dtype=bool)
    if small.any():
        first = text.iloc[int(np.argmax(small))]
        letter = next(c for c in first if c.islower())
        raise place.error(
            f"has the small letter {letter!r} in {shown(first)}",
            small,
            "no kind of sequences knows D-amino acids: declare the column as categorical, or give molecules (smiles); "
            "if it is none, write capitals, or leave the row out (--drop-invalid)",
            "has small letters among capitals",
        )


def _check_length(text: pd.Series, place: Place, length: int | None) -> int:
    """The number of letters that n sequences have; None for that of most, of two as frequent ones the shorter.

    Raises:
        CellError: a sequence has another length.
    """
    lengths = text.str.len().to_numpy(dtype=np.int64)
    if length is None:
        there, counts = np.unique(lengths, return_counts=True)
        length = int(there[counts.argmax()]) if len(lengths) else 0
    if (lengths != length).any():
        bad = lengths != length
        other = int(lengths[np.argmax(bad)])
        raise place.error(
            f"should hold sequences of {length} letters, but has one of {other}",
            bad,
            "give sequences of one length (or --drop-invalid)",
            f"has not {length} letters",
        )
    return length


def letter_codes(text: pd.Series, kind: str, place: Place, length: int | None = None) -> np.ndarray:
    """Turn sequences into the places of their letters in the alphabet.

    Args:
        text: n sequences in capitals.
        kind: 'protein' or 'dna'.
        place: where they stand.
        length: number of letters that each must have; None for that of most, of two as frequent ones the shorter.

    Returns:
        n x length int8.

    Raises:
        CellError: a sequence has another length, or a letter outside the alphabet.
    """
    length = _check_length(text, place, length)
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
            f"{_of_letter(text.iloc[row][position], kind)}{kind} letters are {ALPHABETS[kind]}; declare the column as "
            "categorical, or leave the row out (--drop-invalid)",
            f"has a letter that is none of {ALPHABETS[kind]}",
        )
    return codes


def _of_letter(letter: str, kind: str) -> str:
    """What to do about a sign that is no letter, in words that others follow."""
    ways = {
        "*": "a stop is no letter: remove it where all sequences end with one, and leave shorter proteins out; ",
        "-": "a gap is no letter: a deletion has no sequence of this length; ",
        "U": "write T for the U of RNA; " if kind == "dna" else "",
    }
    return ways.get(letter, "")


def _code_table(alphabet: str) -> np.ndarray[Any, np.dtype[np.int8]]:
    table = np.full(256, -1, dtype=np.int8)
    table[np.frombuffer(alphabet.encode(), dtype=np.uint8)] = np.arange(len(alphabet), dtype=np.int8)
    return table
