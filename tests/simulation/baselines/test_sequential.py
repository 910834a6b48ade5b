"""Points one after another, against a process that holds all believed measurements in one matrix."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from beebo_scale import InputError
from beebo_scale.simulation import Fitting
from beebo_scale.simulation.baselines.sequential import BatchUpperConfidence, Filling, KrigingBeliever, MarginalModel
from beebo_scale.simulation.problems import functions
from tests.helpers import close, exact_toy, uniform
from tests.simulation.helpers import encoded, square_grid, state_of, textbook

SHORT = Fitting(iterations=15)
HARD = {"restarts": 30, "raw_samples": 300}  # or a mode among many is missed
WORLD = functions.TestFunction("branin")


def expected_improvement(mean, std, best):
    """E max(f - best, 0)."""
    normal = torch.distributions.Normal(0.0, 1.0)
    z = (mean - best) / std
    return std * (z * normal.cdf(z) + normal.log_prob(z).exp())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kb-logei", "gp-bucb"])
def test_each_point_is_the_best_of_a_grid_given_those_before(name):
    strategy = KrigingBeliever(SHORT, **HARD) if name == "kb-logei" else BatchUpperConfidence(SHORT, **HARD, kappa=2.25)
    state = state_of(WORLD, count=8, q=6)
    surrogate = strategy.fit(state)
    chosen = encoded(state, surrogate, strategy.choose(state, surrogate))
    grid = encoded(state, surrogate, square_grid())
    believed = chosen.new_empty(0)
    for k in range(state.q):
        mean, std = textbook(surrogate, torch.cat([grid, chosen[k : k + 1]]), chosen[:k], believed)
        if name == "kb-logei":
            value = expected_improvement(mean, std, torch.cat([surrogate.data.y, believed]).max())
        else:
            value = mean + 1.5 * std
        scale = value.max() - value.min()
        assert value[-1] > value[:-1].max() - 0.03 * scale, k
        believed = torch.cat([believed, mean[-1:]])
    assert len(np.unique(chosen, axis=0)) == state.q


def test_believed_values_leave_the_mean_and_take_variance():
    toy, X, new = exact_toy(), uniform(5, 2, seed=8), uniform(3, 2, seed=9)
    filling = Filling.of(toy.posterior)
    for x in new:
        filling = filling.add(x.unsqueeze(0))
    close(filling.X, new)
    refitted = toy.posterior.augment(new, Y=toy.mean(new))
    close(filling.now.mean(X), toy.mean(X))
    close(refitted.mean(X), toy.mean(X))
    close(filling.now.variance(X), refitted.variance(X))
    assert (filling.now.variance(new) < toy.posterior.variance(new)).all()


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [KrigingBeliever(SHORT), BatchUpperConfidence(SHORT)])
def test_the_same_seed_gives_the_same_points_whatever_torch_drew_before(strategy):
    state = state_of(WORLD, count=8, q=3)
    surrogate = strategy.fit(state)
    before = (state.points.copy(), torch.get_rng_state())
    one = strategy.choose(state, surrogate)
    assert torch.equal(torch.get_rng_state(), before[1])
    torch.rand(7)
    assert (strategy.choose(state, surrogate) == one).all()
    assert (state.points == before[0]).all()
    other = strategy.choose(replace(state, seed=5), surrogate)
    assert not np.array_equal(other, one)


def test_without_kappa_gp_bucb_exploits():
    state = replace(state_of(WORLD, count=8, q=3), round=1)
    strategy = BatchUpperConfidence(SHORT, kappa=9.0, last_kappa=0.0)
    surrogate = strategy.fit(state)
    chosen = encoded(state, surrogate, strategy.choose(state, surrogate))
    highest = surrogate.posterior().mean(encoded(state, surrogate, square_grid())).max()
    assert (surrogate.posterior().mean(chosen) > highest - 0.01).all()


def test_single_points_as_a_botorch_model():
    toy, X = exact_toy(), uniform(3, 5, 2, seed=8)
    posterior = MarginalModel(toy.posterior).posterior(X)
    close(posterior.mean.squeeze(-1), toy.mean(X))
    close(posterior.variance.squeeze(-1), toy.covar(X).diagonal(dim1=-2, dim2=-1))


def test_what_is_refused():
    for options, words in (
        ({"restarts": 0}, "restarts = 0"),
        ({"kappa": -1.0}, "kappa = -1"),
        ({"last_kappa": -2.0}, "-2"),
    ):
        with pytest.raises(InputError, match=words):
            BatchUpperConfidence(**options)
