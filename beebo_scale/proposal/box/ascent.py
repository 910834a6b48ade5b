"""Gradient ascent of whole batches inside a space: projected Adam, then L-BFGS-B or, under constraints, SPG."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from ...acquisition import BatchedEnergyEntropy
from ...progress import track
from ...specs import BoxSearch
from .coordinate_moves import sweep
from .space import Space

EXCHANGES = 4  # rounds of single moves, at most
SLOPE, RISE = 1e-10, 1e-12  # L-BFGS-B stops below this slope, or a rise of this part of the value: far from all rows in
# many dimensions correlations are 1e-7, and so are slopes, that lead to where the best points lie all the same

FIRST, LONGEST = 0.1, 1e6  # of the steps of SPG: as a part of the box, times the slope
SLIDE = 1e-10  # SPG stops where a step promises to add less than this part of the value
REMEMBERED = 8  # values of which the worst may come again, in SPG


def climb(
    acqf: BatchedEnergyEntropy, X: Tensor, space: Space, search: BoxSearch, moving: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Projected Adam from every starting batch; each restart keeps the best batch that it visited.

    Under an approximate posterior a batch looks better the further it has moved from where that was made exact, so
    only the batches at which it was made exact compete: every `refresh` steps, and the last.

    Args:
        acqf: to maximise; its restarts do not interact.
        X: b x q x d starting batches.
        space: where they may go; whole numbers are taken as continuous on the way.
        search: steps, learning rate and refreshment.
        moving: d booleans, the columns that move; None takes all that a gradient can move.

    Returns:
        b x q x d batches and their b values.
    """
    moving = space.relaxed if moving is None else moving
    # In the unit cube, so that one step size fits all inputs.
    U = space.relax(space.unit(X), moving).requires_grad_(True)
    adam = torch.optim.Adam([U], lr=search.learning_rate)
    best, best_value, current = U.detach().clone(), U.new_full((len(U),), -math.inf), acqf
    for step in track(range(search.steps + 1), "moving the batch"):
        for group in adam.param_groups:
            group["lr"] = 0.5 * search.learning_rate * (1 + math.cos(math.pi * step / max(1, search.steps)))
        here = torch.where(moving, space.own(U), X)
        fresh = step % search.refresh == 0 or step == search.steps
        current = acqf.adapted(here) if fresh else current
        value = current(here)  # b
        if fresh or current is acqf:
            better = value.detach() > best_value
            best[better], best_value[better] = U.detach()[better], value.detach()[better]
        if step < search.steps:
            (slope,) = torch.autograd.grad(-value.sum(), [U])
            U.grad = _shared_sum(slope, space)
            adam.step()
            with torch.no_grad():
                U.copy_(space.relax(U, moving))
    return torch.where(moving, space.own(best), X), best_value


def _shared_sum(slope: Tensor, space: Space) -> Tensor:
    """The slope in a shared column is that of all points together, ... q x d -> ... q x d."""
    return torch.where(space.tied, slope.sum(-2, keepdim=True), slope) if space.shared else slope


def polish(acqf: BatchedEnergyEntropy, X: Tensor, space: Space, iterations: int) -> Tensor:
    """Batches moved on in their continuous columns by L-BFGS-B, as botorch does; bounds only.

    The sum of their values is maximised, so that they share a step length and its search.

    Args:
        acqf: to maximise.
        X: ... q x d batches of the space.
        space: its bounds count, its inequalities do not.
        iterations: of L-BFGS-B, at most.

    Returns:
        ... q x d.
    """
    own, alone = space.continuous & ~space.tied, space.continuous & space.tied
    start = space.unit(X)
    split, rows = start[..., own].numel(), X.shape[:-1]

    def batch(u: np.ndarray) -> Tensor:
        values = torch.as_tensor(u).to(start)
        U = start.clone()
        U[..., own] = values[:split].reshape(*rows, -1)
        U[..., alone] = values[split:].reshape(*rows[:-1], 1, -1).expand(*rows, -1)
        return torch.where(space.continuous, space.own(U), X)

    def value_and_slope(u: np.ndarray) -> tuple[float, np.ndarray]:
        here = batch(u).requires_grad_(True)
        value = acqf(here).sum()
        slope = torch.autograd.grad(-value, here)[0] * (space.bounds[1] - space.bounds[0])
        parts = [slope[..., own].reshape(-1), slope[..., alone].sum(-2).reshape(-1)]
        return -float(value.detach()), torch.cat(parts).cpu().numpy()

    first = torch.cat([start[..., own].reshape(-1), start[..., 0, alone].reshape(-1)]).cpu().numpy()
    found: Any = minimize(
        value_and_slope,
        first,
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, 1)] * len(first),
        options={"maxiter": iterations, "gtol": SLOPE, "ftol": RISE},
    )
    return batch(np.clip(found.x, 0.0, 1.0))


