r"""Solutions of (K + Sigma) X = B by preconditioned conjugate gradients, for n too large to factor K + Sigma.

Everything happens in whitened and preconditioned coordinates,

    A = M^-1/2 (Sigma^-1/2 K Sigma^-1/2 + 1) M^-1/2,     M = 1 + L L',

with L L' <= Sigma^-1/2 K Sigma^-1/2 a partial pivoted Cholesky factorisation. There A >= 1, whence the stopping rule:
for a column b with residual r (in these coordinates) the quadratic form that the solution x leaves behind,
b' (K + Sigma)^-1 b - x' (K + Sigma) x = r' A^-1 r, is at most |r|^2. Where b = k(Z, x) this is the posterior variance
that is still missing at x.

All columns share one block Krylov space: what costs is the evaluation of K, so that 64 columns cost little more than
one and need a fraction of the iterations. Fewer columns are joined by random ones.

Sources: Gardner et al. 2018 (BBMM: the preconditioner); O'Leary 1980 (block conjugate gradients); Dubrulle 2001 (its
form with orthonormal residuals, which breaks down on no dependent columns); Epperly, Tropp & Webber 2024 (pivots
drawn at random, block by block).
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
from .kernel_matrix import KernelMatrix
from .pivoted_cholesky import pivoted_cholesky

COLUMNS_TOGETHER = 64  # columns that are worth iterating on together, and pivots drawn together
RANKS = (100, 2048)  # of the preconditioner: an eighth of the rows, within these limits ...
PRECONDITIONER_NUMBERS = (
    2**27
)  # ... and so many numbers of L, 1 GB: beside products with all of K its own products cost little
RESTARTS = 3  # from the true residual, should rounding have led the recursion away from it


@dataclass(frozen=True)
class Solution:
    """X with (K + Sigma) X ~ B.

    Attributes:
        X: n x c.
        KX: (K + Sigma) X, n x c, from one product: what B - KX leaves is the true residual.
        iterations: products with K, beside those for the true residuals.
        residual: largest over the columns of |r| / |b|, whitened and preconditioned.
        converged: every column met its tolerance.
    """

    X: Tensor
    KX: Tensor
    iterations: int
    residual: float
    converged: bool


@dataclass(frozen=True)
class CovarianceSolver:
    """Solves with factor (K + Sigma), as `KernelPosterior.adapt` needs it (see `protocols.Solver`).

    Attributes:
        K: k(Z, Z).
        sigma2: n noise variances of the centers, above zero.
        rank: columns of the preconditioner's L, None by the number of rows.
        max_iterations: limit of the iterations of one solve.
        factor: a number above zero.
    """

    K: KernelMatrix
    sigma2: Tensor
    rank: int | None = None
    max_iterations: int = 1000
    factor: float = 1.0

    def solve(self, B: Tensor, error: Tensor) -> tuple[Tensor, Tensor]:
        """X and factor (K + Sigma) X, with X so close to the solution for B that b' x lacks at most `error`.

        Args:
            B: n x c.
            error: c.
        """
        found = self.solution(B, self.factor * error)
        return found.X / self.factor, found.KX

    def extend(self, Z: Tensor, sigma2: Tensor) -> CovarianceSolver:
        """The solver with p more centers (p x d) and their noise variances (p)."""
        return replace(self, K=self.K.with_rows(Z), sigma2=torch.cat([self.sigma2, sigma2 / self.factor]))

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
            relative: c or a number, ... or of |b|, whitened and preconditioned; the larger of the two counts, and not
                less than the rounding in a product.

        Warns:
            UserWarning: a column did not converge.

        Raises:
            InputError: K + Sigma is not positive definite, or B is not finite.
        """
        P, s = self.preconditioner, self.sigma2.sqrt().unsqueeze(-1)  # n x 1
        target = P(B / s)  # n x c
        norm = target.norm(dim=0)
        if not bool(torch.isfinite(norm).all()):
            raise InputError("the right-hand side of a linear solve is not finite; check inputs, kernel and noise")
        stop = torch.maximum(_like(error, B).sqrt(), _like(relative, B).clamp_min(100 * _eps(B)) * norm)  # c
        Y, rest, iterations = torch.zeros_like(target), target, 0
        for _ in range(RESTARTS):
            left = self.max_iterations - iterations
            step, used = conjugate_gradients(self._apply, self._joined(rest), stop, left, self.K.workers.first)
            Y, iterations = Y + step, iterations + used
            X = P(Y) / s
            KX = self.K @ X + self.sigma2.unsqueeze(-1) * X
            rest = self.K.workers.first(target - P(KX / s))
            size, rounding = rest.norm(dim=0), 8 * _eps(B) * P.largest * (s * X).norm(dim=0)
            converged = bool((size <= torch.maximum(2 * stop, rounding)).all())
            if converged or iterations >= self.max_iterations:
                break
        found = Solution(X, KX, iterations, float((size / norm.clamp_min(_eps(B))).max()), converged)
        if not converged:
            warnings.warn(
                f"conjugate gradients did not converge: relative residual {found.residual:.1e} after {iterations} "
                "iterations; raise the noise variance, the preconditioner's rank or the limit of iterations",
                stacklevel=2,
            )
        return found

    @cached_property
    def preconditioner(self) -> Preconditioner:
        """M^-1/2."""
        n, (least, most) = len(self.K), RANKS
        rank = max(least, min(most, n // 8, PRECONDITIONER_NUMBERS // n)) if self.rank is None else self.rank
        return Preconditioner.of(drawn_cholesky(self.K, self.sigma2, rank))

    def _apply(self, V: Tensor) -> Tensor:
        """M^-1/2 (Sigma^-1/2 K Sigma^-1/2 + 1) M^-1/2 V."""
        P, s = self.preconditioner, self.sigma2.sqrt().unsqueeze(-1)
        V = P(V)
        return P((self.K @ (V / s)) / s + V)

    def _joined(self, B: Tensor) -> Tensor:
        """B and random columns, COLUMNS_TOGETHER in all."""
        count = max(0, min(COLUMNS_TOGETHER, len(B)) - B.shape[-1])
        generator = torch.Generator().manual_seed(0)
        extra = torch.randn(len(B), count, generator=generator, dtype=B.dtype)
        return torch.cat([B, extra.to(B.device)], dim=-1)


@dataclass(frozen=True)
class Preconditioner:
    """(1 + L L')^-1/2 = 1 - L G L'.

    Attributes:
        L: n x k.
        G: k x k.
        largest: eigenvalue of 1 + L L', about that of the whitened matrix.
    """

    L: Tensor
    G: Tensor
    largest: float

    @classmethod
    def of(cls, L: Tensor) -> Preconditioner:
        """From the eigenvalues g of L' L: G = V diag((1 - (1 + g)^-1/2) / g) V'."""
        g, V = torch.linalg.eigh(L.mT @ L)
        root = (1 + g.clamp_min(0.0)).sqrt()
        return cls(L, (V / (root * (1 + root))) @ V.mT, float(1 + g[-1]))  # (1 - 1 / root) / (root^2 - 1)

    def __call__(self, V: Tensor) -> Tensor:
        """(1 + L L')^-1/2 V, n x c -> n x c."""
        return V - self.L @ (self.G @ (self.L.mT @ V))


def drawn_cholesky(K: KernelMatrix, sigma2: Tensor, rank: int, seed: int = 0) -> Tensor:
    """L with L L' <= Sigma^-1/2 K Sigma^-1/2, at rows drawn with probabilities proportional to what remains of them.

    Rows are drawn a block at a time, so that the work is in matrix products; of rows that say nearly the same the
    first is taken.

    Args:
        K: n x n.
        sigma2: n.
        rank: number of columns, fewer where nothing remains.
        seed: of the draws.

    Returns:
        n x k, k <= rank.
    """
    s, generator = sigma2.sqrt(), torch.Generator().manual_seed(seed)
    rest = K.diagonal() / sigma2  # n
    least = len(rest) * _eps(rest) * float(rest.max())
    L, done = rest.new_zeros(len(rest), min(rank, len(rest))), 0
    while done < L.shape[-1]:
        rest = K.workers.first(torch.where(rest > least, rest, 0.0))  # pivots must be the same on all workers
        count = min(COLUMNS_TOGETHER, L.shape[-1] - done, int(rest.count_nonzero()))
        if count == 0:
            break
        rows = torch.multinomial(rest.cpu(), count, generator=generator).to(s.device)
        C = K.rows(rows) / (s[rows].unsqueeze(-1) * s) - L[rows, :done] @ L[:, :done].mT  # count x n
        pivots = _independent(C[:, rows], max(least, float(rest[rows].mean()) / count))
        C, rows = C[pivots], rows[pivots]
        factor = torch.linalg.cholesky(0.5 * (C[:, rows] + C[:, rows].mT))
        new = torch.linalg.solve_triangular(factor, C, upper=False).mT  # n x pivots
        L[:, done : done + len(rows)] = new
        rest = rest - new.square().sum(-1)
        rest[rows] = 0.0
        done += len(rows)
    return L[:, :done]


def _independent(C: Tensor, floor: float) -> list[int]:
    """Rows of a small matrix by pivoted Cholesky: one by one the largest remainder, as long as it is above `floor`."""
    taken = iter(range(len(C)))

    def pivot(rest: Tensor) -> int | None:
        i = int(rest.argmax())
        return i if next(taken) == 0 or float(rest[i]) > floor else None

    return pivoted_cholesky(C.diagonal(), lambda i: C[i], pivot, torch.zeros_like(C))


def conjugate_gradients(
    apply: Callable[[Tensor], Tensor],
    B: Tensor,
    stop: Tensor,
    max_iterations: int,
    agree: Callable[[Tensor], Tensor] = lambda norms: norms,
) -> tuple[Tensor, int]:
    """Block conjugate gradients for A X = B with A positive definite.

        R = Q C with Q'Q = 1;    T = A P,  S = (P'T)^-1;    X += P S C;    Q D = Q - T S,  C <- D C,  P <- Q + P D'

    Args:
        apply: V -> A V.
        B: n x c.
        stop: norms that the residuals of the first columns must reach; the other columns only help.
        max_iterations: products with A at most.
        agree: makes the norms that decide when to stop the same on all workers.

    Returns:
        X for the first columns, n x len(stop), and the number of iterations.

    Raises:
        InputError: A is not positive definite.
    """
    wanted = len(stop)
    Q, C = torch.linalg.qr(B)
    P, X = Q, torch.zeros_like(B[:, :wanted])
    for iteration in range(max(0, max_iterations)):
        if bool((agree(C[:, :wanted].norm(dim=0)) <= stop).all()):
            return X, iteration
        T = apply(P)
        PT = P.mT @ T
        root, info = torch.linalg.cholesky_ex(0.5 * (PT + PT.mT))
        if bool(info.any()):
            raise InputError("the covariance of the measured rows is not positive definite: the kernel is no valid one")
        X = X + P @ torch.cholesky_solve(C[:, :wanted], root)
        Q, D = torch.linalg.qr(Q - T @ torch.cholesky_inverse(root))
        P, C = Q + P @ D.mT, D @ C
    return X, max_iterations


def _like(value: Tensor | float, B: Tensor) -> Tensor:
    return torch.as_tensor(value, dtype=B.dtype, device=B.device)


def _eps(B: Tensor) -> float:
    return torch.finfo(B.dtype).eps
