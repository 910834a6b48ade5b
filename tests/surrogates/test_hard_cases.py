"""Screens as they come: every kind of surrogate on rows that repeat, columns of any scale, outliers, few rows."""

import numpy as np
import pandas as pd
import pytest
import torch
from gpytorch.kernels import Kernel

import beebo_scale as bs
from beebo_scale.errors import InputError
from beebo_scale.surrogates.approximate.love import LoveOptions, condition_love
from beebo_scale.surrogates.approximate.sgpr import fit_sgpr, sgpr_posterior
from beebo_scale.surrogates.approximate.svgp import SVGP, fit_svgp
from beebo_scale.surrogates.data.observations import merge_replicates
from beebo_scale.surrogates.gaussian_process.exact import condition_exactly
from beebo_scale.surrogates.gaussian_process.gaussian_process import GaussianProcess
from tests.helpers import normal, uniform
from tests.surrogates.approximate.test_love import problem

KINDS = ["exact", "love", "sgpr", "svgp"]
FEATURES = ["a", "b"]


def rows(n, seed=0, noise=0.05):
    """Two inputs, a smooth target between -1.5 and 1.5, and its truth."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.random((n, 2)), columns=FEATURES)
    truth = np.sin(5 * frame["a"]) + frame["b"] - 0.5
    return frame.assign(y=truth + noise * rng.standard_normal(n), truth=truth)


def repeated_nearly(n=1200):
    """A thousand rows and more around twelve places, 1e-8 apart."""
    frame = rows(12, noise=0.0)
    rng = np.random.default_rng(1)
    frame = frame.loc[np.repeat(np.arange(12), n // 12)].reset_index(drop=True)
    frame[FEATURES] += 1e-8 * rng.standard_normal((n, 2))
    return frame.assign(y=frame["truth"] + 0.05 * rng.standard_normal(n))


def repeated_exactly(n=100):
    """30 % of the rows repeat others."""
    frame = rows(n)
    rng = np.random.default_rng(1)
    again = frame.sample(3 * n // 7, random_state=2)
    again = again.assign(y=again["truth"] + 0.05 * rng.standard_normal(len(again)))
    return pd.concat([frame, again], ignore_index=True)


def odd_scales(n=100):
    """A column of size 1e-9, one of size 1e9 far from zero, two that are constant."""
    frame = rows(n)
    return frame.assign(a=1e-9 * frame["a"], b=1e9 * (frame["b"] + 7), zero=0.0, constant=1e12)


def outliers(n=100):
    """Two targets 1e4 standard deviations off."""
    frame = rows(n)
    frame.loc[[10, 60], "y"] = [1e4, -1e4]
    return frame


def half_missing(n=160):
    """Every other target is missing."""
    frame = rows(n)
    frame.loc[::2, "y"] = np.nan
    return frame


def few(n=9):
    """Fewer rows than inducing points and than the rank."""
    return rows(n, noise=0.01)


CASES = [repeated_nearly, repeated_exactly, odd_scales, outliers, half_missing, few]


def fitted(frame, kind, **size):
    names = [name for name in frame.columns if name not in ("y", "truth")]
    table = bs.read_table(frame.drop(columns="truth"), "y", features=dict.fromkeys(names, "continuous"))
    size = bs.Approximation(**{"inducing_points": 40, "epochs": 10, "rank": 40} | size)
    return bs.fit(table, kind, iterations=30, fit_rows=200, approximation=size), dict.fromkeys(names, "continuous")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES)
def test_predictions_are_finite_and_right(case, kind):
    frame = case()
    surrogate, features = fitted(frame, kind)
    new = frame.drop(columns="y")
    mean, std = surrogate.predict(bs.read_library(new, features))
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert (std >= 0).all()
    if case is not outliers:
        assert np.sqrt(np.mean((mean - frame["truth"]) ** 2)) < 0.25 * frame["truth"].std()
    posterior, X = surrogate.posterior(), surrogate.data.X[:80]
    covar = posterior.covar(X)
    assert covar.diagonal().min() > -1e-10 * posterior.amplitude  # not clamped
    gain = bs.information_gain(covar, posterior.noise(X))
    assert float(gain) > 0
    assert len(bs.propose(surrogate, 3, bs.read_library(new.head(80), features), allow_repeats=True).frame) == 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_outliers_are_taken_for_noise(kind):
    """Nothing is left of a signal of size one beside values of 1e4; what matters is that the doubt says so."""
    frame = outliers()
    surrogate, features = fitted(frame, kind)
    assert surrogate.summary()["noise_std"] > 100
    mean, _ = surrogate.predict(bs.read_library(frame[FEATURES], features))
    assert np.abs(np.delete(mean, [10, 60])).max() < 1e4


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sgpr", "svgp"])
@pytest.mark.parametrize("m", [30, 31, 500])
def test_as_many_inducing_points_as_rows_or_more(kind, m):
    frame = rows(30)
    exact, features = fitted(frame, "exact")
    sparse, _ = fitted(frame, kind, inducing_points=m)
    assert sparse.summary()["inducing_points"] <= 30
    library = bs.read_library(rows(40, seed=9)[FEATURES], features)
    np.testing.assert_allclose(sparse.predict(library)[0], exact.predict(library)[0], atol=0.1)


def test_a_rank_above_the_number_of_rows():
    surrogate, features = fitted(rows(30), "love", rank=500)
    assert surrogate.summary()["rank"] == 30
    exact, _ = fitted(rows(30), "exact")
    library = bs.read_library(rows(40, seed=9)[FEATURES], features)
    np.testing.assert_allclose(surrogate.predict(library)[1], exact.predict(library)[1], rtol=1e-6)


class Indefinite(Kernel):
    """Symmetric, of unit diagonal, and no covariance: close points correlate less than distant ones."""

    has_lengthscale = True

    def forward(self, x1, x2, diag=False, **params):
        r2 = (x1.unsqueeze(-2) - x2.unsqueeze(-3)).square().sum(-1) / self.lengthscale**2
        k = torch.where(r2 == 0, 1.0, 1.0 - 5.0 * torch.exp(-r2))
        return k.diagonal(dim1=-1, dim2=-2) if diag else k


def indefinite(kind):
    kernel = Indefinite().double()
    _, mean, Z, y, sigma2, new = problem(n=60)
    if kind == "exact":
        return condition_exactly(kernel.requires_grad_(False), mean, Z, y, sigma2, new)
    if kind == "love":
        return condition_love(kernel.requires_grad_(False), mean, Z, y, sigma2, new, LoveOptions(10))
    data = merge_replicates(Z, y)
    if kind == "sgpr":
        fit_sgpr(GaussianProcess(kernel), Z[:20], data, maxiter=3)
        return sgpr_posterior(GaussianProcess(kernel), Z[:20], data)
    return fit_svgp(SVGP(GaussianProcess(kernel), Z[:20], 60), data, epochs=2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kernel_that_is_none(kind):
    with pytest.raises(InputError, match="not positive definite") as caught:
        indefinite(kind)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_variances_are_never_negative_at_little_noise(kind):
    """Rows measured almost without noise, asked again at the very same places and next to them."""
    frame = rows(300, noise=0.0)
    surrogate, _ = fitted(frame, kind, inducing_points=300, rank=300)
    X = surrogate.data.X
    near = (X + 1e-7 * normal(*X.shape)).clamp(0, 1)
    posterior = surrogate.posterior()
    for points in (X, near, uniform(300, 2, seed=5)):
        assert bool((posterior.variance(points) >= 0).all())
        assert torch.linalg.eigvalsh(posterior.covar(points))[0] > -1e-9
