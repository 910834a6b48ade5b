import math

import pytest
import torch
from gpytorch.kernels import MaternKernel, ScaleKernel

from beebo_scale.kernels.screen import exchange_kernel, icm_kernel, screen_kernel
from beebo_scale.kernels.stationary import gram
from beebo_scale.surrogates.approximate.inducing import select_inducing_points
from beebo_scale.surrogates.approximate.sgpr import fit_sgpr, sgpr_bound, sgpr_posterior
from beebo_scale.surrogates.data.observations import Observations, merge_replicates
from beebo_scale.surrogates.gaussian_process.gaussian_process import (
    GaussianProcess,
    exact_posterior,
    fit_hyperparameters,
    log_marginal_likelihood,
)
from beebo_scale.surrogates.gaussian_process.noise import ConstantNoise
from tests.helpers import close, condition, normal, uniform
from tests.surrogates.gaussian_process.test_gaussian_process import process, smooth, start


def replicated(n=30, known=False, seed=0):
    """Rows of which 30 % repeat others."""
    X = uniform(n, 2, seed=seed)
    X = torch.cat([X, X[: 3 * n // 7]])
    y = torch.sin(5 * X[:, 0]) + 0.3 * normal(len(X), seed=seed + 1)
    return merge_replicates(X, y, 0.05 + 0.1 * uniform(len(X), seed=seed + 2) if known else None)


def tasks():
    """Two letters and a task, with a noise for each task."""
    gp = GaussianProcess(icm_kernel(exchange_kernel([0, 1]), tasks=2, task_column=2), tasks=2, task_column=2)
    gp.likelihood.noise = torch.tensor([[0.1], [0.3]], dtype=torch.float64)
    X = torch.randint(4, (60, 3), generator=torch.Generator().manual_seed(0)).double()
    X[:, 2] %= 2
    return gp, merge_replicates(X, normal(60, seed=1))


def brute_force(gp, Z, data):
    """Titsias' bound from its formula, with everything n x n."""
    K, Kx, noise = gram(gp.kernel, Z, Z), gram(gp.kernel, Z, data.X), gp.noise_of(data)
    Q = Kx.mT @ torch.linalg.solve(K, Kx)
    density = torch.distributions.MultivariateNormal(gp.mean(data.X), Q + torch.diag(noise)).log_prob(data.y)
    value = density - 0.5 * ((gp.kernel(data.X, diag=True) - Q.diagonal()) / noise).sum()
    if data.noise is None:
        sigma2 = gp.measurement_noise(data.X)
        value = value - 0.5 * ((data.count - 1) * torch.log(2 * math.pi * sigma2) + data.scatter / sigma2).sum()
        value = value - 0.5 * data.count.log().sum()
    return value


def brute_force_posterior(gp, Z, data, X):
    """Mean and covariance from the unwhitened formulas of Titsias (2009), equation 6."""
    K, Kx, noise = gram(gp.kernel, Z, Z), gram(gp.kernel, Z, data.X), gp.noise_of(data)
    M = torch.linalg.inv(K + Kx @ torch.diag(1 / noise) @ Kx.mT)  # (K + Phi)^-1
    k = gram(gp.kernel, X, Z)
    mean = gp.mean(X) + k @ M @ Kx @ ((data.y - gp.mean(data.X)) / noise)
    return mean.detach(), (gram(gp.kernel, X, X) - k @ (torch.linalg.inv(K) - M) @ k.mT).detach()


def gradients(gp, Z, value):
    parameters = [*gp.parameters(), Z]
    return torch.autograd.grad(value, parameters, allow_unused=True, materialize_grads=True)


# --- bound -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["learned", "known", "tasks"])
@pytest.mark.parametrize("chunk", [7, 4096])
def test_bound_and_gradient_against_autograd(case, chunk):
    gp, data = tasks() if case == "tasks" else (process(), replicated(known=case == "known"))
    Z = select_inducing_points(gp.kernel, data.X, 9).requires_grad_()
    value, expected = sgpr_bound(gp, Z, data, jitter=0.0, chunk=chunk), brute_force(gp, Z, data)
    close(value, expected)
    for actual, other in zip(gradients(gp, Z, value), gradients(gp, Z, expected), strict=True):
        close(actual, other, rtol=1e-7, atol=1e-8)
    with torch.no_grad():
        close(sgpr_bound(gp, Z, data, jitter=0.0, chunk=chunk), value.detach(), rtol=1e-14, atol=0)


@pytest.mark.parametrize("known", [False, True])
def test_points_at_all_rows_are_the_exact_process(known):
    gp, data = process(), replicated(known=known)
    value, expected = sgpr_bound(gp, data.X, data, jitter=0.0), log_marginal_likelihood(gp, data)
    close(value, expected, rtol=1e-9)
    for actual, other in zip(
        gradients(gp, data.X.requires_grad_(), value), gradients(gp, data.X, expected), strict=True
    ):
        close(actual, other, rtol=1e-6, atol=1e-6)
    data.X.requires_grad_(False)
    sparse, exact, X = sgpr_posterior(gp, data.X, data, jitter=0.0), exact_posterior(gp, data), uniform(20, 2, seed=9)
    close(sparse.mean(X), exact.mean(X), rtol=1e-8, atol=1e-8)
    close(sparse.covar(X), exact.covar(X), rtol=1e-8, atol=1e-8)
    close(sparse.noise(X), exact.noise(X))


@pytest.mark.parametrize("seed", range(3))
def test_bound_rises_to_the_likelihood_with_more_points(seed):
    gp, data = process(), smooth(60, seed=seed)
    Z = select_inducing_points(gp.kernel, data.X, 60, seed=seed)
    with torch.no_grad():
        bounds = [float(sgpr_bound(gp, Z[:m], data)) for m in (1, 3, 10, 30, 60)]
        likelihood = float(log_marginal_likelihood(gp, data))
    assert bounds == sorted(bounds)
    assert bounds[-1] <= likelihood
    assert bounds[-1] == pytest.approx(likelihood, abs=1e-3)  # up to the jitter of K_ZZ
    assert bounds[0] < likelihood - 10


# --- posterior ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["learned", "known", "tasks"])
def test_posterior_against_textbook_formulas(case):
    gp, data = tasks() if case == "tasks" else (process(), replicated(known=case == "known"))
    Z, X = select_inducing_points(gp.kernel, data.X, 9), data.X[:15]
    posterior = sgpr_posterior(gp, Z, data, jitter=0.0, chunk=8)
    mean, covar = brute_force_posterior(gp, Z, data, X)
    close(posterior.mean(X), mean, rtol=1e-8, atol=1e-8)
    close(posterior.covar(X), covar, rtol=1e-8, atol=1e-8)
    assert posterior.up is None


def test_replicates_are_the_rows_that_they_stand_for():
    gp, X, y = process(), uniform(20, 2)[torch.arange(30) % 20], normal(30, seed=1)
    once = torch.ones(30, dtype=torch.float64)
    Z, apart = uniform(6, 2, seed=4), Observations(X, y, None, once, torch.zeros_like(once))
    merged = merge_replicates(X, y)
    assert len(merged) == 20
    close(sgpr_bound(gp, Z, merged), sgpr_bound(gp, Z, apart))
    one, other, X = sgpr_posterior(gp, Z, merged), sgpr_posterior(gp, Z, apart), uniform(9, 2, seed=5)
    close(one.mean(X), other.mean(X), rtol=1e-9)
    close(one.covar(X), other.covar(X), rtol=1e-9)


def test_new_rows_enter_by_exact_conditioning():
    gp, data = process(), replicated()
    posterior = sgpr_posterior(gp, select_inducing_points(gp.kernel, data.X, 9), data)
    X, y, noise = uniform(5, 2, seed=20), normal(5, seed=21), 0.02 + uniform(5, seed=22)
    points = uniform(11, 2, seed=23)
    joint = torch.cat([X, points])
    mean, covar = condition(posterior.mean(joint), posterior.covar(joint), noise, y)
    updated = posterior.augment(X, noise, y)
    close(updated.mean(points), mean)
    close(updated.covar(points), covar)
    assert updated.rank == posterior.rank + 5


def test_noise_of_new_measurements():
    gp, data = process(), replicated(known=True)
    Z, given = data.X[:4], ConstantNoise(torch.tensor(0.5, dtype=torch.float64))
    close(sgpr_posterior(gp, Z, data).noise(Z), (data.noise * data.count).mean().expand(4))
    close(sgpr_posterior(gp, Z, data, given).noise(Z), torch.full((4,), 0.5, dtype=torch.float64))


# --- hard cases --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [20, 35])
def test_as_many_points_as_rows_and_more(m):
    gp, data = process(), smooth(20)
    Z = torch.cat([data.X, uniform(15, 2, seed=3)])[:m]
    close(sgpr_bound(gp, Z, data), log_marginal_likelihood(gp, data), rtol=0, atol=1e-3)
    posterior, X = sgpr_posterior(gp, Z, data), uniform(30, 2, seed=5)
    assert posterior.rank <= 20
    close(posterior.covar(X), exact_posterior(gp, data).covar(X), rtol=0, atol=1e-5)


def test_constant_columns_and_columns_of_any_scale():
    X = torch.cat([uniform(50, 2), torch.full((50, 1), 3.0, dtype=torch.float64), uniform(50, 2, seed=4)], dim=-1)
    y = torch.sin(5 * X[:, 0]) + 0.1 * normal(50, seed=1)
    raw = X * torch.tensor([1e9, 1e-9, 1.0, 1e9, 1e-9], dtype=torch.float64)
    scale = raw.std(0)
    scaled = (raw - raw.mean(0)) / torch.where(scale > 0, scale, 1.0)
    data = merge_replicates(scaled, (y - y.mean()) / y.std())
    gp = GaussianProcess(screen_kernel({"x": "continuous"}, {"x": slice(0, 5)}))
    before = gp.kernel.lengthscale.detach()[0, 2].clone()
    report = fit_sgpr(gp, select_inducing_points(gp.kernel, data.X, 25), data)
    assert report.converged
    assert gp.kernel.lengthscale[0, 0] < gp.kernel.lengthscale[0, 1]
    close(gp.kernel.lengthscale[0, 2].detach(), before, rtol=0.01)  # its prior alone holds it
    posterior = sgpr_posterior(gp, select_inducing_points(gp.kernel, data.X, 25), data)
    assert (posterior.mean(data.X) - data.y).square().mean() < 0.05
    assert torch.linalg.eigvalsh(posterior.covar(data.X)).min() > -1e-9


def test_near_duplicates_by_the_thousand_and_outliers():
    X = uniform(20, 2)[torch.arange(2000) % 20] + 1e-9 * normal(2000, 2)
    y = torch.sin(5 * X[:, 0]) + 0.1 * normal(2000, seed=1)
    y[::500] = 1e4
    data = merge_replicates(X, y)
    gp = process()
    Z = select_inducing_points(gp.kernel, data.X, 100)
    assert len(Z) == 20
    assert sgpr_bound(gp, Z, data).isfinite()
    posterior = sgpr_posterior(gp, Z, data)
    assert torch.linalg.eigvalsh(posterior.covar(X[:200])).min() > -1e-9
    merged = Observations(
        X[:20], data.y[:20], torch.full_like(X[:20, 0], 0.07 / 100), data.count[:20], data.scatter[:20]
    )
    close(posterior.variance(X[:20]), exact_posterior(gp, merged).variance(X[:20]), rtol=1e-3)


# --- fit ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("move", [False, True])
def test_fit_reaches_a_maximum(move):
    gp, data = start(), smooth(60)
    Z = select_inducing_points(gp.kernel, data.X, 12).requires_grad_(move)
    calls, first = [], Z.detach().clone()
    report = fit_sgpr(gp, Z, data, maxiter=150, on_step=lambda: calls.append(1))
    assert report.converged or move  # a point moves slowly where it hardly matters
    assert report.rows == 60
    assert 0 < report.iterations <= len(calls)
    assert torch.equal(first, Z) != move
    value = sgpr_bound(gp, Z.requires_grad_(), data) + gp.log_prior()
    assert report.log_likelihood == pytest.approx(float((value - gp.log_prior()).detach()), rel=1e-12)
    slopes = gradients(gp, Z, value)
    for p, slope in zip(gp.parameters(), slopes, strict=False):
        assert (slope * p).abs().max() < 0.2  # nats for a relative step


def test_fit_with_enough_points_is_the_exact_fit():
    data = smooth(40)
    exact, sparse = start(), start()
    fit_hyperparameters(exact, data)
    fit_sgpr(sparse, data.X, data)
    for (name, p), q in zip(exact.named_parameters(), sparse.parameters(), strict=True):
        assert torch.allclose(p, q, rtol=0.02), name


def test_known_noise_leaves_the_likelihood_alone():
    gp, data = start(), replicated(known=True)
    before = float(gp.sigma2.detach())
    fit_sgpr(gp, select_inducing_points(gp.kernel, data.X, 10), data)
    assert float(gp.sigma2.detach()) == before


@pytest.mark.slow
def test_fit_of_a_sum_of_kernels():
    kernel = screen_kernel({"x": "continuous", "v": "protein"}, {"x": slice(0, 1), "v": slice(1, 3)}, combine="sum")
    gp = GaussianProcess(kernel)
    letters = torch.randint(3, (80, 2), generator=torch.Generator().manual_seed(0)).double()
    X = torch.cat([uniform(80, 1), letters], dim=-1)
    y = torch.sin(5 * X[:, 0]) + (X[:, 1] == 2) + 0.1 * normal(80, seed=1)
    data = merge_replicates(X, (y - y.mean()) / y.std())
    Z = select_inducing_points(gp.kernel, data.X, 40)
    before = float(sgpr_bound(gp, Z, data).detach())
    assert fit_sgpr(gp, Z, data, maxiter=60).log_likelihood > before + 5
    assert (sgpr_posterior(gp, Z, data).mean(data.X) - data.y).square().mean() < 0.05


def test_process_with_an_outputscale_in_float64():
    gp = GaussianProcess(ScaleKernel(MaternKernel(nu=0.5, ard_num_dims=2)))
    data = smooth(40)
    Z = select_inducing_points(gp.kernel, data.X, 15).requires_grad_()
    value, expected = sgpr_bound(gp, Z, data, jitter=0.0), brute_force(gp, Z, data)
    close(value, expected, rtol=1e-7)
    for actual, other in zip(gradients(gp, Z, value), gradients(gp, Z, expected), strict=True):
        close(actual, other, rtol=1e-5, atol=1e-5)
