"""The posterior of blocks against dense algebra with its kernel."""

import pytest
import torch
from torch.distributions import MultivariateNormal

from beebo_scale.information import information_gain
from beebo_scale.posterior import Posterior
from beebo_scale.surrogates.approximate.blocks.fit import added
from beebo_scale.surrogates.gaussian_process.gaussian_process import exact_posterior
from tests.helpers import close, half_logdet, normal, uniform
from tests.surrogates.approximate.blocks.toys import D, dense, observations


@pytest.fixture(scope="module")
def toy():
    return dense()


@pytest.mark.parametrize("noise", [False, True])
def test_moments_are_those_of_the_kernel_of_blocks(noise):
    toy = dense(noise=noise)
    X = uniform(40, D, seed=20)
    mean, covar = toy.moments(X)
    posterior = toy.posterior
    close(posterior.mean(X), mean, rtol=1e-7, atol=1e-7)
    close(posterior.covar(X), covar, rtol=1e-7, atol=1e-7)
    close(posterior.variance(X), covar.diagonal(), rtol=1e-7, atol=1e-7)
    found = posterior.mean_variance_and_features(X)
    assert found[2].shape == (40, posterior.rank)
    close(found[0], mean, rtol=1e-7, atol=1e-7)
    close(posterior.cross_covar(X[:7], found[2][:7], X[7:], found[2][7:]), covar[:7, 7:], rtol=1e-7, atol=1e-7)


def test_batches_of_batches(toy):
    X = uniform(2, 3, 5, D, seed=21)
    mean, covar = toy.posterior.mean_and_covar(X)
    for i in range(2):
        for j in range(3):
            one, C = toy.moments(X[i, j])
            close(mean[i, j], one, rtol=1e-7, atol=1e-7)
            close(covar[i, j], C, rtol=1e-7, atol=1e-7)
    assert toy.posterior.mean(X[0, :, :0]).shape == (3, 0)


def test_the_likelihood_is_that_of_the_kernel_of_blocks(toy):
    data = toy.rows.data
    A = toy.prior(data.X, data.X) + toy.rows.sigma2.diag()
    expected = MultivariateNormal(toy.rows.gp.mean.constant.expand(len(data)), A).log_prob(data.y)
    assert added(toy.rows).log_likelihood == pytest.approx(float(expected), rel=1e-8)


def test_one_block_is_the_exact_process():
    toy = dense(size=120)
    X = uniform(30, D, seed=22)
    exact = exact_posterior(toy.rows.gp, toy.rows.data)
    for found, known in zip(toy.posterior.mean_and_covar(X), exact.mean_and_covar(X), strict=True):
        close(found, known, rtol=1e-6, atol=1e-7)


def test_blocks_of_one_row_are_fitc():
    """There a candidate that is no row shares nothing with any row but what inducing points carry."""
    toy = dense(n=40, size=1)
    assert len(toy.rows.partition) == 40
    F = toy.rows.inducing.features(toy.rows.data.X)
    D_ = toy.rows.inducing.kernel(toy.rows.data.X, diag=True) - F.square().sum(-1) + toy.rows.sigma2
    B = torch.eye(F.shape[-1], dtype=F.dtype) + (F.mT / D_) @ F
    close(added(toy.rows).A, B, rtol=1e-8, atol=1e-8)


def test_gradients_are_those_of_differences(toy):
    X = uniform(6, D, seed=23).requires_grad_(True)
    labels = toy.posterior.parts(X.detach())
    assert len(labels.unique()) < 6  # some share a block
    sigma2 = torch.full((6,), 0.05, dtype=torch.float64)

    def value(X):
        mean, covar = toy.posterior.mean_and_covar(X)
        return mean.sum() + information_gain(covar, sigma2) + toy.posterior.variance(X).sum()

    (grad,) = torch.autograd.grad(value(X), X)
    step, V = 1e-5, normal(6, D, seed=24)
    with torch.no_grad():
        assert torch.equal(toy.posterior.parts(X + step * V), labels)
        slope = (value(X + step * V) - value(X - step * V)) / (2 * step)
    assert float((grad * V).sum()) == pytest.approx(float(slope), rel=1e-6)
    (alone,) = torch.autograd.grad(toy.posterior.mean(X).sum(), X)
    (among,) = torch.autograd.grad(toy.posterior.mean_and_variance(X)[0].sum(), X)
    close(alone, among)


def test_information_gain_is_that_of_the_dense_covariance(toy):
    X = uniform(25, D, seed=25)
    sigma2 = toy.posterior.noise(X)
    found = information_gain(toy.posterior.covar(X), sigma2)
    assert float(found) == pytest.approx(float(half_logdet(toy.moments(X)[1], sigma2)), rel=1e-6)


