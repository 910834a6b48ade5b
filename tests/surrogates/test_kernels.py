import itertools
import math

import pytest
import torch
from gpytorch.settings import lazily_evaluate_kernels
from hypothesis import given
from hypothesis import strategies as st

from beebo_scale.posterior import gram
from beebo_scale.surrogates.kernels import (
    ExchangeKernel,
    continuous_kernel,
    exchange_kernel,
    icm_kernel,
    screen_kernel,
)
from tests.helpers import LAWS, close, matern52, uniform


def codes(*shape, letters=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(letters, shape, generator=generator).to(torch.float64)


def exchange(theta):
    kernel = ExchangeKernel(ard_num_dims=len(theta)).double()
    kernel.lengthscale = theta.reciprocal()
    return kernel


def brute_force(theta, X1, X2):
    return torch.tensor(
        [[math.exp(-sum(float(t) for t, a, b in zip(theta, x1, x2, strict=True) if a != b)) for x2 in X2] for x1 in X1],
        dtype=torch.float64,
    )


# --- exchange kernel -------------------------------------------------------------------------------------


def test_exchange_matches_its_formula():
    theta, X1, X2 = 0.1 + uniform(4), codes(7, 4), codes(5, 4, seed=1)
    kernel = exchange(theta)
    expected = brute_force(theta, X1, X2)
    assert expected.min() < 0.2  # sequences that differ
    close(gram(kernel, X1, X2), expected)
    close(kernel(X1, diag=True), torch.ones(7, dtype=torch.float64))
    close(kernel(X1[:5], X2, diag=True), expected[:5].diagonal())


def test_exchange_sees_equality_only():
    kernel, X = exchange(0.1 + uniform(3)), codes(9, 3)
    order = torch.tensor([12345.0, -7.0, 3.0, 0.5], dtype=torch.float64)  # other names for the letters
    close(gram(kernel, order[X.long()], order[X.long()]), gram(kernel, X, X), rtol=0, atol=0)


@given(seed=st.integers(0, 10_000), sites=st.integers(1, 6), letters=st.integers(2, 20))
@LAWS
def test_exchange_is_positive_definite(seed, sites, letters):
    X = torch.unique(codes(40, sites, letters=letters, seed=seed), dim=0)
    K = gram(exchange(0.02 + 3 * uniform(sites, seed=seed)), X, X)
    close(K, K.mT, rtol=0, atol=0)
    assert torch.linalg.eigvalsh(K).min() > -1e-10  # far above zero unless theta is tiny, never below but for rounding


def test_exchange_over_all_sequences_has_its_known_eigenvalues():
    rho = torch.exp(-torch.tensor([0.7, 0.2], dtype=torch.float64))
    X = torch.tensor(list(itertools.product(range(3), repeat=2)), dtype=torch.float64)
    values = torch.linalg.eigvalsh(gram(exchange(-rho.log()), X, X))
    one, two = ([1 + 2 * float(r), 1 - float(r), 1 - float(r)] for r in rho)  # a Kronecker product of two sites
    close(values, torch.tensor(sorted(a * b for a in one for b in two), dtype=torch.float64))


def test_gradient_in_theta():
    X1, X2 = codes(4, 3), codes(3, 3, seed=1)
    kernel = exchange(torch.ones(3, dtype=torch.float64))
    raw = kernel.raw_lengthscale.detach().clone().requires_grad_()

    def value(raw):
        with lazily_evaluate_kernels(False):
            return torch.func.functional_call(kernel, {"raw_lengthscale": raw}, (X1, X2)).to_dense()

    assert torch.autograd.gradcheck(value, (raw,))
    assert torch.autograd.grad(value(raw).sum(), raw)[0].abs().min() > 0.01


@pytest.mark.parametrize("make", [lambda: exchange(0.1 + uniform(3)), lambda: screen_kernel_of_a_mix()[0]])
def test_batches_are_what_their_parts_are(make):
    kernel = make()
    d = 3 if isinstance(kernel, ExchangeKernel) else 7
    X1, X2 = codes(2, 3, 5, d, letters=3), codes(2, 3, 4, d, letters=3, seed=1)
    K = gram(kernel, X1, X2)
    assert K.shape == (2, 3, 5, 4)
    for i, j in itertools.product(range(2), range(3)):
        close(K[i, j], gram(kernel, X1[i, j], X2[i, j]))
    close(gram(kernel, X1, X2[0, 0])[1, 2], gram(kernel, X1[1, 2], X2[0, 0]))  # one set beside many
    close(kernel(X1, diag=True), gram(kernel, X1, X1).diagonal(dim1=-2, dim2=-1))


def test_one_letter_that_nobody_measured():
    theta = 0.1 + uniform(2)
    K = gram(exchange(theta), torch.tensor([[0.0, 1e12]], dtype=torch.float64), codes(6, 2))
    assert K.max() <= torch.exp(-theta[1])
    assert K.min() > 0


# --- the kernel of a screen ------------------------------------------------------------------------------


def screen_kernel_of_a_mix(priors="botorch"):
    """Two continuous columns, one categorical, two letters of protein and two of DNA."""
    kinds = {"t": "continuous", "base": "categorical", "v": "protein", "ph": "continuous", "primer": "dna"}
    slices = {"t": slice(0, 1), "base": slice(1, 2), "v": slice(2, 4), "ph": slice(4, 5), "primer": slice(5, 7)}
    return screen_kernel(kinds, slices, priors).double(), [0, 4], [1], [2, 3], [5, 6]


def test_a_screen_is_a_product_over_its_kinds():
    kernel, continuous, *discrete = screen_kernel_of_a_mix()
    X = torch.cat([uniform(8, 1), codes(8, 3), uniform(8, 1, seed=1), codes(8, 2, seed=2)], dim=-1)
    matern, *exchanges = kernel.kernels
    matern.lengthscale = torch.tensor([0.4, 0.9], dtype=torch.float64)
    expected = matern52(X[:, continuous], X[:, continuous], torch.tensor([0.4, 0.9], dtype=torch.float64), 1.0)
    for columns, factor in zip(discrete, exchanges, strict=True):
        factor.lengthscale = 0.5 + uniform(1, len(columns), seed=len(columns))
        theta = factor.lengthscale.detach().reciprocal().squeeze(0)
        expected = expected * brute_force(theta, X[:, columns], X[:, columns])
    close(gram(kernel, X, X), expected)


@pytest.mark.parametrize(("priors", "scaled"), [("botorch", False), ("paper", True)])
def test_priors(priors, scaled):
    kernel, *_ = screen_kernel_of_a_mix(priors)
    names = sorted(name.rpartition(".")[2] for name, *_ in kernel.named_priors())
    assert names == ["lengthscale_prior"] * 4 + ["outputscale_prior"] * scaled
    X = torch.cat([uniform(3, 1), codes(3, 6)], dim=-1)
    expected = kernel.outputscale.detach().expand(3) if scaled else torch.ones(3, dtype=torch.float64)
    close(kernel(X, diag=True), expected)


def test_a_single_factor_is_no_product():
    kernel = screen_kernel({"v": "protein"}, {"v": slice(0, 4)})
    assert isinstance(kernel, ExchangeKernel)
    assert kernel.ard_num_dims == 4
    with pytest.raises(ValueError, match="priors are botorch or paper, got 'flat'"):
        screen_kernel({"v": "protein"}, {"v": slice(0, 4)}, "flat")


@pytest.mark.parametrize("size", [1, 4, 20])
def test_starting_values_are_the_modes_of_the_priors(size):
    for kernel in (continuous_kernel(range(size), "botorch"), exchange_kernel(range(size))):
        at = kernel.lengthscale.detach().clone().requires_grad_()
        (slope,) = torch.autograd.grad(kernel.lengthscale_prior.log_prob(at).sum(), at)
        assert at.shape == (1, size)
        assert slope.abs().max() < 1e-4


def test_tasks():
    kernel = icm_kernel(exchange_kernel([0, 1]), tasks=3, task_column=2).double()
    index = kernel.kernels[1]
    index.covar_factor.data = uniform(3, 3) - 0.5
    X = torch.cat([codes(2, 10, 2), codes(2, 10, 1, letters=3, seed=1)], dim=-1)
    B = index.covar_factor @ index.covar_factor.mT + torch.diag(index.var)
    assert B.min() < 0  # tasks may go against each other
    t = X[..., 2].long()
    expected = gram(kernel.kernels[0], X, X) * torch.stack([B[t[i]][:, t[i]] for i in range(2)])
    close(gram(kernel, X, X), expected)
    close(gram(kernel, X[0], X[1]), gram(kernel.kernels[0], X[0], X[1]) * B[t[0]][:, t[1]])
    close(kernel(X, diag=True), expected.diagonal(dim1=-2, dim2=-1))
    assert index.covar_factor.grad is None
    gram(kernel, X, X).sum().backward()
    assert index.covar_factor.grad.abs().min() > 0
