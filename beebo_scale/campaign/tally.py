"""What came of entering a file of results."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Tally:
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
