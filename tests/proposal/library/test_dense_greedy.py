"""Eager greedy choice against choosing by brute force, and against the lazy one."""

import pytest

from beebo_scale.information import information_gain
from beebo_scale.proposal.library.dense_greedy import greedy_eagerly
from beebo_scale.proposal.library.lazy_greedy import greedy
from tests.helpers import close, exact_toy, uniform


@pytest.mark.slow
@pytest.mark.parametrize(("temperature", "sign"), [(0.0, 1.0), (0.7, 1.0), (5.0, -1.0)])
def test_each_row_is_the_best_one_given_those_before_it(temperature, sign):
    posterior, X = exact_toy(n=20, d=2).posterior, uniform(30, 2)

    def value(rows):
        information = information_gain(posterior.covar(X[rows]), posterior.noise(X[rows]))
        return float(sign * posterior.mean(X[rows]).sum() + temperature * information)

    rows, gains = greedy_eagerly(posterior, X, 8, temperature, sign)
    chosen: list[int] = []
    for row, gain in zip(rows.tolist(), gains.tolist(), strict=True):
        before = value(chosen) if chosen else 0.0
        rises = [value([*chosen, i]) - before for i in range(len(X))]
        assert gain == pytest.approx(max(rises), abs=1e-9)
        assert rises[row] == pytest.approx(max(rises), abs=1e-9)
        chosen.append(row)


def test_it_agrees_with_the_lazy_choice_among_enough_copies():
    posterior, X = exact_toy(n=20, d=2).posterior, uniform(40, 2)
    rows, gains = greedy_eagerly(posterior, X, 10, 3.0)
    assert len(set(rows.tolist())) < 10  # some row is worth measuring again
    _, lazy = greedy(posterior, X.repeat(10, 1), 10, 3.0)  # which takes no row twice
    close(gains, lazy)
