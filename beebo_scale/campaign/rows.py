"""Rows of measured.csv while they change, and their order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .state import INITIAL

if TYPE_CHECKING:
    import pandas as pd


@dataclass
class Line:
    """A row of measured.csv.

    Attributes:
        cells: column -> text.
        values: target -> value, of the targets that have one.
        position: of the row in the books; None if it is to be added.
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
