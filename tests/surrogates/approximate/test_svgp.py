import copy
import math

import pytest
import torch

from beebo_scale.errors import InputError
from beebo_scale.kernels.stationary import gram
from beebo_scale.surrogates.approximate.inducing import select_inducing_points
from beebo_scale.surrogates.approximate.sgpr import fit_sgpr, sgpr_bound, sgpr_posterior
from beebo_scale.surrogates.approximate.svgp import SVGP, HyperAdam, fit_svgp
from beebo_scale.surrogates.data.observations import merge_replicates
from beebo_scale.surrogates.gaussian_process.gaussian_process import exact_posterior, log_marginal_likelihood
from tests.helpers import close, normal, uniform
from tests.surrogates.approximate.test_sgpr import gradients, replicated, tasks
from tests.surrogates.gaussian_process.test_gaussian_process import process, smooth, start


def model_of(gp, data, m=9, q=True, **options):
    """An SVGP whose q(v) is anything but its optimum."""
    model = SVGP(gp, select_inducing_points(gp.kernel, data.X, m), len(data), **options)
    if q:
        A = normal(len(model.b), 4, seed=30)
        model.P += 3 * A @ A.mT
        model.b += normal(len(model.b), seed=31)
    return model


def brute_force_elbo(model, data):
    """Sum over rows of E log N(y; f, sigma^2), minus the divergence of q(u) from the prior, all unwhitened."""
    gp, Z, eye = model.gp, model.Z, torch.eye(len(model.Z), dtype=torch.float64)
    K = gram(gp.kernel, Z, Z)
    L, S = torch.linalg.cholesky(K), torch.linalg.inv(eye + model.P)
    q = torch.distributions.MultivariateNormal(L @ S @ model.b, L @ S @ L.mT)
    W = torch.linalg.solve(K, gram(gp.kernel, Z, data.X))  # m x n
    mean = gp.mean(data.X) + W.mT @ q.mean
    variance = gp.kernel(data.X, diag=True) - (W * (K - q.covariance_matrix).matmul(W)).sum(0)
    noise = gp.noise_of(data)
    expected = -0.5 * (torch.log(2 * math.pi * noise) + ((data.y - mean).square() + variance) / noise).sum()
    prior = torch.distributions.MultivariateNormal(torch.zeros_like(q.mean), K)
    return expected - torch.distributions.kl_divergence(q, prior)


# --- ELBO --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [False, True])
def test_elbo_against_its_formula(known):
    data = merge_replicates(uniform(30, 2), normal(30, seed=1), 0.05 + uniform(30, seed=2) if known else None)
    model = model_of(process(), data, jitter=0.0)
    value = model.elbo(data)
    close(value, brute_force_elbo(model, data), rtol=1e-9)
    plain = model.loss(data.X, data.y, data.noise)
    close(plain, -(value + model.gp.log_prior()) / 30, rtol=1e-9)


def test_hyperparameter_gradient_at_fixed_q():
    """Unwhitened, q(u) moves with L: only the whitened q(v) stays, so the formula above is differentiated as it is."""
    data = merge_replicates(uniform(30, 2), normal(30, seed=1))
    model = model_of(process(), data, jitter=0.0)
    actual = gradients(model.gp, model.Z, model.elbo(data))
    expected = gradients(model.gp, model.Z, brute_force_elbo(model, data))
    for a, b in zip(actual, expected, strict=True):
        close(a, b, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["learned", "known", "tasks"])
