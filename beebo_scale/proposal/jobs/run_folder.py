"""A run folder: what a proposal job has finished, so that a relaunch goes on where the last one was ended.

    D/job.json            what is being computed: options, hashes of the input files, versions
    D/lock                held by the job that is running; lock.holder says which one that is
    D/chunks/STAGE-K.pt   finished chunks

A finished chunk is one file, moved into place when it is whole. A job that was killed at any moment is started again
with the same command, by any number of workers, and ends in the same batch.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from ... import archives
from ...errors import InputError
from ...locks import locked
from ...screening.batch import write_text
from ...workers import Workers
from .chunks import on_first

STOPPED = 143  # exit code after SIGTERM: 128 + 15


@dataclass(frozen=True)
class FolderLedger:
    """Finished chunks as files of one folder, which all workers see."""

    folder: Path

    def has(self, stage: str, chunk: int) -> bool:
        """Whether the chunk is finished."""
        return self._path(stage, chunk).exists()

    def read(self, stage: str, chunk: int) -> Any:
        """What was written."""
        return archives.load(self._path(stage, chunk), "{path} is damaged; delete it, and it will be computed again")

    def write(self, stage: str, chunk: int, result: Any) -> None:
        """Write a finished chunk; a request to stop waits until it stands."""
        with finishing():
            archives.save(self._path(stage, chunk), result)

    def _path(self, stage: str, chunk: int) -> Path:
        return self.folder / f"{stage}-{chunk:06d}.pt"


@contextmanager
def open_run(
    folder: str | os.PathLike[str], identity: Mapping[str, Any], workers: Workers | None = None
) -> Iterator[FolderLedger]:
    """The ledger of a run folder, locked as long as it is open.

    Args:
        folder: made if there is none; all workers see it.
        identity: plain types that decide the outcome; a folder serves one identity only.
        workers: those of the job; worker 0 locks and checks the folder.

    Raises:
        InputError: the folder cannot be used, is in use, or holds the work of another configuration.
    """
    folder, locks = Path(folder), ExitStack()
    with locks:
        on_first(workers or Workers(), lambda: _take(folder, json.loads(json.dumps(identity)), locks))
        yield FolderLedger(folder / "chunks")


def _take(folder: Path, identity: dict[str, Any], locks: ExitStack) -> None:
    """Make, lock, check and tidy the folder."""
    chunks = make_folder(folder) / "chunks"
    locks.enter_context(locked(folder / "lock", "another job", "wait for it, or give another run folder"))
    _check_identity(folder, identity)
    for leftover in chunks.glob(".*.pt"):  # half written when a job was killed
        leftover.unlink()


def make_folder(folder: str | os.PathLike[str]) -> Path:
    """A run folder with a place for chunks, made if there is none.

    Raises:
        InputError: it cannot be made or written to.
    """
    folder = Path(folder)
    try:
        (folder / "chunks").mkdir(parents=True, exist_ok=True)
        (folder / "lock").open("a+").close()
    except OSError as error:
        raise InputError(f"{folder} cannot be used as a run folder ({error.strerror}); give another") from error
    return folder


def _check_identity(folder: Path, identity: dict[str, Any]) -> None:
    """Note what this folder is for, or refuse to mix the work of two configurations."""
    path = folder / "job.json"
    if not path.exists():
        if any((folder / "chunks").glob("*.pt")):
            raise InputError(f"{folder} holds chunks, but no job.json says of what; give another run folder")
        write_text(path, json.dumps(identity, indent=2, sort_keys=True) + "\n")
        return
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read ({error}); give another run folder") from error
    changed = [name for name in sorted({*before, *identity}) if before.get(name) != identity.get(name)]
    if changed:
        name = changed[0]
        raise InputError(
            f"{folder} was started with {name} = {before.get(name)!r}, now it is {identity.get(name)!r}; "
            "give another run folder, or go on with what it was started with"
        )


class Stopped(SystemExit):
    """SIGTERM: the job ends with exit code 143 and can go on later."""

    def __init__(self) -> None:
        super().__init__(STOPPED)


@contextmanager
def stopping_on_sigterm() -> Iterator[None]:
    """SIGTERM raises `Stopped`, or waits inside `finishing`."""
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stopped


@contextmanager
def finishing() -> Iterator[None]:
    """Let a write finish before a request to stop is acted upon."""
    if signal.getsignal(signal.SIGTERM) is not _stop:  # not a job
        yield
        return
    heard: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, _stop)
    if heard:
        raise Stopped
