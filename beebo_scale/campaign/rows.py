"""Rows of measured.csv while they change, their order, and the count of what was entered."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .state import INITIAL

if TYPE_CHECKING:
    import pandas as pd


@dataclass
class MeasuredRow:
    """A row of measured.csv.

    Attributes:
        cells: column -> text.
        values: target -> value, of the targets that have one.
        position: of the row in the state; None if it is to be added.
    """

    cells: dict[str, str]
    values: dict[str, float] = field(default_factory=dict)
    position: int | None = None

    @property
    def status(self) -> str:
        """One of STATUS."""
        return self.cells["status"]

    @property
    def place(self) -> tuple[str, str]:
        """Round and rank."""
        return self.cells["round"], self.cells["rank"]


def mark(status: str, round: str = "", rank: str = "") -> dict[str, str]:
    """The columns of a row beside the user's (OWN)."""
    return {"round": round, "rank": rank, "status": status}


def in_order(frame: pd.DataFrame) -> pd.DataFrame:
    """One order for one content, however it came: initial, proposals by rank, the others by their text."""

    def place(row: Any) -> tuple[Any, ...]:
        if row.status == INITIAL:
            return (0, row.Index)
        if row.round:
            return (1, int(row.round), int(row.rank), tuple(row[1:]))
        return (2, tuple(row[1:]))

    named = frame.set_axis([*(f"c{i}" for i in range(frame.shape[1] - 3)), "round", "rank", "status"], axis=1)
    order = [int(row.Index) for row in sorted(named.itertuples(), key=place)]  # type: ignore[arg-type]
    return frame.iloc[order].reset_index(drop=True)


@dataclass
class EntryCounts:
    """What became of the rows of a file of results.

    Attributes:
        measured: experiments with a first result of a target.
        failed: without a value.
        extra: that nobody proposed.
        replicates: further results.
        given_up: released.
        known: rows that say nothing new.
        empty: rows without a value, in a file that has some of the targets only; they say nothing.
        values: target -> new values.
        absent: targets that the file does not have.
    """

    measured: int = 0
    failed: int = 0
    extra: int = 0
    replicates: int = 0
    given_up: int = 0
    known: int = 0
    empty: int = 0
    values: Counter[str] = field(default_factory=Counter)
    absent: tuple[str, ...] = ()
