"""Grids of wells as plate readers export them: rows A, B, ... under columns 1, 2, ..., anywhere in a file."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..files.delimited import opened_text
from ..files.excel import EXCEL_SUFFIXES, sheet_rows
from ..files.opening import split_sheet
from .wells import SHAPES, well_name

DELIMITERS = "\t;,"  # in a file with decimal commas, the others come first


@dataclass(frozen=True)
class Grid:
    """One plate of a file.

    Attributes:
        titles: cells above the grid, the nearest first; one of them may name the plate.
        values: well -> its cell as text, row by row; empty ones too.
        row: of its first line in the file, from 1.
    """

    titles: tuple[str, ...]
    values: dict[str, str]
    row: int


def read_grids(path: str | os.PathLike[str]) -> list[Grid]:
    """All grids of a file, CSV, TSV or a sheet of a workbook, in order; none if it has another form.

    Raises:
        InputError: the file cannot be read.
    """
    file, sheet = split_sheet(path)
    if not file.is_file():  # which is said where tables are opened
        return []
    if file.name.lower().endswith(EXCEL_SUFFIXES):
        return grids(sheet_rows(file, str(file), sheet))
    if not file.name.lower().endswith((".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".csv.xz", ".tsv.xz")):
        return []
    with opened_text(file, str(path)) as raw, io.TextIOWrapper(io.BufferedReader(raw), "utf-8-sig", newline="") as text:
        lines = text.read()
    for delimiter in DELIMITERS:
        found = grids(list(csv.reader(io.StringIO(lines), delimiter=delimiter)))
        if found:
            return found
    return []


def grids(rows: Sequence[Sequence[Any]]) -> list[Grid]:
    """All grids among rows of cells.

    A grid is a row with 1 to C side by side and, under it, R rows whose cells left of the 1 are A, B, ...; R x C is
    one of the plates that there are.
    """
    cells = [["" if cell is None else str(cell).strip() for cell in row] for row in rows]
    found: list[Grid] = []
    free = 0  # first row that no grid has taken
    for i, row in enumerate(cells):
        if i < free:
            continue
        for left, (height, width) in _starts(row):
            names = [_cell(cells, i + 1 + r, left - 1) for r in range(height)]
            if left and [name.upper() for name in names] == [well_name(r, 0)[:-2] for r in range(height)]:
                values = {
                    well_name(r, c): _cell(cells, i + 1 + r, left + c) for r in range(height) for c in range(width)
                }
                above = [cell for line in reversed(cells[free:i]) for cell in line if cell]
                found.append(Grid((*above, *filter(None, row[:left])), values, i + 1))
                free = i + 1 + height
                break
    return found


def _starts(row: Sequence[str]) -> list[tuple[int, tuple[int, int]]]:
    """Where 1 to C stand side by side, C as large as it gets, and the plates that have C columns."""
    starts = []
    for left, cell in enumerate(row):
        if _whole(cell) != 1:
            continue
        count = next((c for c in range(1, len(row) - left) if _whole(row[left + c]) != c + 1), len(row) - left)
        starts += [(left, shape) for shape in reversed(SHAPES.values()) if shape[1] == count]
    return starts


def _whole(cell: str) -> int | None:
    """1 of '1' and of '1.0', as workbooks have it."""
    match = re.fullmatch(r"0*(\d+)(?:\.0*)?", cell)
    return int(match[1]) if match else None


def _cell(cells: Sequence[Sequence[str]], row: int, column: int) -> str:
    return cells[row][column] if row < len(cells) and 0 <= column < len(cells[row]) else ""
