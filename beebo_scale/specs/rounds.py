"""`Rounds`: T' of each round, as campaigns and simulations take it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..errors import InputError
from ..temperature import ExploitLast, Geometric, Linear, Schedule, Steps
from .setting import Reader, one_of, setting, whole_number
from .texts import parse_numbers

NUMBERS = Reader("a list", parse_numbers, several=True, types=(list,))
SCHEDULES: dict[str, Callable[[float, float], Schedule]] = {"linear": Linear, "geometric": Geometric}


@dataclass(frozen=True)
class Rounds:
    """T' of each round.

    Raises:
        InputError: a schedule without two ends or without rounds, or more temperatures than rounds.
    """

    temperatures: Sequence[float] = setting(
        (1.0,), "T' of each round, the last one for all others", NUMBERS, metavar="T"
    )
    schedule: str | None = setting(
        None, "from the first to the last of two temperatures over the rounds", one_of(tuple(SCHEDULES))
    )
    exploit_last: bool = setting(False, "T' = 0 (and kappa = 0) in the last of the rounds, as in the paper")
    rounds: int | None = setting(None, "how many there are, where that matters", whole_number)

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
