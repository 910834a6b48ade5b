"""Sheets of Excel workbooks (.xlsx, .xlsm). openpyxl is imported when first needed."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import InputError
from .limits import check_workbook, without_empty_cells
from .source import Ranges, Source, did_you_mean, listing, reading

if TYPE_CHECKING:
    import pandas as pd

EXCEL_SUFFIXES = (".xlsx", ".xlsm")
SHEET_NAME = re.compile(r"(?P<file>.*\.xls[xm])#(?P<sheet>.+)", re.IGNORECASE | re.DOTALL)
NOT_AVAILABLE = "#N/A"  # of the error values, the one that says that there is none


def open_excel(path: Path, name: str, sheet: str | None) -> Source:
    """Look at a sheet: its first row that holds something is the header.

    Cells are read as they were last computed. Numbers stored as text count as numbers, as in a CSV file.

    Args:
        path: of the workbook.
        name: of the file as given, without the sheet.
        sheet: its name; None for the first.

    Raises:
        InputError: no such sheet, an empty one, merged cells, error values, formulas that were never computed, or
            openpyxl is not installed.
    """
    with reading(name):
        title, rows = _cells(path, name, sheet)
    source = f"{name}#{title}"
    if not rows:
        raise InputError(f"{source} is an empty sheet; name another one as {name}#SHEET_NAME")
    width = max((i + 1 for row in rows for i, cell in enumerate(row) if cell is not None), default=0)
    columns = tuple("" if cell is None else str(cell) for cell in rows[0][:width])

    @cache
    def frame() -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame({i: pd.Series([row[i] for row in rows[1:]], dtype=object) for i in range(width)})

    def load(wanted: Sequence[str]) -> pd.DataFrame:
        return frame()[[columns.index(column) for column in wanted]].set_axis(list(wanted), axis=1)

    def stream(wanted: Sequence[str], ranges: Ranges | None) -> Iterator[pd.DataFrame]:
        for start, stop in [(0, len(rows) - 1)] if ranges is None else ranges:
            yield load(wanted).iloc[start:stop].reset_index(drop=True)

    return Source(source, columns, typed=False, load=load, stream=stream, rows=len(rows) - 1)


def _cells(path: Path, name: str, title: str | None) -> tuple[str, list[list[Any]]]:
    """The title of a sheet and its rows from the header on, without empty ones at the end."""
    try:
        book = _workbook(path, data_only=True)
    except ImportError:
        raise InputError(
            f"{name}: Excel files need openpyxl; install it by: pip install 'beebo-scale[excel]'"
        ) from None
    except KeyError as error:
        raise InputError(f"{name} is no workbook ({error.args[0]}); save it as .xlsx again") from None
    titles = [sheet.title for sheet in book.worksheets]
    title = titles[0] if title is None else title
    if title not in titles:
        has = listing(titles)
        raise InputError(f"{name} has no sheet {title!r}{did_you_mean(title, titles)}; its sheets are {has}")
    sheet = book[title]
    _check_merged(sheet, f"{name}#{title}")
    rows = [[_value(cell, f"{name}#{title}") for cell in row] for row in sheet.iter_rows()]
    full = [i for i, row in enumerate(rows) if any(cell is not None for cell in row)]
    if any(cell is None for i in full for cell in rows[i]):
        _check_formulas(path, sheet, f"{name}#{title}")
    return title, rows[full[0] : full[-1] + 1] if full else []


def _workbook(path: Path, **options: Any) -> Any:
    from openpyxl import load_workbook

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about styles and the like, which are not read here
        check_workbook(path)
        with path.open("rb") as file:  # openpyxl leaves a file that it cannot read open
            book = load_workbook(file, **options)
    for sheet in book.worksheets:
        without_empty_cells(sheet, path)
    return book


def _check_merged(sheet: Any, source: str) -> None:
    """Refuse merged cells, which hold one value for several places; a title over the table is none of them."""
    header = next((row[0].row for row in sheet.iter_rows() if any(cell.value is not None for cell in row)), 1)
    for merged in sheet.merged_cells.ranges:
        if merged.max_row >= header:
            where = "of the header " if merged.min_row == header else ""
            raise InputError(
                f"{source}: the cells {merged.coord} {where}are merged; unmerge them and fill in each one of them"
            )


def _value(cell: Any, source: str) -> Any:
    """What a cell holds; whole numbers as int, so that labels are the same as in a CSV file; errors are refused."""
    value = cell.value
    if cell.data_type == "e":
        if value == NOT_AVAILABLE:
            return None
        raise InputError(f"{source}: the cell {cell.coordinate} holds the error {value}; correct or empty it")
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, str) and not value.strip():
        return None
    return value


def _check_formulas(path: Path, values: Any, source: str) -> None:
    """Refuse formulas without a value: the program that wrote them did not compute them."""
    for row in _workbook(path)[values.title].iter_rows():
        for cell in row:
            if cell.data_type == "f" and values[cell.coordinate].value is None:
                raise InputError(
                    f"{source}: the cell {cell.coordinate} holds a formula that was never computed; open and save the "
                    "file in a spreadsheet program, or paste the values"
                )
