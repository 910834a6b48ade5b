"""The test functions by their formulas, and their optima."""

import math

import numpy as np
import pytest
import torch
from botorch import test_functions

from beebo_scale.simulation.problems import synthetic
from tests.simulation.helpers import cube


def ackley(x):
    mean = np.mean(np.cos(2 * math.pi * x), -1)
    return 20 * np.exp(-0.2 * np.sqrt(np.mean(x**2, -1))) + np.exp(mean) - 20 - math.e


def levy(x):
    w = 1 + (x - 1) / 4
    inner = (w[:, :-1] - 1) ** 2 * (1 + 10 * np.sin(math.pi * w[:, :-1] + 1) ** 2)
    last = (w[:, -1] - 1) ** 2 * (1 + np.sin(2 * math.pi * w[:, -1]) ** 2)
    return -(np.sin(math.pi * w[:, 0]) ** 2) - inner.sum(-1) - last


def rastrigin(x):
    return -10 * x.shape[1] - (x**2 - 10 * np.cos(2 * math.pi * x)).sum(-1)


def rosenbrock(x):
    return -(100 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (x[:, :-1] - 1) ** 2).sum(-1)


def styblinski_tang(x):
    return -0.5 * (x**4 - 16 * x**2 + 5 * x).sum(-1)


def powell(x):
    a, b, c, e = (x[:, i : x.shape[1] // 4 * 4 : 4] for i in range(4))
    return -((a + 10 * b) ** 2 + 5 * (c - e) ** 2 + (b - 2 * c) ** 4 + 10 * (a - e) ** 4).sum(-1)


def cosine(x):
    return (0.1 * np.cos(5 * math.pi * x) - x**2).sum(-1)


def shekel(x):
    odd, even = [4, 1, 8, 6, 3, 2, 5, 8, 6, 7], [4, 1, 8, 6, 7, 9, 3, 1, 2, 3.6]
    C, c = np.array([odd, even, odd, even]).T, np.array([1, 2, 2, 4, 4, 6, 3, 7, 5, 5]) / 10
    return (1 / (((x[:, None] - C) ** 2).sum(-1) + c)).sum(-1)


def hartmann_6(x):
    A = [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
    P = [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
    exponents = (np.array(A) * (x[:, None] - 1e-4 * np.array(P)) ** 2).sum(-1)
    return np.exp(-exponents) @ np.array([1.0, 1.2, 3.0, 3.2])


CASES = [  # problem, class of botorch, formula, side of the box, largest value
    (synthetic.ackley(10), "Ackley", ackley, (-32.768, 32.768), 0.0),
    (synthetic.levy(10), "Levy", levy, (-10, 10), 0.0),
    (synthetic.rastrigin(10), "Rastrigin", rastrigin, (-5.12, 5.12), 0.0),
    (synthetic.rosenbrock(10), "Rosenbrock", rosenbrock, (-5, 10), 0.0),
    (synthetic.styblinski_tang(10), "StyblinskiTang", styblinski_tang, (-5, 5), 391.66166),
    (synthetic.powell(10), "Powell", powell, (-4, 5), 0.0),
    (synthetic.shekel(), "Shekel", shekel, (0, 10), 10.5364),
    (synthetic.hartmann(6), "Hartmann", hartmann_6, (0, 1), 3.32237),
    (synthetic.cosine(), "Cosine8", cosine, (-1, 1), 0.8),
]
NAMES = [name for _, name, *_ in CASES]


@pytest.mark.parametrize(("problem", "name", "formula", "side", "best"), CASES, ids=NAMES)
def test_formula_box_and_optimum(problem, name, formula, side, best):
    assert problem.bounds.T.tolist() == [list(side)] * problem.d
    X = problem.from_cube(cube(200, problem.d))
    assert np.allclose(problem.f(X), formula(X), rtol=1e-12, atol=1e-12)
    assert abs(problem.best - best) < 5e-5
    assert np.allclose(problem.f(problem.optima), problem.best, atol=1e-4)
    # What lies around the optimum is lower, but for rounding of the published place.
    around = np.clip(problem.to_cube(problem.optima) + 0.02 * (cube(400, problem.d) - 0.5), 0, 1)
    assert (problem.f(problem.from_cube(around)) < problem.best + 1e-4).all()


@pytest.mark.parametrize("name", NAMES)
def test_agrees_with_botorch_in_its_own_direction(name):
    """`negate` as the paper's experiments set it."""
    problem = CASES[NAMES.index(name)][0]
    given = {} if name in ("Shekel", "Cosine8") else {"dim": problem.d}
    theirs = getattr(test_functions, name)(negate=name != "Cosine8", **given)
    X = problem.from_cube(cube(50, problem.d))
    # Botorch keeps constants of Hartmann and Shekel in float32 unless the default type is float64.
    assert np.allclose(theirs(torch.from_numpy(X)).numpy(), problem.f(X), rtol=1e-6)
    assert theirs.optimal_value == problem.best


def test_the_default_type_is_left_alone():
    synthetic.hartmann(3)
    assert torch.get_default_dtype() == torch.float32


def test_what_is_left_of_fours_does_not_matter_to_powell():
    problem, U = synthetic.powell(10), cube(5, 10)
    other = U.copy()
    other[:, 8:] = cube(5, 2, seed=1)
    assert (problem.f(problem.from_cube(U)) == problem.f(problem.from_cube(other))).all()
