r"""Solutions of (K + Sigma) X = B by preconditioned conjugate gradients, for n too large to factor K + Sigma.

Everything happens in whitened coordinates,

    A = W (K + Sigma) W',     W'W = P^-1,     P = F F' + blockdiag(k - F F') + Sigma

with P the covariance of blocks beside inducing points (`block_preconditioner`). For a column b with residual r (in
these coordinates) the quadratic form that the solution x leaves behind, b' (K + Sigma)^-1 b - x' (K + Sigma) x =
r' A^-1 r, is at most |r|^2 over the least eigenvalue of A, for which the least Rayleigh quotient stands that the
iterations met. Where b = k(Z, x) this is the posterior variance that is still missing at x; where b = y - m, a share
e^2 of b' (K + Sigma)^-1 b that is missing means that the mean is off by about e standard deviations of a prediction.

All columns share one block Krylov space: what costs is the evaluation of K, so that 64 columns cost little more than
one and need fewer iterations. Fewer columns are joined by random ones. The products of the recursion are in float32,
a third of the time; true residuals, from which it starts again, are in float64, so that the solution does not know.

Sources: O'Leary 1980 (block conjugate gradients); Dubrulle 2001 (its form with orthonormal residuals, which breaks down
on no dependent columns); Snelson and Ghahramani 2007 (the preconditioner as a covariance).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from .block_preconditioner import BlockPreconditioner
from .keops import COLUMNS
from .kernel_matrix import KernelMatrix

COLUMNS_TOGETHER = 64  # columns that are worth iterating on together
PASSES = 8  # from the true residual, each until ...
GAIN = 1e-3  # ... residuals of the recursion in float32 have shrunk so far; in float64 they go on to the end
FLOAT32_NOISE = 1e-5  # of the prior variance: with less noise products in float32 lead the recursion astray


@dataclass(frozen=True)
class Solution:
    """X with (K + Sigma) X ~ B.

    Attributes:
        X: n x c.
        KX: (K + Sigma) X, n x c, from one product: what B - KX leaves is the true residual.
        iterations: products with K, beside those for the true residuals.
        residual: largest over the columns of |r| / |b|, whitened.
        lacks: c, estimates of b' (K + Sigma)^-1 b - x' (K + Sigma) x.
        share: c, the root of that relative to b' (K + Sigma)^-1 b.
        converged: every column met its tolerance.
    """

    X: Tensor
    KX: Tensor
    iterations: int
    residual: float
    lacks: Tensor
    share: Tensor
    converged: bool


@dataclass(frozen=True)
class CovarianceSolver:
    """Solves with factor (K + Sigma), as `KernelPosterior.adapt` needs it (see `protocols.Solver`).

    Attributes:
        K: k(Z, Z).
        sigma2: n noise variances of the centers, above zero.
        size: rows of a block of the preconditioner, and its inducing points; None by the number of rows.
        max_iterations: limit of the iterations of one solve.
        factor: a number above zero.
        low: number format of the preconditioner and of the products of the recursion; None that of the centers.
    """

    K: KernelMatrix
    sigma2: Tensor
    size: int | None = None
    max_iterations: int = 1000
    factor: float = 1.0
    low: torch.dtype | None = torch.float32

    def solve(self, B: Tensor, error: Tensor) -> tuple[Tensor, Tensor]:
        """X and factor (K + Sigma) X, with X so close to the solution for B that b' x lacks at most `error`.

        Args:
            B: n x c.
            error: c.
        """
        found = self.solution(B, self.factor * error)
        return found.X / self.factor, found.KX

    def extend(self, Z: Tensor, sigma2: Tensor) -> CovarianceSolver:
        """The solver with p more centers (p x d) and their noise variances (p); of several blocks they are one more."""
        sigma2, n = sigma2 / self.factor, len(self.K)
        more = replace(self, K=self.K.with_rows(Z), sigma2=torch.cat([self.sigma2, sigma2]))
        known = vars(self).get("preconditioner")
        if known is not None and len(known.blocks) > 1:
            rows = torch.arange(n, n + len(Z), device=Z.device)
            vars(more)["preconditioner"] = known.extend([(rows, Z, sigma2)], known.blocks[0].L.dtype)
        return more

    def scaled(self, c: float) -> CovarianceSolver:
        """The solver for c factor (K + Sigma)."""
        return replace(self, factor=c * self.factor)

    def to(self, *args: Any, **kwargs: Any) -> CovarianceSolver:
        """The same solver with another dtype or on another device."""
        return replace(self, K=self.K.to(*args, **kwargs), sigma2=self.sigma2.to(*args, **kwargs))

    def solution(self, B: Tensor, error: Tensor | float = 0.0, relative: Tensor | float = 0.0) -> Solution:
        """X with (K + Sigma) X ~ B.

        Args:
            B: n x c.
            error: c or a number, what a column may leave of b' (K + Sigma)^-1 b ...
            relative: c or a number, ... or the root of that relative to b' P^-1 b; the larger of the two counts, and
                not less than the rounding in a product.

        Warns:
            UserWarning: a column did not converge.

        Raises:
            InputError: K + Sigma is not positive definite, or B is not finite.
        """
        P, low = self.preconditioner, self._low
        norm = self.K.workers.first(P.whiten(B).norm(dim=0))
        if not bool(torch.isfinite(norm).all()):
            raise InputError("the right-hand side of a linear solve is not finite; check inputs, kernel and noise")
        stop = torch.maximum(_like(error, B).sqrt(), _like(relative, B).clamp_min(100 * _eps(B)) * norm)  # c
        X, KX, size, done, least = torch.zeros_like(B), torch.zeros_like(B), norm, 0, 1.0
        for _ in range(PASSES):
            goal = stop if low is None else torch.maximum(stop, GAIN * size)
            R, left = self._joined(P.whiten(B - KX)), self.max_iterations - done
            run = conjugate_gradients(self._applied(low), R, goal, left, self.K.workers.first, least)
            if run.indefinite and low is None:
                raise InputError("the covariance of the measured rows is not positive definite: the kernel is none")
            X, done, least = X + P.unwhiten(run.X), done + run.iterations, run.least
            KX, before = self.K @ X + self.sigma2.unsqueeze(-1) * X, size
            size = self.K.workers.first(P.whiten(B - KX).norm(dim=0))
            rounding = 8 * _eps(B) * P.largest * X.norm(dim=0) / self.sigma2.min().sqrt()
            converged = bool((size <= torch.maximum(2 * least**0.5 * stop, rounding)).all())
            if converged or done >= self.max_iterations:
                break
            if run.indefinite or bool((size > torch.maximum(0.1 * before, 2 * goal)).any()):
                low = None  # float32 leads astray
        lacks = size.square() / least
        share = (lacks / ((X * KX).sum(0) + lacks).clamp_min(_eps(B))).sqrt()
        found = Solution(X, KX, done, float((size / norm.clamp_min(_eps(B))).max()), lacks, share, converged)
        if not converged:
            warnings.warn(
                f"conjugate gradients did not converge: relative residual {found.residual:.1e} after {done} "
                "iterations; raise the noise variance or the limit of iterations",
                stacklevel=2,
            )
        return found

    @cached_property
    def preconditioner(self) -> BlockPreconditioner:
        """W."""
        return BlockPreconditioner.of(self.K.kernel, self.K.Z, self.sigma2, self.size, self.low or self.K.Z.dtype)

    @property
    def _low(self) -> torch.dtype | None:
        """Number format of the recursion, None where it is that of the centers: much noise, and more than one step."""
        enough = bool(self.sigma2.min() >= FLOAT32_NOISE * self.K.diagonal().max())
        several = len(self.preconditioner.blocks) > 1
        return self.low if enough and several and self.low != self.K.Z.dtype else None

    def _applied(self, low: torch.dtype | None) -> Callable[[Tensor], Tensor]:
        """V -> W (K + Sigma) W' V."""
        P, K = self.preconditioner, self.K if low is None else replace(self.K, product_dtype=low)
        sigma2 = self.sigma2.unsqueeze(-1)

        def apply(V: Tensor) -> Tensor:
            U = P.unwhiten(V.to(low or V.dtype))
            return P.whiten((K @ U + sigma2 * U).to(U)).to(V)

        return apply

    def _joined(self, B: Tensor) -> Tensor:
        """B and random columns, COLUMNS_TOGETHER in all; as few as KeOps computes where it was asked for."""
        count = max(0, min(COLUMNS if self.K.keops else COLUMNS_TOGETHER, len(B)) - B.shape[-1])
        generator = torch.Generator().manual_seed(0)
        extra = torch.randn(len(B), count, generator=generator, dtype=B.dtype)
        return torch.cat([B, extra.to(B.device)], dim=-1)


