from dataclasses import replace

import pytest
import torch
from botorch.optim import optimize_acqf
from botorch.test_functions import Hartmann

from beebo_scale import BatchedEnergyEntropy, BoxSearch
from beebo_scale.errors import InputError
from beebo_scale.proposal.box import (
    GRID,
    candidates,
    climb,
    draw_starts,
    grid_steps,
    on_grid,
    optimize_box,
    perturbed,
    replace_repeats,
    sobol,
)
from beebo_scale.proposal.pool import known
from beebo_scale.roots import CholeskyRoot
from tests.helpers import close, exact_toy, uniform

BOX = torch.tensor([[-0.2, 0.1, 0.0], [1.3, 0.8, 2.0]], dtype=torch.float64)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def acquisition(temperature=0.3, d=3, n=15, **kwargs):
    return BatchedEnergyEntropy(exact_toy(n=n, d=d).posterior, temperature, **kwargs)


def hartmann(temperature=0.05, n=60):
    """An acquisition function over the unit cube for Hartmann-6."""
    toy = exact_toy(n=n, d=6, sigma2=0.01)
    y = -Hartmann(dim=6, dtype=torch.float64).evaluate_true(toy.Z)
    y = (y - y.mean()) / y.std()
    L = toy.posterior.down.L
    weights = torch.cholesky_solve((y - toy.constant)[:, None], L)[:, 0]
    posterior = replace(toy.posterior, weights=weights, down=CholeskyRoot(L))
    return BatchedEnergyEntropy(posterior, temperature), torch.tensor([[0.0] * 6, [1.0] * 6], dtype=torch.float64)


def inside(X, bounds):
    return bool(((bounds[0] <= X) & (bounds[1] >= X)).all())


# --- starts ----------------------------------------------------------------------------------------------


def test_sobol_points_fill_the_box():
    X = sobol(BOX, 256, generator())
    assert inside(X, BOX)
    assert torch.equal(X, sobol(BOX, 256, generator()))
    assert not torch.equal(X, sobol(BOX, 256, generator(1)))
    cells = ((X - BOX[0]) / (BOX[1] - BOX[0]) * 16).floor()  # 256 points of a Sobol sequence: 16 in each of 16 slices
    for column in cells.T:
        assert torch.bincount(column.long(), minlength=16).tolist() == [16] * 16


def test_perturbed_points_are_near_the_given_ones_and_inside():
    corner = BOX[1:].clone()
    X = perturbed(corner, BOX, 500, generator())
    assert X.shape == (500, 3)
    assert inside(X, BOX)
    distance = ((X - corner) / (BOX[1] - BOX[0])).abs().max(dim=-1).values
    assert distance.median() < 0.1
    assert distance.max() < 0.6
    assert distance.max() > 0.01


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_candidates_gather_at_the_best_measured_points(sign):
    posterior = exact_toy(n=30, d=3).posterior
    X = candidates(posterior, BOX, 400, generator(), sign)
    assert X.shape == (400, 3)
    assert inside(X, BOX)
    spread, near = posterior.mean(X[:300]), posterior.mean(X[300:])
    assert sign * float(near.mean()) > sign * float(spread.mean())


@pytest.mark.parametrize("start", ["greedy", "sobol"])
def test_starts_are_drawn_restart_by_restart(start):
    acqf = acquisition()
    few = draw_starts(acqf, BOX, 4, BoxSearch(restarts=2, start=start), seed=3)
    many = draw_starts(acqf, BOX, 4, BoxSearch(restarts=3, start=start), seed=3)
    assert few.shape == (2, 4, 3)
    assert inside(few, BOX)
    assert torch.equal(few, many[:2])
    assert not torch.equal(many[0], many[1])


# --- climbing --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("maximize", [True, False])
def test_climbing_never_lowers_the_value(maximize):
    acqf = acquisition(maximize=maximize)
    X = torch.stack([sobol(BOX, 5, generator(seed)) for seed in range(4)])
    before = acqf(X)
    best, value = climb(acqf, X, BOX, BoxSearch(steps=30))
    assert inside(best, BOX)
    close(acqf(best), value)
    assert (value >= before - 1e-12).all()
    assert (value > before + 0.1).all()  # and random batches are easy to improve
    again, value_again = climb(acqf, best, BOX, BoxSearch(steps=0))
    close(again, best, atol=1e-14)
    close(value_again, value)
    _, far = climb(acqf, best, BOX, BoxSearch(steps=3, learning_rate=0.5))  # steps that are much too long
    assert (far >= value - 1e-10).all()


