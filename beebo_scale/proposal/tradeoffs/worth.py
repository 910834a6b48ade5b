"""What points are worth before information counts, where experiments have several targets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ...fronts import directions, reach
from ...outcomes import Improvement, Outcomes, draws

ADVANCE = 10.0
DIRECTIONS = 16  # of each sample
SEED = 2_305_843_009  # of directions


class Worth(Protocol):
    """The energy of points with several targets."""

    @property
    def joint(self) -> Improvement | None:
        """The improvement that points of a batch share, times `factor`; None where each is worth what it is alone."""
        ...

    @property
    def factor(self) -> float:
        """From an improvement to an energy."""
        ...

    def alone(self, mean: Tensor, covar: Tensor) -> Tensor:
        """The energy of single points, n x t and n x t x t -> n; in a batch no point adds more."""
        ...

    def ceiling(self, mean: Tensor, variance: Tensor) -> Tensor:
        """A bound of `alone`, also if the variances (n x t) are too large."""
        ...


@dataclass(frozen=True, eq=False)
class FrontWorth:
    """q times the expected improvement of the hypervolume, see `Improvement`, as a mean advance of the front.

    A front whose hypervolume H in m targets advances by e standard deviations in all gains about m H^((m-1)/m) e.
    Divided by m H^((m-1)/m), H at least one, the energy is in standard deviations as the mean energy is, wherever the
    reference point lies. It is improvement that is shared by the batch, not the level of each point, so it counts
    `ADVANCE` times: T' = 0.5 then explores about as much as it does with the mean energy.

    Attributes:
        joint: in standard deviations of measured values to the power m.
        factor: ADVANCE q sqrt(A) / (m H^((m-1)/m)).
    """

    joint: Improvement
    factor: float

    def alone(self, mean: Tensor, covar: Tensor) -> Tensor:
        """See `Worth`."""
        return self.factor * self.joint.alone(mean, covar)

    def ceiling(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See `Worth`."""
        return self.factor * self.joint.ceiling(mean, variance)


@dataclass(frozen=True, eq=False)
class InsideWorth:
    """One target, or a weighted sum, where limits are kept: the sum over points of E[(w f - floor) (limits are kept)].

    Attributes:
        outcomes: the limits.
        weights: w, t.
        floor: what a point counts that breaks a limit, the worst of measured rows.
    """

    outcomes: Outcomes
    weights: Tensor
    floor: float
    joint = None
    factor: float = 1.0

    def alone(self, mean: Tensor, covar: Tensor) -> Tensor:
        """See `Worth`."""
        f, weight = self.outcomes.drawn(mean, covar, draws(mean))
        return ((f @ self.weights - self.floor) * weight).mean(-1)

    def ceiling(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See `Worth`; the height's own part above the floor, and Cauchy and Schwarz for the limits."""
        height = mean @ self.weights - self.floor
        square = height.square() + (variance.sqrt() @ self.weights.abs()).square()  # whatever the correlation
        return (square * self.outcomes.likely(mean, variance)).sqrt()


@dataclass(frozen=True, eq=False)
class ShortfallWorth:
    """Where no measured row keeps the limits yet: minus the expected shortfall, in standard deviations, of each point.

    The probability of keeping them would be zero in most places, and say nothing of where to go.

    Attributes:
        outcomes: heights do not count.
    """

    outcomes: Outcomes
    joint = None
    factor: float = 1.0

    def alone(self, mean: Tensor, covar: Tensor) -> Tensor:
        """See `Worth`."""
        return -self.outcomes.shortfall(mean, covar)

    def ceiling(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See `Worth`; a target of known value falls short of its limits by less."""
        low, high = self.outcomes.low, self.outcomes.high
        return -((low - mean).clamp_min(0.0) + (mean - high).clamp_min(0.0)).nan_to_num(0.0).sum(-1)


def improvement(outcomes: Outcomes, front: Tensor, samples: int, seed: int = SEED) -> Improvement:
    """The improvement over a measured front (heights, n x m; it may be empty) with so many samples."""
    m = len(outcomes.aims)
    W = directions(samples * DIRECTIONS, m, seed).reshape(samples, DIRECTIONS, m).to(outcomes.reference)
    best = W.new_zeros(samples, DIRECTIONS)
    for row in front:
        best = torch.maximum(best, reach(row, W))
    return Improvement(outcomes, W, best)


def information(blocks: Tensor, noise: Tensor) -> Tensor:
    """Information of measuring all targets of single points, 1/2 logdet(1 + Sigma^-1/2 V Sigma^-1/2).

    Args:
        blocks: V, n x t x t covariance of each point's targets.
        noise: sigma^2, n x t.

    Returns:
        n.
    """
    s = noise.rsqrt()
    M = s.unsqueeze(-1) * blocks * s.unsqueeze(-2)
    if M.shape[-1] == 2:
        a, b, c = 1 + M[:, 0, 0].clamp_min(0.0), 1 + M[:, 1, 1].clamp_min(0.0), M[:, 0, 1]
        return 0.5 * (a * b - c.square()).clamp_min(1.0).log()
    eye = torch.eye(M.shape[-1], dtype=M.dtype, device=M.device)
    L, info = torch.linalg.cholesky_ex(M + eye)
    if bool(info.any()):  # rounding; the matrix is never below one
        return 0.5 * torch.linalg.eigvalsh(M + eye).clamp_min(1.0).log().sum(-1)
    return L.diagonal(dim1=-2, dim2=-1).log().sum(-1).clamp_min(0.0)


def standard_error(values: Tensor) -> float:
    """Of the mean of n independent values."""
    return float(values.std()) / math.sqrt(len(values))