def test_best_q_is_that_of_sgpr(case):
    gp, data = tasks() if case == "tasks" else (process(), replicated(known=case == "known"))
    model = model_of(gp, data)
    bound = sgpr_bound(gp, model.Z, data)
    assert float(model.elbo(data).detach()) < float(bound.detach()) - 1
    model.natural_step(1.0)
    value = model.elbo(data)
    close(value, bound, rtol=1e-9)
    for a, b in zip(gradients(gp, model.Z, value), gradients(gp, model.Z, bound), strict=True):
        close(a, b, rtol=1e-5, atol=1e-5)
    sparse, X = sgpr_posterior(gp, model.Z.detach(), data), data.X[:12]
    close(model.posterior().mean(X), sparse.mean(X), rtol=1e-8)
    close(model.posterior().covar(X), sparse.covar(X), rtol=1e-7, atol=1e-9)
    other = model_of(gp, data)
    assert other.collapse(data) == pytest.approx(float(bound.detach()), rel=1e-12)
    close(other.P, model.P, rtol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_elbo_is_below_the_likelihood(seed):
    gp, data = process(), smooth(25, seed=seed)
    model = model_of(gp, data, m=25)
    model.P.mul_(uniform(1, seed=seed))
    likelihood = float(log_marginal_likelihood(gp, data).detach())
    assert float(model.elbo(data).detach()) < likelihood
    assert model.collapse(data) <= likelihood


def test_minibatches_are_right_on_average():
    data = replicated()
    model = model_of(process(), data)
    parts = torch.randperm(len(data), generator=torch.Generator().manual_seed(0)).split(5)
    assert len(data) == 30
    values = torch.stack([model.elbo(data.take(rows)) for rows in parts])
    close(values.mean(), model.elbo(data))
    assert values.std() > 1


def test_natural_step_is_one_along_the_natural_gradient():
    """Natural parameters move by the gradient in the expectation parameters v and S + v v'."""
    data = smooth(20)
    model = model_of(process(), data, m=6)
    eye = torch.eye(6, dtype=torch.float64)
    S = torch.linalg.inv(eye + model.P)
    first = (S @ model.b).requires_grad_()
    second = (S + torch.outer(first, first)).detach().requires_grad_()
    model.elbo(data)
    P, b = model._target
    S = second - torch.outer(first, first)
    divergence = 0.5 * (S.diagonal().sum() + first @ first - 6 - torch.logdet(S))
    elbo = b @ first - 0.5 * (P * (second - eye)).sum() - divergence
    slope1, slope2 = torch.autograd.grad(elbo, (first, second))
    expected_b, expected_B = model.b + 0.3 * slope1, -2 * (-0.5 * (eye + model.P) + 0.3 * slope2)
    model.natural_step(0.3)
    close(model.b, expected_b, rtol=1e-8)
    close(eye + model.P, expected_B, rtol=1e-8)


# --- training ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_many_small_steps_of_q_lead_to_sgpr():
    gp, data = process(), smooth(60)
    model = model_of(gp, data, q=False)
    generator = torch.Generator().manual_seed(0)
    for step in range(600):
        model.elbo(data.take(torch.randperm(60, generator=generator)[:20]))
        model.natural_step(1 / (step + 1))
    sparse, X = sgpr_posterior(gp, model.Z.detach(), data), uniform(20, 2, seed=5)
    close(model.posterior().mean(X), sparse.mean(X), rtol=0, atol=0.02)
    close(model.posterior().covar(X), sparse.covar(X), rtol=0, atol=0.002)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("known", "batch", "rate", "gap"), [(False, 80, 1.0, 0.1), (True, 80, 1.0, 0.1), (False, 40, 0.3, 2.0)]
)
def test_training_reaches_what_full_batches_reach(known, batch, rate, gap):
    data = smooth(80)
    if known:
        data = merge_replicates(data.X, data.y, torch.full_like(data.y, 0.02))
    gp = start()
    model = SVGP(gp, select_inducing_points(gp.kernel, data.X, 12), len(data))
    model.Z.requires_grad_(False)
    full, sigma2 = copy.deepcopy(gp), float(gp.sigma2.detach())
    calls = []
    report = fit_svgp(model, data, 300, batch, lr=0.1, natural_lr=rate, on_step=lambda: calls.append(1))
    other = fit_sgpr(full, model.Z.detach(), data)
    assert len(calls) == report.iterations == 300 * 80 // batch
    assert report.rows == 80
    assert other.log_likelihood - gap < report.log_likelihood < other.log_likelihood + 0.1  # nats, of 80 rows
    assert report.log_likelihood == pytest.approx(float(sgpr_bound(gp, model.Z, data).detach()), rel=1e-12)
    assert (float(gp.sigma2.detach()) == sigma2) == known
    X = uniform(20, 2, seed=5)
    close(model.posterior().mean(X), sgpr_posterior(full, model.Z.detach(), data).mean(X), rtol=0, atol=0.05)


@pytest.mark.slow
def test_points_move_to_where_they_help():
    gp, data = process(), smooth(80)
    model = SVGP(gp, 0.1 * uniform(8, 2), len(data))
    before = model.collapse(data)
    report = fit_svgp(model, data, epochs=60, batch_size=40)
    assert report.log_likelihood > before + 30


def test_the_seed_decides():
    def trained(seed):
        data = smooth(64)
        model = model_of(start(), data, q=False)
        fit_svgp(model, data, epochs=3, batch_size=20, seed=seed)
        return model

    one, same, other = trained(0), trained(0), trained(1)
    for name, value in one.state_dict().items():
        assert torch.equal(value, same.state_dict()[name]), name
    assert not torch.equal(one.b, other.b)