def test_both_ends_of_the_box_are_reached_exactly():
    bounds = torch.tensor([[0.1, -0.3, 1 / 3], [0.7, 1e-3, 0.9]], dtype=torch.float64)
    acqf = acquisition(temperature=50.0)  # information lies in the corners
    best, _ = climb(acqf, sobol(bounds, 12, generator())[None], bounds, BoxSearch(steps=60))
    assert inside(best, bounds)
    assert bool((best == bounds[0]).any())
    assert bool((best == bounds[1]).any())


def test_restarts_do_not_interact():
    acqf = acquisition()
    X = torch.stack([sobol(BOX, 5, generator(seed)) for seed in range(3)])
    together, values = climb(acqf, X, BOX, BoxSearch(steps=40))
    for i in range(3):
        alone, value = climb(acqf, X[i : i + 1], BOX, BoxSearch(steps=40))
        close(together[i : i + 1], alone)
        close(values[i : i + 1], value)


def test_a_greedy_start_is_no_worse_than_a_sobol_start():
    acqf, cube = hartmann()
    _, greedy_value = optimize_box(acqf, cube, 8, BoxSearch(restarts=1, steps=30, start="greedy"))
    _, sobol_value = optimize_box(acqf, cube, 8, BoxSearch(restarts=2, steps=30, start="sobol"))
    assert greedy_value >= sobol_value


def test_the_search_beats_random_batches_and_botorch():
    acqf, cube = hartmann()
    X, value = optimize_box(acqf, cube, 8, BoxSearch(restarts=2, steps=60))
    assert X.shape == (8, 6)
    close(acqf(X), torch.tensor([value], dtype=torch.float64))
    with torch.no_grad():
        random = max(float(acqf(uniform(1, 8, 6, seed=seed))) for seed in range(100))
    assert value > random + 1.0
    torch.manual_seed(0)
    _, botorch_value = optimize_acqf(
        acqf, cube, q=8, num_restarts=2, raw_samples=16, options={"batch_limit": 2, "maxiter": 60}
    )
    assert value >= float(botorch_value) - 1e-3 * abs(float(botorch_value))


def test_the_seed_decides():
    acqf = acquisition()
    search = BoxSearch(restarts=1, steps=3)
    one, two, other = (optimize_box(acqf, BOX, 3, search, seed)[0] for seed in (5, 5, 6))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


# --- repeats ---------------------------------------------------------------------------------------------


def test_the_grid():
    ends = torch.stack([BOX[0], BOX[1]])
    assert torch.equal(on_grid(grid_steps(ends, BOX), BOX), ends)
    X = sobol(BOX, 100, generator())
    moved = on_grid(grid_steps(X, BOX), BOX)
    assert inside(moved, BOX)
    assert ((moved - X).abs() <= 0.51 / GRID * (BOX[1] - BOX[0])).all()
    assert torch.equal(grid_steps(moved, BOX), grid_steps(X, BOX))


def test_repeats_are_replaced_and_other_points_stay():
    acqf = acquisition()
    measured = torch.stack([BOX[1], torch.tensor([5.0, 5.0, 5.0], dtype=torch.float64)])  # one outside the box
    free = sobol(BOX, 3, generator())
    almost = free[:1] + 1e-9
    X = torch.cat([free, almost, free[1:2], BOX[1:]])
    new, count = replace_repeats(acqf, X, BOX, measured, seed=1)
    assert count == 3
    assert inside(new, BOX)
    steps = grid_steps(new, BOX)
    assert torch.equal(steps[:3], grid_steps(free, BOX))
    old, repeated = known(steps, grid_steps(measured, BOX))
    assert not bool((old | repeated).any())
    again, none = replace_repeats(acqf, new, BOX, measured)
    assert none == 0
    close(again, new, atol=1e-14)
    assert torch.equal(new, replace_repeats(acqf, X, BOX, measured, seed=1)[0])


def test_a_batch_that_is_one_point_becomes_many():
    acqf = acquisition(temperature=0.0)
    X = BOX[1].expand(20, 3)
    new, count = replace_repeats(acqf, X, BOX, BOX[:0])
    assert count == 19
    assert len(torch.unique(grid_steps(new, BOX), dim=0)) == 20


def test_a_box_may_have_no_room():
    acqf = acquisition(d=1)
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    X = torch.zeros(GRID + 2, 1, dtype=torch.float64)
    with pytest.raises(InputError, match=f"no room for {GRID + 2} different experiments"):
        replace_repeats(acqf, X, bounds, bounds[:0])
