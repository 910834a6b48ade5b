"""Batches without repeats, on a grid: points often meet at a maximum or in a corner."""

from __future__ import annotations

import torch
from torch import Tensor

from ...acquisition import BatchedEnergyEntropy
from ...errors import InputError
from ..library.lazy_greedy import SHORTLIST, known
from .conditioned import PrecisionMatrix, choose_given
from .space import Space
from .starts import perturbed, starting_candidates

GRID = 1000  # steps across a continuous column: settings that fall on the same one are the same experiment
REPLACED_TOGETHER = 128  # repeats replaced together
LISTED_POINTS = 20_000  # points of a space of labels and whole numbers up to which all are candidates


def grid_steps(X: Tensor, space: Space) -> Tensor:
    """Whole steps from the low end of each column to each point (the grid goes on outside), ... d -> ... d."""
    lo, hi = space.bounds
    steps = ((X - lo) / torch.where(hi > lo, hi - lo, 1.0) * _steps(space)).round()
    for column in space.categorical:
        steps[..., column] = X[..., column]
    return steps


def on_grid(X: Tensor, space: Space) -> Tensor:
    """Points of the space rested on the grid, n x d -> n x d.

    One column for each equality follows from the others. Where the nearest step breaks an inequality, a step is taken
    to the side that the inequality likes; where that fails too, or the inequality binds a column that the batch
    shares, the point stays as it is.
    """
    U, k = space.unit(X), _steps(space)
    free = space.continuous & ~(space.tied if space.coupled else torch.zeros_like(space.tied))
    near = torch.where(free, space.own(space.polytope.solved(torch.where(free, (U * k).round() / k, U), free)), X)
    fits = space.contains(near)
    lean = space.lean(space.unit(near))  # n x d
    stepped = torch.where(lean > 0, (U * k).ceil(), torch.where(lean < 0, (U * k).floor(), (U * k).round())) / k
    leant = torch.where(free, space.own(space.polytope.solved(torch.where(free, stepped, U), free)), X)
    leant = torch.where(space.contains(leant).unsqueeze(-1), leant, X)
    return torch.where(fits.unsqueeze(-1), near, leant)


def _steps(space: Space) -> Tensor:
    steps = torch.full_like(space.bounds[0], GRID)
    for column, k in space.integer.items():
        steps[column] = k
    return steps


def replace_repeats(
    acqf: BatchedEnergyEntropy, X: Tensor, space: Space, measured: Tensor, seed: int = 0
) -> tuple[Tensor, int]:
    """Rest a batch on the grid and choose other points for its repeats, greedily given the rest.

    Args:
        acqf: acquisition function.
        X: q x d batch of the space.
        space: what it comes from; shared columns stay.
        measured: n x d inputs that must not come again.
        seed: of the other points, which lie near the repeats or anywhere.

    Returns:
        q x d batch on the grid, without repeats, the replaced points last, and their number.

    Raises:
        InputError: not enough different settings were found.
    """
    X = on_grid(X, space)
    # Repeats are found among whole numbers of steps: points that look the same may differ in the last bit.
    steps, taken = grid_steps(X, space), grid_steps(measured, space)
    clash = torch.logical_or(*known(steps, taken))
    count = int(clash.sum())
    if count == 0:
        return X, 0
    generator = torch.Generator().manual_seed(seed)
    taken, repeats, X = torch.cat([taken, steps[~clash]]), X[clash], X[~clash]
    precision = PrecisionMatrix(acqf.conditioned, len(X) + count)
    for first in range(0, len(X), 8 * REPLACED_TOGETHER):
        rows = slice(first, min(first + 8 * REPLACED_TOGETHER, len(X)))
        precision.insert(rows, X[rows])
    for some in repeats.split(REPLACED_TOGETHER):
        new = _others(acqf, some, space, taken, precision, generator)
        precision.insert(slice(len(X), len(X) + len(new)), new)
        X, taken = torch.cat([X, new]), torch.cat([taken, grid_steps(new, space)])
    return X, count


def _others(
    acqf: BatchedEnergyEntropy,
    repeats: Tensor,
    space: Space,
    taken: Tensor,
    precision: PrecisionMatrix,
    generator: torch.Generator,
) -> Tensor:
    """As many new points as there are repeats (n x d), none of them taken (in steps)."""
    count = SHORTLIST * len(repeats)
    pool = starting_candidates(acqf.posterior, space, max(count, LISTED_POINTS), generator, acqf.sign, repeats[0])
    if space.count > LISTED_POINTS:
        pool = torch.cat([pool[:count], perturbed(repeats, space, count, generator, repeats[0])])
    pool = on_grid(pool, space)
    pool = pool[~torch.logical_or(*known(grid_steps(pool, space), taken))]
    if len(pool) < len(repeats):
        raise InputError(f"bounds: no room for {precision.capacity} different experiments; lower q or allow repeats")
    return choose_given(precision, pool, len(repeats), acqf.temperature, acqf.sign)
