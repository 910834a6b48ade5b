r"""Batches of thousands of points from a space, put together from blocks.

By the chain rule a(A u B) = a(A) + a(B | A), the second with the covariance given A. So: choose a block greedily given
the blocks before it and move it by gradient; then, in sweeps, move each block again given all the others. No block
ends below where it started, and the value of the whole batch is that of one q x q Cholesky factor, exactly.

Memory is three q x q matrices at most (the precision matrix, a matrix and its factor for the value), time
O(q^2 block) for each block and sweep; `precision` says how.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ...acquisition import BatchedEnergyEntropy
from ...progress import track
from ...specs import BoxSearch
from ..jobs.chunks import ChunkRunner
from ..library.lazy_greedy import greedy, score
from .ascent import ascend
from .conditioned import COMPARED, ConditionedPosterior, PrecisionMatrix, choose_given, joint_gains
from .space import Space
from .starts import draw_start, restart_seeds, starting_candidates

AT_ONCE = 2  # blocks of a sweep that move side by side, each given the others as they were


def optimize_blocks(
    acqf: BatchedEnergyEntropy, space: Space, q: int, search: BoxSearch, seed: int, runner: ChunkRunner
) -> tuple[Tensor, float, dict[str, Any]]:
    """A batch of any size, with the mean energy; arguments and results as in `optimize_box`.

    The first block decides what the batch shares.
    """
    short = replace(search, steps=search.block_steps, refresh=max(1, search.block_steps // 2), polish=0)
    parts = [slice(first, min(first + search.block, q)) for first in range(0, q, search.block)]
    seeds = restart_seeds(seed, len(parts))
    precision = PrecisionMatrix(acqf.conditioned, q)
    for k in track(range(len(parts)), "choosing blocks"):
        precision.insert(parts[k], _new_block(acqf, space, parts[k], short, seeds[k], runner, f"block-{k}", precision))
        if k == 0:
            space = space.with_shared(precision.X[0])
    value = _value(acqf, precision.X)
    values = [value]
    best = precision.X.clone()
    steps = max(1, short.steps // 4)
    again = replace(short, steps=steps, refresh=steps, learning_rate=short.learning_rate / 4)
    for n in range(search.sweeps):
        _sweep(acqf, space, parts, again, runner, f"sweep-{n}", precision)
        value = _value(acqf, precision.X)
        values.append(value)
        if value > max(values[:-1]):
            best = precision.X.clone()
    return best, max(values), {"blocks": len(parts), "values": values}


def _value(acqf: BatchedEnergyEntropy, X: Tensor) -> float:
    return float(joint_gains(acqf.conditioned, X, acqf.temperature, acqf.sign).sum())


def _given(
    acqf: BatchedEnergyEntropy, precision: PrecisionMatrix, without: slice | None = None
) -> BatchedEnergyEntropy:
    """The acquisition function given the chosen points, those of some rows left out."""
    given = copy.copy(acqf)
    given.conditioned = ConditionedPosterior.of(precision, without)
    return given


def _new_block(
    acqf: BatchedEnergyEntropy,
    space: Space,
    rows: slice,
    search: BoxSearch,
    seed: int,
    runner: ChunkRunner,
    stage: str,
    precision: PrecisionMatrix,
) -> Tensor:
    """A block given those before it, moved from a greedy start."""
    count = rows.stop - rows.start

    def work(numbers: Sequence[int]) -> Iterable[tuple[int, Tensor]]:
        for number in numbers:
            if rows.start == 0:
                X = draw_start(acqf, space, count, search.start, seed)
                X, _ = ascend(acqf, X[None], space, search)
            else:
                generator = torch.Generator().manual_seed(seed)
                pool = starting_candidates(acqf.posterior, space, max(COMPARED, 2 * count), generator, acqf.sign)
                pool = pool[torch.arange(max(len(pool), count), device=pool.device) % len(pool)]
                X = choose_given(precision, pool, count, acqf.temperature, acqf.sign)
                X, _ = ascend(_given(acqf, precision), X[None], space, search)
            yield number, X[0].cpu()

    return runner.deal(stage, 1, work)[0].to(space.bounds)


def _sweep(
    acqf: BatchedEnergyEntropy,
    space: Space,
    parts: Sequence[slice],
    search: BoxSearch,
    runner: ChunkRunner,
    stage: str,
    precision: PrecisionMatrix,
) -> None:
    """Move each block given all the others."""

    def moved(rows: slice) -> Tensor:
        return ascend(_given(acqf, precision, rows), precision.X[rows][None].clone(), space, search)[0][0].cpu()

    for first in track(range(0, len(parts), AT_ONCE), "moving blocks"):
        some = parts[first : first + AT_ONCE]
        work = functools.partial(_each, some, moved)
        results = runner.deal(f"{stage}-{first // AT_ONCE}", len(some), work)
        changed = False
        for rows, X in zip(some, results, strict=True):
            X = X.to(space.bounds)
            if torch.equal(X, precision.X[rows]) or (changed and not _rises(acqf, precision, rows, X)):
                continue
            precision.remove(rows)
            precision.insert(rows, X)
            changed = True


def _each(
    parts: Sequence[slice], moved: Callable[[slice], Tensor], numbers: Sequence[int]
) -> Iterable[tuple[int, Tensor]]:
    return ((number, moved(parts[number])) for number in numbers)


def _rises(acqf: BatchedEnergyEntropy, precision: PrecisionMatrix, rows: slice, X: Tensor) -> bool:
    """Whether new points are worth more than those in their rows, given all others as they are now."""
    both = torch.stack([precision.X[rows], X])
    with torch.no_grad():
        old, new = _given(acqf, precision, rows).adapted(both)(both)
    return bool(new > old)


def ranked(acqf: BatchedEnergyEntropy, X: Tensor) -> tuple[Tensor, Tensor]:
    """A batch (q x d) in the order of choice, best first: its rows and what each adds to a(X), with the mean energy.

    Greedy, so that gains never rise; a very large batch by what each point is worth alone, given those before it.
    """
    if len(X) <= COMPARED:
        return greedy(acqf.conditioned, X, len(X), acqf.temperature, acqf.sign)
    order = score(acqf.conditioned, X, acqf.temperature, acqf.sign).argsort(descending=True, stable=True)
    return order.cpu(), joint_gains(acqf.conditioned, X[order], acqf.temperature, acqf.sign).cpu()
