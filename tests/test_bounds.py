import itertools
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from beebo_scale import information_gain
from beebo_scale.bounds import information_gain_lower_bound, information_gain_upper_bound
from beebo_scale.surrogates.gaussian_process.noise import LearnedNoise
from tests.helpers import LAWS, close, exact_toy, half_logdet, sparse_toy, uniform


def with_varying_noise(posterior, seed=5):
    return replace(posterior, noise=LearnedNoise(exact_toy(seed=seed, constant=-2.0).posterior))


POSTERIORS = {
    "exact": exact_toy().posterior,
    "exact, quiet": exact_toy(sigma2=1e-4).posterior,
    "exact, varying noise": with_varying_noise(exact_toy().posterior),
    "sparse": sparse_toy().posterior,
    "sparse, less known than a priori": sparse_toy(largest=1.3).posterior,
    "sparse, varying noise": with_varying_noise(sparse_toy().posterior),
    "compressed": exact_toy().posterior.compress(4),
    "pending points": exact_toy().posterior.augment(uniform(3, 2, seed=8)),
}


def exact(posterior, X):
    return float(information_gain(posterior.covar(X), posterior.noise(X)))


def slack(I):
    return 1e-9 * (1 + abs(I))


@pytest.mark.slow
@pytest.mark.parametrize("name", POSTERIORS)
@pytest.mark.parametrize("seed", range(5))
def test_bounds_enclose_the_information(name, seed):
    posterior, X = POSTERIORS[name], uniform(30, 2, seed=seed)
    I = exact(posterior, X)
    for size in (1, 3, 10, 29, 30, 100):
        assert float(information_gain_lower_bound(posterior, X, size)) <= I + slack(I)
        assert float(information_gain_upper_bound(posterior, X, size)) >= I - slack(I)


