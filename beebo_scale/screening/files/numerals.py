"""Text to numbers: what people and programs write in a column of numbers, and what they write where there is none."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .quantities import Cell, Form, main_unit, one_with, parts_of, spelled

if TYPE_CHECKING:
    import pandas as pd

# What spreadsheets and programs write in a column of numbers where there is no number.
MISSING_WORDS = ("", "na", "n/a", "#n/a", "nan", "-nan", "none", "null", "<na>", "-", "--", "\u2013", "\u2014")
EXACT = 2.0**53  # whole numbers from here on have neighbours that float64 cannot tell apart

DECIMAL_COMMA = r"^[+-]?\d*,\d+([eE][+-]?\d+)?$"
GROUPED = r"^[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?$"  # 1,234 or 1,234,567.8
EITHER = r"^[+-]?[1-9]\d{0,2},\d{3}$"  # 1,234: one thousand, or one and a quarter


@dataclass(frozen=True)
class Numbers:
    """A column read as numbers.

    Attributes:
        values: n float64, NaN where the cell is missing or not a number.
        bad: n booleans, the cells that hold something else than a number in the column's unit.
        unit: what stands around the numbers, empty for nothing.
    """

    values: np.ndarray
    bad: np.ndarray
    unit: str = ""


def numbers(values: pd.Series, unit: str | None = "") -> Numbers:
    """Parse a column as numbers; commas are read where the column leaves no doubt what they are.

    Args:
        values: n cells.
        unit: what may stand around a number, beside nothing; None for whatever stands around most.
    """
    import pandas as pd
    import pyarrow as pa

    if pd.api.types.is_numeric_dtype(values.dtype) and not pd.api.types.is_complex_dtype(values.dtype):
        return _all_good(values.to_numpy(dtype=np.float64, na_value=np.nan))
    try:
        text = _trimmed(values)
    except (pa.ArrowException, TypeError, ValueError):
        if pd.api.types.infer_dtype(values, skipna=True) == "boolean":
            return _all_good(values.astype("boolean").to_numpy(dtype=np.float64, na_value=np.nan))
        return _cell_by_cell(values.astype(object).tolist(), unit)
    for written in (lambda cells: cells, _plainly):
        try:
            return _all_good(written(text).cast(pa.float64()).to_numpy(zero_copy_only=False))
        except pa.ArrowException:
            continue
    return _cell_by_cell(text.to_pylist(), unit)


def _all_good(values: np.ndarray) -> Numbers:
    return Numbers(values, np.zeros(len(values), dtype=bool))


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


def _cell_by_cell(cells: list[Any], unit: str | None) -> Numbers:
    """Slow way for odd columns: it tells which cells are not numbers."""
    import pandas as pd

    parsed = np.full(len(cells), np.nan)
    bad = np.zeros(len(cells), dtype=bool)
    counts = text_counts(cells)
    parts = {text: parts_of(text) for text in counts}
    if unit is None:
        plain = sum(not isinstance(cell, (str, bool, np.bool_)) and not _missing(cell) for cell in cells)
        main, known = main_unit(parts, counts, plain), _known(parts)
        good = {text: known[text] for text, cell in parts.items() if text in known and one_with(main, cell)}
        alone = not main
    else:
        main, known, alone = spelled(unit), _known(parts), True
        good = {t: known[t] for t, cell in parts.items() if t in known and (not cell.unit or one_with(main, cell))}
    for i, cell in enumerate(cells):
        if isinstance(cell, str):
            parsed[i] = good.get(cell, np.nan)
            bad[i] = cell not in good and cell in counts
        elif not _missing(cell):
            with suppress(TypeError, ValueError, OverflowError):
                # Python would read True as a number
                parsed[i] = np.nan if isinstance(cell, (bool, np.bool_)) or not alone else float(cell)
            bad[i] = np.isnan(parsed[i]) and not (pd.api.types.is_float(cell) and pd.isna(cell))
    around = {parts[text].unit for text in good if text in parts}
    return Numbers(parsed, bad, main if around - {""} else "")


def text_counts(cells: list[Any]) -> Counter[str]:
    """The texts that stand for something, each with the number of cells that hold it."""
    return Counter(cell for cell in cells if isinstance(cell, str) and cell.strip().lower() not in MISSING_WORDS)


def _missing(cell: Any) -> bool:
    import pandas as pd

    return cell is None or bool(pd.api.types.is_scalar(cell) and pd.isna(cell))


def _known(parts: dict[str, Cell]) -> dict[str, float]:
    """The numbers of those cells that hold one; commas are read where all of them leave no doubt."""
    import pyarrow as pa

    found: dict[str, float] = {}
    amounts = {text: cell for text, cell in parts.items() if cell.form in (Form.NUMBER, Form.AMOUNT)}
    plain = _plainly(pa.array([cell.core for cell in amounts.values()], type=pa.string())).to_pylist()
    for (text, cell), core in zip(amounts.items(), plain, strict=True):
        try:
            found[text] = float(f"{core}e{cell.power}" if cell.power else core)
        except ValueError:
            continue
    for text in parts.keys() - amounts.keys():
        try:
            found |= {} if "_" in text else {text: float(text)}  # inf
        except ValueError:
            continue
    return found


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
