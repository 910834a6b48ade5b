"""What a posterior asks of its noise and of its solver."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor


class Noise(Protocol):
    """Measurement noise sigma^2(x): ... q x d -> ... q."""

    def __call__(self, X: Tensor) -> Tensor:
        """Variance of a measurement at each point."""
        ...

    def to(self, *args: Any, **kwargs: Any) -> Noise:
        """The same noise with another dtype or on another device."""
        ...


class Solver(Protocol):
    """Solves with K + Sigma over the centers, for a root that leaves something of it out."""

    def solve(self, B: Tensor, error: Tensor) -> tuple[Tensor, Tensor]:
        """Solve: W ~ (K + Sigma)^-1 B and (K + Sigma) W (both n x c); b' w lacks at most `error` (c) of its value."""
        ...

    def extend(self, Z: Tensor, sigma2: Tensor) -> Solver:
        """The solver with more centers (q x d) and their noise variances (q)."""
        ...

    def scaled(self, c: float) -> Solver:
        """The solver for c (K + Sigma)."""
        ...

    def to(self, *args: Any, **kwargs: Any) -> Solver:
        """The same solver with another dtype or on another device."""
        ...
