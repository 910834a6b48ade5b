r"""GIBBON (Moss et al. 2021): a lower bound on what a batch tells of the maximum of f, filled greedily.

    a(X) = 1/2 logdet R + sum_i q(x_i),    q(x) = -1/2 mean_m log(1 - rho^2 h (gamma + h)),  h = phi(gamma) / Phi(gamma)

R is the correlation of the batch's measurements, m samples of the maximum, gamma = (m - mean(x)) / std(x) and rho the
correlation of f(x) with its measurement. One more point x adds q(x) and

    r(x) = 1/2 log(v_now(x) + sigma^2) - 1/2 log(v(x) + sigma^2),

v the variance before the batch and v_now that given its points so far. This is botorch's qLowerBoundMaxValueEntropy,
which takes a covariance with the whole batch for each candidate; the conditioned posterior has the same number for
O(n r), and the first r features are those before the batch. In large batches r outweighs q: the scaled form has 1 / Q^2
before the log determinant (Moss et al., supplement; BEEBO paper, appendix).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.max_value_entropy_search import CLAMP_LB, qLowerBoundMaxValueEntropy
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from ...posterior import Posterior
from ...specs.setting import check_least
from ...surrogates import Surrogate
from ..strategies import cube_of
from ..world import State
from .sequential import Filling, Maker, MarginalModel, Sequential


@dataclass(frozen=True)
class Gibbon(Sequential):
    """GIBBON, plain or scaled.

    Attributes:
        scaled: 1 / Q^2 before the log determinant.
        candidates: uniform points whose maximum is sampled; 100,000 in the paper.
        maxima: samples of the maximum (botorch's default).
    """

    scaled: bool = False
    candidates: int = 100_000
    maxima: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, candidates=1, maxima=1)

    def acquisition(self, state: State, model: Surrogate) -> Maker:
        """What one more point adds; the maxima are sampled once a batch."""
        space, posterior = cube_of(state, model).space, model.posterior()
        some = space.own(torch.rand(self.candidates, space.width, dtype=posterior.dtype))
        maxima = sampled_maxima(posterior, some, self.maxima)
        scale = 1.0 / state.q**2 if self.scaled else 1.0
        return lambda filling: OneMore(filling, maxima, scale)


def sampled_maxima(posterior: Posterior, X: Tensor, count: int) -> Tensor:
    """Samples of the maximum over X (p x d) and the measured points, by botorch's Gumbel fit; torch's chance: count."""
    botorch = qLowerBoundMaxValueEntropy(MarginalModel(posterior), X, count, train_inputs=posterior.points)
    return botorch.posterior_max_values.squeeze(-1)


class OneMore(AcquisitionFunction):
    """q(x) + scale r(x)."""

    def __init__(self, filling: Filling, maxima: Tensor, scale: float) -> None:
        super().__init__(MarginalModel(filling.now))
        self.filling, self.maxima, self.scale = filling, maxima, scale

    @t_batch_mode_transform(expected_q=1)
    def forward(self, X: Tensor) -> Tensor:
        """Value of each single point: b x 1 x d -> b."""
        start, now = self.filling.start, self.filling.now
        mean, v_now, F = now.mean_variance_and_features(X)  # b x 1, b x 1, b x 1 x (r + k)
        v = (v_now + F[..., start.rank :].square().sum(-1)).clamp_min(CLAMP_LB)
        sigma2 = start.noise(X)
        r = 0.5 * ((v_now + sigma2).log() - (v + sigma2).log())
        return (quality(mean, v, sigma2, self.maxima) + self.scale * r).squeeze(-1)


def quality(mean: Tensor, variance: Tensor, sigma2: Tensor, maxima: Tensor) -> Tensor:
    """Quality term of points with these moments, ... x 1 -> ... x 1; clamped as in botorch."""
    gamma = (maxima - mean) / variance.sqrt()  # ... x m
    normal = torch.distributions.Normal(torch.zeros_like(gamma), torch.ones_like(gamma))
    h = normal.log_prob(gamma).exp() / normal.cdf(gamma).clamp_min(CLAMP_LB)
    rho2 = variance / (variance + sigma2)
    return -0.5 * (1 - rho2 * h * (gamma + h)).clamp_min(CLAMP_LB).log().mean(-1, keepdim=True)
