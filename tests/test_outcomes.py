"""What outcomes are worth, against plain Monte Carlo and quadrature."""

import math

import pytest
import torch
from scipy.integrate import dblquad
from scipy.stats import multivariate_normal

from beebo_scale.fronts import hypervolume
from beebo_scale.outcomes import Outcomes
from beebo_scale.proposal.tradeoffs.worth import InsideWorth, ShortfallWorth, improvement, information
from tests.helpers import close, half_logdet, normal, uniform

FREE = (math.inf, math.inf, math.inf)


def outcomes_of(signs=(1, -1, 0), low=(-math.inf, -math.inf, -math.inf), high=FREE, own=None):
    m = sum(map(bool, signs))
    one = torch.ones(m, dtype=torch.float64)
    own = own or (lambda f: f,) * len(signs)
    return Outcomes(own, signs, -0.5 * one, 0.7 * one, torch.tensor(low).double(), torch.tensor(high).double())


def gaussian(t, seed=0):
    A = normal(t, t, seed=seed)
    return normal(t, seed=seed + 50), A @ A.mT / t + 0.1 * torch.eye(t, dtype=torch.float64)


def sampled(mean, covar, count, seed=9):
    return mean + normal(count, len(mean), seed=seed) @ torch.linalg.cholesky(covar).mT


@pytest.mark.parametrize("seed", range(5))
def test_feasibility_is_that_of_quadrature(seed):
    mean, covar = gaussian(2, seed)
    low, high = (-0.3, -math.inf), (0.8, 0.4)
    found = outcomes_of((1, 0), low, high).feasibility(mean, covar)
    density = multivariate_normal(mean.numpy(), covar.numpy()).pdf
    expected, _ = dblquad(lambda y, x: density([x, y]), low[0], high[0], -12, high[1])
    assert float(found) == pytest.approx(expected, abs=2e-4)


def test_one_limit_is_exact_even_where_nothing_keeps_it():
    mean, covar = torch.zeros(1, 2).double(), torch.eye(2).double().unsqueeze(0)
    for limit in (1.0, 8.0):
        found = outcomes_of((1, 0), (-math.inf, limit)).feasibility(mean, covar)
        assert float(found) == pytest.approx(0.5 * math.erfc(limit / 2**0.5), rel=1e-6)


@pytest.mark.parametrize("limits", [{}, {"low": (-math.inf, -math.inf, 0.2), "high": (math.inf, 1.0, math.inf)}])
@pytest.mark.slow
def test_improvement_is_that_of_many_samples(limits):
    outcomes = outcomes_of(**limits)
    front = torch.tensor([[0.4, 1.2], [1.0, 0.3]]).double()
    mean, covar = gaussian(3, 4)
    f = sampled(mean, covar, 100_000)
    heights = outcomes.heights(f).masked_fill(~outcomes.met(f).unsqueeze(-1), -1.0)
    base = hypervolume(front)
    exact = torch.tensor([hypervolume(torch.cat([front, u[None]])) - base for u in heights[:4000]])
    worth = improvement(outcomes, front, 512)
    alone = float(worth.alone(mean[None], covar[None]))
    assert alone == pytest.approx(float(exact.mean()), abs=4 * float(exact.std()) / 4000**0.5)
    W = improvement(outcomes, front, 100_000 // 16)
    big = W.of_samples(f[: len(W.W)].unsqueeze(-2))
    assert alone == pytest.approx(float(big.mean()), abs=4 * float(big.std()) / len(big) ** 0.5)


def test_improvement_of_sets_is_submodular_in_every_sample():
    outcomes, f = outcomes_of(low=(-1.0, -math.inf, -math.inf)), normal(64, 5, 3, seed=2)
    worth = improvement(outcomes, torch.tensor([[0.4, 0.4]]).double(), 64)
    value = {n: worth.of_samples(f[:, list(n)]) for n in [(0, 1), (0, 1, 4), (0, 1, 2, 3), (0, 1, 2, 3, 4)]}
    small, large = value[0, 1, 4] - value[0, 1], value[0, 1, 2, 3, 4] - value[0, 1, 2, 3]
    assert bool((small >= large - 1e-12).all())
    assert bool((large >= -1e-12).all())
    assert float(large.sum()) > 0


def test_values_of_points_with_limits():
    mean, covar = gaussian(3, 7)
    outcomes = outcomes_of((0, 0, 0), (-math.inf, -0.2, -math.inf), (math.inf, math.inf, 0.9))
    f = sampled(mean, covar, 400_000)
    met = outcomes.met(f)
    weights = torch.tensor([1.0, -0.5, 0.0]).double()
    expected = ((f @ weights + 2.0) * met).mean()
    found = InsideWorth(outcomes, weights, -2.0).alone(mean[None], covar[None])
    assert float(found) == pytest.approx(float(expected), abs=0.01)
    short = (-0.2 - f[:, 1]).clamp_min(0.0) + (f[:, 2] - 0.9).clamp_min(0.0)
    assert float(ShortfallWorth(outcomes).alone(mean[None], covar[None])) == pytest.approx(
        -float(short.mean()), abs=0.01
    )


@pytest.mark.parametrize("t", [2, 3])
def test_information_of_all_targets(t):
    blocks = torch.stack([gaussian(t, seed)[1] for seed in range(6)])
    noise = 0.1 + uniform(6, t, seed=1)
    close(information(blocks, noise), torch.stack([half_logdet(C, s) for C, s in zip(blocks, noise, strict=True)]))
    assert float(information(torch.zeros(1, t, t).double(), noise[:1])) == 0.0


def test_gradients_against_differences():
    outcomes = outcomes_of(low=(-math.inf, -math.inf, 0.2), own=(torch.exp, lambda f: f, lambda f: f))
    front = torch.tensor([[0.4, 1.2], [1.0, 0.3]]).double()
    worth = improvement(outcomes, front, 16)
    f = normal(16, 3, 3, seed=5).requires_grad_(True)
    (slope,) = torch.autograd.grad(worth.of_samples(f, 0.05).sum(), [f])
    way = normal(16, 3, 3, seed=6)
    with torch.no_grad():
        step = 1e-6
        rise = (worth.of_samples(f + step * way, 0.05) - worth.of_samples(f - step * way, 0.05)).sum() / (2 * step)
    assert float((slope * way).sum()) == pytest.approx(float(rise), rel=1e-5)
