"""Where a search of a space starts: points worth starting from, and greedy batches of them."""

from __future__ import annotations

import torch
from torch import Tensor

from ...acquisition import BatchedEnergyEntropy
from ...posterior import Posterior
from ...specs.choice import Start
from ..library.dense_greedy import greedy_eagerly
from ..library.lazy_greedy import score
from .ascent import polish
from .space import Space

SHARED_TRIES = 8  # values of the shared columns that a greedy start compares
SUMMITS, SUMMIT_STEPS = 16, 20  # points that climb, each for itself, before a greedy start; iterations of L-BFGS-B
POINTS_KEPT = 512  # best points of which a batch is chosen, at least, or five for each point of it


def restart_seeds(seed: int, count: int) -> list[int]:
    """A seed for each restart: any worker can draw any restart, and more restarts change none of the first."""
    generator = torch.Generator().manual_seed(seed)
    return [int(torch.randint(2**62, (1,), generator=generator)) for _ in range(count)]


def draw_start(acqf: BatchedEnergyEntropy, space: Space, q: int, start: Start, seed: int) -> Tensor:
    """The starting batch of one restart, q x d: greedy over many points, plain points of the space, or mixed.

    A part n^(-1/d) / 2 of a mixed batch, n the number of points known, are the best of these with a small change: the
    less they fill a space of d inputs, the less can be learned of its lengthscales but from rows close together.
    """
    generator = torch.Generator().manual_seed(seed)
    if start == "greedy":
        return _greedy_start(acqf, space, q, generator)
    like = space.sample(1, generator)[0] if space.shared else None
    X = space.sample(q, generator, like)
    if start == "mixed" and space.count > q:
        free = int((space.bounds[1] > space.bounds[0]).sum())
        best = incumbents(acqf.posterior, acqf.sign).to(space.bounds)
        count = round(0.5 * q * len(acqf.posterior.points) ** (-1.0 / free)) if len(best) else 0
        near = perturbed(best, space, count, generator, like)
        X[: len(near)] = near
    return X


def _greedy_start(acqf: BatchedEnergyEntropy, space: Space, q: int, generator: torch.Generator) -> Tensor:
    """The best greedy batch over a few values of the shared columns, if there are any."""
    count = max(1024, 10 * q)
    tries: list[Tensor | None] = [None]
    if space.shared:
        tries, count = [*space.sample(SHARED_TRIES, generator)], max(256, count // SHARED_TRIES, 2 * q)
    # Under constraints the summits of bounds alone say little: they are looked for at the best shared values only.
    late = bool(space.shared) and not space.plain
    best, best_gain = None, -torch.inf
    for k in range(len(tries) + late):
        like = tries[k] if k < len(tries) or best is None else best[0]
        X, first = _starting_points(acqf, space, count, generator, like, not late or k == len(tries))
        X = X[first.argsort(descending=True, stable=True)[: max(POINTS_KEPT, 5 * q)]]
        rows, gain = greedy_eagerly(acqf.conditioned, X, q, acqf.temperature, acqf.sign)
        if best is None or float(gain.sum()) > best_gain:
            best, best_gain = X[rows.to(X.device)], float(gain.sum())
    assert best is not None
    return best


def _starting_points(
    acqf: BatchedEnergyEntropy,
    space: Space,
    count: int,
    generator: torch.Generator,
    like: Tensor | None,
    with_summits: bool = True,
) -> tuple[Tensor, Tensor]:
    """Candidates, summits of the acquisition function of a single point, points near these (n x d); their gains, n."""
    X = starting_candidates(acqf.posterior, space, count, generator, acqf.sign, like)
    if space.count <= count:  # every restart would choose the same
        some = torch.rand(len(X), generator=generator).argsort()[: max(1, 3 * len(X) // 4)]
        X = X[some.sort().values.to(X.device)]
    first = score(acqf.conditioned, X, acqf.temperature, acqf.sign)
    around = space if like is None else space.with_shared(like)
    if not with_summits or space.count <= count or not bool(around.continuous.any()):
        return X, first
    top = first.argsort(descending=True, stable=True)[:SUMMITS]
    summits = space.near(polish(acqf, X[top].unsqueeze(-2), around, SUMMIT_STEPS).squeeze(-2), like)
    if not len(summits):
        return X, first
    more = torch.cat([summits, perturbed(summits, space, count // 4, generator, like)])
    return torch.cat([X, more]), torch.cat([first, score(acqf.conditioned, more, acqf.temperature, acqf.sign)])


def starting_candidates(
    posterior: Posterior,
    space: Space,
    count: int,
    generator: torch.Generator,
    sign: float = 1.0,
    like: Tensor | None = None,
) -> Tensor:
    """Points worth starting from: points spread over the space, and every fourth an incumbent with a small change.

    Args:
        posterior: its points with the best posterior means are the incumbents.
        space: all points of a small one are candidates.
        count: number of points, about.
        generator: on the CPU.
        sign: -1 where small targets are good.
        like: d; shared columns are as in this point.

    Returns:
        n x d, n at least one and at most `count`.
    """
    if space.count <= count:
        X = space.every()
        same = X if like is None else X[((X - like).abs() < 1e-9)[:, space.tied].all(-1)]
        return same if len(same) else space.sample(1, generator, like)
    best = incumbents(posterior, sign).to(space.bounds)
    near = count // 4 if len(best) else 0
    return torch.cat([space.sample(count - near, generator, like), perturbed(best, space, near, generator, like)])


def incumbents(posterior: Posterior, sign: float) -> Tensor:
    """The tenth of the known points with the best posterior means, best first, n x d."""
    with torch.no_grad():
        order = (sign * posterior.mean(posterior.points)).argsort(descending=True, stable=True)
    return posterior.points[order[: max(1, len(order) // 10)]]


def perturbed(
    points: Tensor, space: Space, count: int, generator: torch.Generator, like: Tensor | None = None
) -> Tensor:
    """At most `count` points of the space near some of the given ones (n x d), at 0.001 to 0.1 of its width.

    Labels change with the same small chance; points that cannot be brought into the space are left out.
    """
    pick = torch.randint(max(1, len(points)), (count,), generator=generator)
    width = 10.0 ** (-1.0 - 2.0 * torch.rand(count, 1, generator=generator, dtype=torch.float64))
    step = (width * torch.randn(count, space.width, generator=generator, dtype=torch.float64)).to(space.bounds)
    change = torch.rand(count, space.width, generator=generator, dtype=torch.float64) < width
    if space.categorical:
        other = space.sample(count, generator, like)
    X = points[pick.to(points.device)]
    moved = torch.where(space.relaxed, space.own(space.unit(X) + step), X)
    for column in space.categorical:
        moved[:, column] = torch.where(change[:, column].to(X.device), other[:, column], moved[:, column])
    return space.near(moved, like)
