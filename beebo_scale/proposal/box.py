r"""Choice of a batch from a box: all q points of b restarts move together by gradient on a b x q x d tensor.

Restarts start either from greedy batches over Sobol points and perturbed incumbents (one such start beats ten random
ones) or from plain Sobol points, as botorch and the paper's protocol do. Projected Adam with a cosine schedule moves
them inside the bounds. All randomness comes from one CPU generator, restart by restart, so that restarts can be dealt
out in any way without changing any of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from ..acquisition import BatchedEnergyEntropy
from ..errors import InputError
from ..posterior import Posterior
from ..progress import track
from .pool import SHORTLIST, greedy, known

Start = Literal["greedy", "sobol"]
GRID = 1000  # steps across a box: settings that fall on the same one are the same experiment


@dataclass(frozen=True)
class BoxSearch:
    """How hard to search.

    Attributes:
        restarts: number of batches moved side by side, b.
        steps: gradient steps.
        learning_rate: first step of Adam, as a part of the box; it falls to zero on a cosine.
        start: "greedy" or "sobol".
        refresh: steps after which an approximate posterior is made exact at the batches as they are then.
    """

    restarts: int = 4
    steps: int = 200
    learning_rate: float = 0.05
    start: Start = "greedy"
    refresh: int = 50


def candidates(
    posterior: Posterior, bounds: Tensor, count: int, generator: torch.Generator, sign: float = 1.0
) -> Tensor:
    """Points worth starting from: scrambled Sobol points, and every fourth an incumbent with a small perturbation.

    Args:
        posterior: its centers with the best posterior means are the incumbents.
        bounds: 2 x d.
        count: number of points.
        generator: on the CPU.
        sign: -1 where small targets are good.

    Returns:
        count x d.
    """
    near = count // 4
    with torch.no_grad():
        order = (sign * posterior.mean(posterior.centers)).argsort(descending=True, stable=True)
    best = posterior.centers[order[: max(1, len(order) // 10)]].to(bounds)
    return torch.cat([sobol(bounds, count - near, generator), perturbed(best, bounds, near, generator)])


def perturbed(points: Tensor, bounds: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Count points near some of the given ones, at 0.001 to 0.1 of the box: n x d -> count x d."""
    lo, hi = bounds
    pick = torch.randint(len(points), (count,), generator=generator)
    width = 10.0 ** (-1.0 - 2.0 * torch.rand(count, 1, generator=generator, dtype=torch.float64))
    step = width * torch.randn(count, bounds.shape[-1], generator=generator, dtype=torch.float64)
    return (points[pick.to(points.device)] + step.to(bounds) * (hi - lo)).clamp(lo, hi)


