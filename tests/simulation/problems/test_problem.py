import pickle
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest

from beebo_scale.simulation.problems.problem import embedded
from beebo_scale.simulation.problems.rover import rover
from beebo_scale.simulation.problems.synthetic import ackley, branin_noise, hartmann
from tests.simulation.helpers import cube


def test_inputs_that_do_not_matter():
    inner, outer = hartmann(6), embedded(hartmann(6), 100)
    U = cube(50, 100)
    assert (outer.f(outer.from_cube(U)) == inner.f(inner.from_cube(U[:, :6]))).all()
    assert outer.best == inner.best
    assert outer.optima.shape == (1, 100)
    assert (outer.optima[:, :6] == inner.optima).all()
    assert (outer.optima[:, 6:] == 0).all()
    assert np.isclose(outer.f(outer.optima)[0], inner.best, atol=1e-5)


def test_the_box_grows_and_so_does_what_is_known_of_the_inputs():
    outer = embedded(ackley(2), 5)
    assert outer.bounds.T.tolist() == [[-32.768, 32.768]] * 2 + [[0.0, 1.0]] * 3
    assert embedded(rover(), 62).slip.tolist() == [1e-4] * 60 + [0.0] * 2
    inner, outer = branin_noise(), embedded(branin_noise(), 4)
    X = outer.from_cube(cube(5, 4))
    assert (outer.variance(X) == inner.variance(X[:, :2])).all()
    assert outer.optima.shape == (3, 4)


@pytest.mark.parametrize("problem", [ackley(3), branin_noise(), embedded(hartmann(3), 7)])
def test_a_problem_can_be_sent_to_another_process(problem):
    X = problem.from_cube(cube(4, problem.d))
    values, bounds = problem.f(X), problem.bounds.copy()
    sent = pickle.loads(ForkingPickler.dumps(problem))  # torch moves its tensors here
    assert (sent.f(X) == values).all()
    assert (sent.bounds == bounds).all()
    assert (problem.bounds == bounds).all()
    assert np.allclose(problem.from_cube(problem.to_cube(X)), X, rtol=0, atol=1e-12)
