import numpy as np
import pytest
import torch
from scipy import stats
from scipy.integrate import quad

from beebo_scale.surrogates.approximate.student_t import DEGREES, INFORMATIVE
from beebo_scale.surrogates.predictive import PREDICTIVE


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_gaussian_density_and_error():
    density, error = PREDICTIVE["gaussian"](tensor(1.0, -3.0), tensor(0.5, 0.0), tensor(0.2, 1.0), tensor(0.05, 3.0))
    np.testing.assert_allclose(density, stats.norm([0.5, 0.0], [0.5, 2.0]).logpdf([1.0, -3.0]))
    np.testing.assert_allclose(error, [1.0, -1.5])


@pytest.mark.slow
@pytest.mark.parametrize(("variance", "noise"), [(0.3, 0.01), (1e-6, 0.2), (0.1, 0.1), (2.0, 1e-4)])
def test_student_density_and_error_against_integrals(variance, noise):
    t, normal = stats.t(DEGREES, scale=noise**0.5), stats.norm(0.0, variance**0.5)
    for z in (0.0, 0.4, -2.0, 30.0):
        spots, width = sorted({0.0, z}), 12 * variance**0.5

        def over(density, z=z, spots=spots, width=width):
            ends = {"epsabs": 1e-13, "epsrel": 1e-10, "limit": 500}
            return quad(lambda f: density(z - f) * normal.pdf(f), -width, width, points=spots, **ends)[0]

        density, error = PREDICTIVE["student-t"](tensor(z), tensor(0.0), tensor(variance), tensor(INFORMATIVE * noise))
        assert float(density) == pytest.approx(np.log(over(t.pdf)), abs=1e-6)
        assert float(stats.norm.cdf(-abs(float(error)))) == pytest.approx(over(t.sf if z > 0 else t.cdf), rel=1e-6)
        assert np.sign(float(error)) == np.sign(z)


def test_errors_of_targets_drawn_from_the_prediction_are_standard_normal():
    rng = np.random.default_rng(0)
    z = torch.tensor(0.3 * rng.standard_normal(4000) + 0.2 * rng.standard_t(DEGREES, 4000))
    noise = torch.full_like(z, 0.04 * INFORMATIVE)
    _, error = PREDICTIVE["student-t"](z, torch.zeros_like(z), torch.full_like(z, 0.09), noise)
    assert stats.kstest(error.numpy(), "norm").pvalue > 0.05
