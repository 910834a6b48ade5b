"""What two workers find is what this process finds alone, bit for bit; one start of torchrun serves all."""

import pytest
import torch

from beebo_scale.proposal.jobs.chunks import ChunkRunner
from beebo_scale.proposal.library import certified as stream
from beebo_scale.proposal.library import lazy_greedy as pool
from beebo_scale.workers import Workers
from tests.distributed import box_job, love_job, sparse_job, stream_job
from tests.distributed.torchrun import torchrun
from tests.helpers import close, uniform
from tests.proposal.library.test_certified import frame_of

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What two workers found, and the library that they chose from."""
    folder = tmp_path_factory.mktemp("two")
    X = uniform(400, 3, seed=5)
    library = frame_of(torch.cat([X, X[:50]])).assign(scaffold=lambda f: (8 * f["x0"]).astype(int))
    library.to_csv(folder / "library.csv", index=False)
    torchrun("jobs", 2, folder, "box", "love", "sparse", "stream")
    return folder


def found(folder, name, workers=2):
    return [torch.load(folder / f"{name}-{rank}.pt") for rank in range(workers)]


def test_a_box(folder, tmp_path):
    alone = box_job.found(ChunkRunner())
    torchrun("jobs", 3, tmp_path, "box")
    assert found(folder, "box") == [alone] * 2
    assert found(tmp_path, "box", 3) == [alone] * 3


def test_a_love_root(folder):
    alone = love_job.build(Workers())
    for result in found(folder, "love"):
        assert result["report"] == alone["report"]
        for name in ("root", "weights", "odd product", "plain product"):
            assert torch.equal(result[name], alone[name]), name
        assert torch.equal(result["odd product"], result["plain product"])
        torch.testing.assert_close(result["adapted"], alone["adapted"], rtol=1e-8, atol=1e-8)


def test_sparse_surrogates(folder):
    alone = {**sparse_job.results(), "P": sparse_job.natural_step(0, 1)}
    for worker in found(folder, "sparse"):
        assert worker.keys() == alone.keys()
        close(worker.pop("P"), alone["P"], rtol=1e-12)  # a sum over rows in another order
        for name, value in worker.items():
            expected = alone[name]
            if name == "slopes":
                assert all(torch.equal(a, b) for a, b in zip(value, expected, strict=True))
            elif isinstance(value, torch.Tensor):
                assert torch.equal(value, expected), name
            else:
                assert value == expected, name


def test_blocks(folder, tmp_path):
    """The same bits for one, two and three workers."""
    torchrun("jobs", 3, tmp_path, "sparse")
    alone = sparse_job.blocks(uniform(10, 2, seed=5))
    for worker in [*found(folder, "sparse"), *found(tmp_path, "sparse", 3)]:
        for name, value in alone.items():
            assert torch.equal(worker[name], value), name


def test_a_batch_from_a_library(folder, monkeypatch):
    for module, name in ((stream, "RESERVE"), (stream, "LONG"), (pool, "SHORTLIST")):
        monkeypatch.setattr(module, name, getattr(module, name))  # `build` sets them; put them back afterwards
    alone = stream_job.build(Workers(), str(folder / "library.csv"))
    for result in found(folder, "stream"):
        for name in ("rows", "gain", "X", "runners_up"):
            assert torch.equal(result[name], alone[name]), name
        assert result["certificate"] == alone["certificate"]
        assert result["counts"] == alone["counts"]
        assert result["table"] == alone["table"]
