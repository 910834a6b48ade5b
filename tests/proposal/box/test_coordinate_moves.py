import itertools
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings

from beebo_scale import BatchedEnergyEntropy, BoxSearch, KernelPosterior, SoftmaxEnergy
from beebo_scale.kernels.screen import screen_kernel
from beebo_scale.linalg.roots import CholeskyRoot
from beebo_scale.proposal.box.coordinate_moves import alternatives, sweep
from beebo_scale.proposal.box.multistart import optimize_box
from beebo_scale.proposal.box.space import Space
from beebo_scale.proposal.box.starts import draw_start, restart_seeds
from beebo_scale.surrogates.gaussian_process.gaussian_process import GaussianProcess
from beebo_scale.surrogates.gaussian_process.noise import ConstantNoise
from tests.helpers import LAWS, close, constant_mean, normal, uniform
from tests.proposal.box.test_space import assert_inside, spaces

LEVELS = torch.arange(4, dtype=torch.float64)
QUICK = BoxSearch(restarts=2, steps=40, polish=0)


def labelled(n=14, seed=0) -> KernelPosterior:
    """The exact posterior over two continuous columns and one of four labels."""
    kinds = {"x": "continuous", "y": "continuous", "z": "categorical"}
    kernel = screen_kernel(kinds, {"x": slice(0, 1), "y": slice(1, 2), "z": slice(2, 3)}).double().requires_grad_(False)
    kernel.kernels[0].lengthscale = 0.5
    Z = uniform(n, 3, seed=seed)
    Z[:, 2] = (4 * Z[:, 2]).floor()
    L = torch.linalg.cholesky(kernel(Z, Z).to_dense() + 0.05 * torch.eye(n, dtype=torch.float64))
    weights = torch.cholesky_solve(normal(n, 1, seed=seed + 1), L)[:, 0]
    return KernelPosterior(
        kernel, constant_mean(0.0), Z, weights, CholeskyRoot(L), ConstantNoise(torch.tensor(0.05, dtype=torch.float64))
    )


def square(**more):
    return Space(torch.tensor([[0.0, 0.0, 0.0], [1.0, 1.0, 3.0]], dtype=torch.float64), **more)


def best_of(acqf, points, q):
    """The largest value of all batches of q of the points."""
    batches = torch.stack([torch.stack(rows) for rows in itertools.combinations_with_replacement(list(points), q)])
    with torch.no_grad():
        return float(max(acqf(some).max() for some in batches.split(2000)))


@pytest.mark.slow
@pytest.mark.parametrize("energy", [None, SoftmaxEnergy()])
def test_the_best_labels_are_found(energy):
    acqf = BatchedEnergyEntropy(labelled(), 0.4, energy=energy)
    bounds = torch.tensor([[0.3, 0.0, 0.0], [0.3, 2.0, 3.0]], dtype=torch.float64)
    space = Space(bounds, integer={1: 2}, categorical={2: LEVELS})
    points = space.every()
    assert len(points) == 12
    X, value, _ = optimize_box(acqf, space, 3, replace(QUICK, restarts=6, steps=20))
    assert space.contains(X).all()
    assert value == pytest.approx(best_of(acqf, points, 3), abs=1e-9)


def test_a_sweep_never_lowers_the_value_and_ends_where_no_single_move_helps():
    acqf = BatchedEnergyEntropy(labelled(), 0.4)
    space = square(integer={0: 7}, categorical={2: LEVELS})
    X = space.sample(6, torch.Generator().manual_seed(0))
    values = [float(acqf(X))]
    for _ in range(8):
        X = sweep(acqf, X, space)
        assert space.contains(X).all()
        values.append(float(acqf(X)))
    assert values == sorted(values)
    assert values[1] > values[0] + 0.1
    for i in range(6):
        for x in alternatives(X[i], space, False):
            other = X.clone()
            other[i] = x
            assert float(acqf(other)) <= values[-1] + 1e-9


def test_alternatives():
    space = square(integer={0: 4}, categorical={2: LEVELS[:3]}, shared=(2,))
    x = torch.tensor([0.25, 0.5, 1.0], dtype=torch.float64)
    assert alternatives(x, space, False).tolist() == [[0.0, 0.5, 1.0], [0.5, 0.5, 1.0]]
    assert alternatives(x, space, True).tolist() == [[0.25, 0.5, 0.0], [0.25, 0.5, 2.0]]
    assert alternatives(torch.zeros(3).double(), space, False).tolist() == [[0.25, 0.0, 0.0]]


@pytest.mark.slow
def test_whole_numbers_come_near_the_best():
    """One point, all columns whole: brute force."""
    acqf = BatchedEnergyEntropy(labelled(), 0.4)
    space = square(integer={0: 20, 1: 20}, categorical={2: LEVELS})
    _, value, _ = optimize_box(acqf, space, 1, QUICK)
    with torch.no_grad():
        assert value == pytest.approx(float(acqf(space.every().unsqueeze(1)).max()), abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("shared", [(0,), (2,), (0, 2)])
def test_shared_columns_match_a_grid_of_their_values(shared):
    """A search for each shared value on a grid, the shared columns fixed there, does no better."""
    acqf = BatchedEnergyEntropy(labelled(), 1.0)
    space = square(categorical={2: LEVELS}, shared=shared)
    X, value, _ = optimize_box(acqf, space, 4, replace(QUICK, restarts=3, steps=80))
    assert (X[:, list(shared)] == X[:1, list(shared)]).all()
    positions = torch.linspace(0, 1, 9 if shared == (0,) else 4)
    grid = itertools.product(*([positions] if 0 in shared else []), *([LEVELS] if 2 in shared else []))
    best = -torch.inf
    for values in grid:
        point = torch.zeros(3, dtype=torch.float64)
        point[list(shared)] = torch.stack(values).double()
        fixed = square(categorical={2: LEVELS}, shared=shared).with_shared(point)
        best = max(best, optimize_box(acqf, fixed, 4, replace(QUICK, restarts=1, steps=25))[1])
    assert value > best - 0.01 * abs(best)


@pytest.mark.slow
@settings(LAWS, max_examples=15)
@given(spaces())
def test_every_batch_keeps_every_condition_and_is_no_worse_than_its_start(drawn):
    space, seed = drawn
    gp = GaussianProcess(screen_kernel({"x": "continuous"}, {"x": slice(0, 5)}))
    kernel = gp.kernel.requires_grad_(False)
    kernel.lengthscale = 1.0
    Z = torch.lerp(space.bounds[0], space.bounds[1], uniform(9, 5, seed=seed))
    L = torch.linalg.cholesky(kernel(Z, Z).to_dense() + 0.1 * torch.eye(9, dtype=torch.float64))
    weights = torch.cholesky_solve(normal(9, 1, seed=seed), L)[:, 0]
    noise = ConstantNoise(torch.tensor(0.1, dtype=torch.float64))
    acqf = BatchedEnergyEntropy(KernelPosterior(kernel, constant_mean(0.0), Z, weights, CholeskyRoot(L), noise), 0.5)
    X, value, _ = optimize_box(acqf, space, 3, replace(QUICK, restarts=1, steps=4))
    assert_inside(space, X)
    assert (X[:, space.tied] == X[:1, space.tied]).all() or not space.shared
    close(acqf(X), torch.tensor([value], dtype=torch.float64))
    start = draw_start(acqf, space, 3, "greedy", restart_seeds(0, 1)[0])
    assert value >= float(acqf(start)) - 1e-9