def test_only_full_minibatches():
    data, sizes = smooth(50), []
    model = model_of(start(), data, q=False)
    original = model.loss_of
    model.loss_of = lambda rows: sizes.append(len(rows)) or original(rows)
    assert fit_svgp(model, data, epochs=2, batch_size=20).iterations == 4
    assert sizes == [20] * 4
    assert fit_svgp(model, data, epochs=2, batch_size=200).iterations == 2  # all rows are fewer than one takes
    assert sizes[4:] == [50] * 2


@pytest.mark.slow
def test_float32_is_close_to_float64():
    data = smooth(200)
    results = []
    for dtype in (torch.float64, torch.float32):
        model = model_of(start(), data, m=30, q=False, dtype=dtype)
        loss = model.loss(data.X, data.y)
        assert loss.dtype == torch.float64  # sums over rows in float32, all else in float64
        fit_svgp(model, data, epochs=10, batch_size=50)
        results.append((model, loss.detach()))
    (one, first), (other, second) = results
    close(second, first, rtol=1e-4)
    X = uniform(50, 2, seed=5)
    close(other.posterior().mean(X), one.posterior().mean(X), rtol=0, atol=1e-3)
    close(other.posterior().covar(X), one.posterior().covar(X), rtol=0, atol=1e-4)
    assert other.posterior().covar(X).dtype == torch.float64
    assert torch.linalg.eigvalsh(other.posterior().covar(X)).min() > -1e-9


def test_enough_points_give_the_exact_posterior():
    gp, data, X = process(), smooth(40), uniform(20, 2, seed=5)
    model = SVGP(gp, data.X, len(data))
    model.collapse(data)
    close(model.posterior().covar(X), exact_posterior(gp, data).covar(X), rtol=0, atol=1e-5)
    close(model.posterior().mean(X), exact_posterior(gp, data).mean(X), rtol=0, atol=1e-4)


# --- state and mistakes ------------------------------------------------------------------------------------


def test_everything_is_there_from_the_start_and_comes_back():
    data = smooth(40)
    model = model_of(start(), data, q=False)
    keys = set(model.state_dict())
    fit_svgp(model, data, epochs=2, batch_size=20)
    assert set(model.state_dict()) == keys
    other = SVGP(start(), torch.zeros(9, 2), len(data))
    other.load_state_dict(model.state_dict())
    X = uniform(10, 2, seed=5)
    close(other.posterior().covar(X), model.posterior().covar(X), rtol=0, atol=0)


def test_noise_of_tasks():
    gp, data = tasks()
    assert model_of(gp, data).posterior().noise(data.X[:2]).tolist() == [0.1 if t == 0 else 0.3 for t in data.X[:2, 2]]


def test_adam_moves_positive_parameters_by_factors_and_keeps_bounds():
    gp = start()
    gp.likelihood.noise = 1.05e-4
    model = SVGP(gp, uniform(4, 2), 10)
    before, lengthscale = gp.sigma2.detach().clone(), gp.kernel.lengthscale.detach().clone()
    optimizer = HyperAdam(model, lr=0.1)
    (gp.sigma2.log() - gp.kernel.lengthscale.log().sum()).sum().backward()
    optimizer.step()
    assert before > 1e-4
    close(gp.sigma2.detach(), torch.tensor(1e-4, dtype=torch.float64))
    close(gp.kernel.lengthscale.detach(), lengthscale * math.exp(0.1), rtol=1e-6)
    calls = []
    optimizer.step(lambda: calls.append(model.gp.sigma2.item()))  # Lightning gives a closure; it sees parameters
    assert calls == [pytest.approx(1e-4)]


def test_a_loss_that_is_not_finite():
    model = SVGP(process(), uniform(4, 2), 10)
    y = normal(10)
    y[3] = torch.nan
    with pytest.raises(InputError, match="became nan on a minibatch of 10 rows; lower the learning rate"):
        model.loss(uniform(10, 2), y)


def test_steps_in_the_wrong_order():
    model = SVGP(process(), uniform(4, 2), 10)
    with pytest.raises(ValueError, match="one step for each call of loss"):
        model.natural_step(0.1)
    model.loss(uniform(10, 2), normal(10))
    with pytest.raises(ValueError, match=r"a length in \(0, 1\], got 1.5"):
        model.natural_step(1.5)
    model.natural_step(0.1)
    with pytest.raises(ValueError, match="one step for each call of loss"):
        model.natural_step(0.1)
