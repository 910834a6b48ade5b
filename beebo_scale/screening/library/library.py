"""Candidate libraries that are never whole in memory.

A library is cut into chunks by row number, never by the number of workers, and a chunk never reaches over the end of a
file. Rows are numbered 0, 1, ... through all files of a library; messages name the file and the row in it, from 1.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ...errors import InputError
from ..files.opening import Source, open_parts
from ..invalid import Fault, all_invalid, find_faults
from ..places import SHEET, rows_text, shown
from ..same import id_texts
from ..table import Table, wanted_kinds
from .parts import FilePart, Part, Survey, TablePart, look_up, survey

if TYPE_CHECKING:
    import pandas as pd

CHUNK_ROWS = 65_536  # rows of a chunk: a few megabytes to read, a second or two to score
CHUNK_BYTES = 1 << 26  # an encoded chunk is smaller
IDS_TOGETHER = 1000  # ids that may be repeated, looked at together


@dataclass(frozen=True)
class _Chunk:
    """Rows start, ..., stop - 1 of a part, whose row 0 is row `first` of the library."""

    part: int
    start: int
    stop: int
    first: int


@dataclass(frozen=True, eq=False)
class Library:
    """Candidates in files, a frame or a table, read chunk by chunk.

    Attributes:
        source: the name of the file or folder as given, or 'table'.
        kinds: feature column -> kind, in order.
        id: name of the id column; it may also be a feature.
        labels: other columns that chunks bring along as text, after the features.
        parts: the files, in order.
        chunk_rows: rows of a chunk.
        invalid: rows of the files that are left out, as if the files did not have them.
        sought: the rows whose ids were sought when the library was opened, checked; None without.
        near: ids that differ from those sought in capitals alone.
        notes: what a user should know of how the files were read, a line each.
    """

    source: str
    kinds: dict[str, str]
    id: str | None
    labels: tuple[str, ...]
    parts: tuple[Part, ...]
    chunk_rows: int = CHUNK_ROWS
    invalid: tuple[Fault, ...] = ()
    sought: Table | None = None
    near: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return sum(part.rows for part in self.parts)

    @property
    def count(self) -> int:
        """Number of chunks."""
        return len(self._cuts)

    @property
    def columns(self) -> list[str]:
        """Names of all columns that are read."""
        return list(dict.fromkeys([*([] if self.id is None else [self.id]), *self.kinds, *self.labels]))

    def bounded(self, width: int) -> Library:
        """The library in chunks that take no more than `CHUNK_BYTES` when encoded in `width` columns."""
        return replace(self, chunk_rows=min(self.chunk_rows, max(1024, CHUNK_BYTES // (8 * width))))

    def first_row(self, chunk: int) -> int:
        """Number of a chunk's first row in the library."""
        cut = self._cuts[chunk]
        return cut.first + cut.start

    def chunks(self, wanted: Sequence[int] | None = None) -> Iterator[tuple[int, Table]]:
        """Checked rows of some chunks, in order, one chunk in memory at a time.

        Args:
            wanted: numbers of the chunks, rising; all if None.

        Raises:
            InputError: a cell is not usable; the message names the file and the row in it.
        """
        cuts = self._cuts
        for chunk, raw in self._raw(self.columns, range(len(cuts)) if wanted is None else wanted):
            cut = cuts[chunk]
            yield chunk, self.parts[cut.part].table(raw, np.arange(cut.start, cut.stop))

    def take(self, rows: Sequence[int] | np.ndarray) -> Table:
        """Rows by number, in the order given; only their chunks are read, one at a time."""
        import pandas as pd

        wanted, back = np.unique(np.asarray(rows, dtype=np.int64), return_inverse=True)
        picked = self._picked(self.columns, wanted)
        frames = [self.parts[part].table(raw, numbers).frame for part, raw, numbers in picked]
        frame = pd.concat(frames, ignore_index=True).iloc[back].reset_index(drop=True)
        return Table(frame, self.kinds, self.id, self.source)

    def named(self, ids: Collection[str]) -> dict[str, Table]:
        """The rows of some ids (in the spelling of `id_texts`), one each; ids that it does not have are left out.

        Raises:
            ValueError: the library was opened without an id column.
        """
        if self.id is None:
            raise ValueError("the library was opened without an id column")
        wanted = frozenset(ids)
        tables = (table for _, table in self.chunks()) if self.sought is None else [self.sought]
        found: dict[str, Table] = {}
        for table in tables:
            names = id_texts(table.frame[self.id])
            hits = np.flatnonzero(np.isin(names, list(wanted)))
            found |= {names[hit]: table.take(hits[i : i + 1]) for i, hit in enumerate(hits)}
        return found

    def place(self, row: int) -> tuple[str, int]:
        """The file of a row and its number there, from 1."""
        for part in self.parts:
            if row < part.rows:
                return part.name, part.number(row)
            row -= part.rows
        raise IndexError("the library has no such row")

    @cached_property
    def _cuts(self) -> list[_Chunk]:
        cuts, first = [], 0
        for number, part in enumerate(self.parts):
            for start in range(0, part.rows, self.chunk_rows):
                cuts.append(_Chunk(number, start, min(start + self.chunk_rows, part.rows), first))
            first += part.rows
        return cuts

    def _raw(self, columns: Sequence[str], wanted: Sequence[int]) -> Iterator[tuple[int, pd.DataFrame]]:
        """Cells of some chunks as they stand, file by file."""
        cuts = self._cuts
        for number, part in enumerate(self.parts):
            here = [chunk for chunk in wanted if cuts[chunk].part == number]
            if here:
                ranges = [(cuts[chunk].start, cuts[chunk].stop) for chunk in here]
                yield from zip(here, part.raw(columns, ranges), strict=True)

    def _picked(self, columns: Sequence[str], rows: np.ndarray) -> Iterator[tuple[int, pd.DataFrame, np.ndarray]]:
        """Cells of some rows (rising), chunk by chunk: the part, the cells, and the row numbers in the part."""
        cuts = self._cuts
        home = np.searchsorted([cut.first + cut.start for cut in cuts], rows, side="right") - 1
        for chunk, raw in self._raw(columns, np.unique(home).tolist()):
            cut = cuts[chunk]
            numbers = rows[slice(*np.searchsorted(home, [chunk, chunk + 1]))] - cut.first
            yield cut.part, raw.iloc[numbers - cut.start].reset_index(drop=True), numbers


