import math

import numpy as np
import pytest
from scipy import stats

from tests.scripts.paper import module

paired = module("paired")
fisher, p_better, standard_error = paired.fisher, paired.p_better, paired.standard_error


def test_the_p_value_is_that_of_students_t():
    ours, theirs = {0: 1.0, 1: 2.0, 2: 3.0, 7: 9.0}, {2: 2.6, 1: 1.0, 0: 0.5, 9: 0.0}
    difference = np.array([0.5, 1.0, 0.4])  # seeds that both have
    t = difference.mean() / (difference.std(ddof=1) / math.sqrt(3))
    assert math.isclose(p_better(ours, theirs), stats.t.sf(t, 2))
    assert math.isclose(p_better(ours, theirs) + p_better(theirs, ours), 1.0)
    assert math.isclose(p_better(ours, theirs, larger=False), p_better(theirs, ours))


def test_fishers_combination():
    p = [0.03, 0.4, 0.2]
    assert math.isclose(fisher([*p, math.nan]), stats.chi2.sf(-2 * sum(map(math.log, p)), 6))
    assert math.isnan(fisher([math.nan]))


@pytest.mark.slow
def test_under_the_null_p_is_uniform_alone_and_combined():
    rng = np.random.default_rng(0)
    draws = [
        [p_better(dict(enumerate(rng.normal(size=5))), dict(enumerate(rng.normal(size=5)))) for _ in range(4)]
        for _ in range(400)
    ]
    assert stats.kstest(np.ravel(draws), "uniform").pvalue > 0.01
    assert stats.kstest([fisher(row) for row in draws], "uniform").pvalue > 0.01


@pytest.mark.parametrize(("shift", "p"), [(0.0, 0.5), (0.1, 0.0), (-0.1, 1.0)])
def test_replicates_that_all_differ_by_the_same(shift, p):
    theirs = {seed: 1.0 + seed for seed in range(5)}
    found = p_better({seed: value + shift for seed, value in theirs.items()}, theirs)
    assert math.isclose(found, p, abs_tol=1e-15)
    assert 0.0 <= fisher([found, 0.5]) <= 1.0


def test_one_replicate_says_nothing():
    assert math.isnan(p_better({0: 1.0}, {0: 0.0}))
    assert math.isnan(standard_error([1.0]))
    assert math.isclose(standard_error([1.0, 3.0]), 1.0)
