"""Where a campaign stands, round by round."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from .books import FAILED, GIVEN_UP, INITIAL, MEASURED, Books
from .folder import Folder


@dataclass(frozen=True)
class Round:
    """What became of a round; `best` is the best value of the target that it found."""

    number: int
    temperature: float | None
    proposed: int
    measured: int
    failed: int
    given_up: int
    pending: int
    best: float | None


@dataclass(frozen=True)
class Status:
    """Where a campaign stands.

    Attributes:
        initial: results from before the campaign.
        others: replicates and results that nobody proposed.
        rounds: round by round.
        best: column -> cell of the best result so far, as in measured.csv; None before the first.
    """

    initial: int
    others: int
    rounds: tuple[Round, ...]
    best: dict[str, str] | None


def status_of(folder: Folder, books: Books) -> Status:
    """Count the books of a campaign."""
    measured = books.measured
    best = books.best(measured)
    return Status(
        initial=int((measured["status"] == INITIAL).sum()),
        others=int(((measured["round"] == "") & (measured["status"] != INITIAL)).sum()),
        rounds=tuple(_round(folder, books, int(number)) for number in books.proposed["round"].unique()),
        best=None if best is None else {str(name): str(cell) for name, cell in measured.loc[best].items()},
    )


def _round(folder: Folder, books: Books, number: int) -> Round:
    ended = books.measured[books.measured["round"] == str(number)]
    best = books.best(ended)
    count = {status: int((ended["status"] == status).sum()) for status in (MEASURED, FAILED, GIVEN_UP)}
    return Round(
        number=number,
        temperature=_temperature(folder.batch(number)),
        proposed=int((books.proposed["round"] == str(number)).sum()),
        measured=count[MEASURED],
        failed=count[FAILED],
        given_up=count[GIVEN_UP],
        pending=int((books.pending["round"] == str(number)).sum()),
        best=None if best is None else float(books.values(ended.loc[[best]])[0]),
    )


def _temperature(batch: Path) -> float | None:
    """T' of a round, from its run file; None if that is gone."""
    try:
        return float(json.loads(batch.with_suffix(".run.json").read_text(encoding="utf-8"))["temperature"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
