"""Where a campaign stands, round by round."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .folder import Folder
from .state import FAILED, GIVEN_UP, INITIAL, MEASURED, PARTIAL, CampaignState, places


@dataclass(frozen=True)
class Round:
    """What became of a round.

    Attributes:
        number: of the round, from 1.
        temperature: T'.
        proposed, measured, failed, given_up, pending: experiments.
        partial: those of the pending ones of which some targets are in.
        out: target -> pending experiments that it is still out of.
        best: the best value of the target that it found, or of the weighted sum of several.
    """

    number: int
    temperature: float | None
    proposed: int
    measured: int
    failed: int
    given_up: int
    pending: int
    best: float | None
    partial: int
    out: dict[str, int]


@dataclass(frozen=True)
class Status:
    """Where a campaign stands.

    Attributes:
        initial: results from before the campaign.
        others: replicates and results that nobody proposed.
        rounds: round by round.
        best: column -> cell of the best result so far, as in measured.csv; None before the first.
        objective: value of the target of that result, or of the weighted sum of several.
        values: target -> results from before the campaign that have it.
    """

    initial: int
    others: int
    rounds: tuple[Round, ...]
    best: dict[str, str] | None
    objective: float | None
    values: dict[str, int]


def status_of(folder: Folder, state: CampaignState) -> Status:
    """Count the state of a campaign."""
    measured = state.measured
    best, initial = state.best(measured), measured[measured["status"] == INITIAL]
    return Status(
        initial=len(initial),
        others=int(((measured["round"] == "") & (measured["status"] != INITIAL)).sum()),
        rounds=tuple(_round(folder, state, int(number)) for number in state.proposed["round"].unique()),
        best=None if best is None else {str(name): str(cell) for name, cell in measured.loc[best].items()},
        objective=None if best is None else float(state.objective[best]),
        values=_counted(state, ~np.isnan(state.values(initial))),
    )


def _round(folder: Folder, state: CampaignState, number: int) -> Round:
    ended = state.measured[state.measured["round"] == str(number)]
    best = state.best(ended)
    count = {
        status: len(set(places(ended[ended["status"] == status]))) for status in (MEASURED, PARTIAL, FAILED, GIVEN_UP)
    }
    pending = (state.pending["round"] == str(number)).to_numpy()
    return Round(
        number=number,
        temperature=_temperature(folder.batch(number)),
        proposed=int((state.proposed["round"] == str(number)).sum()),
        measured=count[MEASURED],
        failed=count[FAILED],
        given_up=count[GIVEN_UP],
        pending=int(pending.sum()),
        best=None if best is None else float(state.objective[best]),
        partial=count[PARTIAL],
        out=_counted(state, state.out[pending]),
    )


def _counted(state: CampaignState, marks: np.ndarray) -> dict[str, int]:
    """How many of n x t marks each target has."""
    return dict(zip(state.settings.columns.targets, marks.sum(axis=0).tolist(), strict=True))


def _temperature(batch: Path) -> float | None:
    """T' of a round, from its run file; None if that is gone."""
    try:
        return float(json.loads(batch.with_suffix(".run.json").read_text(encoding="utf-8"))["temperature"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
