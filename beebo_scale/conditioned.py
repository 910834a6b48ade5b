r"""Any posterior conditioned on further measurements, by columns beside the features of its own.

With S the points added, C and mean those of the base, and L L' = C(S, S) + Sigma,

    G(x) = C(x, S) L^-T         mean(x) = base mean(x) + G(x) z,   z = L^-1 (y - base mean(S))
    F(x) = [base F(x), G(x)]    C(x, x' | S) = C(x, x') - G(x) G(x')'

which is exact conditioning. Points whose values are not given have z = 0 for what they add to those before them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from .posterior import Posterior, factor_of
from .protocols import Noise


@dataclass(frozen=True)
class Conditioned(Posterior):
    """`Posterior` of the form above.

    Attributes:
        base: without the measurements.
        X: s x d points measured.
        F: their features in the base, s x r.
        L: s x s.
        z: s.
        noise: that of the base.
    """

    base: Posterior
    X: Tensor
    F: Tensor
    L: Tensor
    z: Tensor
    noise: Noise

    @classmethod
    def without(cls, base: Posterior) -> Conditioned:
        """The base itself, no point added."""
        empty = base.points.new_empty
        X, F = empty(0, base.points.shape[-1]), empty(0, base.rank)
        return cls(base, X, F, empty(0, 0), empty(0), base.noise)

    @cached_property
    def points(self) -> Tensor:
        """Those of the base and those added."""
        return torch.cat([self.base.points, self.X])

    @property
    def dtype(self) -> torch.dtype:
        """Number format of the base."""
        return self.base.dtype

    @property
    def device(self) -> torch.device:
        """Where the base lies."""
        return self.base.device

    @property
    def rank(self) -> int:
        """Features of the base, and one for each point."""
        return self.base.rank + len(self.X)

    @property
    def amplitude(self) -> float:
        """That of the base."""
        return self.base.amplitude

    @property
    def points_together(self) -> int:
        """That of the base."""
        return self.base.points_together

    def parts(self, X: Tensor) -> Tensor | None:
        """Those of the base."""
        return self.base.parts(X)

    def mean_variance_and_features(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, variance (... q) and features (... q x (r + s))."""
        mean, variance, F = self.base.mean_variance_and_features(X)
        G = self._columns(X, F)
        return mean + G @ self.z, (variance - G.square().sum(-1)).clamp_min(0.0), torch.cat([F, G], dim=-1)

    def cross_covar(self, X1: Tensor, F1: Tensor, X2: Tensor, F2: Tensor) -> Tensor:
        """Covariance between points whose features are known, ... p x d and ... q x d -> ... p x q."""
        r = self.base.rank
        return self.base.cross_covar(X1, F1[..., :r], X2, F2[..., :r]) - F1[..., r:] @ F2[..., r:].mT

    def augment(self, X: Tensor, noise: Tensor | float | None = None, Y: Tensor | None = None) -> Conditioned:
        """With more points, O(s^2 q + q^3) beside their covariance with those before.

        Raises:
            ValueError: as of `checked`, or C + Sigma is not positive definite.
        """
        X, sigma2 = self.checked(X, noise, Y)
        with torch.no_grad():
            mean, _, F = self.mean_variance_and_features(X)
            C = self.cross_covar(X, F, X, F)
            new = factor_of(0.5 * (C + C.mT) + sigma2.diag())
            r, s, q = self.base.rank, len(self.X), len(X)
            L = self.L.new_zeros(s + q, s + q)
            L[:s, :s], L[s:, :s], L[s:, s:] = self.L, F[:, r:], new
            z = self.z.new_zeros(q)
            if Y is not None:
                z = torch.linalg.solve_triangular(new, (Y.reshape(-1).to(mean) - mean).unsqueeze(-1), upper=False)[:, 0]
            return replace(
                self,
                X=torch.cat([self.X, X]),
                F=torch.cat([self.F, F[:, :r]]),
                L=L,
                z=torch.cat([self.z, z]),
            )

    def to(self, *args: Any, **kwargs: Any) -> Conditioned:
        """The same posterior with another dtype or on another device."""
        moved = {name: getattr(self, name).to(*args, **kwargs) for name in ("base", "X", "F", "L", "z", "noise")}
        return Conditioned(**moved)

    @cached_property
    def _columns(self) -> Callable[[Tensor, Tensor], Tensor]:
        """G(x) from x and its features in the base, ... q x s."""
        eye = torch.eye(len(self.L), dtype=self.L.dtype, device=self.L.device)
        return self.base.cross_covar_product(self.X, self.F, torch.linalg.solve_triangular(self.L, eye, upper=False).mT)
