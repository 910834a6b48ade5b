"""Local penalisation against its formula."""

import numpy as np
import pytest
import torch
from scipy.stats import norm

from beebo_scale.simulation import Fitting
from beebo_scale.simulation.baselines.penalisation import (
    LocalPenalisation,
    PenalisedLogEI,
    gradient,
    largest_mean_and_slope,
)
from beebo_scale.simulation.baselines.sequential import Filling
from beebo_scale.simulation.problems import functions
from beebo_scale.simulation.strategies import cube_of
from tests.helpers import close, exact_toy, uniform
from tests.simulation.helpers import encoded, square_grid, state_of

SHORT = Fitting(iterations=15)
SQUARE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)


def test_the_value_by_its_formula():
    toy, chosen, X = exact_toy(), uniform(3, 2, seed=5), uniform(7, 2, seed=6)
    filling = Filling.of(toy.posterior)
    for x in chosen:
        filling = filling.add(x.unsqueeze(0))
    best, M, L = torch.tensor(0.9, dtype=torch.float64), 1.4, 2.5
    assert float(toy.mean(chosen).max()) < M
    values = PenalisedLogEI(filling, best, M, L)(X.unsqueeze(-2)).detach()

    def moments(points):
        return toy.mean(points).numpy(), toy.covar(points).diagonal().sqrt().numpy()

    mean, std = moments(X)
    z = (mean - 0.9) / std
    expected = np.log(std * (z * norm.cdf(z) + norm.pdf(z)))
    for x, mean, std in zip(chosen.numpy(), *moments(chosen), strict=True):
        radius = L * np.linalg.norm(X.numpy() - x, axis=-1)
        expected += norm.logcdf((radius - M + mean) / std)
    close(values, torch.from_numpy(expected))


def test_the_slope_at_a_chosen_point_is_finite():
    toy, x = exact_toy(), uniform(1, 2, seed=5)
    filling = Filling.of(toy.posterior).add(x)
    X = x.unsqueeze(0).requires_grad_(True)
    (slope,) = torch.autograd.grad(PenalisedLogEI(filling, X.new_tensor(1.0), 1.2, 3.0)(X).sum(), X)
    assert torch.isfinite(slope).all()


def test_the_largest_mean_and_slope_is_the_steepest_slope_of_a_grid():
    toy = exact_toy()
    grid = torch.from_numpy(square_grid(101))
    step = 1e-5 * torch.eye(2, dtype=torch.float64)
    steepest = torch.stack([(toy.mean(grid + h) - toy.mean(grid - h)) / 2e-5 for h in step], -1)
    close(gradient(toy.posterior, grid), steepest, rtol=1e-6, atol=1e-6)
    M, L = largest_mean_and_slope(toy.posterior, SQUARE, seed=0)
    assert float(toy.mean(grid).max()) <= M + 1e-12 < float(toy.mean(grid).max()) + 1e-3
    assert float(steepest.norm(dim=-1).max()) * (1 - 1e-9) <= L < 1.02 * float(steepest.norm(dim=-1).max())


def test_a_flat_mean_says_nothing_of_the_slope():
    toy = exact_toy()
    flat = toy.posterior.augment(uniform(1, 2))
    object.__setattr__(flat, "weights", torch.zeros_like(flat.weights))
    assert largest_mean_and_slope(flat, SQUARE, seed=0)[1] == 10.0


@pytest.mark.slow
def test_each_point_is_the_best_of_a_grid_given_those_before():
    world = functions.TestFunction("branin")
    state = state_of(world, count=8, q=4)
    strategy = LocalPenalisation(SHORT, restarts=30, raw_samples=300)
    surrogate = strategy.fit(state)
    chosen = encoded(state, surrogate, strategy.choose(state, surrogate))
    grid = encoded(state, surrogate, square_grid())
    measured, bounds = surrogate.data.y.max(), cube_of(state, surrogate).space.bounds
    largest, L = largest_mean_and_slope(surrogate.posterior(), bounds, state.seed)
    filling = Filling.of(surrogate.posterior())
    for x in chosen:
        with torch.no_grad():
            value = PenalisedLogEI(filling, measured, largest, L)(torch.cat([grid, x.unsqueeze(0)]).unsqueeze(-2)).exp()
        assert value[-1] > 0.97 * value[:-1].max()
        filling = filling.add(x.unsqueeze(0))
    assert len(np.unique(chosen, axis=0)) == state.q


def test_a_point_that_promises_more_than_was_measured_is_not_chosen_again():
    """Its penalty is at least a half, whatever the mean there, so that a point beside it is better."""
    toy, x = exact_toy(), uniform(1, 2, seed=5)
    filling = Filling.of(toy.posterior).add(x)
    low = toy.mean(x).squeeze() - 5.0  # far less than the mean at x
    acqf = PenalisedLogEI(filling, low, float(low), 3.0)
    near = x + torch.tensor([[0.05, 0.0]], dtype=torch.float64)
    at, beside = (acqf(X.unsqueeze(0)).detach() for X in (x, near))
    close(at, acqf.log_ei(x.unsqueeze(0)).detach() + np.log(0.5), rtol=1e-6, atol=1e-6)
    assert beside > at
