import math

import pytest
import torch
from gpytorch.kernels import MaternKernel, ScaleKernel

from beebo_scale.kernels.screen import screen_kernel
from beebo_scale.linalg.roots import CholeskyRoot
from beebo_scale.surrogates.data.observations import merge_replicates
from beebo_scale.surrogates.gaussian_process.gaussian_process import (
    NOISE_FLOOR,
    GaussianProcess,
    exact_posterior,
    fit_hyperparameters,
    log_marginal_likelihood,
)
from tests.helpers import close, condition, matern52, normal, uniform


def process(priors="botorch"):
    """Hyperparameters away from where they start."""
    gp = GaussianProcess(ScaleKernel(MaternKernel(nu=2.5, ard_num_dims=2)), priors)
    gp.kernel.base_kernel.lengthscale = torch.tensor([0.4, 0.7], dtype=torch.float64)
    gp.kernel.outputscale = torch.tensor(1.3, dtype=torch.float64)
    gp.mean.initialize(constant=torch.tensor(0.2, dtype=torch.float64))
    gp.likelihood.noise = torch.tensor(0.07, dtype=torch.float64)
    return gp


def start(priors="botorch"):
    """As a screen's fit starts."""
    return GaussianProcess(screen_kernel({"x": "continuous"}, {"x": slice(0, 2)}, priors), priors)


def smooth(n=30, noise=0.1, seed=0):
    X = uniform(n, 2, seed=seed)
    y = torch.sin(5 * X[:, 0]) + X[:, 1].square()
    return merge_replicates(X, (y - y.mean()) / y.std() + noise * normal(n, seed=seed + 1))


# --- marginal likelihood -----------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [False, True])
def test_likelihood_and_gradient_against_autograd(known):
    X, y, noise = uniform(15, 2), normal(15, seed=1), 0.01 + uniform(15, seed=2)
    gp = process()
    data = merge_replicates(X, y, noise if known else None)
    value = log_marginal_likelihood(gp, data)
    value.backward()
    gradient = {name: p.grad.clone() for name, p in gp.named_parameters() if p.grad is not None}
    gp.zero_grad()
    K = matern52(X, X, gp.kernel.base_kernel.lengthscale, gp.kernel.outputscale)
    A = K + torch.diag(noise if known else gp.sigma2.expand(15))
    brute = torch.distributions.MultivariateNormal(gp.mean.constant.expand(15), A).log_prob(y)
    brute.backward()
    close(value, brute)
    assert len(gradient) == (3 if known else 4)
    for name, p in gp.named_parameters():
        if p.grad is not None:
            close(gradient[name], p.grad, rtol=1e-8)


def test_noise_of_replicates_is_divided_by_their_count():
    X = uniform(3, 2)[[0, 1, 0, 0, 2]]
    gp = process()
    close(gp.noise_of(merge_replicates(X, normal(5))), torch.tensor([0.07 / 3, 0.07, 0.07], dtype=torch.float64))


def log_normal(location, scale, x):
    return -math.log(x * scale * math.sqrt(2 * math.pi)) - 0.5 * ((math.log(x) - location) / scale) ** 2


def log_gamma(shape, rate, x):
    return shape * math.log(rate) - math.lgamma(shape) + (shape - 1) * math.log(x) - rate * x


def test_priors_of_all_hyperparameters():
    gp = start().requires_grad_(False)
    lengthscales = gp.kernel.lengthscale.flatten().tolist()
    expected = log_normal(-4.0, 1.0, float(gp.sigma2))
    expected += sum(log_normal(math.sqrt(2) + 0.5 * math.log(2), math.sqrt(3), x) for x in lengthscales)
    assert float(gp.log_prior()) == pytest.approx(expected, rel=1e-6)
    gp = start("paper").requires_grad_(False)
    lengthscales = gp.kernel.base_kernel.lengthscale.flatten().tolist()
    expected = log_gamma(1.1, 0.05, float(gp.sigma2)) + log_gamma(2.0, 0.15, float(gp.kernel.outputscale))
    expected += sum(log_gamma(3.0, 6.0, x) for x in lengthscales)
    assert float(gp.log_prior()) == pytest.approx(expected, rel=1e-6)


# --- fit ---------------------------------------------------------------------------------------------------


def objective(gp, data):
    with torch.no_grad():
        return float(log_marginal_likelihood(gp, data) + gp.log_prior())


