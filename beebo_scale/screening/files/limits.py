"""Files that are small and unpack to more than any table holds: refused before they fill the memory."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from xml.parsers import expat

from ...errors import InputError
from ...memory import half_of_free

UNPACKED, RATIO = 1 << 28, 100  # bytes, and times the packed ones; a table that is packed better has a way out
LONGEST_LINE = 1 << 24  # bytes; such a header, or row, is no table's
AS_OBJECTS = 8  # bytes of cells as Python holds them, for each byte of their text
ELEMENT, TEXT = 400, 4  # bytes that a workbook takes for each element and each byte of its parts
AREA = re.compile(r"\$?([A-Z]{1,3})\$?(\d+):\$?([A-Z]{1,3})\$?(\d+)")
FILLED = ("mergeCell", "hyperlink")  # elements that stand for all cells of an area
SPARSE, SMALL = 100, 2_000_000  # cells of a sheet for each one that holds something; as many cells always pass


def check_unpacked(name: str, packed: int, unpacked: int) -> None:
    """Refuse a file that unpacks to more than a table does.

    Raises:
        InputError: it does so far.
    """
    if unpacked > max(UNPACKED, RATIO * packed):
        raise InputError(
            f"{name} has {packed:,} bytes and unpacks to more than {unpacked >> 20:,} MB, as no table does; if it is "
            "right, unpack it first"
        )


def held(batches: Iterable[Any], name: str) -> Iterator[Any]:
    """Arrow tables or batches, as long as the memory can hold all of them.

    Raises:
        InputError: it cannot.
    """
    limit, total = half_of_free() // AS_OBJECTS, 0
    for batch in batches:
        total += max(batch.nbytes, batch.num_rows * batch.num_columns)  # equal cells may take none
        if total > limit:
            raise InputError(
                f"{name}: the cells that are needed at once take more than {limit >> 20:,} MB, too much for the memory "
                "that is free; name fewer columns by --features, or leave out rows"
            )
        yield batch


def check_workbook(path: Path) -> None:
    """Refuse a workbook whose cells would not fit into the memory.

    Raises:
        InputError: too many cells.
        OSError, zipfile.BadZipFile: it cannot be read.
    """
    left = half_of_free()
    with zipfile.ZipFile(path) as book:
        size = sum(part.file_size for part in book.infolist())
        check_unpacked(str(path), path.stat().st_size, 2 * size)  # an element has fewer bytes than a row of text
        left -= TEXT * size
        for part in book.infolist():
            if left > 0 and part.filename.endswith(".xml"):
                with book.open(part) as file:
                    left -= ELEMENT * _elements(file, left // ELEMENT)
    if left <= 0:
        raise InputError(f"{path} holds more cells than the memory that is free; save the sheet as CSV, or as Parquet")


def _elements(file: Any, limit: int) -> int:
    """Number of elements of an XML file, cells that one stands for counted; it ends beyond a limit."""
    count, parser = 0, expat.ParserCreate()

    def start(element: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if element.rpartition(":")[2] in FILLED and (area := AREA.fullmatch(attributes.get("ref", ""))):
            count += abs(_number(area[3]) - _number(area[1]) + 1) * abs(int(area[4]) - int(area[2]) + 1)

    parser.StartElementHandler = start
    try:
        while count <= limit and (piece := file.read(1 << 20)):
            parser.Parse(piece)
    except expat.ExpatError:  # no XML: whoever needs it says so
        pass
    return count


def _number(column: str) -> int:
    """A -> 1, AA -> 27."""
    number = 0
    for letter in column:
        number = 26 * number + ord(letter) - ord("A") + 1
    return number


def without_empty_cells(sheet: Any, path: Path) -> None:
    """Forget cells of a sheet of openpyxl that hold nothing but a format, however far out they stand.

    Raises:
        InputError: a cell that holds something stands so far out that the sheet is next to empty.
    """
    cells = {place: cell for place, cell in sheet._cells.items() if cell.value is not None and str(cell.value).strip()}
    sheet._cells = cells
    area = sheet.max_row * sheet.max_column
    if area > max(SMALL, SPARSE * len(cells)):
        far = max(cells, key=lambda place: max(place[0] / 2**20, place[1] / 2**14))
        raise InputError(
            f"{path}#{sheet.title}: the cell {cells[far].coordinate} stands far away from the others; empty it, or "
            "delete its row and column"
        )
