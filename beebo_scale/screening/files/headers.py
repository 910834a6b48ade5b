"""Where a table begins in a file: the row with the names of its columns, and rows of units below it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from .numerals import MISSING_WORDS

HEAD = 64  # rows that are looked at
MOST_REMARKS = 10  # rows of units and the like below a header; PubChem writes up to five
WIDE = 500  # columns that are looked at
MOSTLY = 0.8  # of the cells of a column of numbers are numbers
WIDTH = 30  # characters shown of a cell
EMPTY, NUMBER, TEXT = range(3)

Row = Sequence[Any]


@dataclass(frozen=True)
class Head:
    """How a table begins.

    Attributes:
        row: which of the rows looked at is the header, from 0.
        line: its number in the file, from 1.
        names: its cells in one spelling.
        below: how many of the rows looked at are below it.
        remarks: rows directly below it that hold units, types and the like.
        notes: what to say of it, a line each, without the name of the file.
        has: how many of the wanted names it has, in capitals or not.
    """

    row: int
    line: int
    names: tuple[str, ...]
    below: int
    remarks: int
    notes: tuple[str, ...]
    has: int


def look(numbered: Sequence[tuple[int, Row]], wanted: Collection[str], line: str = "line") -> Head:
    """Find the header and what stands directly below it.

    Args:
        numbered: the first rows with their numbers in the file, at least one that holds something.
        wanted: names that the header should have; without any, it is the first row that holds something.
        line: what a row is called.
    """
    rows = [cells for _, cells in numbered]
    row, has = header_row(rows, wanted)
    data = rows[row + 1 :]
    exactly = frozenset(wanted)  # they may be many
    names = tuple(cell if cell in exactly else spelled(cell) for cell in rows[row])
    remarks, notes = count_remarks(data), []
    if above := _held(rows[:row]):
        notes.append(f"the header is {line} {numbered[row][0]}; what stands above it is left aside ({above})")
    if remarks:
        which = "row 1 below the header is" if remarks == 1 else f"rows 1 to {remarks} below the header are"
        held = _held(data[:remarks])
        notes.append(f"{which} left aside ({held}): text where the rows below hold numbers, such as units")
    return Head(row, numbered[row][0], names, len(data), remarks, tuple(notes), has)


def spelled(cell: Any) -> str:
    """A name without blanks around it, also those that nobody sees, and with single ones in it."""
    return "" if cell is None else " ".join(str(cell).replace("\u200b", "").replace("\ufeff", "").split())


def header_row(rows: Sequence[Row], wanted: Collection[str]) -> tuple[int, int]:
    """Which of the rows has most of the names, and how many; the first that holds something if none has any.

    Below that a row with numbers is none, and one with a single cell, such as a title, only if it is the only one.
    """
    first = next(i for i, cells in enumerate(rows) if any(_kind(cell) != EMPTY for cell in cells))
    names = {spelled(name).casefold() for name in wanted}
    found: list[tuple[int, int]] = []
    for i, cells in enumerate(rows):
        if i != first and any(_kind(cell) == NUMBER for cell in cells[:WIDE]):
            continue
        has = len(names & {spelled(cell).casefold() for cell in cells})
        if has:
            found.append((has, i))
    most = max((has for has, _ in found), default=0)
    best = [i for has, i in found if has == most]
    wide = [i for i in best if sum(_kind(cell) != EMPTY for cell in rows[i]) > 1]
    return next(iter(wide or best), first), most


def count_remarks(rows: Sequence[Row]) -> int:
    """How many rows at the beginning say something of the columns (units, types) rather than of an experiment.

    They hold text, or nothing, in every column that holds numbers below: in two such columns text, or in one and
    nothing in all others, of which one is filled below (a list of ids has none). No label of theirs comes again below.
    """
    kinds = [[_kind(cell) for cell in cells[:WIDE]] for cells in rows]
    for count in range(min(MOST_REMARKS, len(rows) - 1), 0, -1):
        columns = list(zip_longest(*kinds[count:], fillvalue=EMPTY))
        numeric = [_numeric(column) for column in columns]
        filled = [column.count(EMPTY) <= (1 - MOSTLY) * len(column) for column in columns]
        if all(_remark(kinds[i], numeric, filled) and not _again(rows[i], rows[count:], numeric) for i in range(count)):
            return count
    return 0


def _numeric(kinds: Sequence[int]) -> bool:
    """Whether a column holds numbers, but for a few words."""
    count = kinds.count(NUMBER)
    return count > 0 and count >= MOSTLY * (len(kinds) - kinds.count(EMPTY))


def _remark(kinds: Sequence[int], numeric: Sequence[bool], filled: Sequence[bool]) -> bool:
    """Whether a row may be a remark on the columns of numbers."""
    here = [kind for kind, own in zip(kinds, numeric, strict=False) if own]
    others = sum(kind != EMPTY for kind in kinds) - here.count(TEXT)
    lacks = any(kind == EMPTY and own for kind, own in zip(kinds, filled, strict=False))
    return NUMBER not in here and (here.count(TEXT) > 1 or (here.count(TEXT) == 1 and not others and lacks))


def _again(cells: Row, below: Sequence[Row], numeric: Sequence[bool]) -> bool:
    """Whether a label of a row comes again below it: then it is an experiment."""
    labels = [j for j, (cell, own) in enumerate(zip(cells, numeric, strict=False)) if not own and _kind(cell) == TEXT]
    return any(j < len(row) and row[j] == cells[j] for row in below for j in labels)


def _kind(cell: Any) -> int:
    """Whether a cell is empty, a number or text."""
    if cell is None:
        return EMPTY
    text = str(cell).strip().lower()
    if text in MISSING_WORDS:
        return EMPTY
    try:
        float(text.replace("\u2212", "-").replace(",", "."))
    except ValueError:
        return TEXT
    return NUMBER


def _held(rows: Sequence[Row], limit: int = 3) -> str:
    """What some rows hold, quoted."""
    cells = [str(cell).strip() for row in rows for cell in row if _kind(cell) != EMPTY]
    quoted = [repr(cell if len(cell) <= WIDTH else cell[:WIDTH] + "...") for cell in cells[:limit]]
    return ", ".join(quoted) + (f" and {len(cells) - limit} more" if len(cells) > limit else "")
