"""Sheets of Excel workbooks (.xlsx, .xlsm). openpyxl is imported when first needed."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterator, Sequence
from datetime import date, time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import InputError
from .headers import HEAD, look
from .limits import check_workbook, without_empty_cells
from .sheet_cells import SheetCell
from .source import Ranges, Source, did_you_mean, listing, reading

if TYPE_CHECKING:
    import pandas as pd

EXCEL_SUFFIXES = (".xlsx", ".xlsm")
SHEET_NAME = re.compile(r"(?P<file>.*\.xls[xm])#(?P<sheet>.+)", re.IGNORECASE | re.DOTALL)
REPAIR = "correct or empty it"
LABEL = "if a spreadsheet made it of a label such as 1-2, give the column the format Text and write the label again"
NOT_AVAILABLE = "#N/A"  # of the error values, the one that says that there is none


def open_excel(path: Path, name: str, sheet: str | None, wanted: Collection[str] = ()) -> Source:
    """Look at a sheet.

    Cells are read as they were last computed. Numbers stored as text count as numbers, as in a CSV file.

    Args:
        path: of the workbook.
        name: of the file as given, without the sheet.
        sheet: its name; None for the first that is not hidden.
        wanted: names that the header should have; without any, it is the first row that holds something.

    Raises:
        InputError: no such sheet, an empty one, merged cells, formulas that were never computed, or openpyxl is not
            installed.
    """
    with reading(name):
        found = _sheet(path, name, sheet)
        source = f"{name}#{found.title}"
        rows = _rows(found)
        full = [i for i, row in enumerate(rows) if any(cell is not None for cell in row)]
        if not full:
            raise InputError(f"{source} is an empty sheet; name another one as {name}#SHEET_NAME")
        head = look([(i + 1, rows[i]) for i in full[:HEAD]], wanted, "row")
        _check_merged(found, source, head.line)
        if any(cell is None for i in full for cell in rows[i]):
            _check_formulas(path, found, source)
        data = rows[head.line : full[-1] + 1]
        notes = [*head.notes, *_hidden(found, head.line, len(data)), *_percentages(found, data, head.line, head.names)]
    width = max((i + 1 for row in [rows[head.line - 1], *data] for i, cell in enumerate(row) if cell is not None))
    columns = head.names[:width]
    _mark_dates(data, width, head.line + 1)

    @cache
    def frame() -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame({i: pd.Series([row[i] for row in data], dtype=object) for i in range(width)})

    def load(wanted: Sequence[str]) -> pd.DataFrame:
        return frame()[[columns.index(column) for column in wanted]].set_axis(list(wanted), axis=1)

    def stream(wanted: Sequence[str], ranges: Ranges | None) -> Iterator[pd.DataFrame]:
        for start, stop in [(0, len(data))] if ranges is None else ranges:
            yield load(wanted).iloc[start:stop].reset_index(drop=True)

    opened = Source(source, columns, typed=False, load=load, stream=stream, rows=len(data))
    return opened.without(head.remarks, notes)


def sheet_rows(path: Path, name: str, sheet: str | None) -> list[list[Any]]:
    """All cells of a sheet, row by row, wherever a table begins.

    Raises:
        InputError: no such sheet, or openpyxl is not installed.
    """
    with reading(name):
        return _rows(_sheet(path, name, sheet))


def _rows(sheet: Any) -> list[list[Any]]:
    return [[_value(cell) for cell in row] for row in sheet.iter_rows()]


def _sheet(path: Path, name: str, title: str | None) -> Any:
    """A sheet of a workbook with the values that were computed last."""
    try:
        book = _workbook(path, data_only=True)
    except ImportError:
        raise InputError(
            f"{name}: Excel files need openpyxl; install it by: pip install 'beebo-scale[excel]'"
        ) from None
    except KeyError as error:
        raise InputError(f"{name} is no workbook ({error.args[0]}); save it as .xlsx again") from None
    titles = [sheet.title for sheet in book.worksheets]
    shown = [sheet.title for sheet in book.worksheets if sheet.sheet_state == "visible"]
    title = (shown or titles)[0] if title is None else title
    if title not in titles:
        has = listing(titles)
        raise InputError(f"{name} has no sheet {title!r}{did_you_mean(title, titles)}; its sheets are {has}")
    return book[title]


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


def _check_merged(sheet: Any, source: str, header: int) -> None:
    """Refuse merged cells, which hold one value for several places; a title above the header is none of them."""
    for merged in sheet.merged_cells.ranges:
        if merged.max_row >= header:
            where = "of the header " if merged.min_row <= header else ""
            raise InputError(
                f"{source}: the cells {merged.coord} {where}are merged; unmerge them and fill in each one of them"
            )


def _value(cell: Any) -> Any:
    """What a cell holds, as a CSV file of the sheet would have it; an error value as a `SheetCell`."""
    value = cell.value
    if cell.data_type == "e":
        return None if value == NOT_AVAILABLE else SheetCell.of(value, cell.coordinate, f"the error {value}", REPAIR)
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, str) and not value.strip():
        return None
    return value


def _mark_dates(rows: list[list[Any]], width: int, first: int) -> None:
    """Turn dates in columns that hold other things, too, into a `SheetCell`: a spreadsheet made them of labels."""
    from openpyxl.utils import get_column_letter

    for j in range(width):
        days = [i for i, row in enumerate(rows) if isinstance(row[j], (date, time))]
        if len(days) == sum(row[j] is not None for row in rows):
            continue
        for i in days:
            text, coordinate = str(rows[i][j]).removesuffix(" 00:00:00"), f"{get_column_letter(j + 1)}{first + i}"
            rows[i][j] = SheetCell.of(text, coordinate, f"the date {text} among other cells", LABEL)


def _hidden(sheet: Any, header: int, count: int) -> list[str]:
    """Say which rows below the header (a row number) somebody hid, with a filter or by hand."""
    hidden = sorted(i - header for i, row in sheet.row_dimensions.items() if row.hidden and 0 < i - header <= count)
    if not hidden:
        return []
    are = f"row {hidden[0]} below the header is" if len(hidden) == 1 else f"{len(hidden)} rows are"
    where = "" if len(hidden) == 1 else f" (rows {hidden[0]} to {hidden[-1]} below the header)"
    return [f"{are} hidden in the sheet and read like all others{where}; delete what should not count"]


def _percentages(sheet: Any, rows: list[list[Any]], header: int, names: Sequence[str]) -> list[str]:
    """Say which columns show percentages, so that a cell shown as 19.4% holds 0.194."""
    told = []
    for j, name in enumerate(names):
        numbers = [i for i, row in enumerate(rows) if isinstance(row[j], (int, float))]
        cells = {i: sheet.cell(header + 1 + i, j + 1) for i in numbers}
        marked = [i for i, cell in cells.items() if cell.has_style and "%" in cell.number_format]
        if marked:
            value, coordinate = rows[marked[0]][j], cells[marked[0]].coordinate
            told.append(f"column {name!r} is shown in percent and read as stored: {coordinate} is {value:g}")
            for i in marked if len(marked) < len(numbers) else ():
                what = f"{rows[i][j]:g} shown as a percentage, unlike other cells of its column,"
                rows[i][j] = SheetCell.of(rows[i][j], cells[i].coordinate, what, "write all of them alike")
    return told


def _check_formulas(path: Path, values: Any, source: str) -> None:
    """Refuse formulas without a value: the program that wrote them did not compute them."""
    for row in _workbook(path)[values.title].iter_rows():
        for cell in row:
            if cell.data_type == "f" and values[cell.coordinate].value is None:
                raise InputError(
                    f"{source}: the cell {cell.coordinate} holds a formula that was never computed; open and save the "
                    "file in a spreadsheet program, or paste the values"
                )
