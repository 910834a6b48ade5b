"""Measurement noise sigma^2(x) of new points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class ConstantNoise:
    """sigma^2(x) = sigma^2."""

    variance: Tensor  # scalar

    def __call__(self, X: Tensor) -> Tensor:
        """... q x d -> ... q."""
        return self.variance.expand(X.shape[:-1])

    def to(self, *args: Any, **kwargs: Any) -> ConstantNoise:
        """The same noise with another dtype or on another device."""
        return ConstantNoise(self.variance.to(*args, **kwargs))
