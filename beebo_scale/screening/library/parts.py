"""What a library is made of: files read in pieces or a table in memory, and the pass that counts and checks rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ..columns import check_ids, convert
from ..files.opening import Ranges, Source
from ..invalid import Fault, find_faults
from ..places import Place
from ..same import id_texts
from ..table import Table, feature_frame

if TYPE_CHECKING:
    import pandas as pd


class Part(Protocol):
    """One file of a library, or a table in memory."""

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def rows(self) -> int:
        """Number of rows."""

    def number(self, row: int) -> int:
        """Number in the file, from 1, of a row of the part, from 0."""

    def raw(self, columns: Sequence[str], ranges: Ranges) -> Iterator[pd.DataFrame]:
        """Cells as they stand, one frame for each range of rows."""

    def table(self, raw: pd.DataFrame, numbers: np.ndarray) -> Table:
        """Checked rows; `numbers` are their n row numbers in the part, from 0 and rising."""


@dataclass(frozen=True, eq=False)
class FilePart:
    """A file, or a frame not checked yet.

    Attributes:
        source: the open file.
        rows: number of rows, without those left out.
        kinds: feature -> kind.
        id: name of the id column.
        labels: other columns, read as text.
        left_out: rows of the file, by number from 0 and rising, that the part does not have.
    """

    source: Source
    rows: int
    kinds: Mapping[str, str]
    id: str | None
    labels: tuple[str, ...]
    left_out: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @property
    def name(self) -> str:
        """The file's name."""
        return self.source.name

    def number(self, row: int) -> int:
        """Number in the file, from 1."""
        return int(self.source.numbers(self._in_file(np.array([row])))[0])

    def _in_file(self, rows: np.ndarray) -> np.ndarray:
        """Rows of the part (from 0) as rows of the file."""
        before = self.left_out - np.arange(len(self.left_out))  # rows of the part before each row left out
        return rows + np.searchsorted(before, rows, side="right")

    def raw(self, columns: Sequence[str], ranges: Ranges) -> Iterator[pd.DataFrame]:
        """Cells as they stand in the file."""
        lasts = np.array(ranges, dtype=np.int64).reshape(-1, 2) - [0, 1]
        cuts = [(int(start), int(last) + 1) for start, last in self._in_file(lasts)]
        for (start, stop), cells in zip(cuts, self.source.stream(columns, cuts), strict=True):
            gone = self.left_out[slice(*np.searchsorted(self.left_out, [start, stop]))] - start
            kept = np.ones(len(cells), dtype=bool)
            kept[gone] = False
            yield cells[kept].reset_index(drop=True) if len(gone) else cells

    def table(self, raw: pd.DataFrame, numbers: np.ndarray) -> Table:
        """Id, features and labels, checked."""
        in_file = self.source.numbers(self._in_file(numbers))
        frame, kinds, units = feature_frame(self.source, raw, dict(self.kinds), self.id, in_file)
        for label in self.labels:
            if label not in frame:
                frame[label] = convert(raw[label], "categorical", Place(self.name, label, in_file))
        before = int(in_file[0]) - 1 if len(numbers) else 0
        return Table(frame, kinds, self.id, self.name, before=before, units=units)


@dataclass(frozen=True, eq=False)
class TablePart:
    """Rows in memory that are checked already."""

    whole: Table

    @property
    def name(self) -> str:
        """The table's source."""
        return self.whole.source

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.whole)

    def number(self, row: int) -> int:
        """Number in the table, from 1."""
        return row + 1

    def raw(self, columns: Sequence[str], ranges: Ranges) -> Iterator[pd.DataFrame]:
        """Slices of the table."""
        for start, stop in ranges:
            yield self.whole.frame.iloc[start:stop].reset_index(drop=True)

    def table(self, raw: pd.DataFrame, numbers: np.ndarray) -> Table:
        """The rows as they are."""
        return replace(self.whole, frame=raw, before=int(numbers[0]) if len(numbers) else 0)


@dataclass(frozen=True)
class Survey:
    """What one pass over a file tells.

    Attributes:
        rows: how many there are, without those that are left out.
        hashes: of the ids of these rows; empty without ids.
        bad: rows left out, by number from 0, rising.
        faults: what is wrong with them.
        sought: rows whose ids are sought, by number from 0 among those kept, and their cells.
        near: ids that differ from those sought in capitals alone.
    """

    rows: int
    hashes: np.ndarray
    bad: np.ndarray
    faults: list[Fault]
    sought: tuple[np.ndarray, pd.DataFrame] | None = None
    near: tuple[str, ...] = ()


def survey(
    file: Source,
    kinds: Mapping[str, str],
    id: str | None,
    lengths: Mapping[str, int] | None,
    sought: frozenset[str] = frozenset(),
) -> Survey:
    """Count the rows of a file, and look at its ids and (if invalid rows are left out) at its features.

    Rows with one of the ids that are sought, in the spelling of `id_texts`, are kept with their cells.
    """
    import pandas as pd

    empty = np.empty(0, dtype=np.int64)
    if id is None and lengths is None and file.rows is not None:
        return Survey(file.rows, empty.view(np.uint64), empty, [])
    columns = dict.fromkeys([*([] if id is None else [id]), *(kinds if sought or lengths is not None else [])])
    rows, hashes, bad, faults = 0, [empty.view(np.uint64)], [empty], list[Fault]()
    hit_places, cells, near = [empty], [], list[str]()
    for raw in file.stream(list(columns) or [file.columns[-1]], None):
        places = rows + np.arange(len(raw))
        numbers = file.numbers(places)
        rows += len(raw)
        if lengths is not None:
            wrong, found = find_faults(raw, kinds, file.name, numbers, lengths)
            bad.append(places[wrong])
            faults += found
            raw, numbers = raw[~wrong].reset_index(drop=True), numbers[~wrong]
        if id is not None:
            check_ids(raw[id], Place(file.name, id, numbers))
            hashes.append(pd.util.hash_array(_plain(raw[id]), categorize=False))
        if sought and id is not None:
            hits, alike = look_up(raw[id], sought)
            near += alike
            hit_places.append(sum(map(len, hashes[:-1])) + hits)
            cells.append(raw.iloc[hits])
    left_out = np.concatenate(bad)
    named = (np.concatenate(hit_places), pd.concat(cells, ignore_index=True)) if cells else None
    return Survey(rows - len(left_out), np.concatenate(hashes), left_out, faults, named, tuple(near))


def look_up(ids: pd.Series, sought: Collection[str]) -> tuple[np.ndarray, list[str]]:
    """Which rows have one of the ids that are sought, by number from 0, and ids that differ in capitals alone."""
    import pandas as pd

    names, wanted = pd.Series(id_texts(ids), dtype=object), frozenset(sought)
    there = names.isin(wanted)
    alike = names.str.casefold().isin({name.casefold() for name in wanted}) & ~there
    return np.flatnonzero(there.to_numpy()), names[alike].tolist()


def _plain(values: pd.Series) -> np.ndarray:
    """Values as an array that hashes the same in whatever type a file holds them."""
    if values.dtype.kind in "iu":
        return values.to_numpy(dtype=np.int64 if values.dtype.kind == "i" else np.uint64).astype(np.uint64)
    return values.astype(object).to_numpy()
