"""`Posterior.adapt`: a root that is exact where it matters; and its use by the search in a box."""

import math
import pickle
import warnings
from dataclasses import replace

import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform

from beebo_scale import BatchedEnergyEntropy, BoxSearch, information_gain
from beebo_scale.kernels.stationary import StationaryKernel
from beebo_scale.linalg.roots import CholeskyRoot, DenseRoot
from beebo_scale.proposal.box.ascent import climb
from beebo_scale.proposal.box.multistart import optimize_box
from beebo_scale.proposal.box.space import Space
from beebo_scale.surrogates.approximate.love import LoveOptions, condition_love
from beebo_scale.surrogates.gaussian_process.exact import condition_exactly
from beebo_scale.surrogates.gaussian_process.noise import ConstantNoise
from beebo_scale.surrogates.scalarize import scalarize
from tests.helpers import close, constant_mean, exact_toy, normal, sparse_toy, uniform


def problem(n=300, d=3, sigma2=1e-2, lengthscale=0.5, by_row=False):
    Z = uniform(n, d)
    kernel = StationaryKernel(2.5, lengthscale * (0.7 + 0.6 * uniform(d, seed=5)), 1.2, None)
    noise = ConstantNoise(torch.tensor(sigma2, dtype=torch.float64))
    rows = sigma2 * 10.0 ** (2 * uniform(n, seed=6) - 1) if by_row else torch.full((n,), sigma2, dtype=torch.float64)
    return kernel, constant_mean(0.3), Z, torch.sin(5 * Z).sum(-1), rows, noise


def pair(rank=30, **which):
    """The exact and the LOVE posterior of the same measurements."""
    arguments = problem(**which)
    return condition_exactly(*arguments), condition_love(*arguments, LoveOptions(rank, mean_tolerance=1e-6))[0]


def gain(posterior, X):
    """I and its gradient."""
    X = X.clone().requires_grad_(True)
    value = information_gain(posterior.covar(X), posterior.noise(X))
    return value.detach(), torch.autograd.grad(value.sum(), X)[0]


@pytest.mark.slow
@pytest.mark.parametrize("sigma2", [1e-1, 1e-2, 1e-4])
def test_the_adapted_root_is_exact_where_it_was_adapted(sigma2):
    exact, love = pair(n=2000, d=6, rank=100, sigma2=sigma2, lengthscale=0.65)
    X = uniform(100, 6, seed=9)
    value, gradient = gain(exact, X)
    fixed, _ = gain(love, X)
    assert fixed / value > 1.2  # or there is nothing to show
    adapted = love.adapt(X)
    assert adapted.rank == 200
    found, slope = gain(adapted, X)
    assert abs(found / value - 1) < 1e-6
    assert torch.cosine_similarity(slope.flatten(), gradient.flatten(), dim=0) > 1 - 1e-9
    close(slope, gradient, rtol=1e-4, atol=1e-4 * float(gradient.abs().max()))
    near = X + 0.01 * normal(100, 6, seed=1)
    assert 0 <= gain(adapted, near)[0] / gain(exact, near)[0] - 1 < 0.03


@pytest.mark.slow
@pytest.mark.parametrize("by_row", [False, True])
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_one_root_for_all_batches(batch, by_row):
    exact, love = pair(by_row=by_row)
    X = uniform(*batch, 5, 3, seed=3)
    adapted = love.adapt(X)
    close(adapted.covar(X), exact.covar(X), rtol=0.0, atol=1e-9)
    assert torch.equal(adapted.mean(X), love.mean(X))
    assert not adapted.down.R.requires_grad
    close(adapted.covar(X.requires_grad_(True)), exact.covar(X), rtol=0.0, atol=1e-9)


def test_an_adapted_covariance_is_never_too_small_even_where_solves_are_poor():
    exact, love = pair(sigma2=1e-3)
    X, P = uniform(20, 3, seed=3), uniform(100, 3, seed=4)
    C = exact.covar(P)
    for tolerance in (1e2, 1.0, 1e-4, 1e-8):
        adapted = love.adapt(X, tolerance)
        assert torch.linalg.eigvalsh(adapted.covar(P) - C)[0] > -1e-8
        assert torch.linalg.eigvalsh(love.covar(P) - adapted.covar(P))[0] > -1e-8
        lacks = (adapted.variance(X) - exact.variance(X)) / love.noise(X)
        assert lacks.max() < 4 * tolerance


