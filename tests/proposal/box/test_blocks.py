from dataclasses import replace

import pytest
import torch

from beebo_scale import BatchedEnergyEntropy, BoxSearch
from beebo_scale.proposal.box import conditioned as precision
from beebo_scale.proposal.box.blocks import ranked
from beebo_scale.proposal.box.multistart import optimize_box
from beebo_scale.proposal.box.space import Space
from beebo_scale.proposal.jobs.chunks import ChunkRunner
from tests.helpers import close, exact_toy, sparse_toy, uniform
from tests.proposal.jobs.test_chunks import Memory

SPACE = Space(torch.tensor([[0.0] * 3, [1.0] * 3], dtype=torch.float64))
SEARCH = BoxSearch(restarts=2, steps=80, polish=0, block=6, block_steps=40)


def acquisition(temperature=1.0, **kwargs):
    return BatchedEnergyEntropy(sparse_toy(m=10, d=3).posterior, temperature, **kwargs)


@pytest.fixture(params=["all columns", "adapted"])
def few(request, monkeypatch):
    """The root holds all chosen points, or is adapted."""
    if request.param == "adapted":
        monkeypatch.setattr(precision, "IN_ROOT", 0)


@pytest.mark.slow
@pytest.mark.parametrize("maximize", [True, False])
def test_blocks_find_what_a_joint_search_finds(few, maximize):
    acqf = acquisition(maximize=maximize)
    X, value, record = optimize_box(acqf, SPACE, 20, SEARCH)
    assert X.shape == (20, 3)
    assert SPACE.contains(X).all()
    close(acqf(X), torch.tensor([value], dtype=torch.float64))  # all points jointly
    assert record["blocks"] == 4
    assert value == max(record["values"])
    assert record["values"][1] > record["values"][0]
    joint = optimize_box(acqf, SPACE, 20, replace(SEARCH, block=20))[1]
    assert value > joint - 0.02 * abs(joint)


@pytest.mark.slow
def test_without_sweeps_only_the_first_pass_is_made():
    acqf = acquisition()
    none = optimize_box(acqf, SPACE, 14, BoxSearch(block=6, block_steps=10, sweeps=0))[2]["values"]
    two = optimize_box(acqf, SPACE, 14, BoxSearch(block=6, block_steps=10, sweeps=2))[2]["values"]
    assert len(none) == 1
    assert two[0] == none[0]
    assert two[0] <= two[1] <= two[2]


@pytest.mark.slow
def test_blocks_keep_every_condition(few):
    bounds = torch.tensor([[0.0, 0.0, 0.0], [1.0, 1.0, 4.0]], dtype=torch.float64)
    limit = (torch.tensor([0, 1]), torch.tensor([-1.0, -1.0], dtype=torch.float64), -1.0)
    space = Space(bounds, integer={2: 4}, shared=(2,), inequalities=(limit,))
    acqf = BatchedEnergyEntropy(exact_toy(d=3).posterior, 1.0)
    X, value, _ = optimize_box(acqf, space, 13, BoxSearch(block=5, block_steps=10))
    assert space.contains(X).all()
    assert len(X[:, 2].unique()) == 1
    close(acqf(X), torch.tensor([value], dtype=torch.float64))


@pytest.mark.slow
def test_a_relaunch_goes_on_after_the_last_block():
    acqf, search = acquisition(), BoxSearch(block=5, block_steps=8)
    expected = optimize_box(acqf, SPACE, 13, search)
    memory = Memory()
    write = memory.write

    class KilledError(Exception):
        pass

    def stop(*item):
        write(*item)
        raise KilledError

    memory.write = stop
    for _ in range(6):
        with pytest.raises(KilledError):
            optimize_box(acqf, SPACE, 13, search, runner=ChunkRunner(ledger=memory))
    X, *rest = optimize_box(acqf, SPACE, 13, search, runner=ChunkRunner(ledger=memory))
    assert torch.equal(X, expected[0])
    assert rest == list(expected[1:])
    assert set(memory.kept) == {("block-0", 0), ("block-1", 0), ("block-2", 0), ("sweep-0-0", 0), ("sweep-0-0", 1)} | {
        ("sweep-0-1", 0)
    }


@pytest.mark.parametrize("limit", [0, 100])
def test_gains_of_a_ranked_batch_add_up(limit, monkeypatch):
    monkeypatch.setattr("beebo_scale.proposal.box.blocks.COMPARED", limit)
    acqf = acquisition()
    X = uniform(9, 3, seed=4)
    order, gain = ranked(acqf, X)
    assert sorted(order.tolist()) == list(range(9))
    assert float(gain.sum()) == pytest.approx(float(acqf(X)), rel=1e-10)
    close(gain[:4].sum(), acqf(X[order[:4]])[0])
    alone = [float(acqf(X[i : i + 1])) for i in range(9)]
    assert int(order[0]) == max(range(9), key=alone.__getitem__)
