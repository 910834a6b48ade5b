import pytest
import torch
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel

from beebo_scale.errors import InputError
from beebo_scale.kernels.screen import screen_kernel
from beebo_scale.kernels.stationary import gram
from beebo_scale.surrogates.approximate.inducing import (
    JITTER,
    factor_gradient,
    inducing_posterior,
    moments,
    prior_factor,
    select_inducing_points,
)
from beebo_scale.surrogates.data.observations import merge_replicates
from beebo_scale.surrogates.gaussian_process.noise import ConstantNoise
from tests.helpers import close, matern_kernel, normal, uniform
from tests.surrogates.gaussian_process.test_gaussian_process import process

NOISE = ConstantNoise(torch.tensor(0.1, dtype=torch.float64))


def kernel(d=2, lengthscale=0.4):
    return matern_kernel(torch.full((d,), lengthscale, dtype=torch.float64), 1.3)


def variance_left(k, Z, X):
    """k(x, x) - k(x, Z) K_ZZ^-1 k(Z, x), literally."""
    K = gram(k, Z, Z)
    return k(X, diag=True) - (gram(k, X, Z) @ torch.linalg.solve(K, gram(k, Z, X))).diagonal()


def rows_of(Z, X):
    """Where each point of Z stands in X."""
    return (Z[:, None] == X[None]).all(-1).double().argmax(-1)


# --- choice ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_rows_are_drawn_by_the_variance_that_is_left():
    """Over many seeds, the second of two points falls on each row as often as its variance given the first says."""
    k, X = kernel(), uniform(6, 2)
    pairs = [rows_of(select_inducing_points(k, X, 2, seed=seed), X).tolist() for seed in range(1200)]
    second = torch.tensor([b for a, b in pairs if a == 0])
    assert 130 < len(second) < 270  # the first is any of six
    left = variance_left(k, X[:1], X).clamp_min(0)
    share = torch.bincount(second, minlength=6) / len(second)
    assert share[0] == 0
    assert (share - left / left.sum()).abs().max() < 0.1


def test_choice_leaves_less_variance_than_random_points():
    k, X = kernel(), uniform(300, 2)
    ours = variance_left(k, select_inducing_points(k, X, 25), X).sum()
    orders = [torch.randperm(300, generator=torch.Generator().manual_seed(seed)) for seed in range(3)]
    assert ours < 0.9 * min(variance_left(k, X[order[:25]], X).sum() for order in orders)


def test_choice_follows_its_seed_only():
    k, X = kernel(), uniform(500, 2)
    first = select_inducing_points(k, X, 10, seed=3)
    close(select_inducing_points(k, X, 10, seed=3), first, rtol=0, atol=0)
    assert not torch.equal(select_inducing_points(k, X, 10, seed=4), first)


def test_points_come_from_all_over_the_file():
    k, X = kernel(), uniform(400, 2)
    X[:200] *= 0.1  # sorted by where they lie
    rows = rows_of(select_inducing_points(k, X, 20, pool=100), X)
    assert (rows >= 200).sum() > 10


@pytest.mark.parametrize("m", [12, 13, 40])
def test_enough_points_for_all_rows_are_all_rows(m):
    X = uniform(12, 2)
    Z = select_inducing_points(kernel(), X[torch.arange(30) % 12], m)  # with repeated rows
    assert len(Z) == 12
    close(Z[Z[:, 0].argsort()], X[X[:, 0].argsort()], rtol=0, atol=0)


def test_choice_goes_on_where_a_part_repeats_itself():
    X = torch.cat([torch.zeros(300, 2, dtype=torch.float64), uniform(30, 2)])
    Z = select_inducing_points(kernel(), X, 31, pool=40)
    assert len(torch.unique(Z, dim=0)) == 31
    k = kernel()
    assert torch.linalg.eigvalsh(gram(k, Z, Z)).min() > 1e-9


def test_near_duplicates_are_chosen_once():
    X = uniform(10, 2)
    near = torch.cat([X, *(X + 1e-7 * normal(10, 2, seed=s) for s in range(50))])
    assert len(select_inducing_points(kernel(), near, 100)) == 10


def test_selection_of_nothing():
    with pytest.raises(ValueError, match="got m = 0 of 5 rows"):
        select_inducing_points(kernel(), uniform(5, 2), 0)
    with pytest.raises(ValueError, match="got m = 3 of 0 rows"):
        select_inducing_points(kernel(), uniform(0, 2), 3)


def test_choice_over_letters():
    k = screen_kernel({"v": "protein"}, {"v": slice(0, 3)}).double()
    X = torch.randint(4, (200, 3), generator=torch.Generator().manual_seed(0)).double()
    Z = select_inducing_points(k, X, 100)
    assert len(Z) == len(torch.unique(Z, dim=0)) == min(100, len(torch.unique(X, dim=0)))


# --- sums over rows ----------------------------------------------------------------------------------------


def test_sums_match_their_formulas():
    gp, X, noise = process(), uniform(20, 2), 0.05 + uniform(20, seed=3)
    data, Z = merge_replicates(X, normal(20, seed=1), noise), uniform(6, 2, seed=2)
    L = prior_factor(gp.kernel, Z, 0.0)
    sums = moments(gp, Z, L, data)
    A = torch.linalg.inv(L) @ gram(gp.kernel, Z, X)
    residual = data.y - 0.2
    close(sums.P, A @ torch.diag(1 / noise) @ A.mT)
    close(sums.b, A @ (residual / noise))
    close(sums.c, -0.5 * (torch.log(2 * torch.pi * noise) + (residual.square() + 1.3) / noise).sum())


