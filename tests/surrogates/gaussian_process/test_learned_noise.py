"""Noise of new points learned from the known variances of the measured rows."""

import numpy as np
import pandas as pd
import pytest
import torch

import beebo_scale as bs
from beebo_scale.kernels.screen import continuous_kernel
from beebo_scale.surrogates import Surrogate
from beebo_scale.surrogates.data.observations import merge_replicates
from beebo_scale.surrogates.gaussian_process.gaussian_process import GaussianProcess
from beebo_scale.surrogates.gaussian_process.learned_noise import LogVariance, learn_noise, log_bias
from beebo_scale.surrogates.gaussian_process.noise import ConstantNoise, LearnedNoise


def variance(x: torch.Tensor) -> torch.Tensor:
    return 0.02 + 0.3 * torch.exp(-20 * (x[..., 0] - 0.7).square())


def learned(X: torch.Tensor, sigma2: torch.Tensor) -> LogVariance:
    data = merge_replicates(X, torch.zeros(len(X), dtype=torch.float64), sigma2)
    return learn_noise(GaussianProcess(continuous_kernel([0], "botorch")), data)


def test_recovers_a_variance_between_the_rows():
    X = torch.linspace(0, 1, 40, dtype=torch.float64).unsqueeze(-1)
    noise = learned(X, variance(X)).noise()
    new = torch.linspace(0.01, 0.99, 77, dtype=torch.float64).unsqueeze(-1)
    assert isinstance(noise, LearnedNoise)
    torch.testing.assert_close(noise(new), variance(new), rtol=0.02, atol=0.0)


