import json
import pickle

import numpy as np
import pandas as pd
import pytest
import torch

import beebo_scale as bs
from beebo_scale import InputError
from beebo_scale.screening import Encoder
from beebo_scale.simulation import Fitting, Options
from beebo_scale.simulation.loop import Plan, Run
from beebo_scale.simulation.problems import functions
from beebo_scale.simulation.problems.functions import FUNCTIONS
from beebo_scale.simulation.processes import run_all
from beebo_scale.simulation.results import collect
from beebo_scale.simulation.strategies import Random

ALL = [(name, family.known[0] if family.known else 4) for name, family in FUNCTIONS.items()]
KNOWN = [(name, d) for name, d in ALL if name not in ("rover", "push")]


def made(name, d, **options):
    try:
        return functions.TestFunction(name, d, **options)
    except InputError as error:
        if "Box2D" in str(error):
            pytest.skip("Box2D is not installed")
        raise


@pytest.mark.parametrize(("name", "d"), KNOWN)
def test_the_best_is_at_the_optimum_and_nowhere_else(name, d):
    world = functions.TestFunction(name, d)
    best = world.yardstick(world.start(20, 0)).best
    assert np.allclose(world.truth(_optima(world)), best, atol=1e-4)
    elsewhere = world.draw(500, np.empty((0, d)), 0)
    assert elsewhere.shape == (500, d)
    assert (world.truth(elsewhere) < best).all()


@pytest.mark.parametrize(("name", "d"), ALL)
def test_starts_are_far_from_the_optimum_and_in_the_cube(name, d):
    world = made(name, d)
    X = world.start(50, 3)
    assert X.shape == (50, d)
    assert ((X >= 0) & (X <= 1)).all()
    away = np.linalg.norm(X[:, None] - _optima(world), axis=-1)
    assert away.size or name in ("rover", "push")  # plain chance where no optimum is known
    assert name.startswith("branin") or (away >= 0.5).all()
    assert (made(name, d).start(50, 3) == X).all()
    assert (world.start(50, 4) != X).any()


def _optima(world):
    return world._problem.to_cube(world._problem.optima)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "d"), ALL)
def test_a_closed_loop(tmp_path, name, d):
    """Two rounds of three, by a world that was sent to another process and came back."""
    run = Run(pickle.loads(pickle.dumps(made(name, d))), Random(), "random", 0, Plan(q=3, rounds=2, start=6))
    run_all([run], str(tmp_path), 1, lambda: None)
    rounds = collect([run], tmp_path).rounds
    assert rounds["measured"].tolist() == [6, 9, 12]
    assert rounds["normalised"].is_monotonic_increasing
    assert rounds["normalised"].between(0, 1).all()
    assert np.isfinite(rounds["relative_regret"]).all()


@pytest.mark.slow
def test_beebo_is_told_the_noise_of_branin(tmp_path):
    options = Options(Fitting(iterations=10), search=bs.BoxSearch(restarts=1, steps=5, polish=0))
    bs.simulate(
        functions.TestFunction("branin-noise"), ["mean-beebo"], tmp_path, q=3, rounds=2, start=8, options=options
    )
    notes = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("*/round-*.json"))]
    assert [note["transform"] for note in notes] == ["none", "none"]
    assert np.isfinite(np.loadtxt(tmp_path / "mean-beebo-0" / "round-002.csv", delimiter=",", skiprows=1)).all()


@pytest.mark.process
def test_another_process_has_the_same_function(tmp_path):
    world = functions.TestFunction("branin-noise")
    before = world.start(6, 0)
    results = bs.simulate(world, ["random"], tmp_path, q=3, rounds=2, start=6, processes=2)
    assert (world.start(6, 0) == before).all()
    assert np.isclose(results.rounds["best"][0], world.truth(before).max())


def test_a_function_can_be_embedded():
    world = functions.TestFunction("levy", 30, effective=3)
    X = world.start(200, 0)
    assert (world.truth(X) == functions.TestFunction("levy", 3).truth(X[:, :3])).all()
    assert world.identity()["effective"] == 3
    assert functions.TestFunction("hartmann", 100, effective=6).title == "hartmann in 6 of 100 dimensions"


def test_control_problems_say_that_their_best_is_a_bound():
    assert functions.TestFunction("rover").title == "rover in 60 dimensions, best known only as a bound"


def test_inputs_slip_when_the_rover_is_measured():
    world = functions.TestFunction("rover")
    X = world.start(5, 0)
    errors = world.measure(X, 0) - world.truth(X)
    assert (errors != 0).all()
    assert (np.abs(errors) < 0.5).all()


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
        (("ackley",), "ackley: give its dimension, the number of inputs"),
        (("hartmann", 4), "hartmann with 4 inputs: it has 3 or 6"),
        (("rosenbrock", 1), "rosenbrock with 1 inputs: it has 2 or more"),
        (("rover", 50), "rover with 50 inputs: it has 60$"),
        (("branin-noise", 3), "branin-noise with 3 inputs: it has 2; to embed it, give effective, too"),
        (("branin-noise", 2, 1.0), "branin-noise has noise of its own"),
        (("hartmann", 100, 0.0, 5), "hartmann with 5 inputs: it has 3 or 6"),
        (("hartmann", None, 0.0, 6), "hartmann: give its dimension, the number of inputs in all"),
        (("levy", 5, 0.0, 5), "effective = 5: give less than dimension = 5"),
        (("levy", 2, -1.0), "noise = -1.0: give a standard deviation"),
    ],
)
def test_what_there_is_not(arguments, words):
    with pytest.raises(InputError, match=words):
        functions.TestFunction(*arguments)


def test_hartmann_has_three_and_six():
    assert functions.TestFunction("hartmann").d == 6
    assert torch.isfinite(torch.from_numpy(functions.TestFunction("hartmann", 3).truth(np.full((1, 3), 0.5)))).all()
