import math

import numpy as np
import pandas as pd
import pytest
import torch

from beebo_scale import InputError
from beebo_scale.screening import Encoder
from beebo_scale.simulation import functions
from beebo_scale.simulation.functions import DIMENSIONS

ALL = [(name, known[0] if known else 4) for name, known in DIMENSIONS.items()]


@pytest.mark.parametrize(("name", "d"), ALL)
def test_the_best_is_at_the_optimum_and_nowhere_else(name, d):
    world = functions.TestFunction(name, d)
    optima = np.atleast_2d(_optima(world))
    best = world.yardstick(world.start(20, 0)).best
    assert np.allclose(world.truth(optima), best, atol=1e-4)
    elsewhere = world.draw(500, np.empty((0, d)), 0)
    assert elsewhere.shape == (500, d)
    assert (world.truth(elsewhere) < best).all()


@pytest.mark.parametrize(("name", "d"), ALL)
def test_starts_are_far_from_the_optimum_and_in_the_cube(name, d):
    world = functions.TestFunction(name, d)
    X = world.start(50, 3)
    assert X.shape == (50, d)
    assert ((X >= 0) & (X <= 1)).all()
    assert (np.linalg.norm(X[:, None] - np.atleast_2d(_optima(world)), axis=-1) >= 0.5).all()
    assert (functions.TestFunction(name, d).start(50, 3) == X).all()
    assert (world.start(50, 4) != X).any()


def _optima(world):
    lo, hi = world._function.bounds
    return ((world._function.optimizers - lo) / (hi - lo)).numpy()


def test_ackley_by_its_formula():
    X = np.array([[0.2, 0.9], [0.5, 0.5]])
    z = 65.536 * X - 32.768
    value = -20 * np.exp(-0.2 * np.sqrt((z**2).mean(-1))) - np.exp(np.cos(2 * math.pi * z).mean(-1)) + 20 + math.e
    assert np.allclose(functions.TestFunction("ackley", 2).truth(X), -value)


def test_noise():
    quiet, noisy = functions.TestFunction("levy", 3), functions.TestFunction("levy", 3, noise=0.5)
    X = quiet.draw(4000, np.empty((0, 3)), 1)
    assert (quiet.measure(X, 0) == quiet.truth(X)).all()
    errors = noisy.measure(X, 0) - noisy.truth(X)
    assert abs(errors.std() - 0.5) < 0.03
    assert abs(errors.mean()) < 0.03
    assert (noisy.measure(X, 0) == noisy.measure(X, 0)).all()
    assert (noisy.measure(X, 1) != noisy.measure(X, 0)).all()


def test_written_points_are_read_again(tmp_path):
    world = functions.TestFunction("rosenbrock", 3, noise=0.1)
    X = world.start(5, 0)
    y = world.measure(X, 0)
    world.written(X, y).to_csv(tmp_path / "a.csv", index=False)
    points, values = world.parsed(pd.read_csv(tmp_path / "a.csv", dtype=str))
    assert (points == X).all()
    assert (values == y).all()
    encoder = Encoder.from_table(world.table(X, y))
    candidates = world.candidates(encoder, X, 2, 7)
    assert np.allclose(encoder.decode(candidates.X), candidates.points, rtol=0, atol=1e-12)


def test_typical_is_the_mean_of_the_function():
    world = functions.TestFunction("cosine")
    # E of 0.1 sum cos(5 pi z) - sum z^2 over [-1, 1]^8: cos averages to zero, z^2 to 1/3
    assert abs(world.yardstick(world.start(5, 0)).typical + 8 / 3) < 0.03


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("ackly", 2), "there is no function 'ackly'.*did you mean 'ackley'"),
        (("ackley",), "ackley has any number of inputs; give its dimension"),
        (("hartmann", 4), "hartmann with 4 inputs: it has 3 or 6"),
        (("rosenbrock", 1), "rosenbrock with 1 inputs: it has 2 or more"),
        (("levy", 2, -1.0), "noise = -1.0: give a standard deviation"),
    ],
)
def test_what_there_is_not(arguments, words):
    with pytest.raises(InputError, match=words):
        functions.TestFunction(*arguments)


def test_hartmann_has_three_and_six():
    assert functions.TestFunction("hartmann").d == 6
    assert torch.isfinite(torch.from_numpy(functions.TestFunction("hartmann", 3).truth(np.full((1, 3), 0.5)))).all()
