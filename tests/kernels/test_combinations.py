"""The kernel of combinations against sums of products by hand."""

import pytest
import torch
from gpytorch.kernels import RBFKernel

from beebo_scale.kernels.combinations import CombinationKernel, distinct, terms_of
from beebo_scale.kernels.screen import TanimotoKernel, screen_kernel
from beebo_scale.kernels.stationary import freeze, gram, live_gram


def blocks(n, seed):
    """Rows of two fingerprints of five blocks each and a number, n x 13."""
    g = torch.Generator().manual_seed(seed)
    lists = torch.randint(0, 4, (2, 5, 6), generator=torch.Generator().manual_seed(9)).double()
    picked = [own[torch.randint(0, 5, (n,), generator=g)] for own in lists]
    return torch.cat([*picked, torch.randint(0, 3, (n, 1), generator=g).double()], dim=-1)


def kernel():
    """Of such rows."""
    parts = [TanimotoKernel(), TanimotoKernel(), RBFKernel()]
    own = CombinationKernel(parts, [(0, 6), (6, 12), (12, 13)]).double()
    own.weights = torch.linspace(0.1, 0.7, 7, dtype=torch.float64)
    return own


def by_hand(own, X1, X2):
    k = [gram(part, X1[..., a:b], X2[..., a:b]) for part, (a, b) in zip(own.parts, own.columns, strict=True)]
    w = own.weights
    pairs = w[3] * k[0] * k[1] + w[4] * k[0] * k[2] + w[5] * k[1] * k[2]
    return w[0] * k[0] + w[1] * k[1] + w[2] * k[2] + pairs + w[6] * k[0] * k[1] * k[2]


def test_terms():
    assert terms_of(2) == ((0,), (1,), (0, 1))
    assert terms_of(3) == ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2))
    assert len(terms_of(6)) == 6 + 15 + 1


def test_values_and_gradients():
    own, X1, X2 = kernel(), blocks(40, 0), blocks(30, 1)
    G = torch.randn(40, 30, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    parameters = [own.raw_weights, own.parts[2].raw_lengthscale]
    found = [torch.autograd.grad((G * f).sum(), parameters) for f in (live_gram(own, X1, X2), by_hand(own, X1, X2))]
    torch.testing.assert_close(live_gram(own, X1, X2), by_hand(own, X1, X2))
    torch.testing.assert_close(*found)
    torch.testing.assert_close(own(X1, diag=True), by_hand(own, X1, X1).diagonal())


def test_batches_frozen_and_gradients_in_the_inputs():
    own, X = freeze(kernel()), torch.stack([blocks(6, 3), blocks(6, 4)])
    torch.testing.assert_close(gram(own, X, X), by_hand(own, X, X))
    flat = X[0].clone().requires_grad_()
    slope = [torch.autograd.grad(f(own, flat, X[1]).sum(), flat)[0] for f in (gram, by_hand)]
    torch.testing.assert_close(*slope)


def test_distinct_rows_are_put_back():
    X = blocks(50, 5)
    rows, place = distinct(X[:, :6])
    assert len(rows) <= 5
    assert torch.equal(rows[place], X[:, :6])
    assert torch.equal(distinct(torch.arange(4.0).unsqueeze(-1))[0], torch.arange(4.0).unsqueeze(-1))


def test_is_positive_definite_and_one_for_each_feature():
    kinds = {"a": "smiles", "s": "protein", "t": "continuous", "c": "categorical"}
    slices = {"a": slice(0, 6), "s": slice(6, 7), "t": slice(7, 8), "c": slice(8, 9)}
    own = screen_kernel(kinds, slices, combine="combinations").double()
    assert isinstance(own, CombinationKernel)
    assert len(own.parts) == 4
    g = torch.Generator().manual_seed(0)
    X = torch.cat([torch.randint(0, 4, (60, 9), generator=g).double()], dim=-1)
    with torch.no_grad():
        assert float(torch.linalg.eigvalsh(gram(own, X, X)).min()) > -1e-9
        assert float(own.weights.sum()) == pytest.approx(1.0)
