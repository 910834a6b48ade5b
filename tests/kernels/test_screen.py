import itertools
import math

import pytest
import torch
from gpytorch.kernels import AdditiveKernel, MaternKernel, ProductKernel, RBFKernel, ScaleKernel
from gpytorch.settings import lazily_evaluate_kernels
from hypothesis import given
from hypothesis import strategies as st

from beebo_scale.kernels.screen import (
    ExchangeKernel,
    TanimotoKernel,
    bound_lengthscales,
    continuous_kernel,
    exchange_kernel,
    icm_kernel,
    screen_kernel,
)
from beebo_scale.kernels.stationary import gram, live_gram
from beebo_scale.kernels.substitution import SubstitutionKernel
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


@pytest.mark.slow
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


# --- Tanimoto kernel ----------------------------------------------------------------------------------------


def fingerprints(*shape, most=1, share=0.2, seed=0):
    """Counts up to `most`, a row of zeros among them."""
    generator = torch.Generator().manual_seed(seed)
    counts = torch.randint(1, most + 1, shape, generator=generator) * (torch.rand(shape, generator=generator) < share)
    counts[..., 3, :] = 0
    return counts.to(torch.float64)


def tanimoto(x1, x2):
    common = float(x1 @ x2)
    union = float(x1 @ x1 + x2 @ x2) - common
    return common / union if union else 1.0


@pytest.mark.parametrize("most", [1, 5])
def test_tanimoto_matches_its_formula(most):
    kernel, X1, X2 = TanimotoKernel(), fingerprints(9, 16, most=most), fingerprints(6, 16, most=most, seed=1)
    expected = torch.tensor([[tanimoto(x1, x2) for x2 in X2] for x1 in X1], dtype=torch.float64)
    close(gram(kernel, X1, X2), expected)
    assert expected[3].tolist() == [0, 0, 0, 1, 0, 0]  # nothing and nothing are the same
    close(kernel(X1, diag=True), torch.ones(9, dtype=torch.float64))
    close(kernel(X1[:6], X2, diag=True), expected[:6].diagonal())
    close(gram(kernel, torch.stack([X1[:6], X2]), X2)[1], gram(kernel, X2, X2))


def test_tanimoto_of_sets_is_common_over_all():
    X = fingerprints(8, 30)
    common, either = X @ X.mT, (X[:, None] + X[None]).clamp(max=1).sum(-1)
    close(gram(TanimotoKernel(), X, X)[either > 0], (common / either)[either > 0])


@given(seed=st.integers(0, 10_000), bits=st.integers(4, 40), most=st.integers(1, 9))
@LAWS
@pytest.mark.slow
def test_tanimoto_is_positive_definite(seed, bits, most):
    X = fingerprints(30, bits, most=most, share=0.3, seed=seed)
    K = gram(TanimotoKernel(), X, X)
    close(K, K.mT, rtol=0, atol=0)
    assert K.min() >= 0
    assert K.max() <= 1
    assert torch.linalg.eigvalsh(K).min() > -1e-12


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
        if isinstance(factor, SubstitutionKernel):
            expected = expected * gram(factor, X, X)
        else:
            expected = expected * brute_force(theta, X[:, columns], X[:, columns])
    close(gram(kernel, X, X), expected)


def test_a_screen_as_a_sum_over_its_kinds():
    kinds, slices = {"t": "continuous", "v": "protein"}, {"t": slice(0, 1), "v": slice(1, 3)}
    kernel = screen_kernel(kinds, slices, combine="sum").double()
    assert isinstance(kernel, AdditiveKernel)
    X = torch.cat([uniform(8, 1), codes(8, 2)], dim=-1)
    close(kernel(X, diag=True), torch.ones(8, dtype=torch.float64), rtol=1e-6)
    kernel.kernels[0].outputscale = 0.3
    kernel.kernels[1].outputscale = 2.0
    matern, letters = (part.base_kernel for part in kernel.kernels)
    close(gram(kernel, X, X), 0.3 * gram(matern, X, X) + 2.0 * gram(letters, X, X), rtol=1e-6)
    names = sorted(name.rpartition(".")[2] for name, *_ in kernel.named_priors())
    assert names == ["lengthscale_prior"] * 2 + ["outputscale_prior"] * 2 + ["similarity_prior"]
    assert isinstance(screen_kernel({"v": "protein"}, {"v": slice(0, 4)}, combine="sum"), SubstitutionKernel)
    with pytest.raises(ValueError, match="combine by product or sum or combinations, got 'mean'"):
        screen_kernel(kinds, slices, combine="mean")


