r"""What thousands of chosen points leave to be learned, at the price of a few columns at a time.

With S the points chosen so far and P = (C_SS + Sigma)^-1, the covariance given S is

    C(x, x' | S) = C(x, x') - C(x, S) P C(S, x').

P is kept as one s x s matrix and brought up to date block by block, by Schur complements: O(s^2 b) for b points in or
out. A product with P for each evaluation would cost as much again; instead the explained part is written with a
root that spans W = P C(S, X0) only (the batch-adapted root of the LOVE posterior): value and gradient are exact at X0,
elsewhere the covariance is too large, never too small, and an evaluation costs O(s b) for b points.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ...posterior import Posterior
from ...protocols import Noise
from ..library.lazy_greedy import greedy, score

FILLED_AT_ONCE = 1024  # rows of a large matrix that are filled at once
IN_ROOT = 1024  # chosen points up to which the root holds all of them
COMPARED = 512  # candidates that are compared given more points than that


class PrecisionMatrix:
    """(C + Sigma)^-1 over chosen points; a row that holds no point is zero.

    Attributes:
        posterior: of the surrogate, with what is pending.
        X: s x d, the points by row.
        F: s x r, their features.
        P: s x s.
    """

    def __init__(self, posterior: Posterior, capacity: int) -> None:
        zeros, width = posterior.points.new_zeros, posterior.points.shape[-1]
        self.posterior = posterior
        self._X, self._F, self._P = (zeros(capacity, columns) for columns in (width, posterior.rank, capacity))
        self._used = 0

    @property
    def capacity(self) -> int:
        """Number of points that there is room for."""
        return len(self._X)

    @property
    def X(self) -> Tensor:
        """The points."""
        return self._X[: self._used]

    @property
    def F(self) -> Tensor:
        """Their features."""
        return self._F[: self._used]

    @property
    def P(self) -> Tensor:
        """Their precision matrix."""
        return self._P[: self._used, : self._used]

    def insert(self, rows: slice, X: Tensor) -> None:
        """Put b points (b x d) into rows that hold none."""
        with torch.no_grad():
            self._used = max(self._used, rows.stop)
            F = self.posterior.features(X)  # b x r
            C = self.posterior.cross_covar(self.X, self.F, X, F)  # s x b
            W = self.P @ C
            A = self.posterior.cross_covar(X, F, X, F) + torch.diag_embed(self.posterior.noise(X)) - C.mT @ W
            L = torch.linalg.cholesky(0.5 * (A + A.mT))
            half = torch.linalg.solve_triangular(L, W.mT, upper=False)  # L^-1 W'
            self.P.addmm_(half.mT, half)
            right = -torch.linalg.solve_triangular(L.mT, half, upper=True)  # -A^-1 W', b x s
            right[:, rows] = torch.cholesky_inverse(L)
            self.P[rows, :], self.P[:, rows] = right, right.mT
            self.X[rows], self.F[rows] = X, F

    def remove(self, rows: slice) -> None:
        """Take the points of some rows out."""
        with torch.no_grad():
            L = torch.linalg.cholesky(self.P[rows, rows])
            half = torch.linalg.solve_triangular(L, self.P[rows, :], upper=False)  # b x s
            self.P.addmm_(half.mT, half, alpha=-1.0)
            self.P[rows, :] = 0.0
            self.P[:, rows] = 0.0

    def to(self, *args: Any, **kwargs: Any) -> PrecisionMatrix:
        """A copy with another dtype or on another device."""
        moved = copy.copy(self)
        moved.posterior = self.posterior.to(*args, **kwargs)
        moved._X, moved._F, moved._P = (part.to(*args, **kwargs) for part in (self._X, self._F, self._P))
        return moved

    def solve(self, B: Tensor, without: slice | None) -> Tensor:
        """(C_SS + Sigma)^-1 B for S all points but those of some rows, at which B is zero; s x c -> s x c."""
        W = self.P @ B
        if without is not None:
            hole = self.P[without, :]  # b x s
            W -= hole.mT @ torch.cholesky_solve(W[without], torch.linalg.cholesky(hole[:, without]))
            W[without] = 0.0
        return W


@dataclass(frozen=True)
class ConditionedPosterior(Posterior):
    """The posterior given chosen points, with a root that is exact everywhere or at some points; see the module.

    Its mean is that without the chosen points, whose values nobody knows.

    Attributes:
        precision: of the chosen points.
        without: rows whose points do not count, as they are about to move.
        W: s x c, with W' (C_SS + Sigma) W = 1.
        whole: whether W W' is all of the precision matrix.
    """

    precision: PrecisionMatrix
    without: slice | None
    W: Tensor
    whole: bool
    noise: Noise = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", self.base.noise)

    @classmethod
    def of(cls, precision: PrecisionMatrix, without: slice | None = None) -> ConditionedPosterior:
        """Exact everywhere while there are few points; else it knows nothing of them before it is adapted."""
        s = len(precision.X)
        if s > IN_ROOT:
            return cls(precision, without, precision.X.new_zeros(s, 0), whole=False)
        with torch.no_grad():
            here = torch.ones(s, dtype=torch.bool, device=precision.X.device)
            if without is not None:
                here[without] = False
            W = precision.X.new_zeros(s, int(here.sum()))
            if W.numel():
                eye = torch.eye(s, dtype=W.dtype, device=W.device)[:, here]
                P = precision.solve(eye, without)[here]
                W[here] = torch.linalg.cholesky(0.5 * (P + P.mT))
            return cls(precision, without, W, whole=True)

    @property
    def base(self) -> Posterior:
        """The posterior without the chosen points."""
        return self.precision.posterior

    @property
    def exact(self) -> bool:
        """Whether it is exact everywhere."""
        return self.whole

    @property
    def points(self) -> Tensor:
        """Those of the base."""
        return self.base.points

    @property
    def amplitude(self) -> float:
        """That of the base."""
        return self.base.amplitude

    @property
    def rank(self) -> int:
        """Number of features r + c."""
        return self.base.rank + self.W.shape[-1]

    @property
    def points_together(self) -> int:
        """That of the base."""
        return self.base.points_together

    def parts(self, X: Tensor) -> Tensor | None:
        """Those of the base."""
        return self.base.parts(X)

    def augment(self, X: Tensor, noise: Tensor | float | None = None, Y: Tensor | None = None) -> Posterior:
        """The base given the chosen points and measurements at X (q x d)."""
        held = self.precision.P.diagonal() > 0.0
        if self.without is not None:
            held[self.without] = False
        return self.base.augment(self.precision.X[held]).augment(X, noise, Y)

    def to(self, *args: Any, **kwargs: Any) -> ConditionedPosterior:
        """The same posterior with another dtype or on another device."""
        return replace(self, precision=self.precision.to(*args, **kwargs), W=self.W.to(*args, **kwargs))

    def adapt(self, X: Tensor) -> ConditionedPosterior:
        """Exact at the points ... q x d, in value and gradient. O(s^2 c) for c points."""
        if self.whole:
            return self
        with torch.no_grad():
            X = X.detach().reshape(-1, X.shape[-1])
            C = self.base.cross_covar(self.precision.X, self.precision.F, X, self.base.features(X))  # s x c
            if self.without is not None:
                C[self.without] = 0.0
            W = self.precision.solve(C, self.without)
            M = C.mT @ W
            g, V = torch.linalg.eigh(0.5 * (M + M.mT))
            keep = g > 10 * len(g) * torch.finfo(g.dtype).eps * M.diagonal().sum()  # below is rounding
            return replace(self, W=W @ (V[:, keep] * g[keep].rsqrt()))

    def mean_variance_and_features(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, variance (... q) and features (... q x (r + c)): those of the base, then the explained C(X, S) W."""
        mean, variance, F = self.base.mean_variance_and_features(X)
        G = self._explained(X, F)
        return mean, (variance - G.square().sum(-1)).clamp_min(0.0), torch.cat([F, G], dim=-1)

    def cross_covar(self, X1: Tensor, F1: Tensor, X2: Tensor, F2: Tensor) -> Tensor:
        """Covariance between points whose features are known, ... p x d and ... q x d -> ... p x q."""
        r = self.base.rank
        return self.base.cross_covar(X1, F1[..., :r], X2, F2[..., :r]) - F1[..., r:] @ F2[..., r:].mT

    @cached_property
    def _explained(self) -> Callable[[Tensor, Tensor], Tensor]:
        """C(X, S) W from X and its features in the base, ... q x c."""
        return self.base.cross_covar_product(self.precision.X, self.precision.F, self.W)