def test_a_tolerance_bounds_the_error_of_the_variance():
    exact, love = pair(sigma2=1e-2)
    love = replace(love, solver=replace(love.solver, size=10))  # of many blocks, or one step is exact
    X = uniform(20, 3, seed=3)
    coarse = (love.adapt(X, 0.1).variance(X) - exact.variance(X)) / 1e-2
    assert 1e-9 < coarse.max() < 0.4


def test_points_that_repeat_each_other_add_no_columns():
    exact, love = pair()
    X = uniform(4, 3, seed=3)
    adapted = love.adapt(torch.cat([X, X, X + 1e-14]))
    assert adapted.rank == love.rank + 4
    close(adapted.covar(X), exact.covar(X), rtol=0.0, atol=1e-9)
    again = adapted.adapt(X)
    assert again.rank <= adapted.rank + 4
    close(again.covar(X), exact.covar(X), rtol=0.0, atol=1e-9)


def test_measured_points_and_points_far_away():
    exact, love = pair()
    X = torch.cat([love.centers[:5], torch.full((2, 3), 1e3, dtype=torch.float64)])
    close(love.adapt(X).covar(X), exact.covar(X), rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("make", [exact_toy, sparse_toy])
def test_posteriors_that_leave_nothing_out_are_returned_as_they_are(make):
    posterior = make().posterior
    assert posterior.adapt(uniform(5, 2)) is posterior


# --- with augment and compress --------------------------------------------------------------------------------


def test_adapt_then_augment():
    exact, love = pair()
    X, P = uniform(6, 3, seed=3), uniform(4, 3, seed=4)
    y = normal(6)
    both = torch.cat([X, P])
    after = love.adapt(both).augment(X, 0.02, y)
    close(after.covar(P), exact.augment(X, 0.02, y).covar(P), rtol=0.0, atol=1e-8)
    close(after.mean(P), exact.augment(X, 0.02, y).mean(P), rtol=0.0, atol=1e-6)


def test_augment_then_adapt():
    exact, love = pair(by_row=True)
    X, P = uniform(6, 3, seed=3), uniform(4, 3, seed=4)
    sigma2 = 0.01 + 0.1 * uniform(6, seed=8)
    after = love.augment(X, sigma2).adapt(P)
    close(after.covar(P), exact.augment(X, sigma2).covar(P), rtol=0.0, atol=1e-8)
    more = after.augment(uniform(3, 3, seed=5)).adapt(P)
    close(more.covar(P), exact.augment(X, sigma2).augment(uniform(3, 3, seed=5)).covar(P), rtol=0.0, atol=1e-8)


def test_compress_and_adapt():
    exact, love = pair()
    P, Q = uniform(4, 3, seed=4), uniform(50, 3, seed=6)
    small = love.adapt(P).compress(10)
    assert small.rank == 10
    assert torch.linalg.eigvalsh(small.covar(Q) - exact.covar(Q))[0] > -1e-8
    close(small.adapt(P).covar(P), exact.covar(P), rtol=0.0, atol=1e-8)
    close(love.compress(10).adapt(P).covar(P), exact.covar(P), rtol=0.0, atol=1e-8)


def test_other_units():
    exact, love = pair()
    P, w = uniform(4, 3, seed=4), torch.tensor([-3.0], dtype=torch.float64)
    close(scalarize(love, w).adapt(P).covar(P), 9 * exact.covar(P), rtol=0.0, atol=1e-7)
    transform = ScalarizedPosteriorTransform(w)
    acqf = BatchedEnergyEntropy(love, 0.5, posterior_transform=transform).adapted(P)
    truth = BatchedEnergyEntropy(exact, 0.5, posterior_transform=transform)
    close(acqf(P), truth(P), rtol=1e-6, atol=1e-6)


def test_files_and_formats():
    exact, love = pair(sigma2=0.1)
    P = uniform(4, 3, seed=4)
    adapted = love.adapt(P)
    for posterior in (pickle.loads(pickle.dumps(love)), love.to(torch.float64)):
        assert torch.equal(posterior.adapt(P).covar(P), adapted.covar(P))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        single = love.to(torch.float32).adapt(P.float())
    assert single.down.R.dtype == torch.float32
    close(single.covar(P.float()).double(), exact.covar(P), rtol=0.0, atol=1e-3)


def test_a_triangular_root_can_be_joined():
    L = torch.linalg.cholesky(torch.eye(4, dtype=torch.float64) + 0.1)
    columns = normal(4, 2)
    joined = CholeskyRoot(L).join(columns)
    close(joined.R, torch.cat([torch.linalg.inv(L).mT, columns], dim=-1))
    close(DenseRoot(joined.R).join(columns).R[:, -2:], columns)


# --- in the acquisition and the box -----------------------------------------------------------------------------


def test_an_adapted_acquisition():
    exact, love = pair()
    acqf, truth, X = BatchedEnergyEntropy(love, 0.5), BatchedEnergyEntropy(exact, 0.5), uniform(2, 4, 3, seed=3)
    before = acqf(X)
    close(acqf.adapted(X)(X), truth(X), rtol=1e-6, atol=1e-6)
    assert torch.equal(acqf(X), before)  # the original has not changed
    assert truth.adapted(X) is truth
    pending = uniform(3, 3, seed=4)
    acqf, truth = (BatchedEnergyEntropy(p, 0.5, X_pending=pending) for p in (love, exact))
    close(acqf.adapted(X)(X), truth(X), rtol=1e-6, atol=1e-6)


BOX = Space(torch.tensor([[0.0] * 3, [1.0] * 3], dtype=torch.float64))


def test_a_climb_values_batches_exactly():
    exact, love = pair(rank=15, sigma2=1e-3)
    search = BoxSearch(steps=23, refresh=4)
    starts = uniform(2, 6, 3, seed=3)
    best, value = climb(BatchedEnergyEntropy(love, 2.0), starts, BOX, search)
    truth = BatchedEnergyEntropy(exact, 2.0)
    close(value, truth(best), rtol=1e-6, atol=1e-6)
    assert (value >= truth(starts) - 1e-9).all()
    _, target = climb(truth, starts, BOX, search)
    assert (value > truth(starts) + 0.4 * (target - truth(starts))).all()


def test_a_climb_adapts_every_few_steps_and_at_the_end(monkeypatch):
    _, love = pair(n=60)
    seen = []
    adapt = type(love).adapt
    monkeypatch.setattr(type(love), "adapt", lambda self, X, **k: seen.append(self.rank) or adapt(self, X, **k))
    climb(BatchedEnergyEntropy(love, 1.0), uniform(2, 4, 3, seed=3), BOX, BoxSearch(steps=25, refresh=10))
    assert seen == [love.rank] * 4  # steps 0, 10, 20, 25, always from the posterior without additions


def test_an_exact_posterior_is_searched_as_before():
    exact, _ = pair(n=60)
    acqf, starts = BatchedEnergyEntropy(exact, 1.0), uniform(2, 4, 3, seed=3)
    often = climb(acqf, starts, BOX, BoxSearch(steps=25, refresh=3, learning_rate=0.5))
    never = climb(acqf, starts, BOX, BoxSearch(steps=25, refresh=10**9, learning_rate=0.5))
    assert torch.equal(often[0], never[0])
    assert torch.equal(often[1], never[1])


@pytest.mark.slow
def test_a_search_with_love_finds_what_a_search_with_the_exact_posterior_finds():
    exact, love = pair(rank=15)
    search = BoxSearch(restarts=1, steps=40, refresh=10, polish=0)
    truth = BatchedEnergyEntropy(exact, 0.5)
    X, value, _ = optimize_box(BatchedEnergyEntropy(love, 0.5), BOX, 8, search)
    close(truth(X), torch.tensor([value], dtype=torch.float64), rtol=1e-6, atol=1e-6)
    assert value > optimize_box(truth, BOX, 8, search)[1] - 0.1 * math.sqrt(1.2)


def test_the_solver_of_a_posterior_can_be_exchanged():
    _, love = pair()
    assert replace(love, solver=None).adapt(uniform(3, 3)).rank == love.rank
