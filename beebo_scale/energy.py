r"""Energies: what a batch is worth before information counts (paper, section 3 and the softmax appendix).

An energy maps the posterior at a batch, mean (... q) and covariance (... q x q), to q E[summary] (...): it grows
with q as the information gain does, so that the temperature means the same at any batch size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


class Energy(Protocol):
    """What `BatchedEnergyEntropy` asks of an energy."""

    def __call__(self, mean: Tensor, covar: Tensor, amplitude: float) -> Tensor:
        """Q E[summary].

        Args:
            mean: ... q.
            covar: ... q x q.
            amplitude: prior variance A, the scale of f.

        Returns:
            ...
        """
        ...


@dataclass(frozen=True)
class MeanEnergy:
    """meanBEEBO: q E = sum_i mean_i."""

    def __call__(self, mean: Tensor, covar: Tensor, amplitude: float) -> Tensor:
        """Sum of the batch's posterior means, ... q -> ... ."""
        return mean.sum(-1)