def choose_given(precision: PrecisionMatrix, pool: Tensor, count: int, T: float, sign: float) -> Tensor:
    """The greedy choice of `count` points out of a pool (n x d) given the points chosen before, count x d.

    Args:
        precision: of the points chosen before.
        pool: candidates; given very many points, only the `COMPARED` best of them before any was chosen are compared.
        count: at most n.
        T: scaled temperature.
        sign: -1 where small targets are good.
    """
    given = ConditionedPosterior.of(precision)
    if not given.exact and len(pool) > max(COMPARED, 2 * count):
        best = score(precision.posterior, pool, T, sign).argsort(descending=True, stable=True)
        pool = pool[best[: max(COMPARED, 2 * count)].sort().values]
    rows, _ = greedy(given.adapt(pool), pool, count, T, sign)
    return pool[rows.to(pool.device)]


def joint_gains(posterior: Posterior, X: Tensor, T: float, sign: float = 1.0) -> Tensor:
    """What each point adds to a(X) after those before it, q; their sum is a(X) with the mean energy, exactly.

    sign mean_i + T/2 log(1 + v_i / sigma_i^2) with v_i given the points before, from one Cholesky factor of
    1 + Sigma^-1/2 C Sigma^-1/2. Memory: two q x q matrices.

    Args:
        posterior: of the surrogate.
        X: q x d.
        T: scaled temperature.
        sign: -1 where small targets are good.
    """
    with torch.no_grad():
        mean, _, F = posterior.mean_variance_and_features(X)
        if T == 0.0:
            return sign * mean
        s = posterior.noise(X).rsqrt()
        M = X.new_zeros(len(X), len(X))
        for first in range(0, len(X), FILLED_AT_ONCE):
            rows, left = (
                slice(first, first + FILLED_AT_ONCE),
                slice(0, first + FILLED_AT_ONCE),
            )  # the lower triangle is enough
            C = posterior.cross_covar(X[rows], F[rows], X[left], F[left])
            M[rows, left] = s[rows, None] * C * s[left]
        M.diagonal().add_(1.0)
        L, info = torch.linalg.cholesky_ex(M)
        if bool(info):
            raise ValueError(
                "1 + Sigma^-1/2 C Sigma^-1/2 lost its Cholesky factor to rounding; raise the noise variance"
            )
        return sign * mean + T * L.diagonal().log()