def test_gradients_of_the_sums():
    gp, data, Z = process(), merge_replicates(uniform(9, 2), normal(9, seed=1)), uniform(4, 2, seed=2)
    names = [name for name, _ in gp.named_parameters()]
    values = [p.detach().clone().requires_grad_() for p in gp.parameters()]
    L = prior_factor(gp.kernel, Z, 0.0).detach().requires_grad_()

    def all_sums(Z, L, *values):
        for name, value in zip(names, values, strict=True):  # in place, so that the graph reaches them
            owner, _, leaf = name.rpartition(".")
            module = gp.get_submodule(owner)
            if leaf in module._parameters:
                del module._parameters[leaf]
            setattr(module, leaf, value)
        sums = moments(gp, Z, L.tril(), data)
        return sums.P, sums.b, sums.c

    assert torch.autograd.gradcheck(all_sums, (Z.requires_grad_(), L, *values))


def test_gradient_of_a_change_of_coordinates():
    m = 5
    L = torch.linalg.cholesky(gram(kernel(), uniform(m, 2), uniform(m, 2))).requires_grad_()
    Phi = normal(m, m) @ normal(m, m).mT
    phi, G, g = normal(m, seed=2), normal(m, m, seed=3), normal(m, seed=4)
    G = G + G.mT
    L_inv = torch.linalg.inv(L)
    P, b = L_inv @ Phi @ L_inv.mT, L_inv @ phi
    ((G * P).sum() + g @ b).backward()
    close(factor_gradient(L.detach(), G, g, P.detach(), b.detach()), L.grad.tril(), rtol=1e-8, atol=1e-7)


def test_factor_of_repeated_points():
    Z = uniform(4, 2)[[0, 1, 2, 3, 0]]
    with pytest.raises(InputError, match="5 inducing points is not positive definite"):
        prior_factor(ScaleKernel(RBFKernel()).double(), torch.full((5, 2), torch.nan, dtype=torch.float64), JITTER)
    K = gram(kernel(), Z, Z) + JITTER * 1.3 * torch.eye(5, dtype=torch.float64)
    L = prior_factor(kernel(), Z, JITTER)
    close(L @ L.mT, K, rtol=1e-14, atol=1e-14)


# --- posterior ---------------------------------------------------------------------------------------------


def test_posterior_is_that_of_its_inducing_variables():
    gp, Z, X = process(), uniform(7, 2), uniform(9, 2, seed=5)
    L = prior_factor(gp.kernel, Z, 0.0).detach()
    A, b = normal(7, 4, seed=6), normal(7, seed=7)
    posterior = inducing_posterior(gp, Z, L, A @ A.mT, b, NOISE)  # P has rank 4
    assert posterior.rank == 4
    S = torch.linalg.inv(torch.eye(7, dtype=torch.float64) + A @ A.mT)
    F = gram(gp.kernel, X, Z).detach() @ torch.linalg.inv(L).mT
    K = gram(gp.kernel, X, X).detach()
    close(posterior.covar(X), K - F @ F.mT + F @ S @ F.mT, rtol=1e-9)
    close(posterior.mean(X), 0.2 + F @ S @ b, rtol=1e-9)
    assert not posterior.kernel(X[:1], diag=True).requires_grad


def test_posterior_of_nothing_is_the_prior():
    gp, Z, X = process(), uniform(7, 2), uniform(9, 2, seed=5)
    L = prior_factor(gp.kernel, Z, 0.0).detach()
    posterior = inducing_posterior(gp, Z, L, L.new_zeros(7, 7), L.new_zeros(7), NOISE)
    close(posterior.covar(X), gram(gp.kernel, X, X).detach())
    close(posterior.mean(X), torch.full((9,), 0.2, dtype=torch.float64))


@pytest.mark.parametrize("jitter", [1e-8, 1e-6, 1e-4])
def test_jitter_moves_the_covariance_by_its_own_size(jitter):
    gp, Z, X = process(), uniform(12, 2), uniform(30, 2, seed=5)
    data = merge_replicates(uniform(80, 2, seed=8), normal(80, seed=1))
    covariances = []
    for size in (0.0, jitter):
        with torch.no_grad():
            L = prior_factor(gp.kernel, Z, size)
            sums = moments(gp, Z, L, data)
        covariances.append(inducing_posterior(gp, Z, L, sums.P, sums.b, NOISE).covar(X))
    assert (covariances[1] - covariances[0]).abs().max() < 100 * jitter


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_covariance_has_no_negative_eigenvalue(nu):
    gp = process()
    gp.kernel.base_kernel = MaternKernel(nu=nu, ard_num_dims=2).double()
    gp.kernel.base_kernel.lengthscale = 2.0  # K_ZZ close to singular
    gp.likelihood.noise = 1e-4
    X = uniform(300, 2)
    data = merge_replicates(X, torch.sin(5 * X[:, 0]))
    Z = select_inducing_points(gp.kernel, X, 80)
    with torch.no_grad():
        L = prior_factor(gp.kernel, Z, JITTER)
        sums = moments(gp, Z, L, data)
    posterior = inducing_posterior(gp, Z, L, sums.P, sums.b, NOISE)
    assert torch.linalg.eigvalsh(posterior.covar(X[:150])).min() > -1e-9
