"""What a campaign knows: results, proposals, what follows from the two, and rows of measured.csv while they change."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..errors import InputError
from ..screening.columns import check_numbers, convert
from ..screening.invalid import Fault
from ..screening.places import Place
from ..screening.same import SameNumbers
from ..surrogates.data.observe import target_scale
from .folder import Folder, read_text
from .settings import Settings

if TYPE_CHECKING:
    import pandas as pd

Key = tuple[str, ...]
OWN = ("round", "rank", "status")  # columns of measured.csv beside the user's
SHOWN = ("mean", "std", "gain")  # last columns of pending.csv, of those of a batch
OUT = "still out"  # column of pending.csv where there are several targets
INITIAL, MEASURED, PARTIAL, FAILED, GIVEN_UP, EXTRA, REPLICATE = STATUS = (
    "initial",  # measured before the campaign
    "measured",  # proposed, and there is a result; of several targets, no more are to come
    "partial",  # proposed, and there are results of some targets, others are still out
    "failed",  # proposed, tried, no result; never proposed again
    "given up",  # proposed, not tried; may be proposed again
    "extra",  # measured, though nobody proposed it
    "replicate",  # one more result of an experiment that has one
)


@dataclass(frozen=True, eq=False)
class CampaignState:
    """The state of a campaign; all cells are text, as in the files.

    Attributes:
        settings: of the campaign.
        measured: one row for each result: id and features, targets, noise variance, batch, then OWN. Of several
            targets some may be missing in a row; those of one proposal share a row, unless their batches differ.
        proposed: one row for each proposal: round, rank, id and features, mean, std, gain.
    """

    settings: Settings
    measured: pd.DataFrame
    proposed: pd.DataFrame

    @classmethod
    def read(cls, folder: Folder, settings: Settings) -> CampaignState:
        """Read the files of a campaign.

        Raises:
            InputError: a file is missing or damaged, or lacks a column.
        """
        import pandas as pd

        names = [*identity(settings), *SHOWN]
        batches = [pd.DataFrame(columns=["round", "rank", *names], dtype=object)]
        for number in folder.rounds():  # before the results, so that a result is never of a round unknown
            batch = read_text(folder.batch(number), ["rank", *names])
            batch.insert(0, "round", str(number))
            batches.append(batch)
        proposed = pd.concat(batches, ignore_index=True)
        measured = read_text(folder.measured, columns(settings))
        unknown = ~measured["status"].isin(STATUS).to_numpy()
        if unknown.any():
            place = Place(str(folder.measured), "status", np.arange(1, len(measured) + 1))
            raise place.error("is unknown", unknown, f"it is one of {', '.join(STATUS)}")
        return cls(settings, measured, proposed)

    @cached_property
    def same(self) -> dict[str, SameNumbers]:
        """The known numbers of each continuous feature, of results and proposals."""
        numbers = [name for name, kind in self.settings.columns.features.items() if kind == "continuous"]
        return {name: SameNumbers.of(np.concatenate(self._cells(name))) for name in numbers}

    def _cells(self, name: str) -> list[np.ndarray]:
        """The numbers of a feature in measured.csv and in all rounds."""
        return [
            check_numbers(frame[name], Place(source, name, np.arange(1, len(frame) + 1)), "correct the cell")
            for source, frame in (("measured.csv", self.measured), ("rounds", self.proposed))
        ]

    @cached_property
    def pending(self) -> pd.DataFrame:
        """Proposals that results are still out of, by round and rank."""
        done = set(places(self.measured[self.measured["status"] != PARTIAL]))
        rows = places(self.proposed)
        return self.proposed[np.array([row not in done for row in rows], dtype=bool)].reset_index(drop=True)

    @cached_property
    def out(self) -> np.ndarray:
        """Which targets the pending proposals lack, n x t booleans."""
        partial = self.measured[self.measured["status"] == PARTIAL]
        lacks = {place: np.ones(len(self.settings.columns.targets), dtype=bool) for place in places(self.pending)}
        for place, missing in zip(places(partial), np.isnan(self.values(partial)), strict=True):
            if place in lacks:
                lacks[place] &= missing
        return np.array(list(lacks.values()), dtype=bool).reshape(-1, len(self.settings.columns.targets))

    @property
    def waiting(self) -> pd.DataFrame:
        """What is pending, for people: of several targets with those that are still out."""
        if not self.settings.columns.several:
            return self.pending
        names = np.array(self.settings.columns.targets, dtype=object)
        return self.pending.assign(**{OUT: [", ".join(names[lacks]) for lacks in self.out]})

    def features(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The features alone, of some rows."""
        return frame[list(self.settings.columns.features)].reset_index(drop=True)

    @property
    def failed(self) -> pd.DataFrame:
        """Experiments that failed."""
        return self.measured[self.measured["status"] == FAILED]

    def values(self, frame: pd.DataFrame) -> np.ndarray:
        """The targets of some results, n x t float64, NaN where there is none."""
        numbers = frame.index.to_numpy() + 1
        names = self.settings.columns.targets
        cells = [check_numbers(frame[name], Place("measured.csv", name, numbers), "correct the cell") for name in names]
        return np.stack(cells, axis=-1)

    @cached_property
    def objective(self) -> np.ndarray:
        """The target of each result, n, NaN where there is none.

        Of several targets, the weighted sum of the means of each over an experiment, standardised as the fit does it;
        NaN where one is missing.
        """
        import pandas as pd

        y = self.values(self.measured)
        if not self.settings.columns.several:
            return y[:, 0]
        experiment = [self.measured[name].to_numpy() for name in self.settings.columns.features]
        means = pd.DataFrame(y).groupby(experiment).transform("mean").to_numpy()
        objective = np.zeros(len(y))
        for weight, own, mean in zip(self.settings.columns.weights.values(), y.T, means.T, strict=True):
            known = torch.tensor(own[~np.isnan(own)])
            scale = target_scale(known, self.settings.fitting.transform, robust=self.settings.fitting.robust)
            objective += weight * scale.standardise(torch.tensor(mean)).numpy()
        return objective

    def best(self, frame: pd.DataFrame) -> int | None:
        """Label of the best of some results, None if there is no value."""
        y, hit = self.objective[frame.index.to_numpy()], self.settings.choice.hit
        goodness = -np.abs(y - hit) if hit is not None else -y if self.settings.choice.minimize else y
        return None if np.isnan(goodness).all() else int(frame.index[int(np.nanargmax(goodness))])


