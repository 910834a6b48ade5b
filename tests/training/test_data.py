import numpy as np
import pytest
import torch

from beebo_scale.errors import InputError
from beebo_scale.training.data import FileRows, Judged, Minibatches
from beebo_scale.training.splits import VALIDATION
from beebo_scale.workers import Workers
from tests.training.runs import data, module, screen, trainer


@pytest.fixture
def source(tmp_path):
    found = data(screen(tmp_path / "s.csv"))
    found.trainer = trainer(tmp_path)
    found.prepare_data()
    found.setup("fit")
    return found


def batches(source, workers, epoch=0, seed=0, size=64):
    return [
        list(Minibatches(source.training, size, seed, Workers(rank, workers), lambda: epoch)) for rank in range(workers)
    ]


def test_workers_share_the_batches_of_one(source):
    alone = batches(source, 1)[0]
    assert len(alone) == len(source.training) // 64 == 3  # the last, smaller one is left out
    for several in (batches(source, 2), batches(source, 4)):
        for step, batch in enumerate(alone):
            for name in ("rows", "y", "count", "scatter"):
                shares = [getattr(part[step], name) for part in several]
                assert torch.equal(torch.cat(shares), getattr(batch, name))


def test_the_order_depends_on_epoch_and_seed_alone(source):
    def y(**changes):
        return torch.cat([batch.y for batch in batches(source, 1, **changes)[0]])

    assert torch.equal(y(epoch=3), y(epoch=3))
    assert not torch.equal(y(epoch=3), y(epoch=4))
    assert not torch.equal(y(epoch=3, seed=1), y(epoch=3))
    assert len(y().unique()) == 192


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_each_held_out_row_is_judged_once(source, workers):
    rows = source.store.members(VALIDATION)
    found = [batch[1] for rank in range(workers) for batch in Judged(source.store, rows[rank::workers])]
    assert torch.cat(found).sort().values.tolist() == source.store.y[rows].sort().values.tolist()


@pytest.mark.parametrize("workers", [1, 3])
def test_each_row_of_a_file_is_read_once(source, workers, monkeypatch):
    monkeypatch.setattr("beebo_scale.screening.files.delimited.BYTES_AT_ONCE", 900)
    found = {}
    for rank in range(workers):
        pieces = FileRows(source.file, source.store.encoder, Workers(rank, workers))
        mine = {int(numbers[0]): rows for numbers, rows in pieces}
        assert workers == 1 or len(mine) > 1
        found |= mine
    rows = torch.cat([found[first] for first in sorted(found)])
    assert sum(len(rows) for rows in found.values()) == 240
    assert torch.equal(rows, source.store.rows)


REFUSED = {
    "batch above the rows": ({"batch_size": 500}, "batch_size = 500, but there are 192 distinct training rows"),
    "no batch": ({"batch_size": 0}, "batch_size = 0, but there are 192"),
    "no target": ({"target": None}, r"name the measured column by data\.target"),
    "nothing to learn from": ({"validation": 0.6, "test": 0.4}, "leaves no rows to learn from"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", REFUSED)
def test_bad_settings_are_refused(case, tmp_path):
    changes, words = REFUSED[case]
    with pytest.raises(InputError, match=words):
        trainer(tmp_path, 1).fit(module(), datamodule=data(screen(tmp_path / "s.csv"), **changes))


def test_fewer_rows_than_workers_and_odd_shares_are_refused(source, monkeypatch):
    few = source.store.members(VALIDATION)[:1]
    monkeypatch.setattr(type(source.store), "members", lambda self, part: few)
    monkeypatch.setattr(type(source.trainer), "world_size", 2)
    with pytest.raises(InputError, match=r"1 validation rows for 2 processes; raise data\.validation, or start fewer"):
        source.val_dataloader()
    with pytest.raises(InputError, match="batch_size = 64 does not divide among 3 processes; give a multiple"):
        source._check_batch(192, 3)


def test_replicates_are_merged(tmp_path):
    found = data(screen(tmp_path / "s.csv", x=np.repeat(np.arange(24), 10), z=0.0))
    found.trainer = trainer(tmp_path)
    found.prepare_data()
    found.setup("fit")
    assert len(found.training) <= 24 * 3
    assert int(found.training.count.sum()) == 192
