r"""RAHBO (Makarova et al. 2021): UCB less a penalty on the variance of the noise.

    a(x) = mean(x) + sqrt(kappa) std(x) - risk * lcb(x),    lcb(x) = exp(m(x) - sqrt(kappa) s(x))

m and s are mean and standard deviation of the process on log sigma^2(x) that the surrogate learned from the known
variances: lcb is a lower confidence bound of the variance, in squared units of the target. The authors choose one point
at a time; here a batch is filled as in GP-BUCB.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from botorch.acquisition import AcquisitionFunction, UpperConfidenceBound
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from ...errors import InputError
from ...surrogates import Surrogate
from ...surrogates.gaussian_process.noise import LearnedNoise
from ..strategies import kappa_of
from ..world import State
from .sequential import BatchUpperConfidence, Filling, Maker, MarginalModel


@dataclass(frozen=True)
class RiskAverse(BatchUpperConfidence):
    """GP-BUCB less the risk.

    Attributes:
        risk: what a unit of variance costs, in units of the target.
    """

    risk: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.risk < float("inf"):
            raise InputError(f"risk = {self.risk}: give a finite number, 0 or more")

    def acquisition(self, state: State, model: Surrogate) -> Maker:
        """The risk-averse UCB of the next point.

        Raises:
            InputError: the measurements come without their variances.
        """
        if model.log_variance is None:
            raise no_variances(state.world.title)
        noise = model.posterior().noise
        kappa = model.data.y.new_tensor(kappa_of(self.kappa, self.last_kappa, state))
        if not isinstance(noise, LearnedNoise):  # the same variance everywhere: nothing to avoid
            return lambda filling: UpperConfidenceBound(MarginalModel(filling.now), beta=kappa)
        risk = self.risk * model.scale.scale  # risk sigma^2 in standardised units of the target
        return lambda filling: RiskAverseUCB(filling, noise, kappa, risk)


class RiskAverseUCB(AcquisitionFunction):
    """mean + sqrt(kappa) std - risk exp(m - sqrt(kappa) s)."""

    def __init__(self, filling: Filling, noise: LearnedNoise, kappa: Tensor, risk: float) -> None:
        wrapped = MarginalModel(filling.now)
        super().__init__(wrapped)
        self.ucb = UpperConfidenceBound(wrapped, beta=kappa)
        self.noise, self.width, self.risk = noise, kappa.sqrt(), risk

    @t_batch_mode_transform(expected_q=1)
    def forward(self, X: Tensor) -> Tensor:
        """Value of each single point: b x 1 x d -> b."""
        m, variance = self.noise.log_variance.mean_and_variance(X)  # b x 1
        lcb = torch.exp(m - self.width * variance.clamp_min(1e-12).sqrt())  # a root has no slope at zero
        return self.ucb(X) - self.risk * lcb.squeeze(-1)


def no_variances(title: str) -> InputError:
    """What there is to say of a world whose measurements come without their variances."""
    return InputError(
        f"rahbo needs measurements that come with the variance of their noise, as those of branin-noise do, not those "
        f"of {title}; leave it out"
    )
