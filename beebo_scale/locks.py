"""Locks between processes: a file of the folder that a job or a command has to itself."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from .errors import InputError

POLL = 0.05  # seconds between two tries


@contextmanager
def locked(path: Path, other: str, advice: str, wait_seconds: float = 0.0) -> Iterator[None]:
    """Hold the lock of a folder, which the system gives back however the process ends.

    The holder's name is in the file PATH.holder: Windows does not let others read a locked file.

    Args:
        path: lock file; made if there is none, in a folder that exists.
        other: what may hold it: 'another job'.
        advice: what to do then.
        wait_seconds: how long to wait for it.

    Raises:
        InputError: another process has it for longer.
        OSError: the file cannot be made.
    """
    path.open("a").close()  # some versions of filelock would make the folder too
    holder, lock = path.with_name(f"{path.name}.holder"), FileLock(path)
    try:
        lock.acquire(timeout=wait_seconds, poll_interval=POLL)
    except Timeout:
        raise InputError(f"{path.parent} is in use by {other}{_name(holder)}; {advice}") from None
    try:
        with suppress(OSError):  # on a full disk it has no name
            holder.write_text(f"process {os.getpid()} on {socket.gethostname()}\n", encoding="utf-8")
        yield
    finally:
        with suppress(OSError):  # on Windows somebody may be reading it
            holder.unlink()
        lock.release()


def _name(holder: Path) -> str:
    """The holder's name in brackets; nothing where it is not there yet."""
    try:
        return f" ({holder.read_text(encoding='utf-8').strip()})"
    except OSError:
        return ""
