import numpy as np

from beebo_scale.simulation.problems import functions
from beebo_scale.simulation.problems.synthetic import NOISY, QUIET, branin, branin_noise, noise_variance
from tests.simulation.helpers import cube


def test_three_equal_optima():
    problem = branin()
    assert np.allclose(problem.f(np.vstack([NOISY, QUIET])), -0.397887, atol=1e-6)
    assert sorted(problem.optima.tolist()) == sorted(np.vstack([NOISY, QUIET]).tolist())
    assert (problem.f(problem.from_cube(cube(500, 2))) < problem.best).all()


def test_noise_is_loudest_at_two_of_them():
    assert np.allclose(noise_variance(NOISY), 100.0)
    assert np.isclose(noise_variance(QUIET[None])[0], 100 * np.exp(-0.05 * np.linalg.norm(QUIET - NOISY[1])))
    X = branin().from_cube(cube(20_000, 2))
    assert abs(noise_variance(X).mean() - 77.5) < 0.3  # the paper's control


def test_a_measurement_has_the_noise_of_its_place_and_brings_its_variance():
    world, problem = functions.TestFunction("branin-noise"), branin_noise()
    X = np.repeat(problem.to_cube(np.vstack([NOISY[0], QUIET])), 5000, axis=0)
    values = world.measure(X, 0)
    errors = (values - world.truth(X)).reshape(2, 5000)
    table = world.table(X, values)
    assert np.allclose(table.noise_variance[[0, 5000]], [100.0, 73.03], atol=0.01)
    assert np.allclose(errors.var(axis=1), table.noise_variance[[0, 5000]], rtol=0.06)
    assert (table.y == values).all()
    assert functions.TestFunction("branin").table(X, values).noise_variance is None
