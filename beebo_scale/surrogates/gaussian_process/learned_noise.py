r"""Noise that depends on x: a second Gaussian process on log sigma^2, learned from the known variances of the rows.

Where the variance of every measured row is known (counts, replicates, an instrument's word) but new points need one
too, log sigma^2 is smoothed and interpolated by a Gaussian process of its own (paper, experiment under
heteroskedastic noise).

Variances s^2 that are themselves estimates with k degrees of freedom (those of k + 1 replicates) scatter:

    s^2 = sigma^2 chi^2_k / k,    E log s^2 = log sigma^2 + psi(k / 2) - log(k / 2),    var log s^2 = psi'(k / 2),

4.9, 1.6 and 0.6 for 2, 3 and 5 replicates. The scatter about the smooth fit m so reveals k, and with it the bias.
Maximum likelihood for a gamma distribution of u = s^2 / exp(m) gives both at once: with a = k / 2,

    log a - psi(a) = log mean(u) - mean(log u),    sigma^2(x) = exp(m(x)) mean(u),

which is exp(m) k/2 exp(-psi(k/2)), as log u has mean zero, and right whatever k is, as s^2 has no bias.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ...protocols import Noise
from ..data.observations import Measurements, Observations
from ..scalarize import scalarize
from .gaussian_process import GaussianProcess, exact_posterior
from .hyperparameters import find_hyperparameters
from .noise import ConstantNoise, LearnedNoise

SURE = 10.0  # degrees of freedom from which a variance counts as known: its logarithm is good to 0.47
AT_ONCE = 4096  # rows whose variances are smoothed at once


@dataclass(frozen=True)
class LogVariance:
    """A fitted process on z = (log sigma^2 - shift) / scale.

    Attributes:
        gp: kernel, mean and noise of z.
        data: z at the rows that it was fitted to.
        shift: mean of log sigma^2 over those rows.
        scale: its standard deviation, zero if all variances are one.
        degrees: of freedom k of variances that are estimates, None where they are known.
    """

    gp: GaussianProcess
    data: Measurements
    shift: float
    scale: float
    degrees: float | None = None

    def noise(self) -> Noise:
        """sigma^2(x) = exp(shift + bias + scale E z(x)), in squared standardised units of the target."""
        bias = 0.0 if self.degrees is None else log_bias(self.degrees / 2)
        if self.scale == 0.0:
            return ConstantNoise(self.data.y.new_tensor(self.shift).exp())
        z = exact_posterior(self.gp, self.data)
        return LearnedNoise(scalarize(z, self.data.y.new_tensor([self.scale]), self.shift + bias))

    def to_dict(self) -> dict[str, Any]:
        """Plain types and tensors, for a file."""
        state = {"hyperparameters": self.gp.state_dict(), "data": self.data.to_dict()}
        return state | {"shift": self.shift, "scale": self.scale, "degrees": self.degrees}

    def smoothed(self, data: Measurements) -> Measurements:
        """The rows with sigma^2(x) / count in place of their variances, where these are estimates."""
        if self.degrees is None:
            return data
        noise, width = self.noise(), self.data.X.shape[-1]
        with torch.no_grad():
            chunks = torch.arange(len(data)).split(AT_ONCE)
            variance = torch.cat([noise(data.take(rows).X[:, :width].double()) for rows in chunks])
        return replace(data, noise=(variance / data.count).to(data.y))

    def residuals(self, data: Measurements) -> Tensor:
        """Given log variance of a single measurement minus log sigma^2(x), n."""
        assert data.noise is not None
        with torch.no_grad():
            return (data.noise * data.count).log() - self.noise()(data.X[:, : self.data.X.shape[-1]]).log()

    def log_odds(self, data: Measurements) -> float:
        """How many nats likelier the residuals are as those of estimates with k degrees of freedom than as normal."""
        if self.degrees is None:
            return -math.inf
        log_u, a = self.residuals(data), self.degrees / 2
        gamma = a * math.log(a) - math.lgamma(a) + a * (log_u - log_u.exp())  # density of log u
        normal = -0.5 * (torch.log(2 * math.pi * log_u.var(correction=0)) + 1)  # mean of the log density
        return float((gamma - normal).sum())

    @property
    def note(self) -> str:
        """What a user should know of variances that are estimates; empty where they are known."""
        if self.degrees is None:
            return ""
        return (
            f"the known noise variances scatter like estimates from about {self.degrees + 1:.0f} replicates each, so "
            "smoothed ones were used; better give each replicate as a row of its own, without variances"
        )


def learn_noise(
    gp: GaussianProcess, data: Measurements, maxiter: int = 100, on_step: Callable[[], object] | None = None
) -> LogVariance:
    """Fit a process on log sigma^2 to the known variances of single measurements, and see whether they are estimates.

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
    found = LogVariance(gp, rows, shift, scale)
    if scale == 0.0:
        return found
    find_hyperparameters(gp, rows, maxiter, on_step)
    log_u = found.residuals(data)
    gap = float(log_u.exp().mean().log() - log_u.mean())
    if gap < log_bias(SURE / 2):
        return found
    low, high = 0.05, SURE / 2
    for _ in range(40):  # bisection: log_bias falls
        a = 0.5 * (low + high)
        low, high = (a, high) if log_bias(a) > gap else (low, a)
    return replace(found, degrees=2 * a)


def log_bias(a: float) -> float:
    """By how much E log s^2 lies below log sigma^2, log a - psi(a), where s^2 has 2 a degrees of freedom."""
    return math.log(a) - float(torch.digamma(torch.tensor(a, dtype=torch.float64)))