def open_library(
    source: str | os.PathLike[str] | pd.DataFrame | Table | Library,
    kinds: Mapping[str, str],
    id: str | None = None,
    labels: Sequence[str] = (),
    *,
    chunk_rows: int = CHUNK_ROWS,
    lengths: Mapping[str, int] | None = None,
    sought: Collection[str] = (),
) -> Library:
    """Open candidates without reading them, but for one pass over the ids.

    That pass keeps 8 bytes for each row, for as long as it lasts, and twice that to sort them; ids with the same hash
    are looked at again, so that a collision of hashes is no error. CSV files need the pass to count their
    rows, whether they have ids or not.

    Args:
        source: a CSV, TSV (also .gz, .xz), Excel or Parquet file, a folder of Parquet files (taken by name), a
            DataFrame, a table from `read_library`, or a library, which is taken as it is.
        kinds: feature column -> kind, as in the measured table.
        id: column that names the rows; it may also be a feature.
        labels: other columns to bring along as text, such as the group of each row.
        chunk_rows: rows of a chunk.
        lengths: given, rows with a feature that cannot be read are left out, which takes one more pass over all
            features; sequence columns have these numbers of letters. None: such rows are refused when they are read.
        sought: ids, in the spelling of `id_texts`, whose rows are brought along.

    Raises:
        InputError: a file or a column is not usable, files of a folder do not go together, ids are missing or repeat.
    """
    if isinstance(source, Library):
        return source
    if isinstance(source, Table):
        missing = [label for label in labels if label not in source.frame]
        if missing:
            raise InputError(f"{source.source}: the table was read without the column {missing[0]!r}; give the file")
        return _of_table(source, tuple(labels), chunk_rows, lengths, sought)
    files = open_parts(source, [*([] if id is None else [id]), *kinds, *labels])
    used = {} if id is None else {"id": files[0].require(id, "id")}
    wanted = {name: str(kind) for name, kind in wanted_kinds(files[0], kinds, used).items()}
    for label in labels:
        files[0].require(label, "group")
    _check_types(files, wanted, [*used.values(), *labels])
    surveys = [survey(file, wanted, id, lengths, frozenset(sought)) for file in files]
    parts = [
        FilePart(file, seen.rows, wanted, id, tuple(labels), seen.bad)
        for file, seen in zip(files, surveys, strict=True)
    ]
    faults = tuple(fault for seen in surveys for fault in seen.faults)
    name = str(source) if isinstance(source, (str, os.PathLike)) else files[0].name
    notes = tuple(note for file in files for note in file.notes)
    library = Library(name, wanted, id, tuple(labels), tuple(parts), chunk_rows, faults, notes=notes)
    if not len(library):
        if faults:
            raise all_invalid(name, faults)
        raise InputError(f"{name} has a header but no rows; a library needs at least one candidate")
    if id is not None:
        _check_repeated(library, np.concatenate([seen.hashes for seen in surveys]))
    if not sought or id is None:
        return library
    near = tuple(name for seen in surveys for name in seen.near)
    return replace(library, sought=_sought(library, surveys), near=near)


