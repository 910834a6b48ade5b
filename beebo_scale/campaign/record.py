"""Entering results: each leaves pending and enters measured once, however often and in whatever pieces it comes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..screening.columns import rows_text
from .books import EXTRA, FAILED, GIVEN_UP, INITIAL, MEASURED, REPLICATE, Books, Key, columns, identity, keys
from .results import Result, Results

if TYPE_CHECKING:
    import pandas as pd


@dataclass
class Tally:
    """What became of the rows of a file of results."""

    measured: int = 0
    failed: int = 0
    extra: int = 0
    replicates: int = 0
    given_up: int = 0
    known: int = 0


@dataclass
class _Desk:
    """A change of the books under way.

    Attributes:
        books: before the change.
        results: to be entered.
        pending: match -> position in `books.pending`.
        entered: match -> positions in `books.measured`.
        changed: position in `books.measured` -> its new cells.
        new: rows to be added.
        refused: what is wrong -> row numbers.
    """

    books: Books
    results: Results
    pending: dict[Key, int] = field(default_factory=dict)
    entered: dict[Key, list[int]] = field(default_factory=dict)
    changed: dict[int, dict[str, str]] = field(default_factory=dict)
    new: list[dict[str, str]] = field(default_factory=list)
    refused: dict[str, list[int]] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        wanted = {row.match for row in self.results.rows}
        for position, match in enumerate(self._matches(self.books.pending, "rounds")):
            if match in wanted:
                self.pending.setdefault(match, position)
        for position, match in enumerate(self._matches(self.books.measured, "measured.csv")):
            if match in wanted:
                self.entered.setdefault(match, []).append(position)

    def _matches(self, frame: pd.DataFrame, source: str) -> list[Key]:
        settings = self.books.settings
        if self.results.by_id:
            return [(name,) for name in frame[str(settings.id)]]
        return keys(frame, settings, source)

    def enter(self, group: Sequence[Result], extra: bool, replicate: bool) -> None:
        """Enter all results of one experiment, or note why not."""
        match = group[0].match
        proposal, before = self.pending.get(match), self.entered.get(match, [])
        if proposal is None and not before and not (extra and group[0].key is not None):
            self._refuse("unknown" if group[0].key is not None or not extra else "bare", group)
            return
        if not self._same_features(group, proposal, before):
            return
        values = self.books.values(self.books.measured.iloc[before])
        old = [float(value) for value in values if not np.isnan(value)]
        fresh = _fresh([row for row in group if row.value is not None], old, replicate)
        if len(old) + len(fresh) > 1 and fresh and not replicate:
            self._refuse("other value", fresh)
            return
        vacant = [i for i, value in zip(before, values, strict=True) if np.isnan(value)]
        if not fresh:
            self._enter_failure(group, proposal, vacant, bool(old))
            return
        self.tally.known += len([row for row in group if row.value is not None]) - len(fresh)
        first, others = (fresh[0], fresh[1:]) if proposal is not None or vacant or not before else (None, fresh)
        if first is not None:
            self._place(first, proposal, vacant)
        for row in others:
            self.tally.replicates += 1
            self.new.append(self._cells(row, proposal, before) | _own(REPLICATE))

    def _place(self, row: Result, proposal: int | None, vacant: list[int]) -> None:
        """The first value of an experiment."""
        if proposal is not None:
            self._settle(row.cells, proposal, MEASURED)
        elif vacant and self.books.measured["round"].iloc[vacant[-1]]:
            self.changed[vacant[-1]] = self._result(row) | {"status": MEASURED}
        elif vacant:
            self.changed[vacant[-1]] = self._result(row) | {"status": EXTRA}
        else:
            self.new.append(row.cells | _own(EXTRA))
        self.tally.measured += proposal is not None or bool(vacant)
        self.tally.extra += proposal is None and not vacant

    def _enter_failure(self, group: Sequence[Result], proposal: int | None, vacant: list[int], old: bool) -> None:
        """An experiment whose results are all empty, or known."""
        given_up = [i for i in vacant if self.books.measured["status"].iloc[i] == GIVEN_UP]
        if any(row.value is not None for row in group) or old or (vacant and proposal is None and not given_up):
            self.tally.known += len(group)
            return
        self.tally.failed += 1
        self.tally.known += len(group) - 1
        if proposal is not None:
            self._settle(group[0].cells, proposal, FAILED)
        elif given_up:
            self.changed[given_up[-1]] = {"status": FAILED}
        else:
            self.new.append(group[0].cells | _own(FAILED))

    def give_up(self, row: Result) -> None:
        """Release a proposal."""
        proposal = self.pending.pop(row.match, None)
        if proposal is None:
            self._refuse("not pending", [row])
            return
        self._settle({}, proposal, GIVEN_UP)
        self.tally.given_up += 1

    def _settle(self, cells: dict[str, str], proposal: int, status: str) -> None:
        """A proposal has its end: it goes under its round and rank, which takes it off what is pending."""
        own = self.books.pending.iloc[proposal]
        named = {name: str(own[name]) for name in identity(self.books.settings)}
        self.new.append(cells | named | _own(status, str(own["round"]), str(own["rank"])))

    def _cells(self, row: Result, proposal: int | None, before: list[int]) -> dict[str, str]:
        """The cells of one more result, with the name that the experiment has in the books."""
        if proposal is None and not before:
            return row.cells
        own = self.books.measured.iloc[before[0]] if proposal is None else self.books.pending.iloc[proposal]
        return row.cells | {name: str(own[name]) for name in identity(self.books.settings)}

    def _result(self, row: Result) -> dict[str, str]:
        settings = self.books.settings
        names = (settings.target, settings.noise_variance, settings.batch)
        return {name: row.cells[name] for name in names if name is not None}

    def _same_features(self, group: Sequence[Result], proposal: int | None, before: list[int]) -> bool:
        """Whether ids and features of the results agree with the books; if not, the rows are noted."""
        if not self.results.by_id or group[0].key is None or (proposal is None and not before):
            return True
        frame = self.books.pending if proposal is not None else self.books.measured
        position = proposal if proposal is not None else before[0]
        (key,) = keys(frame.iloc[[position]], self.books.settings, "the campaign")
        odd = [row for row in group if row.key != key]
        if odd:
            self._refuse("other features", odd)
        return not odd

    def _refuse(self, why: str, rows: Sequence[Result]) -> None:
        self.refused.setdefault(why, []).extend(row.number for row in rows)

    def close(self) -> Books:
        """The books after the change.

        Raises:
            InputError: some row was refused; then none is entered.
        """
        import pandas as pd

        if self.refused:
            why, numbers = next(iter(self.refused.items()))
            raise InputError(f"{self.results.source}: {REFUSED[why](rows_text(np.array(sorted(numbers))))}")
        frame = self.books.measured.copy()
        for position, cells in self.changed.items():
            for name, cell in cells.items():
                frame.loc[position, name] = cell
        names = columns(self.books.settings)
        rows = [[cells.get(name, "") for name in names] for cells in self.new]
        frame = pd.concat([frame, pd.DataFrame(rows, columns=names, dtype=object)], ignore_index=True)
        return replace(self.books, measured=_sorted(frame))


REFUSED: dict[str, Callable[[str], str]] = {
    "unknown": lambda rows: (
        f"the experiments {rows} are neither pending nor measured; correct them, or enter them as measurements that "
        "nobody proposed with --extra"
    ),
    "bare": lambda rows: f"the experiments {rows} are new; add the feature columns, so that they can be entered",
    "other value": lambda rows: (
        f"the results {rows} differ from what is recorded; correct one of the two, or enter them as further "
        "replicates with --replicate"
    ),
    "other features": lambda rows: f"the features {rows} are not those that the campaign has under these ids",
    "not pending": lambda rows: f"the experiments {rows} are not pending, so they cannot be given up",
}


def _fresh(rows: Sequence[Result], old: list[float], replicate: bool) -> list[Result]:
    """Results that are not recorded yet; a value that comes n times is one result, or n replicates."""
    left = Counter(old)
    fresh = []
    for row in rows:
        assert row.value is not None
        if left[row.value] == 0:
            fresh.append(row)
            left[row.value] += 0 if replicate else 1
        else:
            left[row.value] -= 1 if replicate else 0
    return fresh


def _own(status: str, round: str = "", rank: str = "") -> dict[str, str]:
    return {"round": round, "rank": rank, "status": status}


def _sorted(frame: pd.DataFrame) -> pd.DataFrame:
    """One order for one content, however it came: initial, proposals by rank, the others by their text."""

    def place(row: Any) -> tuple[Any, ...]:
        if row.status == INITIAL:
            return (0, row.Index)
        if row.round:
            return (1, int(row.round), int(row.rank))
        return (2, tuple(row[1:]))

    named = frame.set_axis([*(f"c{i}" for i in range(frame.shape[1] - 3)), "round", "rank", "status"], axis=1)
    order = [int(row.Index) for row in sorted(named.itertuples(), key=place)]  # type: ignore[arg-type]
    return frame.iloc[order].reset_index(drop=True)


def enter(books: Books, results: Results, extra: bool = False, replicate: bool = False) -> tuple[Books, Tally]:
    """Enter results: all, or none and an error.

    An experiment is pending, known or new. A first value takes it off what is pending. The same value again changes
    nothing; another one is refused, or with `replicate` one more result. No value means that the experiment failed; a
    value that comes later replaces that. What is new is refused, or with `extra` a measurement that nobody proposed.

    Raises:
        InputError: rows that are refused.
    """
    desk = _Desk(books, results)
    groups: dict[Key, list[Result]] = {}
    for row in results.rows:
        groups.setdefault(row.match, []).append(row)
    for group in groups.values():
        desk.enter(group, extra, replicate)
    return desk.close(), desk.tally


def give_up(books: Books, results: Results) -> tuple[Books, Tally]:
    """Release proposals that will not be tried: all, or none and an error.

    Raises:
        InputError: rows that are not pending.
    """
    desk = _Desk(books, results)
    for row in results.rows:
        desk.give_up(row)
    return desk.close(), desk.tally
