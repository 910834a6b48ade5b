import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from beebo_scale import InputError
from beebo_scale.surrogates.data.target import TargetScale
from tests.helpers import LAWS, close, normal, uniform

SKEWED = uniform(200, seed=0).pow(6)  # skewness about 2, never negative


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64)


# --- choice of the transform -------------------------------------------------------------------------------


def test_auto_takes_the_root_of_skewed_targets_that_are_never_negative():
    assert TargetScale.of(SKEWED).transform == "sqrt"
    assert TargetScale.of(SKEWED - 1e-9 - SKEWED.min()).transform == "none"  # one is negative
    assert TargetScale.of(1 - SKEWED).transform == "none"  # skewed the other way
    assert TargetScale.of(uniform(200)).transform == "none"
    assert TargetScale.of(SKEWED, noise_known=True).transform == "none"


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
def test_auto_does_not_depend_on_units(unit):
    assert TargetScale.of(unit * SKEWED).transform == "sqrt"
    assert TargetScale.of(unit * uniform(200)).transform == "none"


def test_a_transform_that_is_asked_for_is_taken():
    assert TargetScale.of(SKEWED, "none").transform == "none"
    assert TargetScale.of(uniform(200), "sqrt").transform == "sqrt"


@pytest.mark.parametrize(
    ("y", "transform", "noise_known", "match"),
    [
        (SKEWED, "cube", False, "one of auto, held-out, none, sqrt, log, rank"),
        (SKEWED, "held-out", False, r"choose_transform\(table\)"),
        (torch.cat([SKEWED, tensor(0.0)]), "log", False, "above zero, the least is 0"),
        (SKEWED, "log", True, "known noise"),
        (SKEWED, "rank", True, "known noise"),
        (normal(20), "sqrt", False, "without negative values"),
        (SKEWED, "sqrt", True, "known noise"),
    ],
)
def test_transforms_that_cannot_be_are_an_input_error(y, transform, noise_known, match):
    with pytest.raises(InputError, match=match):
        TargetScale.of(y, transform, noise_known)


# --- standardised and back ---------------------------------------------------------------------------------


@pytest.mark.parametrize("transform", ["none", "sqrt", "log", "rank"])
@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
def test_standardised_targets_have_mean_zero_and_variance_one(transform, unit):
    y = unit * SKEWED
    z = TargetScale.of(y, transform).standardise(y)
    assert abs(float(z.mean())) < 1e-12
    assert float(z.std()) == pytest.approx(1.0, rel=1e-12)
    close(z, TargetScale.of(SKEWED, transform).standardise(SKEWED), rtol=1e-9)


@LAWS
@given(st.sampled_from(["none", "sqrt", "log", "rank"]), st.floats(1e-6, 1e6))
def test_what_is_certain_comes_back(transform, unit):
    y = unit * (SKEWED + 1e-3)
    scale = TargetScale.of(y, transform)
    mean, std = scale.moments(scale.standardise(y), torch.zeros_like(y))
    close(mean, y, rtol=1e-9, atol=0)
    assert (std <= 1e-7 * y).all()


def test_words():
    assert [TargetScale.of(SKEWED, name).words for name in ("none", "sqrt", "log", "rank")] == [
        "target",
        "square root of target",
        "logarithm of target",
        "normal score",
    ]


def test_moments_and_noise_without_transform_are_affine():
    scale = TargetScale(shift=3.0, scale=2.0)
    mean, std = scale.moments(tensor(-1.0, 0.5), tensor(0.25, 4.0))
    close(mean, tensor(1.0, 4.0))
    close(std, tensor(1.0, 4.0))
    close(scale.standardise_variance(tensor(4.0, 1.0)), tensor(1.0, 0.25))


def test_a_scale_survives_a_file(tmp_path):
    for transform in ("auto", "none", "log", "rank"):
        scale = TargetScale.of(SKEWED, transform)
        torch.save(scale.to_dict(), tmp_path / "scale.pt")
        assert TargetScale(**torch.load(tmp_path / "scale.pt", weights_only=True)) == scale
    old = {"shift": 3.0, "scale": 2.0, "transform": "sqrt"}  # written before there were ranks
    assert TargetScale(**old) == TargetScale(3.0, 2.0, "sqrt")


# --- moments of a square, against quadrature ---------------------------------------------------------------


def root_moments(mu, v):
    """Mean and standard deviation of max(f, 0)^2, f ~ N(mu, v)."""
    mean, std = TargetScale(0.0, 1.0, "sqrt").moments(tensor(mu), tensor(v))
    return float(mean), float(std)


