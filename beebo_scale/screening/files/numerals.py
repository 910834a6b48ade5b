"""Text to numbers: what people and programs write in a column of numbers, and what they write where there is none."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

# What spreadsheets and programs write in a column of numbers where there is no number.
MISSING_WORDS = ("", "na", "n/a", "#n/a", "nan", "-nan", "none", "null", "<na>", "-", "--", "\u2013", "\u2014")
EXACT = 2.0**53  # whole numbers from here on have neighbours that float64 cannot tell apart

DECIMAL_COMMA = r"^[+-]?\d*,\d+([eE][+-]?\d+)?$"
GROUPED = r"^[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?$"  # 1,234 or 1,234,567.8
EITHER = r"^[+-]?[1-9]\d{0,2},\d{3}$"  # 1,234: one thousand, or one and a quarter
NUMERAL = r"[-+\u2212]?[\d.,]*\d(?:[eE][-+]?\d+)?"
UNIT = r"(?:[pnuµμmkM]?(?:M|mol|g|[lL]|m|s|V|A|Pa|bar|Hz|Da)|°?[CFK]|h|hr|hrs|min|eq|equiv|rpm|psi|ppm|ppb|wt)(?:/\w+)?"
WITH_UNIT = re.compile(rf"^\s*{NUMERAL}\s*(?:%|{UNIT})\s*$")
LIMIT = re.compile(rf"^\s*[<>≤≥~]=?\s*{NUMERAL}\s*(?:%|{UNIT})?\s*$")


def numbers(values: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Parse a column as numbers; commas are read where the column leaves no doubt what they are.

    Returns:
        n float64 with NaN where the cell is missing or not a number, and n booleans that mark the
        cells that hold something else than a number.
    """
    import pandas as pd
    import pyarrow as pa

    if pd.api.types.is_numeric_dtype(values.dtype) and not pd.api.types.is_complex_dtype(values.dtype):
        return values.to_numpy(dtype=np.float64, na_value=np.nan), np.zeros(len(values), dtype=bool)
    try:
        text = _trimmed(values)
    except (pa.ArrowException, TypeError, ValueError):
        if pd.api.types.infer_dtype(values, skipna=True) == "boolean":
            return values.astype("boolean").to_numpy(dtype=np.float64, na_value=np.nan), np.zeros(len(values), bool)
        return _one_by_one(values.astype(object).tolist())
    for written in (lambda cells: cells, _plainly):
        try:
            parsed = written(text).cast(pa.float64()).to_numpy(zero_copy_only=False)
            return parsed, np.zeros(len(values), dtype=bool)
        except pa.ArrowException:
            continue
    return _one_by_one(_plainly(text).to_pylist())


def _trimmed(values: pd.Series) -> Any:
    """Text without blanks around it, null where nothing is."""
    import pyarrow as pa
    import pyarrow.compute as pc

    text = pc.utf8_trim_whitespace(pa.array(values, type=pa.string(), from_pandas=True))
    missing = pc.is_in(pc.utf8_lower(text), value_set=pa.array(MISSING_WORDS))
    return pc.if_else(missing, None, text)


def _plainly(text: Any) -> Any:
    """Text with '-' for a typographer's minus and without commas: as decimal points, or taken out of 1,234,567."""
    import pyarrow.compute as pc

    text = pc.replace_substring(text, "\u2212", "-")
    commas = pc.fill_null(pc.match_substring(text, ","), False)
    if not pc.any(commas).as_py():
        return text
    cells = text.filter(commas)
    if _all(cells, DECIMAL_COMMA) and not _all(cells, EITHER) and not pc.any(pc.match_substring(text, ".")).as_py():
        return pc.replace_substring(text, ",", ".")
    if _all(cells, GROUPED) and not _all(cells, EITHER):
        return pc.replace_substring(text, ",", "")
    return text


def _all(cells: Any, pattern: str) -> bool:
    import pyarrow.compute as pc

    return bool(pc.all(pc.match_substring_regex(cells, pattern)).as_py())


def _one_by_one(cells: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Slow way for odd columns: it tells which cells are not numbers."""
    import pandas as pd

    parsed = np.full(len(cells), np.nan)
    bad = np.zeros(len(cells), dtype=bool)
    for i, cell in enumerate(cells):
        if cell is None or (pd.api.types.is_scalar(cell) and pd.isna(cell)):
            continue
        if isinstance(cell, str) and cell.strip().lower() in MISSING_WORDS:
            continue
        # Python would read True and 1_000 as numbers
        if isinstance(cell, (bool, np.bool_)) or (isinstance(cell, str) and "_" in cell):
            bad[i] = True
            continue
        try:
            parsed[i] = float(cell)
        except (TypeError, ValueError, OverflowError):
            bad[i] = True
    return parsed, bad


def too_long(values: pd.Series, parsed: np.ndarray) -> np.ndarray:
    """Mark whole numbers that float64 cannot tell from their neighbours: n booleans.

    Args:
        values: n cells.
        parsed: the n numbers that they were read as.
    """
    large = np.abs(parsed) >= EXACT
    if large.any():
        cells = values[large].astype(object)
        large[large] = [re.fullmatch(r"\s*[+-]?\d+\s*", str(cell)) is not None for cell in cells]
    return large


def hint(cell: object) -> str | None:
    """What to do about a cell that is no number but looks like one; None if it does not."""
    if not isinstance(cell, str):
        return None
    if LIMIT.match(cell):
        return "a limit is no measured value; write a number, or empty the cell"
    if WITH_UNIT.match(cell):
        return "leave unit and percent sign out of the cells"
    if re.match(rf"^\s*{NUMERAL}\s*$", cell) and "," in cell:
        return "is its comma a decimal point or between thousands? write it without comma"
    return None