def places(frame: pd.DataFrame) -> list[tuple[str, str]]:
    """Round and rank of some rows."""
    return list(zip(frame["round"], frame["rank"], strict=True))


def identity(settings: Settings) -> list[str]:
    """Columns that say which experiment a row is."""
    names = list(settings.columns.features)
    return names if settings.columns.id is None or settings.columns.id in names else [settings.columns.id, *names]


def columns(settings: Settings) -> list[str]:
    """Columns of measured.csv.

    Raises:
        InputError: a column of the user has the name of one of OWN.
    """
    names = [*identity(settings), *settings.columns.targets, *settings.columns.beside]
    taken = [name for name in names if name in OWN or (name == OUT and settings.columns.several)]
    if taken:
        raise InputError(f"column {taken[0]!r} has the name of a column that a campaign adds; rename it in all files")
    return [*names, *OWN]


def keys(frame: pd.DataFrame, state: CampaignState, source: str, where: np.ndarray | None = None) -> list[Key]:
    """What tells experiments apart: their features, checked and in one spelling.

    Numbers that differ by rounding from one that the campaign knows are that number: see `SameNumbers`.

    Args:
        frame: n rows with the features.
        state: of the campaign.
        source: of the rows, for messages.
        where: n numbers of the rows there; None counts from 1.

    Raises:
        InputError: a cell that its kind does not allow.
    """
    where, parts = np.arange(1, len(frame) + 1) if where is None else where, []
    columns = state.settings.columns
    for name, kind in columns.features.items():
        cells = convert(frame[name], str(kind), Place(source, name, where), unit=columns.unit(name) or "")
        numbers = state.same[name].named(cells.to_numpy()) if kind == "continuous" else cells
        parts.append([str(cell) for cell in numbers.tolist()])
    return list(zip(*parts, strict=True))


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
        ignored: rows that nobody proposed, or without an id, where these are to be ignored.
        controls: role -> wells of a plate map that are controls.
        invalid: rows that were left out because they cannot be read.
        notes: what a user should know of how the file was read, a line each.
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
    ignored: int = 0
    controls: Counter[str] = field(default_factory=Counter)
    invalid: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()
