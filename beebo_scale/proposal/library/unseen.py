"""What of a library the measurements can say something about: labels that were measured, numbers in a known unit."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...errors import InputError
from ...screening import CategoricalColumn, ContinuousColumn, Encoder, Table
from ...screening.content.recognised import LOOKED_AT, recognised
from ...screening.library import Library, open_library
from ...screening.same import WHOLE

FEW = 0.05  # of the labels and of the rows: with less of both measured the choice is one by chance
MOST = 0.5  # of the labels or of the rows: with less of one of them measured it is said
REMEMBERED = 100_000  # labels that were not measured, told apart


@dataclass
class _Labels:
    """Labels of a library in one column: how many rows have one that was measured, and which there are."""

    column: CategoricalColumn
    rows: int = 0
    known_rows: int = 0
    known: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)

    def add(self, labels: Counter[str], levels: frozenset[str]) -> None:
        """Count the labels of some rows."""
        here = {label for label in labels if label in levels}
        self.rows += sum(labels.values())
        self.known_rows += sum(labels[label] for label in here)
        self.known |= here
        if len(self.unknown) < REMEMBERED:
            self.unknown |= labels.keys() - here

    def told(self, source: str) -> str:
        """What a user should know; empty if most were measured.

        Raises:
            InputError: hardly any was measured, and nobody said that the column holds labels.
        """
        labels, name = len(self.known) + len(self.unknown), self.column.name
        shares = (len(self.known) / labels, self.known_rows / self.rows)
        if min(shares) >= MOST:
            return ""
        over = "over " if len(self.unknown) >= REMEMBERED else ""
        rows = f"{self.known_rows:,} of {self.rows:,} rows"
        told = f"{source}: {len(self.known):,} of {over}{labels:,} labels of column {name!r} were measured ({rows})"
        if max(shares) >= FEW or self.column.named:
            return f"{told}; all others are predicted alike"
        seen = recognised(sorted(self.unknown)[:LOOKED_AT])
        way = "name a kind that compares them"
        if seen is not None:
            way = f"they look like {seen.what}: " + (f"name the kind {seen.kind}" if seen.kind else seen.way)
        raise InputError(f"{told}; {way}, leave the column out of the features, or declare {name!r} as categorical")


def told_of_library(source: Any, encoder: Encoder, drop_invalid: bool = False) -> tuple[str, ...]:
    """Say what the measurements know little of in a library, a line each.

    It is read once more for the sake of its labels, if there are columns of such; of numbers the first rows show
    whether they have the unit of the measured ones.

    Args:
        source: a library as `open_library` takes it.
        encoder: of the features.
        drop_invalid: leave out rows that cannot be read.

    Raises:
        InputError: hardly any label of a column was measured, or numbers are in another unit.
    """
    labels = [_Labels(column) for column in encoder.columns if isinstance(column, CategoricalColumn)]
    units = [column for column in encoder.columns if isinstance(column, ContinuousColumn) and column.unit]
    if not labels and not units:
        return ()
    kinds = {name: kind for name, kind in encoder.kinds.items() if name in {each.column.name for each in labels}}
    kinds |= {column.name: "continuous" for column in units}
    library = (
        source if isinstance(source, Library) else open_library(source, kinds, lengths={} if drop_invalid else None)
    )
    levels = [frozenset(WHOLE.sub(r"\1", level) for level in each.column.levels) for each in labels]
    bare: list[str] = []
    for number, (_, chunk) in enumerate(library.chunks()):
        if not number:
            Encoder(tuple(units)).check_units(chunk)
            bare = [_bare(chunk, column) for column in units if column.name not in chunk.units]
        for each, known in zip(labels, levels, strict=True):
            each.add(Counter(np.asarray(chunk.frame[each.column.name], dtype=object).tolist()), known)
        if not labels:
            break
    return (*bare, *filter(None, (each.told(library.source) for each in labels)))


def _bare(chunk: Table, column: ContinuousColumn) -> str:
    return f"{chunk.source}: column {column.name!r} holds numbers alone, which are taken in {column.unit!r} as measured"