@pytest.mark.parametrize("priors", ["botorch", "paper"])
def test_fit_reaches_a_maximum(priors):
    gp, data = start(priors), smooth()
    before = objective(gp, data)
    report = fit_hyperparameters(gp, data)
    after = objective(gp, data)
    assert report.converged
    assert report.rows == 30
    assert 0 < report.iterations <= 200
    assert after > before + 1
    with torch.no_grad():
        assert report.log_likelihood == pytest.approx(float(log_marginal_likelihood(gp, data)), rel=1e-12)
    state = gp.state_dict()
    for name, p in gp.named_parameters():  # no step along an axis is better
        for factor in (0.9, 1.1):
            gp.load_state_dict(state | {name: p.detach() * factor})
            assert objective(gp, data) < after + 1e-3, name
            gp.load_state_dict(state)


def test_warm_start_needs_fewer_iterations():
    gp = start()
    cold = fit_hyperparameters(gp, smooth())
    warm = fit_hyperparameters(gp, smooth())
    assert warm.iterations < cold.iterations / 2
    assert warm.log_likelihood == pytest.approx(cold.log_likelihood, abs=1e-2)


def test_noise_does_not_fall_below_its_floor():
    gp = start()
    fit_hyperparameters(gp, smooth(40, noise=0.0))
    assert NOISE_FLOOR * (1 - 1e-6) <= gp.sigma2.item() < 1.01 * NOISE_FLOOR


def test_noise_is_found_where_replicates_tell():
    X = uniform(15, 2).repeat(6, 1)
    y = torch.sin(5 * X[:, 0]) + 0.3 * normal(90, seed=1)
    gp = start()
    fit_hyperparameters(gp, merge_replicates(X, y))
    assert gp.sigma2.item() == pytest.approx(0.09, rel=0.4)


def test_known_noise_is_left_alone():
    X, y = uniform(20, 2), normal(20)
    gp = start()
    before = gp.sigma2.item()
    fit_hyperparameters(gp, merge_replicates(X, y, torch.full((20,), 0.5, dtype=torch.float64)))
    assert gp.sigma2.item() == before


def test_iteration_limit_and_steps_are_told():
    steps = []
    report = fit_hyperparameters(start(), smooth(), maxiter=2, on_step=lambda: steps.append(1))
    assert (report.iterations, report.converged) == (2, False)
    assert 2 <= len(steps) <= 6


# --- posterior ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [False, True])
def test_exact_posterior_is_that_of_the_textbook(known):
    X, y, test = uniform(15, 2), normal(15, seed=1), uniform(6, 2, seed=2)
    noise = 0.01 + uniform(15, seed=3) if known else torch.full((15,), 0.07, dtype=torch.float64)
    posterior = exact_posterior(process(), merge_replicates(X, y, noise if known else None))
    joint = torch.cat([X, test])
    K = matern52(joint, joint, torch.tensor([0.4, 0.7], dtype=torch.float64), 1.3)
    mean, covar = condition(torch.full((21,), 0.2, dtype=torch.float64), K, noise, y)
    close(posterior.mean(test), mean)
    close(posterior.covar(test), covar)
    assert isinstance(posterior.down, CholeskyRoot)
    assert float(posterior.noise(test)[0]) == pytest.approx(float(noise.mean()), rel=1e-12)
    assert posterior.amplitude == pytest.approx(1.3, rel=1e-12)


def test_exact_posterior_of_many_rows():
    X, y, test = uniform(1100, 2), normal(1100, seed=1), uniform(6, 2, seed=2)  # more than are computed at once
    posterior = exact_posterior(process(), merge_replicates(X, y))
    joint = torch.cat([X, test])
    K = matern52(joint, joint, torch.tensor([0.4, 0.7], dtype=torch.float64), 1.3)
    constant, noise = torch.full((1106,), 0.2, dtype=torch.float64), torch.full((1100,), 0.07, dtype=torch.float64)
    mean, covar = condition(constant, K, noise, y)
    close(posterior.mean(test), mean, atol=1e-9)
    close(posterior.covar(test), covar, atol=1e-9)


def test_posterior_is_frozen_and_on_its_own():
    gp, data, test = process(), smooth(), uniform(6, 2, seed=2)
    posterior = exact_posterior(gp, data)
    before = posterior.covar(test)
    assert not any(p.requires_grad for p in posterior.kernel.parameters())
    assert all(p.requires_grad for p in gp.parameters())  # still free to be fitted
    fit_hyperparameters(gp, data, maxiter=2)
    assert torch.equal(posterior.covar(test), before)
    assert torch.equal(posterior.noise(test), torch.full((6,), 0.07, dtype=torch.float64))


def test_a_new_measurement_has_the_noise_of_one_not_of_a_mean():
    X = uniform(5, 2).repeat(4, 1)
    data = merge_replicates(X, normal(20), torch.full((20,), 0.04, dtype=torch.float64))
    assert float(exact_posterior(process(), data).noise(X[:1])) == pytest.approx(0.04, rel=1e-12)
