import math

import pandas as pd
import pytest
import torch
from gpytorch.kernels import MaternKernel, ScaleKernel
from hypothesis import given
from hypothesis import strategies as st

import beebo_scale as bs
from beebo_scale.surrogates.data.observations import draw_inputs, merge_replicates
from beebo_scale.surrogates.gaussian_process.gaussian_process import (
    GaussianProcess,
    exact_posterior,
    log_marginal_likelihood,
)
from tests.helpers import LAWS, close, condition, matern52, normal, uniform

ROWS = [0, 3, 0, 1, 2, 3, 3, 4, 0, 5]  # which of six inputs each measurement is of
SIGMA2 = 0.07


def measured(seed=0):
    return uniform(6, 2, seed=seed)[ROWS], normal(len(ROWS), seed=seed + 1)


def process(sigma2=SIGMA2):
    gp = GaussianProcess(ScaleKernel(MaternKernel(nu=2.5, ard_num_dims=2)))
    gp.kernel.base_kernel.lengthscale = torch.tensor([0.4, 0.7], dtype=torch.float64)
    gp.kernel.outputscale = torch.tensor(1.3, dtype=torch.float64)
    gp.mean.initialize(constant=torch.tensor(0.2, dtype=torch.float64))
    gp.likelihood.noise = torch.tensor(sigma2, dtype=torch.float64)
    return gp


def all_rows(gp, X, y, noise=None):
    """Log marginal likelihood of every row as it is, by torch.distributions."""
    kernel = gp.kernel
    K = matern52(X, X, kernel.base_kernel.lengthscale, kernel.outputscale)
    noise = gp.sigma2.expand(len(X)) if noise is None else noise
    mean = gp.mean.constant.expand(len(X))
    return torch.distributions.MultivariateNormal(mean, K + torch.diag(noise)).log_prob(y)


# --- what is kept ------------------------------------------------------------------------------------------


def test_inputs_come_in_order_of_first_appearance():
    X, y = measured()
    data = merge_replicates(X, y)
    assert torch.equal(data.X, X[[0, 1, 3, 4, 7, 9]])
    assert data.count.tolist() == [3, 3, 1, 1, 1, 1]
    assert len(data) == 6
    assert data.noise is None


def test_mean_and_scatter_of_replicates():
    X, y = measured()
    data = merge_replicates(X, y)
    groups = [y[[0, 2, 8]], y[[1, 5, 6]], y[[3]], y[[4]], y[[7]], y[[9]]]
    close(data.y, torch.stack([g.mean() for g in groups]))
    assert float(data.scatter.sum()) == pytest.approx(
        sum(float((g - g.mean()).square().sum()) for g in groups), rel=1e-12
    )


def test_known_noise_weighs_the_mean():
    X, y = measured()
    noise = 0.01 + uniform(len(y), seed=3)
    data = merge_replicates(X, y, noise)
    w = 1 / noise[[0, 2, 8]]
    close(data.y[0], (w * y[[0, 2, 8]]).sum() / w.sum())
    close(data.noise[0], 1 / w.sum())
    close(data.noise[2:], noise[[3, 4, 7, 9]])
    assert not data.scatter.any()


def test_rows_without_replicates_stay_as_they_are():
    X, y, noise = uniform(20, 3), normal(20), 0.1 + uniform(20, seed=1)
    for known in (None, noise):
        data = merge_replicates(X, y, known)
        assert torch.equal(data.X, X)
        close(data.y, y, rtol=1e-15, atol=0)
        assert (data.count == 1).all()
        assert not data.scatter.any()
    close(data.noise, noise, rtol=1e-15, atol=0)


def test_one_row_and_nothing_but_replicates():
    assert len(merge_replicates(uniform(1, 2), normal(1))) == 1
    data = merge_replicates(uniform(1, 2).expand(5, 2), normal(5))
    assert (len(data), data.count.tolist()) == (1, [5.0])
    close(data.y[0], normal(5).mean())


def test_zero_has_no_sign():
    assert len(merge_replicates(torch.tensor([[0.0], [-0.0], [1.0]], dtype=torch.float64), normal(3))) == 2


def test_take_keeps_rows():
    X, y = measured()
    data = merge_replicates(X, y, 0.1 + uniform(len(y), seed=3))
    part = data.take(torch.tensor([0, 3, 5]))
    for name in ("X", "y", "noise", "count"):
        assert torch.equal(getattr(part, name), getattr(data, name)[[0, 3, 5]])
    data = merge_replicates(X, y)
    assert bool(data.scatter.any())
    assert torch.equal(data.take(torch.tensor([0, 3, 5])).scatter, data.scatter[[0, 3, 5]])
    assert data.take(torch.arange(6)).noise is None


# --- nothing is lost ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [False, True])
def test_the_posterior_is_that_of_all_rows(known):
    X, y = measured()
    noise = 0.01 + uniform(len(y), seed=3) if known else torch.full((len(y),), SIGMA2, dtype=torch.float64)
    posterior = exact_posterior(process(), merge_replicates(X, y, noise if known else None))
    test = uniform(7, 2, seed=5)
    joint = torch.cat([X, test])
    K = matern52(joint, joint, torch.tensor([0.4, 0.7], dtype=torch.float64), 1.3)
    mean, covar = condition(torch.full((len(joint),), 0.2, dtype=torch.float64), K, noise, y)
    close(posterior.mean(test), mean)
    close(posterior.covar(test), covar)


def gradients(gp, value):
    gp.zero_grad()
    value.backward()
    return {name: p.grad.clone() for name, p in gp.named_parameters() if p.grad is not None}


