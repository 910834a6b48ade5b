r"""The BEEBO acquisition function (paper, section 3), as a botorch acquisition function.

    a(X) = q E[summary] + T I(X),      T = T' sqrt(A)

T' is what users set; A is the prior variance, so that T' means the same for every kernel and every unit of the
target. T' = 0 is pure exploitation; T' = sqrt(kappa) / 2 explores as q-UCB does with kappa (paper, UCB appendix).
"""

from __future__ import annotations

import math

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from .energy import Energy, MeanEnergy
from .errors import InputError
from .information import information_gain
from .posterior import Posterior


def check_temperature(temperature: float) -> float:
    """T' itself, if it is a finite number that is not negative; else `InputError`."""
    if not (isinstance(temperature, int | float) and math.isfinite(temperature) and temperature >= 0):
        raise InputError(f"temperature T' = {temperature} is not usable: give a finite number, 0 or more")
    return float(temperature)


class BatchedEnergyEntropy(AcquisitionFunction):
    """a(X) = q E[summary] + T' sqrt(A) I(X), to be maximised over whole batches X (b x q x d).

    Args:
        posterior: the surrogate's posterior.
        temperature: T', 0 or more.
        energy: `MeanEnergy()` (meanBEEBO) or `SoftmaxEnergy()` (maxBEEBO).
        X_pending: p x d points whose measurements are running: they count in I, as I(X | X_pending).
        maximize: False if small values of the target are good.
    """

    def __init__(
        self,
        posterior: Posterior,
        temperature: float = 0.5,
        energy: Energy | None = None,
        X_pending: Tensor | None = None,
        maximize: bool = True,
    ) -> None:
        torch.nn.Module.__init__(self)  # AcquisitionFunction's own wants a botorch model
        self.posterior = posterior
        self.temperature = check_temperature(temperature) * math.sqrt(posterior.amplitude)  # T
        self.energy = MeanEnergy() if energy is None else energy
        self.sign = 1.0 if maximize else -1.0
        self.set_X_pending(X_pending)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Condition the covariance on points that are being measured (p x d), or on none."""
        self.X_pending = X_pending
        self.conditioned = self.posterior if X_pending is None else self.posterior.augment(X_pending)

    @t_batch_mode_transform()
    def forward(self, X: Tensor) -> Tensor:
        """Value of each batch.

        Args:
            X: b x q x d.

        Returns:
            b.
        """
        mean, covar = self.conditioned.mean_and_covar(X)  # b x q, b x q x q
        energy = self.energy(self.sign * mean, covar, self.posterior.amplitude)
        if self.temperature == 0.0:
            return energy
        return energy + self.temperature * information_gain(covar, self.conditioned.noise(X))
