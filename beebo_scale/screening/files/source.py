"""A readable table, whatever holds it."""

from __future__ import annotations

import csv
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import ParseError

import numpy as np

from ...errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

DAMAGED = (zlib.error, lzma.LZMAError, zipfile.BadZipFile, csv.Error, ParseError)
Ranges = Sequence[tuple[int, int]]  # rows from, up to but without; in order and apart


@dataclass(frozen=True)
class Source:
    """A readable table: its columns are known, its cells are loaded on demand.

    Attributes:
        name: what messages call it.
        columns: the names in its header, in order.
        typed: whether the cells have types (Parquet, DataFrame) or are all text (CSV).
        load: returns the named columns as a frame with a RangeIndex, rows in file order.
        stream: yields the named columns of some ranges of rows, one frame for each range, the file never whole in
            memory; None instead of ranges yields all rows, in pieces as they come.
        rows: number of rows, None where only reading them tells.
        types: column -> 'number', 'whole number', 'text' or another word for its type; empty where all is text.
        own_numbers: number of each row, where they are not in order.
        before: rows between the header and the first one, left aside; rows are numbered with these.
        notes: what was found on the way to the first row, a line each.
    """

    name: str
    columns: tuple[str, ...]
    typed: bool
    load: Callable[[Sequence[str]], pd.DataFrame]
    stream: Callable[[Sequence[str], Ranges | None], Iterator[pd.DataFrame]]
    rows: int | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    before: int = 0
    own_numbers: NDArray[np.int64] | None = None
    notes: tuple[str, ...] = ()

    def numbers(self, rows: NDArray[np.int64] | int) -> NDArray[np.int64]:
        """Numbers below the header, from 1, of some rows, or of the first so many."""
        places = np.arange(rows) if isinstance(rows, int) else rows
        return self.before + 1 + places if self.own_numbers is None else self.own_numbers[places]

    def without(self, count: int, notes: Sequence[str]) -> Source:
        """The same without its first rows, and with something to say."""
        told = tuple(f"{self.name}: {note}" for note in notes)
        if not count:
            return replace(self, notes=told)

        def load(wanted: Sequence[str]) -> pd.DataFrame:
            return self.load(wanted).iloc[count:].reset_index(drop=True)

        def stream(wanted: Sequence[str], ranges: Ranges | None) -> Iterator[pd.DataFrame]:
            if ranges is not None:
                yield from self.stream(wanted, [(start + count, stop + count) for start, stop in ranges])
                return
            left = count
            for cells in self.stream(wanted, None):
                gone, left = min(left, len(cells)), max(0, left - len(cells))
                yield cells.iloc[gone:].reset_index(drop=True) if gone else cells

        rows = None if self.rows is None else self.rows - count
        return replace(self, load=load, stream=stream, rows=rows, before=count, notes=told)

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self.columns)

    def require(self, column: object, role: str) -> str:
        """Return the column's name if the source has it.

        Raises:
            InputError: the source has no such column.
        """
        if isinstance(column, str) and column in self._names:
            return column
        has = listing(self.columns)
        if len(self.columns) == 1 and any(mark in has for mark in (";", "\\t", ",", "|", ":")):
            has += " (is another character between its columns?)"
        if self.columns[0].startswith("#"):
            has += " (is its first line a comment? remove it)"
        raise InputError(
            f"{self.name} has no {role} column {column!r}{did_you_mean(column, self.columns)}; its columns are {has}"
        )


def listing(names: Iterable[object], limit: int = 8) -> str:
    """Quote the first names of a list, and count the others."""
    names = list(names)
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(repr(name) for name in names[:limit]) + more


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return ' (did you mean ...?)' for the known name nearest to a wrong one, or nothing."""
    folded: dict[str, str] = {}
    for candidate in known:
        folded.setdefault(candidate.strip().casefold(), candidate)
    near = get_close_matches(str(name).strip().casefold(), folded, n=1)
    return f" (did you mean {folded[near[0]]!r}?)" if near else ""


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turn what goes wrong inside a file into one line about the file."""
    import pyarrow as pa

    try:
        yield
    except UnicodeDecodeError:
        raise InputError(f"{name} is not UTF-8 text; save it as UTF-8") from None
    except (OSError, EOFError, *DAMAGED, pa.ArrowException) as error:
        why = " ".join(str(error).split())
        if "invalid UTF8" in why:
            raise InputError(f"{name} is not UTF-8 text; save it as UTF-8") from None
        raise InputError(f"{name} cannot be read ({why}); is it complete and of the type its name says?") from None


def cut(batches: Iterable[tuple[int, Any]], ranges: Ranges | None) -> Iterator[Any]:
    """One Arrow table for each range, out of batches in order with the numbers of their first rows."""
    import pyarrow as pa

    if ranges is None:
        yield from (pa.Table.from_batches([batch]) for _, batch in batches)
        return
    left, held = list(reversed(ranges)), []
    for first, batch in batches:
        while left and left[-1][0] < first + batch.num_rows:
            start, stop = left[-1]
            a = max(start, first)
            held.append(batch.slice(a - first, min(stop - a, batch.num_rows)))
            if stop > first + batch.num_rows:
                break
            yield pa.Table.from_batches(held)
            held = []
            left.pop()
        if not left:
            return