def test_taking_inputs_is_dropping_rows():
    X, y = measured()
    part = merge_replicates(X, y).take(torch.tensor([0, 3, 4]))
    kept = [i for i, row in enumerate(ROWS) if row in (0, 2, 4)]
    alone = merge_replicates(X[kept], y[kept])
    for name in ("X", "y", "count", "scatter"):
        close(getattr(part, name), getattr(alone, name), rtol=1e-14, atol=0)


def test_learned_noise_has_the_likelihood_gradients_of_all_rows():
    X, y = measured()
    gp = process()
    merged = gradients(gp, log_marginal_likelihood(gp, merge_replicates(X, y)))
    rows = gradients(gp, all_rows(gp, X, y))
    assert len(rows) == 4  # lengthscale, outputscale, mean, noise
    assert merged.keys() == rows.keys()
    for name in rows:
        close(merged[name], rows[name], rtol=1e-9)


def test_noise_by_task_has_the_likelihood_gradients_of_all_rows():
    task = torch.tensor([0, 1, 0, 1, 0, 1, 0, 1, 0, 1], dtype=torch.float64)
    X, y = torch.stack([uniform(6, 2)[ROWS][:, 0], task], dim=-1), normal(len(ROWS), seed=1)
    data = merge_replicates(X, y)
    assert 5 < len(data) < len(X)
    kernel = ScaleKernel(MaternKernel(nu=2.5, ard_num_dims=1, active_dims=(0,)))
    gp = GaussianProcess(kernel, tasks=2, task_column=1)
    gp.likelihood.noise = torch.tensor([[0.02], [0.3]], dtype=torch.float64)
    merged = gradients(gp, log_marginal_likelihood(gp, data))
    K = matern52(X[:, :1], X[:, :1], kernel.base_kernel.lengthscale, kernel.outputscale)
    noise = gp.likelihood.noise.squeeze(-1)[task.long()]
    brute = torch.distributions.MultivariateNormal(gp.mean.constant.expand(len(y)), K + torch.diag(noise)).log_prob(y)
    rows = gradients(gp, brute)
    assert merged.keys() == rows.keys()
    for name in rows:
        close(merged[name], rows[name], rtol=1e-9)
    close(exact_posterior(gp, data).noise(X), noise.detach())


def test_known_noise_has_the_likelihood_gradients_of_all_rows():
    X, y = measured()
    noise = 0.01 + uniform(len(y), seed=3)
    gp = process()
    merged = gradients(gp, log_marginal_likelihood(gp, merge_replicates(X, y, noise)))
    rows = gradients(gp, all_rows(gp, X, y, noise))
    assert len(rows) == 3  # the noise is not asked
    assert merged.keys() == rows.keys()
    for name in rows:
        close(merged[name], rows[name], rtol=1e-9)


@pytest.mark.slow
@LAWS
@given(st.lists(st.integers(0, 3), min_size=2, max_size=8), st.floats(1e-3, 10.0), st.floats(1e-3, 10.0))
def test_likelihoods_differ_by_a_constant_of_the_counts(rows, one, other):
    X, y = uniform(4, 2)[rows], normal(len(rows))
    data = merge_replicates(X, y)
    with torch.no_grad():
        differences = [
            float(all_rows(process(sigma2), X, y) - log_marginal_likelihood(process(sigma2), data))
            for sigma2 in (one, other)
        ]
    assert differences[0] == pytest.approx(differences[1], abs=1e-7)


def test_learned_noise_has_the_likelihood_of_all_rows():
    X, y = measured()
    gp = process()
    with torch.no_grad():
        merged = float(log_marginal_likelihood(gp, merge_replicates(X, y)))
        assert merged == pytest.approx(float(all_rows(gp, X, y)), rel=1e-10)
    assert math.isfinite(merged)


def test_single_measurements_are_drawn_as_they_come():
    rows = draw_inputs(torch.ones(50), 10, torch.Generator().manual_seed(3))
    expected = torch.randperm(50, generator=torch.Generator().manual_seed(3))[:10].sort().values
    assert torch.equal(rows, expected)
    assert torch.equal(draw_inputs(torch.ones(5), 10, torch.Generator()), torch.arange(5))


def test_inputs_are_drawn_by_how_often_they_were_measured():
    count = torch.tensor([1.0, 1.0, 100.0, 1.0, 50.0, *[1.0] * 45])
    drawn = [draw_inputs(count, 5, torch.Generator().manual_seed(seed)) for seed in range(40)]
    assert all(len(set(rows.tolist())) == 5 for rows in drawn)
    assert sum(2 in rows for rows in drawn) >= 38
    assert sum(4 in rows for rows in drawn) >= 34
    assert sum(0 in rows for rows in drawn) < 20


def test_the_noise_of_a_few_inputs_measured_often_is_not_missed():
    """Nearly all repeats are of two inputs, with a noise far above what the single rows would suggest."""
    X = torch.linspace(0, 1, 120, dtype=torch.float64).unsqueeze(-1)
    again = X[[30, 90]].repeat_interleave(150, 0)
    X = torch.cat([X, again])
    y = torch.sin(6 * X[:, 0]) + 0.01 * normal(len(X))
    y[120:] += 0.3 * normal(300, seed=1)
    table = bs.read_table(pd.DataFrame({"x": X[:, 0].numpy(), "y": y.numpy()}), "y", features={"x": "continuous"})
    few, whole = (bs.fit(table, fit_rows=rows).summary()["noise_std"] for rows in (40, 1000))
    assert few == pytest.approx(whole, rel=0.25)
