"""How a command ends: what stands when it is interrupted or the disk is full, and what becomes of its output."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ..screening.batch import standing

NAMED = 6  # files named at most
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)  # of a disk that takes no more
CLOSED_PIPE = 141  # exit code of what the system ends for writing to a pipe that nobody reads, as `| head` leaves it


def interrupted(words: str) -> str:
    """What to say of an interrupt.

    Args:
        words: of the command about what it keeps for a relaunch; empty if it keeps nothing.
    """
    paths = [path for path in standing() if not (words and path.suffix == ".pt")]  # chunks are in the words
    names = ", ".join(map(str, paths[:NAMED])) + (f" and {len(paths) - NAMED} more" if len(paths) > NAMED else "")
    stands = f"written and complete: {names}" if names else ""
    return "; ".join(filter(None, [words, stands])) or "nothing was written"


class Printed:
    """A stream that prints every character in some way, and keeps in mind that it could not: parsers pass over it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.error: OSError | None = None

    def write(self, text: str) -> int:
        """Write; what the encoding lacks, such as a byte of a path that is no text, is written by its number."""
        code = self._stream.encoding or "utf-8"
        return self._kept(self._stream.write, text.encode(code, "backslashreplace").decode(code))

    def flush(self) -> None:
        """Let the system have all of it."""
        self._kept(self._stream.flush)

    def _kept(self, call: Any, *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except OSError as error:
            self.error = self.error or error
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def printed() -> Iterator[Printed | None]:
    """Standard output as a `Printed` stream; None where it was closed."""
    before = sys.stdout
    if before is None:
        yield None
        return
    sys.stdout = output = Printed(before)
    try:
        yield output
    finally:
        sys.stdout = before
        with suppress(OSError):
            output.flush()
        if output.error is not None:  # else the interpreter would try again when it ends
            silence(before)


def closed(output: Printed) -> bool:
    """Whether it is a pipe that nobody reads any more."""
    return output.error is not None and output.error.errno == errno.EPIPE


def complain(line: str) -> None:
    """A line on standard error, if there is a place for it."""
    try:
        print(f"beebo-scale: {line}", file=sys.stderr and Printed(sys.stderr), flush=True)
    except OSError:
        silence(sys.stderr)


def silence(stream: Any) -> None:
    """Let a stream that cannot be written to lead nowhere."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