@dataclass(frozen=True)
class Run:
    """What conjugate gradients found.

    Attributes:
        X: n x c.
        iterations: products with A.
        least: Rayleigh quotient of A that was met, at most 1.
        indefinite: the run ended at a direction in which A is not positive.
    """

    X: Tensor
    iterations: int
    least: float
    indefinite: bool = False


def conjugate_gradients(
    apply: Callable[[Tensor], Tensor],
    B: Tensor,
    stop: Tensor,
    max_iterations: int,
    agree: Callable[[Tensor], Tensor] = lambda norms: norms,
    least: float = 1.0,
) -> Run:
    """Block conjugate gradients for A X = B with A positive definite.

        R = Q C with Q'Q = 1;    T = A P,  S = (P'T)^-1;    X += P S C;    Q D = Q - T S,  C <- D C,  P <- Q + P D'

    Args:
        apply: V -> A V.
        B: n x c.
        stop: what residuals of the first columns must reach, times the root of the least Rayleigh quotient (at most
            1); the other columns only help.
        max_iterations: products with A at most.
        agree: makes the norms that decide when to stop the same on all workers.
        least: Rayleigh quotient that is known already.
    """
    wanted = len(stop)
    Q, C = torch.linalg.qr(B)
    P, X = Q, B.new_zeros(len(B), wanted)
    for iteration in range(max(0, max_iterations)):
        if bool((agree(C[:, :wanted].norm(dim=0)) <= least**0.5 * stop).all()):
            return Run(X, iteration, least)
        T = apply(P)
        PT = 0.5 * (P.mT @ T + T.mT @ P)
        root, info = torch.linalg.cholesky_ex(PT)
        if bool(info.any()):
            return Run(X, iteration + 1, least, indefinite=True)
        least = min(least, float(agree(_least_quotient(PT, P.mT @ P))))
        X = X + P @ torch.cholesky_solve(C[:, :wanted], root)
        Q, D = torch.linalg.qr(Q - T @ torch.cholesky_inverse(root))
        P, C = Q + P @ D.mT, D @ C
    return Run(X, max(0, max_iterations), least)


def _least_quotient(PAP: Tensor, PP: Tensor) -> Tensor:
    """Least v' P'A P v / v' P'P v: a scalar."""
    root = torch.linalg.cholesky(PP)
    half = torch.linalg.solve_triangular(root, PAP, upper=False)
    return torch.linalg.eigvalsh(torch.linalg.solve_triangular(root, half.mT, upper=False))[0]


def _like(value: Tensor | float, B: Tensor) -> Tensor:
    return torch.as_tensor(value, dtype=B.dtype, device=B.device)


def _eps(B: Tensor) -> float:
    return torch.finfo(B.dtype).eps
