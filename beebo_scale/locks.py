"""Locks between processes: a file of the folder that a job or a command has to itself."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
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
    ends = time.monotonic() + wait_seconds
    with ExitStack() as held:
        try:
            held.enter_context(lock.acquire(timeout=wait_seconds, poll_interval=POLL))
            held.enter_context(_folder_locked(path.parent, ends))
        except Timeout:
            raise InputError(f"{path.parent} is in use by {other}{_name(holder)}; {advice}") from None
        held.enter_context(_named(holder))
        yield


@contextmanager
def _folder_locked(folder: Path, ends: float) -> Iterator[None]:
    """Hold the lock of the folder itself, where the system has one: that of a file ends when the file is deleted.

    Raises:
        Timeout: another process has it until `ends`.
    """
    try:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):  # Windows
        yield
        return
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= ends:
                    raise Timeout(str(folder)) from None
                time.sleep(POLL)
            except OSError:  # a network file system without locks of folders
                break
        yield
    finally:
        os.close(handle)


@contextmanager
def _named(holder: Path) -> Iterator[None]:
    """The name of this process in a file."""
    try:
        with suppress(OSError):  # on a full disk it has no name
            holder.write_text(f"process {os.getpid()} on {socket.gethostname()}\n", encoding="utf-8")
        yield
    finally:
        with suppress(OSError):  # on Windows somebody may be reading it
            holder.unlink()


def _name(holder: Path) -> str:
    """The holder's name in brackets; nothing where it is not there yet."""
    try:
        return f" ({holder.read_text(encoding='utf-8').strip()})"
    except OSError:
        return ""
