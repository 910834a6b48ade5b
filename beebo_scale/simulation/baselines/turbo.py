r"""TuRBO-1 (Eriksson et al. 2019): Thompson sampling in a box around the best point, which grows and shrinks.

The box has the sides L l_i / (prod l)^(1/d) in the unit cube, l the lengthscales, cut at the cube. A round succeeds if
it improves the best value by a thousandth of it. Three successes in a row double L (up to 1.6), max(4, d) / q failures
in a row, rounded up, halve it; below 2^-7 all is forgotten and a new run starts from q points at random.

All of this follows from the values measured so far, round by round: it is found again by replaying them (`replay`), so
that a run that was stopped goes on as if it had not been.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.quasirandom import SobolEngine

from ...surrogates import Surrogate
from ..strategies import Learned, cube_of, joint_samples, winners
from ..world import Points, State

FIRST, MOST, LEAST = 0.8, 1.6, 0.5**7  # lengths L
SUCCESSES = 3  # in a row
GAIN = 1e-3  # of the best value, that counts as a success
CHANGED = 20  # inputs of a candidate that differ from those of the best point, on average
MOST_CANDIDATES = 5000


@dataclass(frozen=True)
class Region:
    """The state of TuRBO-1 between two rounds.

    Attributes:
        length: L.
        successes: in a row.
        failures: in a row.
        best: value since the last restart.
        since: number of points that were measured before that.
    """

    length: float = FIRST
    successes: int = 0
    failures: int = 0
    best: float = -math.inf
    since: int = 0

    def after(self, value: float, tolerance: int) -> Region:
        """The state after a round whose best value is `value`; `tolerance` is that of failures in a row."""
        success = value > self.best + GAIN * abs(self.best)
        successes, failures = (self.successes + 1, 0) if success else (0, self.failures + 1)
        length = self.length
        if successes == SUCCESSES:
            length, successes = min(2.0 * length, MOST), 0
        elif failures == tolerance:
            length, failures = length / 2.0, 0
        return replace(self, length=length, successes=successes, failures=failures, best=max(self.best, value))


def replay(values: NDArray[np.float64], start: int, q: int, d: int) -> Region:
    """The state after rounds of q points.

    Args:
        values: n measured values in the order of measurement, large ones good.
        start: how many of them belong to the start.
        q: batch size.
        d: number of inputs.
    """
    tolerance = math.ceil(max(4.0 / q, d / q))
    region = Region(best=float(values[:start].max()))
    for at in range(start, len(values), q):
        value = float(values[at : at + q].max())
        if region.since == at:  # the start of a new run
            region = replace(region, best=value)
            continue
        region = region.after(value, tolerance)
        if region.length < LEAST:
            region = Region(since=at + q)
    return region


@dataclass(frozen=True)
class Turbo(Learned):
    """TuRBO-1, its surrogate learned from the points since the last restart."""

    def region(self, state: State) -> Region:
        """Where the run stands."""
        start = len(state.values) - state.q * state.round
        return replay(state.sign * state.values, start, state.q, state.points.shape[-1])

    def fit(self, state: State) -> Surrogate | None:
        """The surrogate of the points since the last restart; None where there are none."""
        since = self.region(state).since
        if since == len(state.values):
            return None
        return super().fit(replace(state, points=state.points[since:], values=state.values[since:]))

    def choose(self, state: State, model: Surrogate | None) -> Points:
        """One point for each of q joint samples; points at random after a restart."""
        if model is None:
            return state.world.draw(state.q, state.points, state.seed)
        settings, region = cube_of(state, model), self.region(state)
        space, posterior = settings.space, model.posterior()
        best = region.since + int((state.sign * state.values[region.since :]).argmax())
        table = state.world.table(state.points[best : best + 1], state.values[best : best + 1])
        center = space.unit(model.encoder.encode(table)).squeeze(0)  # d
        lengthscales = model.lengthscales / (space.bounds[1] - space.bounds[0])
        generator = torch.Generator().manual_seed(state.seed)
        X = space.own(candidates(center, sides(region.length, lengthscales), state.q, generator))
        samples = joint_samples(posterior, X, state.q, generator)
        return state.world.chosen(settings.frame(X[winners(state.sign * samples)]))


def sides(length: float, lengthscales: Tensor) -> Tensor:
    """Sides of the box in the unit cube, in proportion to the lengthscales (d) and with the volume length^d: d."""
    return length * torch.exp(lengthscales.log() - lengthscales.log().mean())


def candidates(center: Tensor, side: Tensor, q: int, generator: torch.Generator) -> Tensor:
    """Points of the box, each with some of its inputs as in the center (n x d, in the unit cube).

    n = min(5000, max(2000, 200 d)) Sobol points, at least q; each input is drawn with probability min(1, 20 / d), and
    at least one of each point.

    Args:
        center: d, in the unit cube.
        side: d sides.
        q: number of points that will be chosen.
        generator: of all chance.
    """
    d = len(center)
    n = max(q, min(MOST_CANDIDATES, max(2000, 200 * d)))
    lo, hi = (center - side / 2).clamp(0.0, 1.0), (center + side / 2).clamp(0.0, 1.0)
    seed = int(torch.randint(2**31, (1,), generator=generator))
    U = torch.lerp(lo, hi, SobolEngine(d, scramble=True, seed=seed).draw(n, dtype=center.dtype))
    drawn = torch.rand(n, d, generator=generator) <= min(1.0, CHANGED / d)
    drawn[torch.arange(n), torch.randint(d, (n,), generator=generator)] |= ~drawn.any(-1)
    return torch.where(drawn, U, center)