def test_fingerprints_in_a_screen():
    kinds, slices = {"t": "continuous", "m": "smiles"}, {"t": slice(0, 1), "m": slice(1, 17)}
    kernel = screen_kernel(kinds, slices).double()
    X = torch.cat([uniform(9, 1), fingerprints(9, 16)], dim=-1)
    kernel.outputscale = 1.7
    matern = kernel.base_kernel.kernels[0]
    close(gram(kernel, X, X), 1.7 * gram(matern, X, X) * gram(TanimotoKernel(), X[:, 1:], X[:, 1:]), rtol=1e-6)
    paper = screen_kernel({"m": "smiles"}, {"m": slice(0, 16)}, "paper")
    assert type(paper.base_kernel) is TanimotoKernel


def constant_columns():
    kernel = screen_kernel({"t": "continuous", "v": "dna"}, {"t": slice(0, 2), "v": slice(2, 4)}).double()
    X = torch.cat([uniform(8, 1), codes(8, 1)], dim=-1)
    still = torch.full((8, 1), 7.0, dtype=torch.float64)
    return kernel, torch.cat([X[:, :1], still, X[:, 1:], still], dim=-1)


def test_constant_columns_change_nothing():
    kernel, X = constant_columns()
    moved = X.clone()
    moved[:, [1, 3]] = 1e9
    close(gram(kernel, X, X), gram(kernel, moved, moved))
    gram(kernel, X, X).sum().backward()
    for factor in kernel.kernels:
        slope = factor.raw_lengthscale.grad.squeeze()
        assert slope[1] == 0
        assert slope[0] != 0


def all_kinds():
    """Sums and products of everything, with an outputscale here and there."""
    parts = [
        ScaleKernel(MaternKernel(nu=1.5, ard_num_dims=2, active_dims=(0, 1))),
        RBFKernel(active_dims=(1,)),
        MaternKernel(nu=2.5, active_dims=(0, 1)),
        exchange_kernel([2, 3]),
        TanimotoKernel(active_dims=(4, 5, 6)),
    ]
    kernel = ScaleKernel(AdditiveKernel(ProductKernel(parts[0], parts[1], parts[3]), parts[2], parts[4])).double()
    X = torch.cat([uniform(20, 2), codes(20, 2, letters=3), fingerprints(20, 3, share=0.5)], dim=-1)
    return kernel, X[:12], X[12:]


def test_live_gram_and_its_gradients():
    kernel, X1, X2 = all_kinds()
    results = []
    for make in (live_gram, gram):
        x1, x2 = X1.clone().requires_grad_(), X2.clone().requires_grad_()
        K = make(kernel, x1, x2)
        weights = uniform(12, 8, seed=5)
        results.append((K, *torch.autograd.grad((K * weights).sum(), [*kernel.parameters(), x1, x2])))
    for ours, theirs in zip(*results, strict=True):
        close(ours, theirs, rtol=1e-8, atol=1e-9)
    assert live_gram(kernel, X1.float(), X2.float()).dtype == torch.float32


@pytest.mark.parametrize(("priors", "scaled"), [("botorch", False), ("paper", True)])
def test_priors(priors, scaled):
    kernel, *_ = screen_kernel_of_a_mix(priors)
    names = sorted(name.rpartition(".")[2] for name, *_ in kernel.named_priors())
    assert names == ["lengthscale_prior"] * 4 + ["outputscale_prior"] * scaled + ["similarity_prior"]
    X = torch.cat([uniform(3, 1), codes(3, 6)], dim=-1)
    expected = kernel.outputscale.detach().expand(3) if scaled else torch.ones(3, dtype=torch.float64)
    close(kernel(X, diag=True), expected)


def test_lengthscales_far_below_the_distance_of_neighbours_are_raised():
    kernel, *_ = screen_kernel_of_a_mix("search")
    matern = next(part for part in kernel.modules() if isinstance(part, MaternKernel))
    shortest = 0.25 * 100 ** (-1 / matern.ard_num_dims)
    matern.lengthscale = torch.full((1, matern.ard_num_dims), 3.0).index_fill(1, torch.tensor([0]), 0.2 * shortest)
    bound_lengthscales(kernel, 100)
    found = matern.lengthscale.detach().squeeze(0)
    close(found[0], torch.tensor(1.001 * shortest, dtype=torch.float64))
    close(found[1:], torch.full_like(found[1:], 3.0), rtol=1e-7)
    matern.raw_lengthscale.data.fill_(-1e3)  # wherever a fit goes
    assert float(matern.lengthscale.detach().min()) >= shortest
    bound_lengthscales(kernel, 10**6)  # more rows, closer neighbours
    matern.raw_lengthscale.data.fill_(-1e3)
    close(matern.lengthscale.detach(), torch.full_like(matern.lengthscale, 0.25 * 10 ** (-6 / matern.ard_num_dims)))


def test_a_single_factor_is_no_product():
    kernel = screen_kernel({"v": "protein"}, {"v": slice(0, 4)})
    assert isinstance(kernel, SubstitutionKernel)
    assert kernel.ard_num_dims == 4
    with pytest.raises(ValueError, match="priors are botorch, paper, search, got 'flat'"):
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
