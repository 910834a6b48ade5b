"""`Rounds`: T' of each round, as campaigns and simulations take it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..errors import InputError
from ..temperature import ExploitLast, Geometric, Linear, Schedule, Steps
from .setting import OneOf, Words, setting, whole_number
from .texts import parse_numbers

SCHEDULES: dict[str, Callable[[float, float], Schedule]] = {"linear": Linear, "geometric": Geometric}


@dataclass(frozen=True)
class Rounds:
    """T' of each round.

    Attributes:
        temperatures: T' of each round, the last one for all others.
        schedule: "linear" or "geometric": from the first to the last of two temperatures over `rounds`.
        exploit_last: T' = 0 in the last of `rounds`, as in the paper.
        rounds: how many there are, where that matters.

    Raises:
        InputError: a schedule without two ends or without rounds, or more temperatures than rounds.
    """

    temperatures: Sequence[float] = setting(
        (1.0,), "T' of each round, the last one for all others", Words("a list", parse_numbers), metavar="T"
    )
    schedule: str | None = setting(
        None, "from the first to the last of two temperatures over --rounds", OneOf(tuple(SCHEDULES))
    )
    exploit_last: bool = setting(False, "T' = 0 in the last round (and kappa = 0), as in the paper")
    rounds: int | None = setting(
        None, "rounds that --schedule leads over, and the last of --exploit-last", whole_number
    )

    @property
    def steps(self) -> Steps:
        """T' of each round written out, before `exploit_last`."""
        given = tuple(self.temperatures)
        if self.schedule is None:
            return Steps(given)
        if len(given) != 2 or self.rounds is None or self.rounds < 1:
            raise InputError("--schedule leads from the first to the last of two --temperatures over --rounds N")
        schedule = SCHEDULES[self.schedule](*given)
        return Steps(tuple(round(schedule(k, self.rounds), 6) for k in range(self.rounds)))

    @property
    def by_round(self) -> Schedule:
        """T' by round, for loops that know how many rounds there are."""
        return ExploitLast(self.steps) if self.exploit_last else self.steps

    def written_out(self) -> tuple[float, ...]:
        """T' of each round as a file keeps it, the last one for all beyond."""
        if not self.exploit_last:
            if self.schedule is None and self.rounds is not None:
                raise InputError(
                    "--rounds goes with --schedule or --exploit-last; otherwise give T' of each round as --temperatures"
                )
            return self.steps.temperatures
        if self.rounds is None or self.rounds < 1:
            raise InputError("--exploit-last needs --rounds N: T' = 0 in the last of them")
        if len(self.steps.temperatures) > self.rounds:
            count = len(self.steps.temperatures)
            raise InputError(f"--temperatures has {count} for --rounds {self.rounds}; leave some out")
        return tuple(self.by_round(k, self.rounds) for k in range(self.rounds))