def slide(acqf: BatchedEnergyEntropy, X: Tensor, space: Space, iterations: int, moving: Tensor | None = None) -> Tensor:
    """A batch moved on under the inequalities and equalities of the space.

    Spectral projected gradient: the step of Barzilai and Borwein, the nearest batch inside, a search on the line to
    it (Birgin, Martinez and Raydan, SIAM J. Optim. 10, 2000).

    Args:
        acqf: to maximise.
        X: q x d batch of the space.
        space: where it may go.
        iterations: at most.
        moving: d booleans, the columns that move; None takes the continuous ones.

    Returns:
        q x d, the best batch visited.
    """
    moving = space.continuous if moving is None else moving

    def value_and_slope(U: Tensor) -> tuple[float, Tensor]:
        here = torch.where(moving, space.own(U), X).requires_grad_(True)
        value = acqf(here).sum()
        slope = torch.autograd.grad(-value, here)[0] * (space.bounds[1] - space.bounds[0])
        return -float(value.detach()), slope * moving

    U = space.relax(space.unit(X)[None], moving)[0]
    value, slope = value_and_slope(U)
    best, best_value, recent = U, value, [value]
    length = FIRST / max(float(slope.abs().max()), 1e-300)
    for _ in range(iterations):
        way = space.relax((U - length * slope)[None], moving)[0] - U
        fall = float((slope * way).sum())
        if -fall <= SLIDE * max(1.0, abs(value)):
            break
        part = 1.0
        while True:
            new, new_slope = value_and_slope(U + part * way)
            if new <= max(recent) + 1e-4 * part * fall or part < 1e-6:
                break
            bend = new - value - part * fall
            part *= min(0.5, max(0.1, -0.5 * part * fall / bend)) if bend > 0 else 0.5
        curved = float((part * way * (new_slope - slope)).sum())
        length = min(LONGEST, float((part * way).square().sum()) / curved) if curved > 0 else LONGEST
        U, value, slope = U + part * way, new, new_slope
        recent = [*recent, value][-REMEMBERED:]
        if value < best_value:
            best, best_value = U, value
    return torch.where(moving, space.own(space.relax(best[None], moving)[0]), X)


def ascend(acqf: BatchedEnergyEntropy, X: Tensor, space: Space, search: BoxSearch) -> tuple[Tensor, Tensor]:
    """All that there is to improve batches of the space; none ends below its start.

    Continuous columns move by gradient, whole numbers with them at first. Then single labels and whole numbers are
    exchanged and the continuous columns follow, in turn; values count at batches of the space only.

    Args:
        acqf: to maximise.
        X: b x q x d starting batches of the space.
        space: where they may go.
        search: how hard to search.

    Returns:
        b x q x d batches of the space and their b values.
    """
    by_polish = bool(search.polish) and acqf.conditioned.exact and bool(space.continuous.any())
    if by_polish and not space.discrete:  # from a good start Adam adds time and nothing else
        search = replace(search, steps=0)
    elif not by_polish:
        search = replace(search, steps=search.steps + search.polish)
    finish = polish if space.plain else slide
    X, value = _ascend_mixed(acqf, X, space, search, by_polish) if space.discrete else climb(acqf, X, space, search)
    if by_polish:
        X, value = _better(acqf, X, value, torch.stack([finish(acqf, x, space, search.polish) for x in X]))
    return X, value


def _ascend_mixed(
    acqf: BatchedEnergyEntropy, X: Tensor, space: Space, search: BoxSearch, by_polish: bool
) -> tuple[Tensor, Tensor]:
    def moved(X: Tensor, search: BoxSearch, moving: Tensor) -> Tensor:
        if by_polish and not space.plain:
            return torch.stack([slide(acqf, x, space, search.steps, moving) for x in X])
        return climb(acqf, X, space, search, moving)[0]

    with torch.no_grad():
        value = acqf.adapted(X)(X)
    if bool(space.relaxed.any()):
        X, value = _better(acqf, X, value, torch.stack([space.settle(x) for x in moved(X, search, space.relaxed)]))
    follow = replace(search, steps=search.steps // 4, learning_rate=search.learning_rate / 4)
    for _ in range(EXCHANGES):
        before = value
        X, value = _better(acqf, X, value, torch.stack([sweep(acqf, x, space) for x in X]))
        if not bool((value > before).any()):
            break
        if bool(space.continuous.any()):
            X, value = _better(acqf, X, value, moved(X, follow, space.continuous))
    return X, value


def _better(acqf: BatchedEnergyEntropy, X: Tensor, value: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """The better of two batches for each restart, and its value."""
    with torch.no_grad():
        new = acqf.adapted(other)(other)
    rises = new > value
    return torch.where(rises[:, None, None], other, X), torch.where(rises, new, value)
