"""Entering results: each leaves pending and enters measured once, however often and in whatever pieces it comes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ..screening.same import id_texts
from .refusals import BARE, NOT_PENDING, OTHER_FEATURES, OTHER_VALUE, UNKNOWN, Refusals, nearest
from .results import Result, ResultFile
from .state import (
    EXTRA,
    FAILED,
    GIVEN_UP,
    INITIAL,
    MEASURED,
    OWN,
    PARTIAL,
    REPLICATE,
    STATUS,
    CampaignState,
    EntryCounts,
    Key,
    MeasuredRow,
    columns,
    identity,
    in_order,
    keys,
    mark,
    places,
)

if TYPE_CHECKING:
    import pandas as pd


@dataclass
class ResultEntry:
    """A change of the state under way.

    Attributes:
        state: before the change.
        results: to be entered.
        untouched: match -> position in `state.pending` of a proposal that has no row in measured.csv.
        lines: match -> rows of measured.csv.
        changed: rows of measured.csv to be written, each once.
        refused: results that cannot be entered.
        ignore: whether what nobody proposed is skipped.
    """

    state: CampaignState
    results: ResultFile
    untouched: dict[Key, int] = field(default_factory=dict)
    lines: dict[Key, list[MeasuredRow]] = field(default_factory=dict)
    changed: dict[int, MeasuredRow] = field(default_factory=dict)
    refused: Refusals = field(default_factory=Refusals)
    ignore: bool = False
    counts: EntryCounts = field(default_factory=EntryCounts)

    def __post_init__(self) -> None:
        measured, pending, settings = self.state.measured, self.state.pending, self.state.settings
        wanted = {row.match for row in self.results.rows}
        begun = set(places(measured))
        for position, (match, place) in enumerate(zip(self._matches(pending, "rounds"), places(pending), strict=True)):
            if match in wanted and place not in begun:
                self.untouched.setdefault(match, position)
        names, values = columns(settings), self.state.values(measured)
        cells = measured[names].to_numpy(dtype=object)
        for position, match in enumerate(self._matches(measured, "measured.csv")):
            if match in wanted:
                known = {n: float(y) for n, y in zip(settings.columns.targets, values[position], strict=True) if y == y}
                line = MeasuredRow(dict(zip(names, cells[position], strict=True)), known, position)
                self.lines.setdefault(match, []).append(line)

    def _matches(self, frame: pd.DataFrame, source: str) -> list[Key]:
        settings = self.state.settings
        if self.results.by_id:
            return [(name,) for name in id_texts(frame[str(settings.columns.id)])]
        return keys(frame, self.state, source)

    def enter(self, group: Sequence[Result], extra: bool, replicate: bool) -> None:
        """Enter all results of one experiment, or note why not."""
        match = group[0].match
        lines = self.lines.setdefault(match, [])
        known = match in self.untouched or bool(lines)
        if not known and self.ignore:
            self.counts.ignored += len(group)
            return
        if not known and not (extra and group[0].key is not None):
            why = UNKNOWN if group[0].key is not None or not extra else BARE
            self.refused.add(why, group, nearest(group[0], self.state) if why not in self.refused.rows else "")
            return
        if not self._same_features(group):
            return
        fresh = self._fresh(group, replicate)
        if fresh is None:
            return
        told = [row for row in group if row.values]
        if not fresh:
            self._enter_failure(group, bool(told))
            return
        self.counts.known += len(told) - len(fresh)
        first = [self._enter_values(row, names) for row, names in fresh]
        self.counts.replicates += first.count(False)
        if any(first):
            self.counts.measured += known
            self.counts.extra += not known
        self._complete(lines)

    def _fresh(self, group: Sequence[Result], replicate: bool) -> list[tuple[Result, list[str]]] | None:
        """Rows that say something new, and of which targets; None if some are refused."""
        found: dict[int, tuple[Result, list[str]]] = {}
        clash: set[int] = set()
        for name in self.results.targets:
            old = [line.values[name] for line in self.lines[group[0].match] if name in line.values]
            fresh = _fresh([row for row in group if name in row.values], name, old, replicate)
            if fresh and len(old) + len(fresh) > 1 and not replicate:
                clash |= {row.number for row in fresh}
            for row in fresh:
                found.setdefault(row.number, (row, []))[1].append(name)
        if clash:
            id = self.state.settings.columns.id
            if id is not None and (lines := self.lines[group[0].match]):
                self.refused.ids |= {row.number: lines[0].cells[id] for row in group}
            first = next(row for row in group if row.number in clash)
            self.refused.add(OTHER_VALUE, [row for row in group if row.number in clash], self._other_value(first))
            return None
        return [found[number] for number in sorted(found)]

    def _enter_values(self, row: Result, names: Sequence[str]) -> bool:
        """Put values of some targets where they belong; whether one of them is the first of its target."""
        lines, one_is_first = self.lines[row.match], False
        for name in names:
            first = not any(name in line.values for line in lines)
            one_is_first |= first
            line = self._line_for(row, name, first)
            line.cells |= {column: row.cells[column] for column in (name, *self.state.settings.columns.beside)}
            line.values[name] = row.values[name]
            self._change(line)
            self.counts.values[name] += 1
        return one_is_first

    def _line_for(self, row: Result, name: str, first: bool) -> MeasuredRow:
        """The line that a value goes to: one of the same batch that lacks it, an empty one, or a new one."""
        lines, batch = self.lines[row.match], self.state.settings.columns.batch
        if row.match in self.untouched:
            return self._settle(row, MEASURED)
        statuses = (INITIAL, REPLICATE) if not first else tuple(status for status in STATUS if status != REPLICATE)
        for line in lines:
            alike = batch is None or line.cells[batch] == row.cells[batch]
            if line.values and name not in line.values and alike and line.status in statuses:
                return line
        empty = [line for line in lines if not line.values]  # failed, or given up
        if empty and first:
            line = empty[-1]
            line.cells["status"] = PARTIAL if line.cells["round"] else EXTRA
            return line
        proposed = [line for line in lines if line.cells["round"]]
        if first and proposed:  # in another batch than the other targets
            return self._new(row, {column: proposed[-1].cells[column] for column in OWN})
        return self._new(row, mark(EXTRA if first else REPLICATE))

    def _complete(self, lines: Sequence[MeasuredRow]) -> None:
        """The status of proposals, by the targets that are still out; where these were given up, none are."""
        for place in {line.place for line in lines if line.status in (MEASURED, PARTIAL)}:
            own = [line for line in lines if line.place == place]
            there = {name for line in own for name in line.values}
            given_up = any(line.status == MEASURED and line.position is not None for line in own)
            status = MEASURED if given_up or len(there) == len(self.state.settings.columns.targets) else PARTIAL
            for line in own:
                if line.status != status:
                    line.cells["status"] = status
                    self._change(line)

    def _enter_failure(self, group: Sequence[Result], told: bool) -> None:
        """An experiment whose results are all empty, or known."""
        lines = self.lines[group[0].match]
        given_up = [line for line in lines if line.status == GIVEN_UP]
        pending = group[0].match in self.untouched
        if not told and self.counts.absent:
            self.counts.empty += len(group)
        elif told or any(line.values for line in lines) or (lines and not pending and not given_up):
            self.counts.known += len(group)
        else:
            self.counts.failed += 1
            self.counts.known += len(group) - 1
            if pending:
                self._settle(group[0], FAILED)
            elif given_up:
                given_up[-1].cells["status"] = FAILED
                self._change(given_up[-1])
            else:
                self._new(group[0], mark(FAILED))

    def give_up(self, row: Result) -> None:
        """Release a proposal, or the targets of one that are still out."""
        partial = [line for line in self.lines.get(row.match, []) if line.status == PARTIAL]
        if row.match in self.untouched:
            self._settle(row, GIVEN_UP)
        elif partial:
            for line in partial:
                line.cells["status"] = MEASURED
                self._change(line)
        else:
            known = [line.status for line in self.lines.get(row.match, [])]
            self.refused.add(NOT_PENDING, [row], f" (row {row.number} is {known[0]})" if known else "")
            return
        self.counts.given_up += 1

    def _settle(self, row: Result, status: str) -> MeasuredRow:
        """A proposal gets its line, under its round and rank, which takes it off what is pending."""
        own = self.state.pending.iloc[self.untouched.pop(row.match)]
        line = self._new(row, mark(status, str(own["round"]), str(own["rank"])))
        line.cells |= {name: str(own[name]) for name in identity(self.state.settings)}
        return line

    def _new(self, row: Result, marked: dict[str, str]) -> MeasuredRow:
        """A line without values, of the experiment as the state name it."""
        lines, names = self.lines.setdefault(row.match, []), identity(self.state.settings)
        cells = row.cells if not lines else row.cells | {name: lines[0].cells[name] for name in names}
        line = MeasuredRow({column: "" for column in columns(self.state.settings)} | cells | marked)
        line.cells |= dict.fromkeys(self.state.settings.columns.targets, "")
        lines.append(line)
        self._change(line)
        return line

    def _change(self, line: MeasuredRow) -> None:
        self.changed[id(line)] = line

    def _same_features(self, group: Sequence[Result]) -> bool:
        """Whether ids and features of the results agree with the state; if not, the rows are noted."""
        import pandas as pd

        lines, proposal = self.lines[group[0].match], self.untouched.get(group[0].match)
        if not self.results.by_id or group[0].key is None or (proposal is None and not lines):
            return True
        frame = pd.DataFrame([lines[0].cells]) if proposal is None else self.state.pending.iloc[[proposal]]
        (key,) = keys(frame, self.state, "the campaign")
        odd = [row for row in group if row.key != key]
        if odd:
            names = self.state.settings.columns.features
            here, there, name = next(
                parts for parts in zip(odd[0].key or (), key, names, strict=True) if parts[0] != parts[1]
            )
            self.refused.add(OTHER_FEATURES, odd, f" (column {name!r} is {here} here and {there} there)")
        return not odd

    def _other_value(self, row: Result) -> str:
        """Which target of a result has another value."""
        for line in self.lines[row.match]:
            for name, value in row.values.items():
                if name in line.values and line.values[name] != value:
                    return f" (column {name!r} is {value:g} here and {line.values[name]:g} there)"
        return ""

    def _ids(self) -> set[str]:
        """All ids that the campaign knows."""
        id = self.state.settings.columns.id
        frames = (self.state.measured, self.state.pending)
        return set() if id is None else {name for frame in frames for name in id_texts(frame[id])}

    def close(self) -> CampaignState:
        """The state after the change.

        Raises:
            InputError: some row was refused; then none is entered.
        """
        import pandas as pd

        self.refused.check(self.results, self._ids())
        names = columns(self.state.settings)
        rows = self.state.measured[names].to_numpy(dtype=object).tolist()
        for line in self.changed.values():
            cells = [line.cells[name] for name in names]
            if line.position is None:
                rows.append(cells)
            else:
                rows[line.position] = cells
        return replace(self.state, measured=in_order(pd.DataFrame(rows, columns=names, dtype=object)))


def _fresh(rows: Sequence[Result], name: str, old: list[float], replicate: bool) -> list[Result]:
    """Results that are not recorded yet; a value that comes n times is one result, or n replicates."""
    left = Counter(old)
    fresh = []
    for row in rows:
        value = row.values[name]
        if left[value] == 0:
            fresh.append(row)
            left[value] += 0 if replicate else 1
        else:
            left[value] -= 1 if replicate else 0
    return fresh


def enter(
    state: CampaignState, results: ResultFile, extra: bool = False, replicate: bool = False, ignore: bool = False
) -> tuple[CampaignState, EntryCounts]:
    """Enter results: all, or none and an error.

    An experiment is pending, known or new. A first value takes it off what is pending; of several targets, each has its
    own, an empty cell beside a value says nothing, and the last of them takes it off. The same value again changes
    nothing; another one is refused, or with `replicate` one more result. No value of any target means that the
    experiment failed; a value that comes later replaces that. What is new is refused, with `ignore` skipped, or with
    `extra` a measurement that nobody proposed.

    Raises:
        InputError: rows that are refused.
    """
    entry = ResultEntry(state, results, ignore=ignore)
    entry.counts.ignored = results.nameless
    entry.counts.absent = tuple(name for name in state.settings.columns.targets if name not in results.targets)
    groups: dict[Key, list[Result]] = {}
    for row in results.rows:
        groups.setdefault(row.match, []).append(row)
    for group in groups.values():
        entry.enter(group, extra, replicate)
    return entry.close(), entry.counts


def give_up(state: CampaignState, results: ResultFile) -> tuple[CampaignState, EntryCounts]:
    """Release proposals that will not be tried: all, or none and an error.

    Raises:
        InputError: rows that are not pending.
    """
    entry = ResultEntry(state, results)
    for row in results.rows:
        entry.give_up(row)
    return entry.close(), entry.counts
