r"""The target between its own units and the standardised units in which surrogates work.

z = (g(y) - shift) / scale, with g the identity or a square root. The root is for targets that cannot be negative and
crowd near zero (enrichment, activity, rates): it tells small values apart and keeps a few large ones from ruling the
fit. On the GB1 landscape it is worth more than any change of kernel (scripts/results/gb1_closed_loop.md).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError

TRANSFORMS = ("auto", "none", "sqrt")
SKEWNESS = 1.0  # above it, "auto" takes the square root of a target that is never negative


@dataclass(frozen=True)
class TargetScale:
    """Affine standardisation after an optional square root.

    Attributes:
        shift: mean of g(y) over the measured rows.
        scale: standard deviation of g(y).
        transform: "none" or "sqrt".
    """

    shift: float
    scale: float
    transform: str = "none"

    @classmethod
    def of(cls, y: Tensor, transform: str = "auto", noise_known: bool = False) -> TargetScale:
        """Choose the scale for measured targets.

        Args:
            y: N targets, own units.
            transform: "none", "sqrt", or "auto": "sqrt" if no target is negative, their skewness is above 1 and their
                noise is not known (a known variance at y = 0 has no counterpart after a square root).
            noise_known: whether variances come with the targets.

        Raises:
            InputError: unknown transform, or a square root of negative targets or of targets with known noise.
        """
        if transform not in TRANSFORMS:
            raise InputError(f"transform is one of {', '.join(TRANSFORMS)}, got {transform!r}")
        rootable = bool((y >= 0).all()) and not noise_known
        if transform == "sqrt" and not rootable:
            raise InputError("transform 'sqrt' needs targets without negative values and without known noise variances")
        z = (y - y.mean()) / y.std()
        root = transform == "sqrt" or (transform == "auto" and rootable and float(z.pow(3).mean()) > SKEWNESS)
        g = y.sqrt() if root else y
        return cls(float(g.mean()), float(g.std()), "sqrt" if root else "none")

    def standardise(self, y: Tensor) -> Tensor:
        """Own units to standardised units."""
        return ((y.sqrt() if self.transform == "sqrt" else y) - self.shift) / self.scale

    def standardise_variance(self, variance: Tensor) -> Tensor:
        """Variances of measurements, squared own units to squared standardised units (no transform)."""
        return variance / self.scale**2

    def moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation in own units of what is Gaussian in standardised units.

        For the square root y = max(f, 0)^2 with f ~ N(mu, v), both moments are exact: with s = sqrt(v), t = mu / s,
        E y = (mu^2 + v) Phi(t) + mu s phi(t) and E y^2 = (mu^4 + 6 mu^2 v + 3 v^2) Phi(t) + (mu^3 + 5 mu v) s phi(t).
        """
        mu, v = self.shift + self.scale * mean, self.scale**2 * variance
        if self.transform == "none":
            return mu, v.sqrt()
        s = v.sqrt().clamp_min(1e-150)
        t = mu / s
        Phi, phi = torch.special.ndtr(t), torch.exp(-0.5 * t.square()) / (2 * torch.pi) ** 0.5
        first = (mu.square() + v) * Phi + mu * s * phi
        second = (mu**4 + 6 * mu**2 * v + 3 * v**2) * Phi + (mu**3 + 5 * mu * v) * s * phi
        return first, (second - first.square()).clamp_min(0.0).sqrt()

    def to_dict(self) -> dict[str, Any]:
        """Plain types, for a file."""
        return asdict(self)