@pytest.mark.parametrize("name", POSTERIORS)
def test_bounds_are_exact_at_full_rank_and_in_one_block(name):
    posterior, X = POSTERIORS[name], uniform(20, 2, seed=3)
    sigma2 = posterior.noise(X)
    literal = half_logdet(posterior.covar(X), sigma2)
    for size in (20, 512):
        close(information_gain_lower_bound(posterior, X, size), literal, rtol=1e-7)
        close(information_gain_upper_bound(posterior, X, size), literal, rtol=1e-7)
    close(information_gain_lower_bound(posterior, X), literal, rtol=1e-7)
    close(information_gain_upper_bound(posterior, X), literal, rtol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("name", POSTERIORS)
def test_lower_bound_grows_with_the_rank_and_gets_there(name):
    posterior, X = POSTERIORS[name], uniform(40, 2, seed=4)
    values = [float(information_gain_lower_bound(posterior, X, rank)) for rank in range(1, 41)]
    assert all(a <= b + 1e-9 for a, b in itertools.pairwise(values))
    assert values[0] > 0
    assert values[-1] == pytest.approx(exact(posterior, X), rel=1e-9)


def test_lower_bound_of_rank_one_is_the_best_column():
    """One pivot, the point of largest variance over noise: L L' = c c' / v."""
    posterior, X = POSTERIORS["exact, varying noise"], uniform(9, 2, seed=4)
    C, sigma2 = posterior.covar(X), posterior.noise(X)
    pivot = int((C.diagonal() / sigma2).argmax())
    expected = 0.5 * torch.log1p((C[pivot].square() / sigma2).sum() / C[pivot, pivot])
    close(information_gain_lower_bound(posterior, X, 1), expected)


def test_upper_bound_of_single_points_is_the_sum_of_their_gains():
    posterior, X = POSTERIORS["sparse, varying noise"], uniform(9, 2, seed=4)
    expected = 0.5 * torch.log1p(posterior.variance(X) / posterior.noise(X)).sum()
    close(information_gain_upper_bound(posterior, X, 1), expected)


def test_upper_bound_of_two_blocks_is_the_sum_over_the_halves():
    posterior, X = POSTERIORS["exact"], uniform(8, 2, seed=4)
    X[:, 1] *= 0.1  # the first coordinate is the widest
    order = X[:, 0].argsort()
    expected = exact(posterior, X[order[:4]]) + exact(posterior, X[order[4:]])
    assert float(information_gain_upper_bound(posterior, X, 4)) == pytest.approx(expected, rel=1e-12)
    assert float(information_gain_upper_bound(posterior, X, 7)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", POSTERIORS)
@pytest.mark.parametrize("points", [1, 2, 5])
def test_repeats(name, points):
    posterior = POSTERIORS[name]
    X = uniform(points, 2, seed=3).repeat(8, 1)
    I = exact(posterior, X)
    low, high = information_gain_lower_bound(posterior, X), information_gain_upper_bound(posterior, X, 4)
    assert float(low) == pytest.approx(I, rel=1e-6)  # as many columns as there are different points say it all
    assert float(information_gain_lower_bound(posterior, X, points)) == pytest.approx(I, rel=1e-6)
    assert math.isfinite(float(high))
    assert float(high) >= I - slack(I)


def test_five_hundred_points_within_a_millionth():
    posterior = POSTERIORS["exact"]
    X = uniform(1, 2, seed=3) + 1e-6 * uniform(500, 2, seed=4)
    I = exact(posterior, X)
    assert float(information_gain_lower_bound(posterior, X, 3)) == pytest.approx(I, rel=1e-6)
    assert I - slack(I) <= float(information_gain_upper_bound(posterior, X, 100)) < math.inf


def test_measured_points_without_noise_tell_nothing():
    toy = exact_toy(sigma2=1e-12)
    posterior = replace(toy.posterior, noise=exact_toy(sigma2=0.1).posterior.noise)
    assert float(information_gain_lower_bound(posterior, toy.Z)) == pytest.approx(0.0, abs=1e-8)
    assert float(information_gain_upper_bound(posterior, toy.Z, 4)) == pytest.approx(0.0, abs=1e-8)


@pytest.mark.parametrize("bound", [information_gain_lower_bound, information_gain_upper_bound])
def test_order_of_the_batch_does_not_matter(bound):
    posterior, X = POSTERIORS["exact, varying noise"], uniform(30, 2, seed=3)
    order = torch.randperm(30, generator=torch.Generator().manual_seed(1))
    close(bound(posterior, X[order], 7), bound(posterior, X, 7))


@pytest.mark.parametrize("bound", [information_gain_lower_bound, information_gain_upper_bound])
@pytest.mark.parametrize("size", [0, -1])
def test_no_columns_and_no_points_in_a_block_are_an_error(bound, size):
    with pytest.raises(ValueError, match="at least 1"):
        bound(POSTERIORS["exact"], uniform(5, 2), size)


def test_float32():
    posterior, X = POSTERIORS["exact"], uniform(30, 2, seed=3)
    single = posterior.to(torch.float32)
    I = exact(posterior, X)
    low = information_gain_lower_bound(single, X.float(), 30)
    high = information_gain_upper_bound(single, X.float(), 30)
    assert low.dtype == high.dtype == torch.float32
    assert float(low) == pytest.approx(I, rel=1e-4)
    assert float(high) == pytest.approx(I, rel=1e-4)


@pytest.mark.slow
@LAWS
@given(
    st.sampled_from(sorted(POSTERIORS)),
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=25),
    st.integers(1, 30),
)
def test_bounds_on_a_coarse_grid_with_repeats(name, grid, size):
    posterior = POSTERIORS[name]
    X = torch.tensor(grid, dtype=torch.float64) / 6
    I = exact(posterior, X)
    assert float(information_gain_lower_bound(posterior, X, size)) <= I + slack(I)
    assert float(information_gain_upper_bound(posterior, X, size)) >= I - slack(I)