def quadrature(mu, v):
    s = math.sqrt(v)
    low, high = max(0.0, mu - 12 * s), max(mu, 0.0) + 12 * s
    first = quad(lambda f: f**2 * norm.pdf(f, mu, s), low, high, epsabs=0, epsrel=1e-11, limit=200)[0]
    second = quad(lambda f: (f**2 - first) ** 2 * norm.pdf(f, mu, s), low, high, epsabs=0, epsrel=1e-11, limit=200)[0]
    return first, math.sqrt(second + norm.cdf(0, mu, s) * first**2)


@pytest.mark.parametrize(
    ("mu", "v"),
    [(0.0, 1.0), (1.0, 1.0), (-1.0, 1.0), (-3.0, 1.0), (-6.0, 1.0), (2.0, 0.01), (5.0, 9.0), (1.0, 1e-6), (-0.1, 1e-2)],
)
def test_moments_of_a_square(mu, v):
    first, std = quadrature(mu, v)
    mean, deviation = root_moments(mu, v)
    assert mean == pytest.approx(first, rel=1e-8)
    assert deviation == pytest.approx(std, rel=1e-6)


@pytest.mark.parametrize("v", [1e-6, 1e-9, 1e-12, 1e-16, 1e-30])
def test_little_variance_gives_the_delta_method(v):
    mean, std = root_moments(3.0, v)
    assert mean == pytest.approx(9.0 + v, rel=1e-14)
    assert std == pytest.approx(2 * 3.0 * math.sqrt(v), rel=1e-6)


@pytest.mark.parametrize("mu", [-10.0, -30.0, -100.0, -1e6])
@pytest.mark.parametrize("v", [1.0, 1e-6])
def test_far_below_zero_is_zero(mu, v):
    mean, std = root_moments(mu, v)
    assert 0.0 <= mean < 1e-20
    assert 0.0 <= std < 1e-10


@LAWS
@given(st.floats(-10.0, 10.0), st.floats(1e-3, 10.0))
def test_moments_are_finite_and_in_order(mu, v):
    mean, std = root_moments(mu, v)
    assert np.isfinite([mean, std]).all()
    assert 0 <= mean <= mu**2 + v + 1e-12
    assert root_moments(mu + 0.1, v)[0] > mean - 1e-15


def test_moments_of_a_square_in_the_targets_own_units():
    scale = TargetScale.of(1e3 * SKEWED, "sqrt")
    z, v = tensor(-0.5, 0.0, 2.0), tensor(0.1, 0.3, 0.01)
    mean, std = scale.moments(z, v)
    f = scale.shift + scale.scale * (z + v.sqrt() * normal(200_000, 1, seed=2))  # 200,000 x 3
    y = f.clamp_min(0).square()
    error = 5 * y.std(0) / math.sqrt(len(y))
    assert ((mean - y.mean(0)).abs() < error).all()
    close(std, y.std(0), rtol=0.02, atol=0)


# --- logarithm ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mu", "v"), [(0.0, 1.0), (-3.0, 0.01), (2.0, 4.0), (1.0, 1e-8)])
def test_moments_of_an_exponential(mu, v):
    s = math.sqrt(v)
    first = quad(lambda f: math.exp(f) * norm.pdf(f, mu, s), mu - 12 * s, mu + 20 * s, epsabs=0, epsrel=1e-11)[0]
    second = quad(
        lambda f: (math.exp(f) - first) ** 2 * norm.pdf(f, mu, s), mu - 12 * s, mu + 24 * s, epsabs=0, epsrel=1e-11
    )[0]
    mean, std = TargetScale(0.0, 1.0, "log").moments(tensor(mu), tensor(v))
    assert float(mean) == pytest.approx(first, rel=1e-8)
    assert float(std) == pytest.approx(math.sqrt(second), rel=1e-6)


# --- ranks -------------------------------------------------------------------------------------------------


def test_ranks_of_a_normal_sample_change_little():
    y = 5 + 3 * normal(20_000)
    z = TargetScale.of(y, "rank").standardise(y)
    close(z, (y - y.mean()) / y.std(), rtol=0, atol=0.4)
    assert float((z - (y - y.mean()) / y.std()).abs().mean()) < 0.02


@pytest.mark.parametrize("y", [SKEWED, -SKEWED, normal(30).exp().exp(), 1e6 + 1e-3 * uniform(50)])
def test_ranks_are_normal_scores(y):
    scale = TargetScale.of(y, "rank")
    g = scale.shift + scale.scale * scale.standardise(y)
    rank = y.argsort().argsort().double() + 0.5
    close(g, torch.special.ndtri(rank / len(y)), atol=1e-9)


def test_equal_values_share_a_rank():
    y = torch.cat([torch.zeros(60, dtype=torch.float64), 1 + uniform(40)])
    scale = TargetScale.of(y, "rank")
    g = scale.shift + scale.scale * scale.standardise(y)
    close(g[:60], torch.full((60,), norm.ppf(0.3), dtype=torch.float64))
    assert float(g[60:].min()) == pytest.approx(norm.ppf(0.605))


