"""Noise of new points learned from the known variances of the measured rows."""

import numpy as np
import pandas as pd
import pytest
import torch

import beebo_scale as bs
from beebo_scale.kernels.screen import continuous_kernel
from beebo_scale.surrogates.data.observations import merge_replicates
from beebo_scale.surrogates.gaussian_process.gaussian_process import GaussianProcess
from beebo_scale.surrogates.gaussian_process.learned_noise import LogVariance, learn_noise
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
