r"""What SGPR and SVGP share: choice of inducing points, what rows say about them, and the posterior over them.

Whitened, v ~ N(0, 1) with f(Z) = L v and L L' = K_ZZ. A row with features a_i = L^-1 k(Z, x_i), residual r_i and noise
sigma_i^2 enters every bound through three sums only (Titsias 2009; Hensman, Fusi & Lawrence 2013):

    P = sum_i a_i a_i' / sigma_i^2       b = sum_i a_i r_i / sigma_i^2
    c = -1/2 sum_i [ log(2 pi sigma_i^2) + (r_i^2 + k(x_i, x_i)) / sigma_i^2 ]

The best q(v) is N(B^-1 b, B^-1) with B = 1 + P. A q(v) of that form is kept as (P, b), and its posterior needs a single
down-root: with P = V diag(p) V',

    R = L^-T V diag( p / (1 + p) )^1/2      C = k(x, x') - F F',  F = k(x, Z) R,

where F F' can never exceed the prior. K_ZZ gets a relative jitter: that is the inducing variable f(Z) + noise instead
of f(Z), another valid choice with a bound that is valid and a little lower. Nothing is added to k(x, x').

Unlike a low-rank root over the rows, this C is no upper bound of the exact one: where inducing points say little, it
stays at the prior (far above); at them, q(v) trusts rows as if the points explained these fully (a little below).
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import torch
from gpytorch.kernels import Kernel
from torch import Tensor
from torch.autograd.function import once_differentiable

from ...errors import InputError
from ...kernel_posterior import KernelPosterior
from ...kernels.stationary import freeze, gram, live_gram
from ...linalg.pivoted_cholesky import pivoted_cholesky
from ...linalg.roots import DenseRoot
from ...protocols import Noise
from ..data.observations import Observations
from ..gaussian_process.gaussian_process import GaussianProcess

JITTER = 1e-8  # of the mean of k(z, z), added to K_ZZ: far above rounding in float64 up to some 10^4 points
FLOAT32_JITTER = 1e-6  # where L^-1 k(Z, x) is computed in float32: its error is 1e-7 / sqrt(jitter)


def select_inducing_points(
    kernel: Kernel, X: Tensor, m: int, seed: int = 0, pool: int | None = None, tolerance: float = JITTER
) -> Tensor:
    """Rows drawn one by one, each with probability proportional to its variance given those drawn before.

    This is randomly pivoted Cholesky of k(X, X), stopped after m pivots: near the best trace of k(X, X) - Q that m rows
    can reach (Chen, Epperly, Tropp & Webber, CPAM 78, 2025). Always taking the largest variance (Burt, Rasmussen & van
    der Wilk, JMLR 21, 2020) spends the points on outlying rows: on four UCI sets it gave a lower bound each time.
    Drawn from a random part of the rows: O(pool m^2) time, O(pool m) memory. Where a part has fewer than m rows that
    differ the choice goes on over the next part.

    Args:
        kernel: k, with the hyperparameters for which the choice shall be good.
        X: n x d.
        m: number of points wanted.
        seed: of the random parts and the draws.
        pool: rows in a part; None takes 20 m, at most 10,000, at least m.
        tolerance: variance left, relative to the largest k(x, x), that counts as rounding.

    Returns:
        At most m rows of X; fewer if no row is left about which the others leave any doubt.

    Raises:
        ValueError: m < 1 or no rows.
    """
    if m < 1 or len(X) < 1:
        raise ValueError(f"selection takes one point or more from one row or more, got m = {m} of {len(X)} rows")
    pool = max(m, min(20 * m, 10_000)) if pool is None else pool
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(X), generator=generator).to(X.device)
    draws = torch.rand(m, generator=generator, dtype=torch.float64).to(X)
    kernel, Z = freeze(kernel), X[:0]
    with torch.no_grad():
        for part in order.split(pool):
            Z = torch.cat([Z, _draw(kernel, X[part], Z, draws[len(Z) :], tolerance)])
            if len(Z) == m:
                break
    return Z


def _draw(kernel: Kernel, X: Tensor, Z: Tensor, draws: Tensor, tolerance: float) -> Tensor:
    """Further rows of X given the points Z, one for each draw (uniform in [0, 1)) while any is left: ... x d."""
    known, m = len(Z), len(Z) + len(draws)
    F = X.new_empty(m, len(X))  # rows of the Cholesky factor, transposed
    left = kernel(X, diag=True).clone()  # variance left, n
    floor = tolerance * left.max()
    if known:
        L = prior_factor(kernel, Z, 0.01 * tolerance)  # what jitter leaves of their own variance is below the floor
        F[:known] = torch.linalg.solve_triangular(L, gram(kernel, Z, X), upper=False)
        left -= F[:known].square().sum(0)
    draw = iter(draws)

    def pivot(left: Tensor) -> int | None:
        mass = torch.where(left > floor, left, 0.0).cumsum(0)
        if not float(mass[-1]) > 0.0:
            return None
        return int(torch.searchsorted(mass, next(draw) * mass[-1], right=True))  # never a row without mass

    return X[pivoted_cholesky(left, lambda i: gram(kernel, X[i : i + 1], X).squeeze(0), pivot, F, known)]


def prior_factor(kernel: Kernel, Z: Tensor, jitter: float) -> Tensor:
    """Factor L with L L' = K_ZZ + jitter mean(diag K_ZZ), m x m, differentiable.

    Raises:
        InputError: not positive definite.
    """
    K = live_gram(kernel, Z, Z)
    L, info = torch.linalg.cholesky_ex(K + torch.diag_embed((jitter * K.diagonal().mean()).expand(len(Z))))
    if bool(info.any()) or not bool(L.isfinite().all()):
        raise InputError(
            f"the covariance of the {len(Z)} inducing points is not positive definite: points repeat each other, "
            "hyperparameters are not finite, or the kernel is not a valid one; choose the points again by "
            "select_inducing_points, or raise the jitter"
        )
    return L


@dataclass(frozen=True)
class Moments:
    """What rows say about the whitened inducing variables.

    Attributes:
        P: m x m.
        b: m.
        c: scalar.
    """

    P: Tensor
    b: Tensor
    c: Tensor


def moments(gp: GaussianProcess, Z: Tensor, L: Tensor, rows: Observations) -> Moments:
    """The three sums over rows, differentiable in hyperparameters, Z and L, in the number format of the rows.

    Replicates enter as in `log_marginal_likelihood`: their mean by sigma^2 / count, their scatter through c.

    Args:
        gp: prior and noise.
        Z: m x d.
        L: m x m factor of K_ZZ.
        rows: n observations.
    """
    dtype = rows.X.dtype
    noise = gp.noise_of(rows).to(dtype)  # n
    residual = rows.y - gp.mean(rows.X).to(dtype)  # n
    K = live_gram(gp.kernel, Z.to(dtype), rows.X)  # m x n
    P, b = _WhitenedSums.apply(K, L.to(dtype), noise.reciprocal(), residual)
    prior = gp.kernel(rows.X, diag=True).to(dtype)  # n
    c = -0.5 * (torch.log(2 * math.pi * noise) + (residual.square() + prior) / noise).sum()
    if rows.noise is None:
        sigma2, spare = gp.measurement_noise(rows.X).to(dtype), rows.count - 1  # n, n
        c = c - 0.5 * (spare * torch.log(2 * math.pi * sigma2) + rows.scatter / sigma2 + rows.count.log()).sum()
    return Moments(P, b, c)


class _WhitenedSums(torch.autograd.Function):
    """Sums P = A diag(w) A' and b = A (w r) with A = L^-1 K: m x n, m x m, n, n -> m x m, m.

    The gradient in L is that of a change of coordinates, so it needs P and b only.
    """

    @staticmethod
    def forward(ctx: Any, K: Tensor, L: Tensor, w: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
        A = torch.linalg.solve_triangular(L, K, upper=False)
        Aw = A * w
        P, b = Aw @ A.mT, Aw @ r
        ctx.save_for_backward(A, L, w, r, P, b)
        return P, b

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, G: Tensor, g: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor, Tensor]:
        A, L, w, r, P, b = ctx.saved_tensors
        G = 0.5 * (G + G.mT)
        GA, gA = G @ A, g @ A  # m x n, n
        grad_K = grad_L = None
        if ctx.needs_input_grad[0]:
            grad_A = (2 * GA).addr_(g, r).mul_(w)
            grad_K = torch.linalg.solve_triangular(L.mT, grad_A, upper=True)
        if ctx.needs_input_grad[1]:
            grad_L = factor_gradient(L, G, g, P, b)
        return grad_K, grad_L, (A * GA).sum(0) + gA * r, w * gA


def factor_gradient(L: Tensor, G: Tensor, g: Tensor, P: Tensor, b: Tensor) -> Tensor:
    """Gradient in L of f(P, b) with G = df/dP symmetric, g = df/db, where P = L^-1 Phi L^-T and b = L^-1 phi."""
    return -torch.linalg.solve_triangular(L.mT, 2 * G @ P + torch.outer(g, b), upper=True).tril()


def inducing_posterior(
    gp: GaussianProcess, Z: Tensor, L: Tensor, P: Tensor, b: Tensor, noise: Noise
) -> KernelPosterior:
    """The posterior under q(v) = N(B^-1 b, B^-1), B = 1 + P, with a single down-root.

    Args:
        gp: prior.
        Z: m x d.
        L: m x m factor of K_ZZ.
        P: m x m, positive semidefinite.
        b: m.
        noise: of a new measurement.
    """
    with torch.no_grad():
        size, V = torch.linalg.eigh(P)
        seen = size > torch.finfo(size.dtype).eps * size[-1]  # the others are rounding
        size, V = size[seen], V[:, seen]
        R = torch.linalg.solve_triangular(L.mT, V * (size / (1 + size)).sqrt(), upper=True)
        eye = torch.eye(len(P), dtype=P.dtype, device=P.device)
        v = torch.cholesky_solve(b.unsqueeze(-1), torch.linalg.cholesky(eye + P))  # E v, m x 1
        weights = torch.linalg.solve_triangular(L.mT, v, upper=True).squeeze(-1)
        gp = copy.deepcopy(gp).requires_grad_(False)
        return KernelPosterior(freeze(gp.kernel), gp.mean, Z.detach().clone(), weights, DenseRoot(R), noise)
