"""The files of a campaign, and the lock that lets one process change them at a time.

    campaign.yaml           settings
    measured.csv            every result, one row each: what was known before, what came of proposals, and anything else
    dropped.csv             first results that were left out because they cannot be read, if there were any
    record.dropped.csv      rows that the last record left out because they cannot be read, if there were any
    rounds/round-001.csv    what was proposed in round 1; .run.json says how, .plate.csv where it goes on the plate
    pending.csv             proposed and not yet recorded; written anew after each change, for people only
    models/round-001.ckpt   the surrogate of round 1, from which the fit of the next round starts
    seal.json               what the last command left, so that changes from outside are noticed (`seal.py`)
    lock                    held by the process that is changing something; lock.holder says which one that is

What is pending is never stored: it is what rounds/ proposes less what measured.csv holds. So a record changes one file
and a suggestion is made by one file; whatever is killed in between leaves a campaign as it was, or as it should be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError
from ..locks import locked
from ..screening.files.opening import open_source

if TYPE_CHECKING:
    import pandas as pd

WAIT = 60.0  # seconds that a process waits for another one
ROUND = re.compile(r"round-(\d+)\.csv")


@dataclass(frozen=True)
class Folder:
    """Where the files of a campaign are."""

    path: Path

    @property
    def settings(self) -> Path:
        """Settings."""
        return self.path / "campaign.yaml"

    @property
    def measured(self) -> Path:
        """All results."""
        return self.path / "measured.csv"

    @property
    def dropped(self) -> Path:
        """First results that were left out."""
        return self.path / "dropped.csv"

    @property
    def left_out(self) -> Path:
        """Rows that the last record left out."""
        return self.path / "record.dropped.csv"

    @property
    def pending(self) -> Path:
        """What is proposed and not yet recorded, for people."""
        return self.path / "pending.csv"

    def batch(self, round: int) -> Path:
        """What a round proposed."""
        return self.path / "rounds" / f"round-{round:03d}.csv"

    def model(self, round: int) -> Path:
        """The surrogate of a round."""
        return self.path / "models" / f"round-{round:03d}.ckpt"

    def make(self) -> None:
        """Make the folders below.

        Raises:
            InputError: the system refuses.
        """
        try:
            for name in ("rounds", "models"):
                (self.path / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.path} cannot be used for a campaign ({error.strerror}); give another") from None

    def rounds(self) -> list[int]:
        """Rounds that were proposed, in order."""
        names = [ROUND.fullmatch(path.name) for path in (self.path / "rounds").glob("*")]
        return sorted(int(match[1]) for match in names if match)

    @contextmanager
    def locked(self, wait: float | None = None) -> Iterator[None]:
        """Hold the lock, which the system gives back however the process ends.

        Raises:
            InputError: another process has it for longer than `wait` seconds, or the folder is read-only.
        """
        wait = WAIT if wait is None else wait
        with ExitStack() as locks:
            try:
                locks.enter_context(locked(self.path / "lock", "another command", "wait for it to end", wait))
            except OSError as error:
                raise InputError(f"{self.path} cannot be written to ({error.strerror}); is it a campaign?") from None
            yield


def read_text(path: Path, columns: list[str]) -> pd.DataFrame:
    """Some columns of one of the campaign's CSV files, every cell as text.

    Raises:
        InputError: the file is missing or damaged, or lacks a column.
    """
    file = open_source(path, columns)
    return file.load([file.require(column, "campaign") for column in columns])
