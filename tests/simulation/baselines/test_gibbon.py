"""GIBBON against botorch's, and against its definition for a whole batch."""

import numpy as np
import pytest
import torch
from botorch.acquisition.max_value_entropy_search import qLowerBoundMaxValueEntropy
from botorch.models import SingleTaskGP
from botorch.utils.transforms import standardize

import beebo_scale as bs
from beebo_scale import InputError
from beebo_scale.simulation import Fitting
from beebo_scale.simulation.baselines.gibbon import Gibbon, OneMore, quality, sampled_maxima
from beebo_scale.simulation.baselines.sequential import Filling
from beebo_scale.simulation.problems import functions
from tests.helpers import close, exact_toy, normal, uniform
from tests.simulation.helpers import state_of

SHORT = Fitting(iterations=15)
MAXIMA = torch.tensor([1.6, 2.0, 2.7], dtype=torch.float64)


def filled(posterior, X):
    filling = Filling.of(posterior)
    for x in X:
        filling = filling.add(x.unsqueeze(0))
    return filling


@pytest.fixture(scope="module")
def model():
    X = uniform(10, 2, seed=1)
    model = SingleTaskGP(X, standardize(normal(10, 1, seed=2)), outcome_transform=None).eval()
    model.likelihood.noise = 0.05
    return model.requires_grad_(False)


@pytest.mark.parametrize("k", [0, 1, 4])
def test_one_more_point_has_the_value_that_botorch_gives_it(model, k):
    pending, X = uniform(k, 2, seed=3), uniform(6, 1, 2, seed=4)
    theirs = qLowerBoundMaxValueEntropy(model, uniform(50, 2, seed=5), X_pending=pending if k else None)
    theirs.posterior_max_values = MAXIMA.unsqueeze(-1)
    ours = OneMore(filled(bs.posterior_of(model), pending), MAXIMA, 1.0)
    close(ours(X).detach(), theirs(X).detach(), rtol=1e-6, atol=1e-7)


def test_the_maxima_are_those_of_botorch(model):
    some, found = uniform(200, 2, seed=5), []
    for draw in (
        lambda: qLowerBoundMaxValueEntropy(model, some, 4).posterior_max_values.squeeze(-1),
        lambda: sampled_maxima(bs.posterior_of(model), some, 4),
    ):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            found.append(draw())
    close(found[1], found[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("scale", [1.0, 1.0 / 16])
def test_the_points_add_up_to_the_value_of_the_batch(scale):
    toy, X, sigma2 = exact_toy(sigma2=0.05), uniform(4, 2, seed=9), 0.05
    total = sum(
        float(OneMore(filled(toy.posterior, X[:k]), MAXIMA, scale)(X[k].reshape(1, 1, 2)).detach()) for k in range(4)
    )
    C = toy.covar(X) + sigma2 * torch.eye(4, dtype=torch.float64)
    std = C.diagonal().sqrt()
    v = C.diagonal() - sigma2
    alone = quality(toy.mean(X).unsqueeze(-1), v.unsqueeze(-1), torch.full((4, 1), sigma2), MAXIMA).sum()
    expected = scale * 0.5 * torch.logdet(C / std / std.unsqueeze(-1)) + alone
    assert abs(total - float(expected)) < 1e-9


@pytest.mark.slow
def test_the_scaled_form_lets_points_repeat():
    state = state_of(functions.TestFunction("ackley", 2), count=8, q=5)
    spread = {}
    for scaled in (False, True):
        strategy = Gibbon(SHORT, scaled=scaled, candidates=500)
        X = strategy.choose(state, strategy.fit(state))
        assert X.shape == (5, 2)
        assert ((X >= 0) & (X <= 1)).all()
        spread[scaled] = np.linalg.norm(X[:, None] - X[None], axis=-1).mean()
    assert spread[True] < spread[False]


def test_what_is_refused():
    with pytest.raises(InputError, match="candidates = 0"):
        Gibbon(candidates=0)
