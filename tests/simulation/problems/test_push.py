import builtins
import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from beebo_scale import InputError
from beebo_scale.simulation.problems import functions
from beebo_scale.simulation.problems.push import engine, push

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "control" / "push.json").read_text())


@pytest.fixture
def without_box2d(monkeypatch):
    real = builtins.__import__

    def imports(name, *args, **kwargs):
        if name == "Box2D":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    engine.cache_clear()
    monkeypatch.setattr(builtins, "__import__", imports)
    yield
    engine.cache_clear()


@pytest.mark.usefixtures("without_box2d")
def test_one_line_where_the_engine_is_missing():
    with pytest.raises(InputError, match=r"push needs Box2D; install it by: pip install 'beebo-scale\[push\]'"):
        functions.TestFunction("push")


@pytest.fixture
def problem():
    try:
        engine()  # importorskip would import it with warnings as errors, which it does not survive
    except InputError:
        pytest.skip("Box2D is not installed")
    return push()


def test_golden_values(problem):
    values = problem.f(np.array(GOLDEN["inputs"]))
    assert np.allclose(values, GOLDEN["values"], rtol=0, atol=1e-6)
    assert (values < problem.best).all()
    assert values.max() > 6


def test_bounds_and_the_distance_at_the_start(problem):
    assert problem.d == 14
    assert np.allclose(problem.best, np.hypot(4, 1.5) + np.hypot(4, 5.5))
    away = problem.bounds.mean(axis=0, keepdims=True)
    away[:, [0, 6]], away[:, [1, 7]], away[:, [2, 3, 8, 9]] = -5.0, -5.0, -10.0
    assert problem.f(away).tolist() == [0.0]  # hands that leave push nothing


def test_the_same_in_another_process_and_each_time(problem):
    world = functions.TestFunction("push")
    points = world.start(10, 0)
    assert (pickle.loads(pickle.dumps(world)).truth(points) == world.truth(points)).all()


@pytest.mark.slow
def test_typical(problem):
    U = np.random.default_rng(3).random((250, 14))
    values = problem.f(problem.from_cube(U))
    assert abs(values.mean() - problem.typical) < 5 * 1.4 / 250**0.5


def test_velocities_slip_when_measured(problem):
    world = functions.TestFunction("push")
    points = problem.to_cube(np.array(GOLDEN["inputs"]))
    measured = world.measure(points, 1)
    assert (measured == world.measure(points, 1)).all()
    assert (measured != world.truth(points)).any()
    assert problem.slip.nonzero()[0].tolist() == [2, 3, 8, 9]
