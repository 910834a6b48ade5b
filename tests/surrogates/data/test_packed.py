import torch

from beebo_scale.screening.packing import Packing
from beebo_scale.surrogates.data.observations import (
    PackedObservations,
    measurements_of,
    merge_packed,
    merge_replicates,
)
from tests.helpers import close, normal, uniform


def packed(X):
    """Rows of numbers as bytes."""
    return X.contiguous().view(torch.uint8).reshape(len(X), -1), Packing((("numbers", X.shape[1]),))


def with_repeats():
    X = uniform(30, 2, seed=1)
    X[7], X[20], X[29] = X[3], X[3], X[11]
    return X, normal(30, seed=2)


def test_merging_packed_rows_is_merging_rows():
    X, y = with_repeats()
    for noise in (None, 0.1 + uniform(30, seed=3)):
        expected, found = merge_replicates(X, y, noise), merge_packed(*packed(X), y, noise)
        assert len(found) == len(expected) == 27
        for name in ("X", "y", "count", "scatter"):
            assert torch.equal(getattr(found, name), getattr(expected, name)), name
        assert (found.noise is None) == (noise is None)
        if noise is not None:
            close(found.noise, expected.noise)


def test_taking_rows_unpacks_them_in_the_format_asked_for():
    X, y = with_repeats()
    data = merge_packed(*packed(X), y, torch.ones(30, dtype=torch.float64))
    some = data.in_format(torch.float32).take(torch.tensor([4, 0]))
    assert torch.equal(some.X, data.X[[4, 0]].float())
    assert {some.y.dtype, some.noise.dtype, some.count.dtype, some.scatter.dtype} == {torch.float32}
    assert torch.equal(data.take(torch.tensor([4, 0])).X, data.X[[4, 0]])


def test_a_file_keeps_the_packed_rows():
    X, y = with_repeats()
    data = merge_packed(*packed(X), y)
    again = measurements_of(data.to_dict())
    assert isinstance(again, PackedObservations)
    assert again.packing == data.packing
    assert torch.equal(again.rows, data.rows)
    assert torch.equal(again.X, data.X)
    assert again.noise is None