def test_is_differentiable_in_x():
    X = torch.linspace(0, 1, 25, dtype=torch.float64).unsqueeze(-1)
    noise = learned(X, variance(X)).noise()
    x = torch.tensor([[0.31], [0.64], [0.9]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(noise, (x,))


def test_variances_of_replicates_are_those_of_one_measurement():
    X = torch.linspace(0, 1, 30, dtype=torch.float64).unsqueeze(-1)
    once, thrice = learned(X, variance(X)), learned(X.repeat(3, 1), variance(X).repeat(3))
    torch.testing.assert_close(thrice.noise()(X), once.noise()(X), rtol=1e-3, atol=0.0)


def test_one_variance_for_all_is_constant_noise():
    X = torch.rand(8, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    noise = learned(X, torch.full((8,), 0.3, dtype=torch.float64)).noise()
    assert isinstance(noise, ConstantNoise)
    torch.testing.assert_close(noise(X), torch.full((8,), 0.3, dtype=torch.float64), rtol=1e-12, atol=0.0)


def test_nothing_to_learn_from_is_an_error():
    X = torch.rand(5, 1, dtype=torch.float64)
    with pytest.raises(ValueError, match="no known variances"):
        learn_noise(GaussianProcess(continuous_kernel([0], "botorch")), merge_replicates(X, X[:, 0]))


def screen(scale: float) -> pd.DataFrame:
    generator = np.random.default_rng(0)
    x = np.linspace(0, 1, 60)
    sigma2 = variance(torch.from_numpy(x).unsqueeze(-1)).numpy()
    y = scale * (np.sin(5 * x) + np.sqrt(sigma2) * generator.standard_normal(len(x)))
    return pd.DataFrame({"x": x, "y": y, "variance": scale**2 * sigma2})


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_units_are_right_under_standardisation(scale):
    """The learned variance, brought back to the target's units, is the one that was given."""
    surrogate = bs.fit(bs.read_table(screen(scale), target="y", features=["x"], noise_variance="variance"))
    X = surrogate.encoder.encode(bs.read_library(pd.DataFrame({"x": [0.2, 0.45, 0.7]}), {"x": "continuous"}))
    own = surrogate.posterior().noise(X) * surrogate.scale.scale**2
    torch.testing.assert_close(own, scale**2 * variance(X), rtol=0.05, atol=0.0)


def test_survives_the_file(tmp_path):
    surrogate = bs.fit(bs.read_table(screen(1.0), target="y", features=["x"], noise_variance="variance"))
    surrogate.save(tmp_path / "model.ckpt")
    again = bs.load_surrogate(tmp_path / "model.ckpt")
    X = torch.linspace(0, 1, 7, dtype=torch.float64).unsqueeze(-1)
    assert torch.equal(again.posterior().noise(X), surrogate.posterior().noise(X))


def replicated(r: int, n: int = 60) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Means with the variances that r replicates give for them, and the replicates as rows."""
    g = np.random.default_rng(10 + r)
    x = g.random(n)
    Y = np.sin(5 * x)[:, None] + 0.3 * g.standard_normal((n, r))
    means = pd.DataFrame({"x": x, "y": Y.mean(1), "variance": Y.var(axis=1, ddof=1) / r})
    return means, pd.DataFrame({"x": np.repeat(x, r), "y": Y.ravel()})


def fitted(frame: pd.DataFrame) -> Surrogate:
    known = "variance" if "variance" in frame else None
    return bs.fit(bs.read_table(frame, "y", features=["x"], noise_variance=known), transform="none")


@pytest.mark.slow
@pytest.mark.parametrize("r", [2, 3, 5])
def test_estimates_are_seen_as_such(r, tmp_path):
    means, apart = replicated(r)
    surrogate, reference = fitted(means), fitted(apart)
    assert surrogate.log_variance.degrees == pytest.approx(r - 1, rel=0.4)
    assert f"like estimates from about {surrogate.log_variance.degrees + 1:.0f} replicates" in surrogate.report.warning
    assert surrogate.report.warning == surrogate.summary()["warning"]
    assert not surrogate.noise_known
    own = surrogate.data.noise * surrogate.scale.scale**2  # of the means
    assert float(own.mean()) == pytest.approx(0.09 / r, rel=0.25)  # the bias of log s^2 alone is 72, 44 and 24 %
    x = np.linspace(0, 1, 200)
    grid = bs.read_library(pd.DataFrame({"x": x}), {"x": "continuous"})
    rmse = [np.sqrt(np.mean((s.predict(grid)[0] - np.sin(5 * x)) ** 2)) for s in (surrogate, reference)]
    assert rmse[0] < 1.25 * rmse[1]
    surrogate.save(tmp_path / "model.ckpt")
    again = bs.load_surrogate(tmp_path / "model.ckpt")
    assert again.log_variance.degrees == surrogate.log_variance.degrees
    assert np.array_equal(again.predict(grid)[0], surrogate.predict(grid)[0])


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_variances_that_are_true_stay_as_they_are(spread):
    """Smooth ones, and ones that differ from row to row by a factor of e or so, as those of counts do."""
    g = np.random.default_rng(3)
    frame = screen(1.0)
    sigma2 = frame["variance"] * np.exp(spread * g.standard_normal(len(frame)))
    y = np.sin(5 * frame["x"]) + np.sqrt(sigma2) * g.standard_normal(len(frame))
    surrogate = fitted(frame.assign(y=y, variance=sigma2))
    assert surrogate.noise_known
    assert surrogate.report.notes == ()
    np.testing.assert_allclose(surrogate.data.noise * surrogate.scale.scale**2, sigma2, rtol=1e-12)


@pytest.mark.parametrize("k", [1, 2, 4, 9])
def test_bias_of_log_variances(k):
    chi2 = torch.distributions.Chi2(float(k)).expand([400_000])
    torch.manual_seed(0)
    assert float((chi2.sample() / k).log().mean()) == pytest.approx(-log_bias(k / 2), abs=0.02)


def test_the_quiet_half_is_preferred():
    """Equal means, equal variances of f: the batch goes where measurements tell more."""
    generator = np.random.default_rng(1)
    x = np.linspace(0, 1, 41)
    quiet = x < 0.5
    table = pd.DataFrame({"x": x, "y": generator.standard_normal(41), "variance": np.where(quiet, 0.05, 2.0)})
    surrogate = bs.fit(bs.read_table(table, target="y", features=["x"], noise_variance="variance"))
    posterior = surrogate.posterior()
    left, right = (torch.full((1, 1), value, dtype=torch.float64) for value in (0.2, 0.8))
    ratio = posterior.noise(right) / posterior.noise(left)
    assert float(ratio) == pytest.approx(40.0, rel=0.2)
    fresh = posterior.kernel(left, diag=True)  # the same prior variance at both
    assert bs.marginal_gain(fresh, posterior.noise(left)) > bs.marginal_gain(fresh, posterior.noise(right))
