"""What stands when a command is interrupted, or when the disk is full."""

from __future__ import annotations

import errno

from ..screening.batch import standing

NAMED = 6  # files named at most
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)  # of a disk that takes no more


def interrupted(words: str) -> str:
    """What to say of an interrupt.

    Args:
        words: of the command about what it keeps for a relaunch; empty if it keeps nothing.
    """
    paths = [path for path in standing() if not (words and path.suffix == ".pt")]  # chunks are in the words
    names = ", ".join(map(str, paths[:NAMED])) + (f" and {len(paths) - NAMED} more" if len(paths) > NAMED else "")
    stands = f"written and complete: {names}" if names else ""
    return "; ".join(filter(None, [words, stands])) or "nothing was written"
