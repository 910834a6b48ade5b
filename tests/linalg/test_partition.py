"""Blocks of nearest rows."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from beebo_scale.kernels.stationary import StationaryKernel, freeze
from beebo_scale.linalg import partition
from beebo_scale.linalg.partition import SPLIT, Partition, divided
from tests.helpers import LAWS, matern_kernel, normal, uniform


def kernel(d=3):
    return freeze(matern_kernel(0.3 + uniform(d, seed=9), 1.3))


def taken(X):
    return lambda rows: X[rows]


@LAWS
@given(n=st.integers(1, 400), size=st.integers(1, 120), seed=st.integers(0, 99))
@pytest.mark.slow
def test_each_row_is_in_one_block_that_is_not_too_large(n, size, seed):
    X = normal(n, 3, seed=seed)
    found = divided(kernel(), taken(X), n, size, seed)
    assert found.order.sort().values.tolist() == list(range(n))
    assert int(found.starts[-1]) == n
    assert 1 <= int(found.sizes.min()) <= int(found.sizes.max()) <= max(int(SPLIT * size), 1)
    for block in range(len(found)):
        assert torch.equal(found.rows(block), (found.labels == block).nonzero().squeeze(-1))


def test_each_row_is_nearest_to_its_head():
    X = normal(500, 3)
    found = divided(kernel(), taken(X), len(X), 40, 1)
    distance = torch.cdist(X / kernel().lengthscales, found.heads / kernel().lengthscales)
    assert torch.equal(found.labels, distance.argmin(-1))
    assert torch.equal(found.nearest(kernel(), X.reshape(5, 100, 3)), found.labels.reshape(5, 100))


def test_chunks_change_nothing(monkeypatch):
    X = normal(300, 3)
    whole = divided(kernel(), taken(X), len(X), 30, 2)
    monkeypatch.setattr(partition, "COMPARED_NUMBERS", 70)
    parts = divided(kernel(), taken(X), len(X), 30, 2)
    assert all(torch.equal(a, b) for a, b in zip(vars(whole).values(), vars(parts).values(), strict=True))
    assert torch.equal(parts.nearest(kernel(), X), whole.labels)


def test_rows_that_no_head_can_split_are_cut():
    """All rows are as far from each other: similarities are zero."""
    far = StationaryKernel(2.5, torch.full((1,), 1e-4, dtype=torch.float64), 1.0, None)
    X = torch.arange(200, dtype=torch.float64).unsqueeze(-1)
    found = divided(far, taken(X), len(X), 20, 0)
    assert int(found.sizes.max()) <= 30
    assert len(found) > len(found.heads)
    assert int(found.nearest(far, X + 0.5).max()) < len(found.heads)


def test_categories_tie_the_same_way_in_any_company():
    """One-hot inputs of few levels are as near to many heads."""
    X = torch.nn.functional.one_hot(torch.randint(3, (200, 6), generator=torch.Generator().manual_seed(0)), 3)
    X = X.reshape(200, 18).double().unique(dim=0)
    scaled = freeze(matern_kernel(0.7 + uniform(18, seed=3), 1.0))
    found = divided(scaled, taken(X), len(X), 10, 0)
    alone = torch.cat([found.nearest(scaled, x.unsqueeze(0)) for x in X])
    assert torch.equal(alone, found.nearest(scaled, X))


def test_the_distance_counts_the_prior_variance_of_a_head():
    """With k(x, x') = x x' the nearest head is that in |x - h|, not the largest."""

    class Linear(torch.nn.Module):
        def __call__(self, A, B=None, diag=False):
            if diag:
                return A.squeeze(-1).square()
            return _Dense(A @ B.mT)

    class _Dense:
        def __init__(self, K):
            self.K = K

        def to_dense(self):
            return self.K

    heads = torch.tensor([[1.0], [10.0]], dtype=torch.float64)
    found = Partition.of(heads, torch.tensor([0, 1]), 2)
    assert found.nearest(Linear(), torch.tensor([[2.0], [9.0], [4.0]], dtype=torch.float64)).tolist() == [0, 1, 0]


def test_one_block_and_refusals():
    X = normal(10, 3)
    assert len(divided(kernel(), taken(X), 10, 10)) == 1
    with pytest.raises(ValueError, match="size = 0"):
        divided(kernel(), taken(X), 10, 0)
