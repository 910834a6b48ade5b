r"""Schedules of the temperature T' over the rounds of a campaign.

A schedule maps (round, rounds), the round counted from 0, to T'. The paper keeps T' and exploits in the last round;
it also proposes to draw T' from a prior each round (paper, discussion).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from .errors import InputError

Schedule = Callable[[int, int], float]


def check_temperature(temperature: float) -> float:
    """T' itself, if it is a finite number that is not negative; else `InputError`."""
    try:
        value = math.nan if isinstance(temperature, str | bool) else float(temperature)
    except (TypeError, ValueError):
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise InputError(f"temperature T' = {temperature} is not usable: give a finite number, 0 or more")
    return value


@dataclass(frozen=True)
class Constant:
    """The same T' in every round."""

    temperature: float

    def __post_init__(self) -> None:
        check_temperature(self.temperature)

    def __call__(self, round: int, rounds: int) -> float:
        """T' of a round."""
        _part(round, rounds)
        return self.temperature


@dataclass(frozen=True)
class Linear:
    """From `first` to `last` in equal steps."""

    first: float
    last: float

    def __post_init__(self) -> None:
        check_temperature(self.first), check_temperature(self.last)

    def __call__(self, round: int, rounds: int) -> float:
        """T' of a round."""
        return self.first + (self.last - self.first) * _part(round, rounds)


@dataclass(frozen=True)
class Geometric:
    """From `first` to `last` in equal ratios; both above zero."""

    first: float
    last: float

    def __post_init__(self) -> None:
        if not min(check_temperature(self.first), check_temperature(self.last)) > 0:
            raise InputError("a geometric schedule needs temperatures above zero; end it with ExploitLast for zero")

    def __call__(self, round: int, rounds: int) -> float:
        """T' of a round."""
        return self.first * (self.last / self.first) ** _part(round, rounds)


@dataclass(frozen=True)
class Steps:
    """T' of each round, written out; the last one also serves the rounds beyond."""

    temperatures: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.temperatures:
            raise InputError("temperatures is empty; give T' of at least one round")
        for temperature in self.temperatures:
            check_temperature(temperature)

    def __call__(self, round: int, rounds: int) -> float:
        """T' of a round."""
        _part(round, rounds)
        return self.temperatures[min(round, len(self.temperatures) - 1)]


@dataclass(frozen=True)
class ExploitLast:
    """Another schedule, but `last` (zero: pure exploitation) in the final round, as in the paper's experiments."""

    schedule: Schedule
    last: float = 0.0

    def __post_init__(self) -> None:
        check_temperature(self.last)

    def __call__(self, round: int, rounds: int) -> float:
        """T' of a round."""
        _part(round, rounds)
        return self.last if round == rounds - 1 else self.schedule(round, rounds)


@dataclass(frozen=True)
class LogNormalDraws:
    """T' drawn each round from a log-normal prior; the same seed gives the same T' in the same round.

    Attributes:
        median: of T'.
        sigma: standard deviation of log T'.
        seed: of the draws.
    """

    median: float
    sigma: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not check_temperature(self.median) > 0 or not check_temperature(self.sigma) >= 0:
            raise InputError("the median of T' is above zero and sigma not negative")

    def __call__(self, round: int, rounds: int) -> float:
        """T' of a round."""
        _part(round, rounds)
        import torch

        generator = torch.Generator().manual_seed(self.seed)
        draws = torch.randn(round + 1, generator=generator, dtype=torch.float64)
        return self.median * math.exp(self.sigma * float(draws[round]))


def from_kappa(kappa: float) -> float:
    """T' = sqrt(kappa) / 2 that explores as UCB with kappa: equal gradients where C = A / 4 (paper, UCB appendix)."""
    return 0.5 * math.sqrt(check_temperature(kappa))


def _part(round: int, rounds: int) -> float:
    """How far a round lies between the first (0) and the last (1)."""
    if not 0 <= round < rounds:
        raise ValueError(f"round {round} is not one of {rounds} rounds, counted from 0")
    return round / (rounds - 1) if rounds > 1 else 0.0
