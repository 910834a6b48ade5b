import math

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

import beebo_scale as bs
from beebo_scale import Approximation
from beebo_scale.surrogates.approximate.inducing import select_inducing_points
from beebo_scale.surrogates.approximate.student_t import DEGREES, INFORMATIVE, StudentSVGP, expected_log_density
from beebo_scale.surrogates.data.observations import Observations
from tests.helpers import close, normal, uniform
from tests.surrogates.gaussian_process.test_gaussian_process import process

SIZE = Approximation(inducing_points=30, epochs=120)
NORMAL = np.linspace(-9, 9, 1801)  # nodes for f
KINDS = {"a": "continuous", "b": "continuous"}


def rows(n=40):
    y = normal(n, seed=1)
    y[::10] += 15.0
    return Observations(uniform(n, 2), y, None, torch.ones_like(y), torch.zeros_like(y))


def model_of(data, m=8):
    model = StudentSVGP(process(), select_inducing_points(process().kernel, data.X, m), len(data))
    model.P += 3 * torch.eye(m, dtype=torch.float64)
    model.b += normal(m, seed=31)
    return model


def test_expectation_against_fine_quadrature():
    y, mean, variance = torch.tensor([0.1, 4.0, -9.0]), torch.zeros(3), torch.tensor([0.3, 0.05, 1.0])
    s2 = torch.full((3,), 0.2)
    x = torch.linspace(-9, 9, 20001, dtype=torch.float64)
    t = torch.distributions.StudentT(DEGREES)
    for i in range(3):
        f = mean[i] + variance[i].sqrt() * x
        value = t.log_prob((y[i] - f) / s2[i].sqrt()) - 0.5 * s2[i].log()
        weight = torch.exp(-0.5 * x.square()) / math.sqrt(2 * math.pi)
        expected = torch.trapezoid(value * weight, x)
        actual = expected_log_density(*(part[i : i + 1].double() for part in (y, mean, variance, s2)))
        close(actual[0], expected, rtol=1e-4, atol=1e-4)


def test_information_of_a_measurement_is_that_of_the_noise_of_the_posterior():
    """I(f; y) = h(y) - h(t), by quadrature, with f ~ N(0, v) and s = 1; never above 1/2 ln(1 + v / 1.4) by 0.1 nats."""
    gaps, naive = [], []
    for v in (0.01, 0.1, 1.0, 10.0, 100.0):
        weight = 0.375 * stats.norm.pdf(NORMAL)  # 3 / 8: t with 4 degrees of freedom at zero
        u = np.linspace(-10, 10, 601)
        z = np.sinh(u)  # dense near zero, far out at the ends
        density = np.array([np.trapezoid((1 + (x - v**0.5 * NORMAL) ** 2 / 4) ** -2.5 * weight, NORMAL) for x in z])
        terms = np.where(density > 0, -density * np.log(np.maximum(density, 1e-300)), 0.0)
        information = np.trapezoid(terms * np.cosh(u), u) - stats.t.entropy(DEGREES)
        gaps.append(0.5 * np.log1p(v / INFORMATIVE) - information)
        naive.append(0.5 * np.log1p(v) - information)
    assert abs(gaps[0]) < 1e-4  # the Fisher information: v / 2.8
    assert min(gaps) > -1e-3
    assert max(gaps) < 0.1
    assert max(naive) == pytest.approx(0.26, abs=4e-3)  # with s^2 for the noise


def test_gradient_of_the_bound_against_finite_differences():
    data = rows()
    model = model_of(data)
    model.elbo(data).backward()
    for p in (*model.gp.parameters(), model.Z):
        where, h = (0,) * p.dim(), 1e-5
        ends = []
        for step in (h, -h):
            with torch.no_grad():
                p[where] += step
                ends.append(float(model.elbo(data)))
                p[where] -= step
        assert float(p.grad[where]) == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-4, abs=1e-4)


def test_passes_over_all_rows_end_at_the_best_mean():
    data = rows()
    model = model_of(data)
    before = float(model.elbo(data).detach())
    bound = model.collapse(data)
    assert bound > before
    assert bound == pytest.approx(float(model.elbo(data).detach()), abs=0.05)
    for shift in (0.1, -0.1):
        model.b += shift
        assert float(model.elbo(data).detach()) < bound + 1e-2
        model.b -= shift


def screen(outliers, n=240):
    """Noise of 0.2; outliers lie 20 standard deviations of it off."""
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(n, 2))
    y = np.sin(5 * X[:, 0]) + X[:, 1] + 0.2 * rng.standard_normal(n)
    far = rng.random(n) < outliers
    return bs.read_table(pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y + 4.0 * far * rng.choice([-1, 1], n)}), "y")


def rmse(surrogate):
    X = np.random.default_rng(9).uniform(size=(300, 2))
    mean, _ = surrogate.predict(bs.read_library(pd.DataFrame(X, columns=["a", "b"]), KINDS))
    return np.sqrt(np.mean((mean - np.sin(5 * X[:, 0]) - X[:, 1]) ** 2))


@pytest.mark.slow
def test_outliers_count_little(tmp_path):
    clean, spoiled = screen(0.0), screen(0.05)
    gaussian = rmse(bs.fit(clean, "svgp", approximation=SIZE))
    without = rmse(bs.fit(clean, likelihood="student-t", approximation=SIZE))
    surrogate = bs.fit(spoiled, likelihood="student-t", approximation=SIZE)
    assert without < 1.3 * gaussian
    assert rmse(surrogate) < 1.5 * gaussian
    assert rmse(surrogate) < 0.5 * rmse(bs.fit(spoiled, "svgp", approximation=SIZE))
    summary = surrogate.summary()
    assert (summary["kind"], summary["likelihood"]) == ("svgp", "student-t")
    assert 0.1 < summary["noise_std"] < 0.35  # the scale of the bulk
    X = torch.rand(3, 2, dtype=torch.float64)
    close(surrogate.posterior().noise(X), (INFORMATIVE * surrogate.gp.sigma2).detach().expand(3))
    surrogate.save(tmp_path / "model.ckpt")
    again = bs.load_surrogate(tmp_path / "model.ckpt")
    assert again.likelihood == "student-t"
    assert rmse(again) == rmse(surrogate)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"likelihood": "cauchy"}, "likelihood 'cauchy' is not known; choose one of gaussian, student-t"),
        ({"likelihood": "student-t", "kind": "exact"}, "a robust fit is one by svgp, not by exact"),
    ],
)
def test_refused(options, match):
    with pytest.raises(bs.InputError, match=match):
        bs.fit(screen(0.0, 10), **options)
