"""What is said about results that are refused: which rows, which experiments, what is wrong, and the way out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..errors import InputError
from ..screening.places import rows_text
from ..screening.same import alike
from .results import Result, ResultFile
from .state import CampaignState, Key, keys

UNKNOWN, BARE, OTHER_VALUE, OTHER_FEATURES, NOT_PENDING = WHY = (
    "the experiments {rows} are neither pending nor measured{detail}; correct them, or enter them as measurements that "
    "nobody proposed with --extra",
    "the experiments {rows} are new; add the feature columns, so that they can be entered",
    "the results {rows} differ from what is recorded{detail}; correct one of the two, or enter them as further "
    "replicates with --replicate",
    "the features {rows} are not those that the campaign has under these ids{detail}; correct the cell, or leave the "
    "feature columns out",
    "the experiments {rows} are not pending{detail}, so they cannot be given up; leave these rows out",
)


@dataclass
class Refusals:
    """Results that are refused.

    Attributes:
        rows: one of WHY -> results.
        details: one of WHY -> what is wrong with the first of them.
        ids: number of a row -> its id, where the file does not say it but the campaign does.
    """

    rows: dict[str, list[Result]] = field(default_factory=dict)
    details: dict[str, str] = field(default_factory=dict)
    ids: dict[int, str] = field(default_factory=dict)

    def add(self, why: str, rows: Sequence[Result], detail: str = "") -> None:
        """Refuse some results."""
        self.rows.setdefault(why, []).extend(rows)
        self.details.setdefault(why, detail)

    def check(self, file: ResultFile, ids: Collection[str]) -> None:
        """Nothing, if nothing was refused.

        Args:
            file: that the results come from.
            ids: that the campaign knows.

        Raises:
            InputError: the first reason, with all rows that it holds for.
        """
        if not self.rows:
            return
        why, rows = next(iter(self.rows.items()))
        rows = sorted(rows, key=lambda row: row.number)
        where = rows_text(np.array([row.number for row in rows]))
        names = [row.match[0] if file.by_id else self.ids.get(row.number, "") for row in rows]
        names = names if all(names) else []
        if names:
            where += f" ({', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''})"
        detail = self.details[why]
        if why in (UNKNOWN, NOT_PENDING) and file.by_id:
            near = alike(names[:3], (id for id in ids if id not in names)).values()
            count = f" ({len(rows)} of {len(file.rows)} rows)"
            detail = f" (did you mean {', '.join(near)}?)" if near else detail or count
        raise InputError(f"{file.source}: {why.format(rows=where, detail=detail)}")


def nearest(row: Result, state: CampaignState) -> str:
    """Which known experiment an unknown result may be of, and the first column in which it differs; empty if none."""
    names, id = list(state.settings.columns.features), state.settings.columns.id
    found: list[tuple[int, str, Key]] = []
    for frame, source in ((state.pending, "pending"), (state.measured, "measured.csv")) if row.key else ():
        for i, key in enumerate(keys(frame, state, source)):
            cells = frame.iloc[i]
            what = f"round {cells['round']} rank {cells['rank']}" if cells["round"] else "a first result"
            differ = sum(here != there for here, there in zip(row.key or (), key, strict=True))
            found.append((differ, what + (f", {id} {cells[id]}" if id is not None and cells[id] else ""), key))
    differ, what, key = min(found, key=lambda each: each[0], default=(len(names), "", ()))
    if differ == 0:
        return f" (row {row.number} has the features of {what})"
    if row.key is None or differ == len(names) or differ > max(1, len(names) / 2):
        return ""
    name, here, there = next(each for each in zip(names, row.key, key, strict=True) if each[1] != each[2])
    return f" (row {row.number} is nearest to {what}: column {name!r} is {here} here and {there} there)"
