import pytest
import torch

from beebo_scale import BatchedEnergyEntropy
from beebo_scale.proposal.box import conditioned as module
from beebo_scale.proposal.box.conditioned import ConditionedPosterior, PrecisionMatrix, choose_given, joint_gains
from beebo_scale.proposal.library.lazy_greedy import greedy
from tests.helpers import close, exact_toy, sparse_toy, uniform

POSTERIORS = {"exact": exact_toy(d=3).posterior, "sparse": sparse_toy(d=3).posterior}


@pytest.fixture(params=list(POSTERIORS))
def posterior(request):
    return POSTERIORS[request.param]


@pytest.fixture(params=["all columns", "adapted"])
def few(request, monkeypatch):
    """The root holds all chosen points, or is adapted."""
    if request.param == "adapted":
        monkeypatch.setattr(module, "IN_ROOT", 0)


def chosen(posterior, *counts):
    """Points put in block by block."""
    precision = PrecisionMatrix(posterior, sum(counts) + 2)
    X = uniform(sum(counts), 3, seed=1)
    start = 0
    for count in counts:
        precision.insert(slice(start, start + count), X[start : start + count])
        start += count
    return precision, X


def noisy(posterior, X):
    return posterior.covar(X) + torch.diag_embed(posterior.noise(X))


def test_the_precision_matrix(posterior):
    precision, X = chosen(posterior, 3, 5, 4)
    close(precision.P, torch.linalg.inv(noisy(posterior, X)), atol=1e-9)
    precision.remove(slice(3, 8))
    left = torch.cat([X[:3], X[8:]])
    rows = [0, 1, 2, 8, 9, 10, 11]
    close(precision.P[rows][:, rows], torch.linalg.inv(noisy(posterior, left)), atol=1e-9)
    assert (precision.P[3:8] == 0).all()
    new = uniform(5, 3, seed=2)
    precision.insert(slice(3, 8), new)
    close(precision.P, torch.linalg.inv(noisy(posterior, torch.cat([X[:3], new, X[8:]]))), atol=1e-9)


def test_given_points_are_those_of_augment(posterior, few):
    precision, X = chosen(posterior, 3, 5)
    T = uniform(2, 4, 3, seed=3)
    given, expected = ConditionedPosterior.of(precision).adapt(T), posterior.augment(X)
    mean, covar = given.mean_and_covar(T)
    close(mean, expected.mean(T))
    close(covar, expected.covar(T), atol=1e-8)
    close(given.mean_variance_and_features(T)[1], expected.variance(T), atol=1e-8)
    close(given.noise(T), posterior.noise(T))


def test_value_and_gradient_given_points_are_those_of_augment(posterior, few):
    precision, X = chosen(posterior, 3, 5)
    acqf = BatchedEnergyEntropy(posterior, 0.7)
    acqf.conditioned = posterior.augment(X)
    T = uniform(2, 4, 3, seed=3).requires_grad_()
    expected = acqf(T)
    (slope,) = torch.autograd.grad(expected.sum(), T)
    acqf.conditioned = ConditionedPosterior.of(precision)
    value = acqf.adapted(T)(T)
    close(value, expected, atol=1e-8)
    close(torch.autograd.grad(value.sum(), T)[0], slope, atol=1e-7)


def test_points_of_some_rows_can_be_left_out(posterior, few):
    precision, X = chosen(posterior, 3, 5, 4)
    T = uniform(4, 3, seed=3)
    given = ConditionedPosterior.of(precision, without=slice(3, 8)).adapt(T)
    expected = posterior.augment(torch.cat([X[:3], X[8:]]))
    close(given.mean_and_covar(T)[1], expected.covar(T), atol=1e-8)


def test_away_from_where_it_was_adapted_the_covariance_is_never_too_small(posterior, monkeypatch):
    monkeypatch.setattr(module, "IN_ROOT", 0)
    precision, X = chosen(posterior, 6)
    T = uniform(8, 3, seed=4)
    given = ConditionedPosterior.of(precision).adapt(uniform(2, 3, seed=5))
    excess = given.mean_and_covar(T)[1] - posterior.augment(X).covar(T)
    assert torch.linalg.eigvalsh(excess).min() > -1e-9
    assert excess.diagonal().max() > 1e-4


@pytest.mark.parametrize("temperature", [0.0, 0.6])
def test_gains_add_up_by_the_chain_rule(posterior, temperature, monkeypatch):
    monkeypatch.setattr(module, "FILLED_AT_ONCE", 3)
    acqf = BatchedEnergyEntropy(posterior, temperature, maximize=False)
    X = uniform(8, 3, seed=6)
    gains = joint_gains(posterior, X, acqf.temperature, acqf.sign)
    for k in range(1, 9):
        close(gains[:k].sum(), acqf(X[:k])[0])
    order, chosen_gains = greedy(posterior, X, 8, acqf.temperature, acqf.sign)
    close(joint_gains(posterior, X[order], acqf.temperature, acqf.sign), chosen_gains)


def test_a_choice_given_points_is_that_of_augment(posterior, few):
    precision, X = chosen(posterior, 3, 5)
    pool = uniform(60, 3, seed=7)
    rows, _ = greedy(posterior.augment(X), pool, 6, 0.5)
    assert torch.equal(choose_given(precision, pool, 6, 0.5, 1.0), pool[rows])


def test_a_large_pool_is_cut_to_its_best(posterior, monkeypatch):
    monkeypatch.setattr(module, "IN_ROOT", 0)
    monkeypatch.setattr(module, "COMPARED", 20)
    precision, X = chosen(posterior, 3, 5)
    pool = uniform(60, 3, seed=7)
    best = module.score(posterior, pool, 0.5).argsort(descending=True)[:20].sort().values
    rows, _ = greedy(posterior.augment(X), pool[best], 6, 0.5)
    assert torch.equal(choose_given(precision, pool, 6, 0.5, 1.0), pool[best][rows])
