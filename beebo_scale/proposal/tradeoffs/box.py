r"""A batch for several targets from a box: greedy starts over many points, then all points move together by gradient.

The energy of moving points is that of joint samples f = mean + L z, L L' = C over all pairs of point and target, with
normal numbers z that stay (common random numbers), so that a(X) is a function with a gradient. Limits have a slope over
`SOFT` standard deviations there; what is recorded of the batch is counted with hard limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import torch
from torch import Tensor

from ...acquisition import BatchedEnergyEntropy
from ...errors import InputError
from ...outcomes import cholesky
from ...specs import Choice
from ..box.ascent import ascend
from ..box.repeats import grid_steps, on_grid
from ..box.space import Space
from ..box.starts import SHARED_TRIES, perturbed, restart_seeds
from ..jobs.chunks import ChunkRunner
from ..library.exclusion import known
from .aims import Aims
from .greedy import TradeoffGreedy
from .search import JUDGED, judged, score
from .worth import Worth

SAMPLES = 128  # that a moving batch is judged by
SOFT = 0.05  # standard deviations of a target over which a limit has a slope
PAIRS = 1000  # of points and targets that move as one
POINTS, KEPT = 2048, 512  # points of a start, and how many of the best are chosen from, at least


@dataclass(frozen=True, eq=False)
class TradeoffEnergy:
    """`Worth` as an energy of `BatchedEnergyEntropy`, whose moments are those of all pairs.

    Attributes:
        worth: of points.
        tasks: t.
        z: normal numbers, s x (q t).
    """

    worth: Worth
    tasks: int
    z: Tensor

    def __call__(self, mean: Tensor, covar: Tensor, amplitude: float) -> Tensor:
        """... (q t) and ... (q t) x (q t) -> ... ."""
        q, t = mean.shape[-1] // self.tasks, self.tasks
        if self.worth.joint is None:
            blocks = covar.reshape(*covar.shape[:-2], q, t, q, t).diagonal(dim1=-4, dim2=-2).movedim(-1, -3)
            return self.worth.alone(mean.reshape(*mean.shape[:-1], q, t), blocks).sum(-1)
        f = mean.unsqueeze(-2) + self.z[:, : q * t] @ cholesky(covar).mT  # ... s x (q t)
        f = f.reshape(*f.shape[:-1], q, t)
        return self.worth.factor * self.worth.joint.of_samples(f, SOFT).mean(-1)


@dataclass(frozen=True, eq=False)
class _Box:
    """A search of a box for several targets."""

    aims: Aims
    space: Space
    choice: Choice
    acqf: BatchedEnergyEntropy
    worth: Worth

    def restart(self, seed: int) -> tuple[Tensor, Tensor]:
        """One start, moved: q x d and its value."""
        generator = torch.Generator().manual_seed(seed)
        X, value = ascend(self.acqf, self.start(generator).unsqueeze(0), self.space, self.choice.search)
        return X[0].cpu(), value[0].cpu()

    def start(self, generator: torch.Generator) -> Tensor:
        """The best greedy batch over a few values of the shared columns, if there are any."""
        tries: list[Tensor | None] = [*self.space.sample(SHARED_TRIES, generator)] if self.space.shared else [None]
        best, best_value = None, -torch.inf
        for like in tries:
            state = self.greedy(self.points(generator, like, POINTS // len(tries)), self.choice.q)
            if best is None or sum(state.gains) > best_value:
                best, best_value = state.X[state.chosen], sum(state.gains)
        assert best is not None
        return best

    def points(self, generator: torch.Generator, like: Tensor | None, count: int) -> Tensor:
        """The best points, each for itself, of many spread over the space and near the front."""
        count, q = max(count, 4 * self.choice.q), self.choice.q
        X = self.space.sample(count, generator, like)
        front = self.near_front().to(X)
        more = [perturbed(front, self.space, count // 2, generator, like)] if len(front) else []
        X = torch.cat([X, *more])
        worth = score(self.acqf.conditioned, X, self.worth, self.acqf.temperature)  # type: ignore[arg-type]
        X = X[worth.argsort(descending=True, stable=True)[: max(KEPT, 4 * q)].to(X.device)]
        return X.repeat(-(-q // len(X)), 1) if len(X) < q else X

    def near_front(self) -> Tensor:
        """Measured inputs that are worth most at their means, a tenth of them."""
        X = self.aims.inputs
        return X[self.aims.order[: max(1, len(X) // 10)]] if len(X) else X

    def greedy(self, X: Tensor, q: int, given: Tensor | None = None) -> TradeoffGreedy:
        """Greedy choice among points, given some that are in the batch already."""
        rows = X if given is None else torch.cat([given.to(X), X])
        count = 0 if given is None else len(given)
        state = TradeoffGreedy(
            self.acqf.conditioned,  # type: ignore[arg-type]
            rows,
            self.worth,
            self.acqf.temperature,
            q + count,
            SAMPLES,
            self.choice.seed,
        )
        state.choose(count)
        return state


def optimize_tradeoff(
    aims: Aims, space: Space, choice: Choice, taken: Tensor, pending: Tensor | None, runner: ChunkRunner
) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """The best batch found in a space: q x d in order of choice, what each adds, and what to record.

    Args:
        aims: with a posterior on the device of the space.
        space: to choose from.
        choice: batch size, temperature, search and seed.
        taken: encoded rows that must not come again.
        pending: rows that are running, or None.
        runner: workers that share the restarts.

    Raises:
        InputError: more points and targets than can move as one, or no room for so many settings.
    """
    q, t = choice.q, aims.posterior.tasks
    if q * t > PAIRS:
        raise InputError(f"q = {q}: a box batch for {t} targets has up to {PAIRS // t} points; lower q")
    worth = aims.worth(q, SAMPLES)
    z = torch.randn(SAMPLES // 2, q * t, generator=torch.Generator().manual_seed(choice.seed), dtype=torch.float64)
    energy = TradeoffEnergy(worth, t, torch.cat([z, -z]).to(space.bounds))
    acqf = BatchedEnergyEntropy(aims.posterior, choice.temperature, energy, pending)
    box = _Box(
        aims, space, replace(choice, search=replace(choice.search, polish=min(choice.search.polish, 50))), acqf, worth
    )
    seeds = restart_seeds(choice.seed, choice.search.restarts)

    def work(numbers: Sequence[int]) -> Iterable[tuple[int, dict[str, Tensor]]]:
        for number in numbers:
            X, value = box.restart(seeds[number])
            yield number, {"X": X, "value": value}

    done = runner.deal("box of several targets", len(seeds), work)
    values = [float(part["value"]) for part in done]
    X = done[max(range(len(values)), key=values.__getitem__)]["X"].to(space.bounds)
    replaced = 0
    if not choice.allow_repeats:
        X, replaced = _without_repeats(box, X, taken.to(space.bounds))
    state = box.greedy(X, q)
    X, gain = state.X[state.chosen], torch.tensor(state.gains, dtype=torch.float64)
    found = judged(aims, acqf.conditioned, X, SAMPLES, q, choice.seed)  # type: ignore[arg-type]
    record = {"acquisition_value": float(gain.sum()), "replaced_repeats": replaced, "box": {"restarts": values}}
    if worth.joint is not None:
        record |= {
            "samples": SAMPLES,
            "energy_by_fresh_samples": found["energy"],
            "standard_error": found["standard_error"] * sqrt(SAMPLES / JUDGED),
        }
    return X, gain, record


def _without_repeats(box: _Box, X: Tensor, taken: Tensor) -> tuple[Tensor, int]:
    """A batch on the grid with other points in place of its repeats, and how many there were."""
    space = box.space
    X = on_grid(X, space)
    steps, old = grid_steps(X, space), grid_steps(taken, space)
    clash = torch.logical_or(*known(steps, old))
    count = int(clash.sum())
    if not count:
        return X, 0
    generator, like = torch.Generator().manual_seed(box.choice.seed), X[0] if space.shared else None
    pool = space.every() if space.count <= POINTS else space.sample(POINTS, generator, like)
    if like is not None and space.count <= POINTS:
        pool = pool[((pool - like).abs() < 1e-9)[:, space.tied].all(-1)]
    pool = on_grid(torch.cat([pool, perturbed(X[clash], space, POINTS, generator, like)]), space)
    pool = pool[~torch.logical_or(*known(grid_steps(pool, space), torch.cat([old, steps[~clash]])))]
    if len(pool) < count:
        raise InputError(f"bounds: no room for {len(X)} different experiments; lower q or allow repeats")
    kept = X[~clash]
    state = box.greedy(pool, count, kept)
    return state.X[state.chosen], count