def test_conditioning_is_a_refit_with_the_same_blocks(toy):
    """Once, in two steps, and with a part of the values unknown at first."""
    new, X = observations(30, seed=40), uniform(20, D, seed=26)
    old, posterior = toy.rows.data, toy.posterior
    both, y = torch.cat([old.X, new.X]), torch.cat([old.y, new.y])
    sigma2 = torch.cat([toy.rows.sigma2, posterior.noise(new.X)])
    mean, covar = toy.given(both, sigma2, y)(X)
    twice = posterior.augment(new.X[:12], Y=new.y[:12]).augment(new.X[12:], Y=new.y[12:])
    for found in (posterior.augment(new.X, Y=new.y), twice):
        assert isinstance(found, Posterior)
        close(found.mean(X), mean, rtol=1e-6, atol=1e-7)
        close(found.covar(X), covar, rtol=1e-6, atol=1e-7)
    pending = posterior.augment(new.X)
    close(pending.covar(X), covar, rtol=1e-6, atol=1e-7)
    close(pending.mean(X), posterior.mean(X))
    F = pending.features(X)
    close(pending.cross_covar(X[:3], F[:3], X, F), covar[:3], rtol=1e-6, atol=1e-7)
    with pytest.raises(ValueError, match="a matrix"):
        posterior.augment(X[0])


def test_memory_changes_nothing(toy):
    rows = toy.rows
    small = rows.posterior(added(rows), memory=0)
    X = uniform(200, D, seed=27)
    close(small.mean(X), toy.posterior.mean(X))
    close(small.covar(X), toy.posterior.covar(X))
    assert len(small.kept.blocks) == 1
    assert small.points_together == toy.posterior.points_together == 1
    held = {}
    known = rows.posterior(added(rows, keep=held), factors=held)
    assert len(held) == len(known.kept.blocks) == len(rows.partition)
    close(known.covar(X), toy.posterior.covar(X))


def test_factors_in_float32_leave_the_mean_exact(toy):
    X = uniform(50, D, seed=28)
    low = toy.rows.posterior(added(toy.rows), precision=torch.float32)
    close(low.mean(X), toy.posterior.mean(X), rtol=1e-12, atol=1e-12)
    close(low.covar(X), toy.posterior.covar(X), rtol=0, atol=1e-5)
    assert low.covar(X).dtype == torch.float64
    answers = toy.posterior.to(torch.float32)
    assert answers.dtype == answers.points.dtype == torch.float32
    assert answers.covar(X.float()).dtype == torch.float32
    close(answers.mean(X.float()).double(), toy.posterior.mean(X), rtol=1e-5, atol=1e-5)
    assert answers.augment(X[:3].float()).covar(X.float()).dtype == torch.float32
    moved = toy.posterior.to("cpu", torch.float64)
    assert torch.equal(moved.mean(X), toy.posterior.mean(X))


def test_parts_are_the_blocks_and_points_the_rows(toy):
    posterior = toy.posterior
    assert torch.equal(posterior.points, toy.rows.data.X)
    assert torch.equal(posterior.parts(posterior.points), toy.rows.partition.labels)
    assert torch.equal(posterior.augment(posterior.points[:2]).parts(posterior.points), toy.rows.partition.labels)
    assert posterior.amplitude == pytest.approx(1.0)
    assert posterior.exact
    assert posterior.adapt(posterior.points) is posterior


def test_sums_go_on_where_a_run_was_killed(toy, tmp_path, monkeypatch):
    from beebo_scale.surrogates.approximate.blocks import fit

    monkeypatch.setattr(fit, "SAVED_EVERY", -1.0)
    saved, whole, made = tmp_path / "sums.pt", added(toy.rows), []

    class KilledError(Exception):
        pass

    def factor(rows, block):
        if len(made) == 3:
            raise KilledError
        made.append(block)
        return original(rows, block)

    original = fit.factor_at
    monkeypatch.setattr(fit, "factor_at", factor)
    with pytest.raises(KilledError):
        added(toy.rows, saved=saved)
    assert saved.exists()
    monkeypatch.setattr(fit, "factor_at", lambda rows, block: made.append(block) or original(rows, block))
    again = added(toy.rows, saved=saved)
    assert made == list(range(len(toy.rows.partition)))  # none twice
    assert torch.equal(again.A, whole.A)
    assert torch.equal(again.c, whole.c)
    assert not saved.exists()
