"""Fronts and hypervolumes against botorch's and brute force."""

import itertools

import pytest
import torch
from botorch.utils.multi_objective.hypervolume import Hypervolume
from botorch.utils.multi_objective.pareto import is_non_dominated

from beebo_scale.fronts import directions, hypervolume, nondominated, reach, reference_point
from tests.helpers import close, uniform


@pytest.mark.parametrize("m", [2, 3, 4, 5])
@pytest.mark.parametrize("seed", range(4))
def test_hypervolume_is_botorchs(m, seed):
    U = uniform(12, m, seed=seed) - 0.1
    assert hypervolume(U) == pytest.approx(Hypervolume(U.new_zeros(m)).compute(U[is_non_dominated(U)]), rel=1e-10)
    estimate = reach(U.unsqueeze(1), directions(4096, m, seed)).amax(0).mean()
    assert float(estimate) == pytest.approx(hypervolume(U), rel=0.01)


def test_fronts_of_repeated_and_of_no_rows():
    U = torch.tensor([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0], [0.5, 0.5], [-1.0, 9.0]]).double()
    assert nondominated(U).tolist() == [True, True, False, False, True]
    assert hypervolume(U) == pytest.approx(3.0)
    assert hypervolume(U[:0]) == 0.0


def test_a_set_is_worth_less_than_its_parts():
    """Reach is a mean of maxima: what a row adds only shrinks as others come."""
    U, W = uniform(6, 3, seed=3), directions(32, 3, 0)

    def value(rows):
        return float(reach(U[list(rows)].unsqueeze(1), W).amax(0).mean()) if rows else 0.0

    for small in itertools.combinations(range(5), 2):
        for more in set(range(5)) - set(small):
            large = (*small, more)
            assert value((*small, 5)) - value(small) >= value((*large, 5)) - value(large) - 1e-12 >= -2e-12


def test_reference_point():
    Y = torch.tensor([[0.0, 10.0], [10.0, 0.0], [5.0, 5.0], [-30.0, -30.0]]).double()
    close(reference_point(Y), torch.tensor([-1.0, -1.0]).double())
    close(reference_point(Y[2:]), torch.tensor([5.0 - 3.5, 5.0 - 3.5]).double())  # a front of one row
