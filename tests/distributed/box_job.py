"""Search a box by all workers."""

import hashlib

import torch

from beebo_scale import BatchedEnergyEntropy, BoxSearch
from beebo_scale.proposal.box.multistart import optimize_box
from beebo_scale.proposal.box.repeats import replace_repeats
from beebo_scale.proposal.box.space import Space
from beebo_scale.proposal.jobs.chunks import ChunkRunner
from tests.helpers import exact_toy

BOUNDS = torch.tensor([[0.0, 0.0, 0.0], [1.0, 1.0, 4.0]], dtype=torch.float64)
LIMIT = (torch.tensor([0, 1]), torch.tensor([-1.0, -1.0], dtype=torch.float64), -1.2)


def found(runner: ChunkRunner) -> dict[str, str]:
    """Digests of what must not depend on the number of workers."""
    acqf = BatchedEnergyEntropy(exact_toy(n=40, d=3).posterior, 0.5)
    space = Space(BOUNDS, integer={2: 4}, inequalities=(LIMIT,))
    digests = {}
    for name, search in (
        ("joint", BoxSearch(restarts=5, steps=8, polish=0, block=10)),
        ("blocks", BoxSearch(block=4, block_steps=6)),
    ):
        X, value, record = optimize_box(acqf, space, 10, search, 3, runner)
        X, _ = replace_repeats(acqf, X, space, BOUNDS[:0])
        digests[name] = hashlib.sha256(X.numpy().tobytes() + repr((value, record)).encode()).hexdigest()
    return digests
