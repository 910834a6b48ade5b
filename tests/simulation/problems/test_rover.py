import json
from pathlib import Path

import numpy as np
from scipy.interpolate import splev, splprep

from beebo_scale.simulation.problems.rover import GOAL, START, TREES, cost, path, rover
from tests.simulation.helpers import cube

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "control" / "rover.json").read_text())
LINE = (np.linspace(START, GOAL, 30) + 0.1).reshape(1, 60) / 1.2


def value(U):
    problem = rover()
    return problem.f(problem.from_cube(U))


def test_golden_values():
    assert np.allclose(value(np.array(GOLDEN["inputs"])), GOLDEN["values"], rtol=0, atol=1e-11)


def test_the_path_is_the_spline_of_fitpack():
    sites = 1.2 * cube(20, 60, seed=5).reshape(20, 30, 2) - 0.1
    for ours, these in zip(path(sites), sites, strict=True):
        theirs = np.transpose(splev(np.linspace(0, 1, 1000), splprep(these.T, k=3)[0]))
        assert np.allclose(ours, theirs, rtol=0, atol=1e-11)


def test_cost_of_every_place():
    centers = np.array(TREES.split(), dtype=float).reshape(-1, 2)
    on_edges = np.concatenate([centers - 0.025, centers + 0.025, [[0.0, 0.5], [1.0, 0.5], [0.5, 0.0], [0.5, 1.0]]])
    p = np.concatenate([1.4 * cube(3000, 2) - 0.2, on_edges])
    low, high = centers - 0.025, centers + 0.025
    tree = ((low <= p[:, None]) & (p[:, None] < high)).all(-1).any(-1)
    outside = ~((p >= 0) & (p < 1)).all(-1)
    assert (cost(p) == np.where(tree | outside, 20.05, 0.05)).all()
    assert 0.1 < tree.mean() < 0.3
    assert len(centers) == 113


def test_a_straight_path_by_hand():
    along = np.linspace(START, GOAL, 1000)
    c, step = cost(along), np.linalg.norm(GOAL - START) / 999
    assert np.isclose(value(LINE)[0], 5 - step * (c.sum() - 0.5 * (c[0] + c[-1])))


def test_no_value_is_above_the_bound_and_random_ones_are_far_below():
    values = value(np.concatenate([cube(1000, 60), np.clip(LINE + 0.1 * (cube(1000, 60, seed=1) - 0.5), 0, 1)]))
    assert (values < rover().best).all()
    assert abs(values[:1000].mean() - rover().typical) < 5 * values[:1000].std() / 1000**0.5


def test_sites_may_repeat():
    corners = (cube(20, 60) > 0.5).astype(float)
    assert np.isfinite(value(corners)).all()
    still = path(np.full((1, 30, 2), 0.3))
    assert np.allclose(still, 0.3)
    assert value(np.empty((0, 60))).shape == (0,)