def _sought(library: Library, surveys: Sequence[Survey]) -> Table:
    """The rows that were sought by their ids, checked as all rows are."""
    import pandas as pd

    bare = [replace(part, labels=()) for part in library.parts if isinstance(part, FilePart)]
    found = [
        part.table(seen.sought[1], seen.sought[0]).frame
        for part, seen in zip(bare, surveys, strict=True)
        if seen.sought is not None and len(seen.sought[0])
    ]
    frame = pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=library.columns)
    return Table(frame, library.kinds, library.id, library.source)


def _of_table(
    table: Table,
    labels: tuple[str, ...],
    chunk_rows: int,
    lengths: Mapping[str, int] | None,
    sought: Collection[str],
) -> Library:
    """A library of rows in memory."""
    faults: list[Fault] = []
    if lengths is not None:
        bad, faults = find_faults(table.frame, table.kinds, table.source, np.arange(1, len(table) + 1), lengths)
        if bad.all():
            raise all_invalid(table.source, faults)
        table = table.take(~bad)
    invalid = (*table.invalid, *faults)
    library = Library(table.source, table.kinds, table.id, labels, (TablePart(table),), chunk_rows, invalid)
    if not sought or table.id is None:
        return library
    hits, near = look_up(table.frame[table.id], sought)
    return replace(library, sought=table.take(hits), near=tuple(near))


def _check_types(files: Sequence[Source], kinds: Mapping[str, str], others: Sequence[str]) -> None:
    """Refuse files that hold other things in a column than the first does."""
    for file in files[1:]:
        for column in [*kinds, *others]:
            first, here = files[0].types.get(column, ""), file.types.get(column, "")
            if kinds.get(column) == "continuous" and column not in others:  # 1 and 1.0 are the same number
                first, here = first.replace("whole ", ""), here.replace("whole ", "")
            if first != here and "null" not in (first, here):
                raise InputError(
                    f"{file.name}: column {column!r} holds {here}, but {first} in {files[0].name}; "
                    "write all files of a folder with the same types"
                )


def _check_repeated(library: Library, hashes: np.ndarray) -> None:
    """Refuse ids that come twice; those with the same hash are read again and compared."""
    ranked = np.sort(hashes)
    suspects = np.unique(ranked[1:][ranked[1:] == ranked[:-1]])
    del ranked
    for start in range(0, len(suspects), IDS_TOGETHER):
        rows = np.flatnonzero(np.isin(hashes, suspects[start : start + IDS_TOGETHER]))[: 100 * IDS_TOGETHER]
        repeats = _repeats(library, rows)
        if repeats:
            raise InputError(
                f"{library.source}: column {library.id!r} (id) repeats {'; '.join(repeats)}; "
                "give every row its own id, or read the table without an id"
            )


def _repeats(library: Library, rows: np.ndarray) -> list[str]:
    """What to say about the first three ids that repeat among some rows (rising)."""
    import pandas as pd

    assert library.id is not None
    picked = library._picked([library.id], rows)
    ids = pd.concat([raw[library.id] for _, raw, _ in picked], ignore_index=True)
    again = ids[ids.duplicated()].drop_duplicates().iloc[:3]
    return [f"{shown(value)} {_where(library, rows[(ids == value).to_numpy()])}" for value in again]


def _where(library: Library, rows: np.ndarray) -> str:
    """Say 'in rows 3, 5' or, of a folder, 'in row 3 of a.parquet, row 1 of b.parquet'."""
    places = [library.place(int(row)) for row in rows]
    if len(library.parts) == 1:
        below = " below the header" if SHEET.search(library.parts[0].name) else ""
        return rows_text(np.array([row for _, row in places])) + below
    more = f" and {len(places) - 3} more" if len(places) > 3 else ""
    return "in " + ", ".join(f"row {row} of {file}" for file, row in places[:3]) + more
