r"""Choice of a batch from a box: all q points of each restart move together, by gradient and by exact single moves.

Restarts start from greedy batches over Sobol points and perturbed incumbents (one such start reaches a higher value
than ten random ones), from plain Sobol points, as botorch and the paper's protocol do, or from some of both. Whole
numbers are relaxed, rounded and improved one by one, as labels are. Each restart has its own seed, and restarts are
dealt out in chunks of a fixed size: any number of workers finds the same batch, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ...acquisition import BatchedEnergyEntropy
from ...energy import MeanEnergy
from ...errors import InputError
from ...specs import BoxSearch
from ..jobs.chunks import ChunkRunner
from .ascent import ascend
from .blocks import optimize_blocks
from .space import Space
from .starts import draw_start, restart_seeds

JOINT = 2_000  # points that move as one where the energy of a batch is no sum over blocks


def optimize_box(
    acqf: BatchedEnergyEntropy,
    space: Space,
    q: int,
    search: BoxSearch | None = None,
    seed: int = 0,
    runner: ChunkRunner | None = None,
) -> tuple[Tensor, float, dict[str, Any]]:
    """The best batch found in a space.

    Args:
        acqf: acquisition function.
        space: on the device of the posterior.
        q: batch size.
        search: how hard to search.
        seed: of the starts.
        runner: workers that share the restarts, and the ledger of what they have finished.

    Returns:
        q x d batch, its value, and what to record: the values of the restarts or of the blocks.

    Raises:
        InputError: a very large batch with another energy than the mean.
    """
    search, runner = search or BoxSearch(), runner or ChunkRunner()
    if acqf.temperature == 0:  # the best mean is all it asks for: a random start misses it with most of its points
        search = replace(search, start="greedy")
    adds_up = isinstance(acqf.energy, MeanEnergy) and acqf.weights is None
    if q > JOINT and not adds_up:
        raise InputError(
            f"q = {q}: a box batch of more than {JOINT:,} points is put together from blocks, which needs the plain "
            "mean energy; take it, or lower q"
        )
    search_all = optimize_blocks if q > search.block and adds_up else _optimize_jointly
    return search_all(acqf, space, q, search, seed, runner)


def _optimize_jointly(
    acqf: BatchedEnergyEntropy, space: Space, q: int, search: BoxSearch, seed: int, runner: ChunkRunner
) -> tuple[Tensor, float, dict[str, Any]]:
    seeds = restart_seeds(seed, search.restarts)
    chunks = [seeds[i : i + search.chunk] for i in range(0, len(seeds), search.chunk)]

    def work(numbers: Sequence[int]) -> Iterable[tuple[int, dict[str, Tensor]]]:
        for number in numbers:
            X = torch.stack([draw_start(acqf, space, q, search.start, s) for s in chunks[number]])
            X, value = ascend(acqf, X, space, search)
            yield number, {"X": X.cpu(), "value": value.cpu()}

    done = runner.deal("box", len(chunks), work)
    X, value = (torch.cat([part[name] for part in done]) for name in ("X", "value"))
    best = int(value.argmax())  # the first of equals
    return X[best].to(space.bounds), float(value[best]), {"restarts": value.tolist()}
