from dataclasses import replace

import pytest
import torch

from beebo_scale import information_gain
from beebo_scale.errors import InputError
from beebo_scale.kernels.stationary import gram
from beebo_scale.linalg.roots import BlockRoot, CholeskyRoot
from beebo_scale.surrogates.gaussian_process import exact
from beebo_scale.surrogates.gaussian_process.exact import condition_exactly
from tests.helpers import close, normal, uniform
from tests.surrogates.approximate.test_love import problem


def textbook(kernel, mean, Z, y, sigma2, new, X):
    """Mean and covariance by one inverse."""
    A = torch.linalg.inv(gram(kernel, Z, Z) + torch.diag(sigma2))
    k = gram(kernel, X, Z)
    return mean(X) + k @ A @ (y - mean(Z)), gram(kernel, X, X) - k @ A @ k.mT


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(exact, "ROWS_OF_FACTOR", 64)
    monkeypatch.setattr("beebo_scale.linalg.roots.BLOCK_ROWS", 64)


@pytest.mark.parametrize("n", [1, 63, 64, 65, 200])
@pytest.mark.parametrize("noise", ["1e-1", "1e-4", "by row"])
def test_blocks_against_the_textbook(n, noise, small_blocks):
    case = problem(n=n, noise=noise)
    posterior, X = condition_exactly(*case), uniform(30, 4, seed=3)
    mean, covar = textbook(*case, X)
    close(posterior.mean(X), mean, rtol=1e-8, atol=1e-8)
    close(posterior.covar(X), covar, rtol=1e-8, atol=1e-9)
    close(posterior.variance(X), covar.diagonal(), rtol=1e-8, atol=1e-9)
    assert isinstance(posterior.down, CholeskyRoot if n <= 64 else BlockRoot)


def test_blocks_keep_half_a_square(small_blocks):
    rows = condition_exactly(*problem(n=640)).down.rows
    assert sum(row.numel() for row in rows) == 640 * (640 + 64) // 2


def test_conditioning_on_more_rows_goes_on_from_blocks(small_blocks):
    kernel, mean, Z, y, sigma2, new = problem(n=200)
    some = condition_exactly(kernel, mean, Z[:150], y[:150], sigma2[:150], new)
    more, X = some.augment(Z[150:], sigma2[150:], y[150:]), uniform(20, 4, seed=3)
    whole = condition_exactly(kernel, mean, Z, y, sigma2, new)
    close(more.mean(X), whole.mean(X), rtol=1e-8, atol=1e-8)
    close(more.covar(X), whole.covar(X), rtol=1e-8, atol=1e-9)


def test_gradients_through_blocks(small_blocks):
    kernel, mean, Z, y, sigma2, new = problem(n=200)
    posterior, X = condition_exactly(kernel, mean, Z, y, sigma2, new), uniform(6, 4, seed=3).requires_grad_()
    L = torch.linalg.cholesky(gram(kernel, Z, Z) + torch.diag(sigma2))
    square = replace(posterior, down=CholeskyRoot(L))
    values = [information_gain(p.covar(X), 0.01) + p.mean(X).sum() for p in (posterior, square)]
    (one,), (two,) = (torch.autograd.grad(value, X) for value in values)
    close(one, two, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("noise", ["1e-1", "1e-2", "1e-4"])
@pytest.mark.parametrize("inputs", ["uniform", "near-duplicates"])
def test_a_factor_in_float32(noise, inputs, small_blocks):
    case = problem(n=400, noise=noise, inputs=inputs)
    double, single = condition_exactly(*case), condition_exactly(*case, dtype=torch.float32)
    X = torch.cat([uniform(60, 4, seed=3), case[2][:20]])
    assert single.dtype == single.covar(X).dtype == torch.float64
    assert single.down.rows[0].dtype == torch.float32
    close(single.mean(X), double.mean(X), rtol=0.0, atol=1e-7)  # refined
    close(single.covar(X), double.covar(X), rtol=0.0, atol=2e-5)
    assert bool((single.variance(X) >= 0).all())
    gain, truth = (float(information_gain(p.covar(X[:60]), 0.01)) for p in (single, double))
    assert gain == pytest.approx(truth, rel=1e-2)  # at a noise of 1e-4, where C is off by 1e-5 of k; else far better


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_matrix_that_is_not_positive_definite(dtype, small_blocks):
    kernel, mean, Z, *_, new = problem(n=200)
    Z = torch.cat([Z, Z[:5]])
    zero = torch.zeros(205, dtype=torch.float64)
    words = "float32.*raise the noise" if dtype == torch.float32 else "205 measured rows is not positive definite: inp"
    with pytest.raises(InputError, match=words):
        condition_exactly(kernel, mean, Z, normal(205), zero, new, dtype=dtype)
