"""What a library is made of: files read in pieces, or a table in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from .columns import Place, convert
from .files import Ranges, Source
from .table import Table, feature_frame

if TYPE_CHECKING:
    import pandas as pd


class Part(Protocol):
    """One file of a library, or a table in memory."""

    @property
    def name(self) -> str:
        """What messages call it."""
        ...

    @property
    def rows(self) -> int:
        """Number of rows."""
        ...

    def raw(self, columns: Sequence[str], ranges: Ranges) -> Iterator[pd.DataFrame]:
        """Cells as they stand, one frame for each range of rows."""
        ...

    def table(self, raw: pd.DataFrame, numbers: np.ndarray) -> Table:
        """Checked rows; `numbers` are their n row numbers in the part, from 0 and rising."""
        ...


@dataclass(frozen=True, eq=False)
class FilePart:
    """A file, or a frame not checked yet.

    Attributes:
        source: the open file.
        rows: number of rows.
        kinds: feature -> kind.
        id: name of the id column.
        labels: other columns, read as text.
    """

    source: Source
    rows: int
    kinds: Mapping[str, str]
    id: str | None
    labels: tuple[str, ...]

    @property
    def name(self) -> str:
        """The file's name."""
        return self.source.name

    def raw(self, columns: Sequence[str], ranges: Ranges) -> Iterator[pd.DataFrame]:
        """Cells as they stand in the file."""
        yield from self.source.stream(columns, ranges)

    def table(self, raw: pd.DataFrame, numbers: np.ndarray) -> Table:
        """Id, features and labels, checked."""
        frame, kinds = feature_frame(self.source, raw, dict(self.kinds), self.id, numbers + 1)
        for label in self.labels:
            if label not in frame:
                frame[label] = convert(raw[label], "categorical", Place(self.name, label, numbers + 1))
        return Table(frame, kinds, self.id, self.name, before=int(numbers[0]) if len(numbers) else 0)


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

    def raw(self, columns: Sequence[str], ranges: Ranges) -> Iterator[pd.DataFrame]:
        """Slices of the table."""
        for start, stop in ranges:
            yield self.whole.frame.iloc[start:stop].reset_index(drop=True)

    def table(self, raw: pd.DataFrame, numbers: np.ndarray) -> Table:
        """The rows as they are."""
        return replace(self.whole, frame=raw, before=int(numbers[0]) if len(numbers) else 0)
