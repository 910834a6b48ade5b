r"""Noise that depends on x: a second Gaussian process on log sigma^2, learned from the known variances of the rows.

Where the variance of every measured row is known (counts, replicates, an instrument's word) but new points need one
too, log sigma^2 is smoothed and interpolated by a Gaussian process of its own (paper, experiment under
heteroskedastic noise). The variances are taken as measured without bias; the process's own noise absorbs their error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...protocols import Noise
from ..data.observations import Observations
from ..scalarize import scalarize
from .gaussian_process import GaussianProcess, exact_posterior, fit_hyperparameters
from .noise import ConstantNoise, LearnedNoise


@dataclass(frozen=True)
class LogVariance:
    """A fitted process on z = (log sigma^2 - shift) / scale.

    Attributes:
        gp: kernel, mean and noise of z.
        data: z at the rows that it was fitted to.
        shift: mean of log sigma^2 over those rows.
        scale: its standard deviation, zero if all variances are one.
    """

    gp: GaussianProcess
    data: Observations
    shift: float
    scale: float

    def noise(self) -> Noise:
        """sigma^2(x) = exp(shift + scale E z(x)), in squared standardised units of the target."""
        if self.scale == 0.0:
            return ConstantNoise(self.data.y.new_tensor(self.shift).exp())
        z = exact_posterior(self.gp, self.data)
        return LearnedNoise(scalarize(z, self.data.y.new_tensor([self.scale]), self.shift))

    def to_dict(self) -> dict[str, Any]:
        """Plain types and tensors, for a file."""
        state = {"hyperparameters": self.gp.state_dict(), "data": self.data.to_dict()}
        return state | {"shift": self.shift, "scale": self.scale}


def learn_noise(
    gp: GaussianProcess, data: Observations, maxiter: int = 100, on_step: Callable[[], object] | None = None
) -> LogVariance:
    """Fit a process on log sigma^2 to the known variances of single measurements.

    Args:
        gp: kernel, mean and noise for it, where the fit starts; fitted in place.
        data: rows with known variances (those of their means times their counts are those of single measurements).
        maxiter: iteration limit.
        on_step: called after every iteration.

    Raises:
        ValueError: the rows have no known variances.
    """
    if data.noise is None:
        raise ValueError("there are no known variances to learn from")
    log_variance = (data.noise * data.count).log()
    shift, scale = float(log_variance.mean()), float(log_variance.std(correction=0))
    if scale < 1e-6:  # constant up to rounding: nothing to learn
        scale = 0.0
    z = torch.zeros_like(log_variance) if scale == 0.0 else (log_variance - shift) / scale
    once: Tensor = torch.ones_like(z)
    rows = Observations(data.X, z, noise=None, count=once, scatter=torch.zeros_like(z))
    if scale > 0.0:
        fit_hyperparameters(gp, rows, maxiter, on_step)
    return LogVariance(gp, rows, shift, scale)
