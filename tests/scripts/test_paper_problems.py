import numpy as np
import pytest

from beebo_scale import InputError
from tests.scripts.paper import module

problems = module("paper_problems")
TABLES, published = problems.TABLES, problems.published

OPTIMA = {"shekel": 10.5363, "hartmann": 3.32237, "embeddedhartmann": 3.32237, "cosine": 0.8}


@pytest.mark.slow
@pytest.mark.parametrize(("problem", "dim"), TABLES)
def test_every_line_of_the_tables_is_a_world(problem, dim):
    world = published(problem, dim)
    start = world.start(5, 0)
    assert start.shape == (5, dim)
    yard = world.yardstick(start)
    best = 39.166166 * dim if problem == "styblinskitang" else OPTIMA.get(problem, 0.0)
    assert abs(yard.best - best) < 2e-4  # Shekel's is rounded in the reference repository
    assert yard.floor == world.truth(start).max() < yard.best
    assert yard.typical < yard.best


def test_there_are_as_many_as_in_the_tables():
    assert len(set(TABLES)) == 33
    assert published("embeddedhartmann", 100).title == "hartmann in 6 of 100 dimensions"
    assert published("rover", 60).name == "rover"
    with pytest.raises(InputError, match="no problem powell in 2 dimensions"):
        published("powell", 2)


def test_the_embedded_function_starts_away_from_the_optimum_with_zeros():
    """As in the reference repository: the inputs that do not matter keep any start away, also one that is best."""
    U = published("embeddedhartmann", 100).start(100, 0)
    place = np.array([0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573])
    assert (np.linalg.norm(U - np.pad(place, (0, 94)), axis=-1) > 0.5).all()
    assert (np.linalg.norm(U[:, :6] - place, axis=-1) < 0.5).any()
