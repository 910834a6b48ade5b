"""Local penalisation against its formula."""

import numpy as np
import torch
from scipy.stats import norm

from beebo_scale.simulation import Fitting, functions
from beebo_scale.simulation.penalisation import LocalPenalisation, PenalisedLogEI, gradient, lipschitz_constant
from beebo_scale.simulation.sequential import Filling
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
    best, L = torch.tensor(0.9, dtype=torch.float64), 2.5
    values = PenalisedLogEI(filling, best, L)(X.unsqueeze(-2)).detach()

    def moments(points):
        return toy.mean(points).numpy(), toy.covar(points).diagonal().sqrt().numpy()

    mean, std = moments(X)
    z = (mean - 0.9) / std
    expected = np.log(std * (z * norm.cdf(z) + norm.pdf(z)))
    for x, mean, std in zip(chosen.numpy(), *moments(chosen), strict=True):
        radius = L * np.linalg.norm(X.numpy() - x, axis=-1)
        expected += norm.logcdf((radius - 0.9 + mean) / std)
    close(values, torch.from_numpy(expected))


def test_the_slope_at_a_chosen_point_is_finite():
    toy, x = exact_toy(), uniform(1, 2, seed=5)
    filling = Filling.of(toy.posterior).add(x)
    X = x.unsqueeze(0).requires_grad_(True)
    (slope,) = torch.autograd.grad(PenalisedLogEI(filling, X.new_tensor(1.0), 3.0)(X).sum(), X)
    assert torch.isfinite(slope).all()


def test_the_lipschitz_constant_is_the_steepest_slope_of_a_grid():
    toy = exact_toy()
    grid = torch.from_numpy(square_grid(101))
    step = 1e-5 * torch.eye(2, dtype=torch.float64)
    steepest = torch.stack([(toy.mean(grid + h) - toy.mean(grid - h)) / 2e-5 for h in step], -1)
    close(gradient(toy.posterior, grid), steepest, rtol=1e-6, atol=1e-6)
    L = lipschitz_constant(toy.posterior, SQUARE, seed=0)
    assert float(steepest.norm(dim=-1).max()) * (1 - 1e-9) <= L < 1.02 * float(steepest.norm(dim=-1).max())


def test_a_flat_mean_says_nothing_of_the_slope():
    toy = exact_toy()
    flat = toy.posterior.augment(uniform(1, 2))
    object.__setattr__(flat, "weights", torch.zeros_like(flat.weights))
    assert lipschitz_constant(flat, SQUARE, seed=0) == 10.0


def test_each_point_is_the_best_of_a_grid_given_those_before():
    world = functions.TestFunction("branin")
    state = state_of(world, count=8, q=4)
    strategy = LocalPenalisation(SHORT, restarts=30, raw_samples=300)
    surrogate = strategy.fit(state)
    chosen = encoded(state, surrogate, strategy.choose(state, surrogate))
    grid = encoded(state, surrogate, square_grid())
    best, bounds = surrogate.data.y.max(), cube_of(state, surrogate).space.bounds
    L = lipschitz_constant(surrogate.posterior(), bounds, state.seed)
    filling = Filling.of(surrogate.posterior())
    for x in chosen:
        with torch.no_grad():
            value = PenalisedLogEI(filling, best, L)(torch.cat([grid, x.unsqueeze(0)]).unsqueeze(-2)).exp()
        assert value[-1] > 0.97 * value[:-1].max()
        filling = filling.add(x.unsqueeze(0))
    assert len(np.unique(chosen, axis=0)) == state.q