def sobol(bounds: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Scrambled Sobol points in the box, count x d; the scramble is drawn from the generator."""
    seed = int(torch.randint(2**31, (1,), generator=generator))
    U = SobolEngine(bounds.shape[-1], scramble=True, seed=seed).draw(count, dtype=torch.float64)
    return torch.lerp(bounds[0], bounds[1], U.to(bounds))


def draw_starts(acqf: BatchedEnergyEntropy, bounds: Tensor, q: int, search: BoxSearch, seed: int) -> Tensor:
    """Starting batches, b x q x d."""
    generator = torch.Generator().manual_seed(seed)
    if search.start == "sobol":
        return torch.stack([sobol(bounds, q, generator) for _ in range(search.restarts)])
    count = max(1024, SHORTLIST // 2 * q)
    starts = []
    for _ in track(range(search.restarts), "greedy starts"):
        X = candidates(acqf.posterior, bounds, count, generator, acqf.sign)
        rows, _ = greedy(acqf.conditioned, X, q, acqf.temperature, acqf.sign)
        starts.append(X[rows])
    return torch.stack(starts)


def climb(acqf: BatchedEnergyEntropy, X: Tensor, bounds: Tensor, search: BoxSearch) -> tuple[Tensor, Tensor]:
    """Projected Adam from every starting batch; each restart keeps the best batch that it visited.

    Under an approximate posterior a batch looks better the further it has moved from where that was made exact, so
    only the batches at which it was made exact compete: every `refresh` steps, and the last.

    Args:
        acqf: to maximise; its restarts do not interact.
        X: b x q x d starting batches.
        bounds: 2 x d.
        search: steps, learning rate and refreshment.

    Returns:
        b x q x d batches and their b values.
    """
    lo, hi = bounds
    # In the unit cube, so that one step size fits all inputs.
    U = ((X - lo) / (hi - lo)).clamp(0.0, 1.0).requires_grad_(True)
    adam = torch.optim.Adam([U], lr=search.learning_rate)
    best, best_value, current = U.detach().clone(), U.new_full((len(U),), -math.inf), acqf
    for step in track(range(search.steps + 1), "moving the batch"):
        for group in adam.param_groups:
            group["lr"] = 0.5 * search.learning_rate * (1 + math.cos(math.pi * step / max(1, search.steps)))
        X = torch.lerp(lo, hi, U)  # lerp meets both ends exactly
        fresh = step % search.refresh == 0 or step == search.steps
        current = acqf.adapted(X) if fresh else current
        value = current(X)  # b
        if fresh or current is acqf:
            better = value.detach() > best_value
            best[better], best_value[better] = U.detach()[better], value.detach()[better]
        if step < search.steps:
            (U.grad,) = torch.autograd.grad(-value.sum(), [U])
            adam.step()
            with torch.no_grad():
                U.clamp_(0.0, 1.0)
    return torch.lerp(lo, hi, best), best_value


def optimize_box(
    acqf: BatchedEnergyEntropy, bounds: Tensor, q: int, search: BoxSearch | None = None, seed: int = 0
) -> tuple[Tensor, float]:
    """The best batch found in a box.

    Args:
        acqf: acquisition function.
        bounds: 2 x d, lower and upper.
        q: batch size.
        search: how hard to search.
        seed: of the starts.

    Returns:
        q x d batch and its value.
    """
    search = search or BoxSearch()
    X, value = climb(acqf, draw_starts(acqf, bounds, q, search, seed), bounds, search)
    best = int(value.argmax())
    return X[best], float(value[best])


def replace_repeats(
    acqf: BatchedEnergyEntropy, X: Tensor, bounds: Tensor, measured: Tensor, seed: int = 0
) -> tuple[Tensor, int]:
    """Points often meet, at a maximum or in a corner: rest the batch on a grid and choose others for the repeats.

    Args:
        acqf: acquisition function.
        X: q x d batch.
        bounds: 2 x d.
        measured: n x d inputs that must not come again.
        seed: of the other points, which lie near the repeats or anywhere in the box.

    Returns:
        q x d batch on the grid, without repeats, and the number of points replaced.

    Raises:
        InputError: not enough different settings were found.
    """
    # Repeats are found among whole numbers of steps: points that look the same may differ in the last bit.
    steps, taken = grid_steps(X, bounds), grid_steps(measured, bounds)
    clash = torch.logical_or(*known(steps, taken))
    count = int(clash.sum())
    if count > 0:
        taken = torch.cat([taken, steps[~clash]])
        generator = torch.Generator().manual_seed(seed)
        anywhere = candidates(acqf.posterior, bounds, SHORTLIST * len(X), generator, acqf.sign)
        nearby = perturbed(X[clash], bounds, SHORTLIST * len(X), generator)
        pool = grid_steps(torch.cat([anywhere, nearby]), bounds)
        pool = pool[~torch.logical_or(*known(pool, taken))]
        if len(pool) < count:
            raise InputError(f"bounds: no room for {len(X)} different experiments in the box; lower q or allow repeats")
        kept = on_grid(steps[~clash], bounds)
        rest = acqf.conditioned.augment(kept) if len(kept) else acqf.conditioned
        chosen, _ = greedy(rest, on_grid(pool, bounds), count, acqf.temperature, acqf.sign)
        steps = torch.cat([steps[~clash], pool[chosen]])
    return on_grid(steps, bounds), count


def grid_steps(X: Tensor, bounds: Tensor) -> Tensor:
    """Whole steps from the low end of the box to each point (the grid goes on outside it), ... d -> ... d."""
    lo, hi = bounds
    return ((X - lo) / (hi - lo) * GRID).round()


def on_grid(steps: Tensor, bounds: Tensor) -> Tensor:
    """The points so many steps from the low end, ... d -> ... d."""
    return torch.lerp(bounds[0], bounds[1], steps / GRID)