@pytest.mark.slow
@LAWS
@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=2, max_size=30, unique=True), st.integers(0, 99))
def test_ranks_are_monotone_and_invertible_beyond_the_measured_values(values, seed):
    y = tensor(*values)
    scale = TargetScale.of(y, "rank")
    spread = float(y.max() - y.min())
    x = (float(y.min()) - 2 * spread + 5 * spread * uniform(50, seed=seed)).sort().values
    z = scale.standardise(x)
    assert bool(torch.isfinite(z).all())
    assert (z.diff() >= 0).all()
    back, std = scale.moments(z, torch.zeros_like(z))
    close(back, x, rtol=1e-6, atol=1e-6 * spread)
    assert (std <= 1e-6 * spread).all()


@pytest.mark.slow
def test_a_large_screen_keeps_few_knots():
    y = normal(100_000).exp()
    scale = TargetScale.of(y, "rank")
    assert len(scale.knots[0]) <= 1002
    close(scale.moments(scale.standardise(y), torch.zeros_like(y))[0], y, rtol=1e-9, atol=1e-9)
    z = scale.standardise(y)
    ranks = torch.special.ndtri((y.argsort().argsort().double() + 0.5) / len(y))
    close(z, (ranks - ranks.mean()) / ranks.std(), rtol=0, atol=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(("m", "v"), [(0.0, 0.3), (1.5, 0.05), (-2.0, 1.0), (3.5, 0.2)])
def test_moments_of_ranks_against_a_fine_sum(m, v):
    scale = TargetScale.of(SKEWED, "rank")
    t = torch.linspace(-9, 9, 200_001, dtype=torch.float64)
    weight = torch.exp(-0.5 * t.square())
    weight /= weight.sum()
    y = scale.moments(m + math.sqrt(v) * t, torch.zeros_like(t))[0]  # h(f)
    first = float((weight * y).sum())
    spread = math.sqrt(float((weight * (y - first).square()).sum()))
    mean, std = scale.moments(tensor(m), tensor(v))
    assert float(mean) == pytest.approx(first, abs=0.01 * spread)
    assert float(std) == pytest.approx(spread, rel=0.01)


# --- a measurement: belief and noise, transform undone -----------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("transform", ["none", "sqrt", "log", "rank"])
def test_a_measurement_against_monte_carlo(transform):
    scale = TargetScale.of(1e3 * (SKEWED + 1e-3), transform)
    m, v, noise = tensor(-0.5, 0.0, 1.5), tensor(0.1, 0.3, 0.01), tensor(0.2, 0.05, 0.4)
    prediction = scale.predicted(m, v, noise)
    f = scale.shift + scale.scale * (m + v.sqrt() * normal(400_000, 3, seed=2))
    e = scale.scale * noise.sqrt() * normal(400_000, 3, seed=3)
    if transform == "sqrt":  # a root has the mean max(f, 0) and the variance of the noise
        y, latent = (f.clamp_min(0) + e).square(), f.clamp_min(0).square()
    else:
        back = TargetScale(0.0, 1.0, transform, scale.knots)
        y, latent = (back.moments(z, torch.zeros_like(z))[0] for z in (f + e, f))
    for mean, std, drawn in [
        (prediction.mean, prediction.std, y),
        (prediction.noiseless_mean, prediction.noiseless_std, latent),
    ]:
        assert ((mean - drawn.mean(0)).abs() < 5 * drawn.std(0) / math.sqrt(len(y)) + 0.005 * drawn.std(0)).all()
        close(std, drawn.std(0), rtol=0.06 if transform == "log" else 0.02, atol=0)


def test_the_square_of_a_root_far_above_zero_is_that_of_a_gaussian():
    prediction = TargetScale(0.0, 1.0, "sqrt").predicted(tensor(8.0), tensor(0.5), tensor(1.0))
    mean, std = root_moments(8.0, 1.5)
    assert float(prediction.mean) == pytest.approx(mean, rel=1e-9)
    assert float(prediction.std) == pytest.approx(std, rel=1e-9)


@pytest.mark.parametrize("share", [0.5, 0.05])
def test_many_zeros_have_their_mean_where_nothing_else_is_known(share):
    y = torch.where(uniform(4000, seed=1) < share, 4 * normal(4000, seed=2).square(), 0.0)
    scale = TargetScale.of(y, "sqrt")
    prediction = scale.predicted(tensor(0.0), tensor(0.0), tensor(1.0))  # the mean of all roots, all the rest is noise
    assert float(prediction.mean) == pytest.approx(float(y.mean()), rel=1e-3)
    assert float(prediction.noiseless_mean) < (0.6 if share == 0.5 else 0.1) * float(y.mean())
