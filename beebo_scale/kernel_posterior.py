r"""The posterior of exact and approximate processes over a set of centers.

Exact GP, LOVE, SGPR and SVGP all have the same form over a set of centers Z (training rows or inducing points):

    mean(x)  = m(x) + k(x, Z) alpha
    F(x)     = k(x, Z) R                                 features, one row of length r for each x
    C(x, x') = k(x, x') - F(x) F(x')' + [F(x) S][F(x') S]'

`R` (the down-root) takes away what the data explain; `S` (the up-root, written in feature space, so that the up-root
over the centers is U = R S) gives back what a sparse surrogate does not know. Exact GP: R = L^-T with
L L' = K + Sigma and no S. LOVE: R R' ~ (K + Sigma)^-1 from below and no S. Whitened SVGP and SGPR: R = L^-T with
L L' = K_ZZ and S = chol of the whitened variational covariance.

Only surrogates use what it is made of; everything else reads it as a `Posterior`. Shapes: n centers, r rank, u columns
of S, q batch points.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import torch
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor
from torch.nn import Module

from .kernels.stationary import gram
from .linalg.roots import DenseRoot, Root, compressed, spanning_columns
from .posterior import Posterior, factor_of
from .protocols import Noise, Solver

P = TypeVar("P", bound="PriorPosterior")

FLOAT32_NOISE = 5e-5  # of the prior variance
DROWNED = "what float32 leaves in the covariance would count as information"


class PriorPosterior(Posterior):
    """A posterior of which the prior is known, so that it can be turned into one of other points or of sums of outputs.

    Attributes:
        kernel: prior covariance k, a gpytorch kernel with frozen parameters.
        prior_mean: prior mean m, ... q x d -> ... q (a gpytorch mean).
        noise: sigma^2(x) of a new measurement, ... q x d -> ... q.
        warp: map from the inputs that callers give to those of kernel, mean and centers; None is the identity.
        centers: measured or inducing points as the kernel takes them, n x d.
        prior_variance: A where the centers do not show it, None takes the mean of k(z, z) over them.
    """

    kernel: Kernel
    prior_mean: Mean
    centers: Tensor
    noise: Noise
    warp: Module | None
    prior_variance: float | None

    @cached_property
    def amplitude(self) -> float:
        """Prior variance A: the mean of k(z, z) over the centers (paper, section on the temperature)."""
        if self.prior_variance is not None:
            return self.prior_variance
        with torch.no_grad():
            return float(self.kernel(self.centers, diag=True).mean())

    def prior_covar(self, X1: Tensor, X2: Tensor) -> Tensor:
        """Prior covariance k between two sets of points, ... p x d and ... q x d -> ... p x q."""
        return gram(self.kernel, self._warped(X1), self._warped(X2))

    def changed(self: P, **parts: Any) -> P:
        """The same with another prior, noise or warp, by name."""
        return replace(self, **parts)  # type: ignore[type-var]  # all that are made are dataclasses

    def unwarped(self, Z: Tensor) -> Tensor:
        """Points before the warp, n x d; none (0 x d) where it cannot be undone."""
        warp: Any = self.warp
        try:
            return Z if warp is None else warp.untransform(Z)  # as botorch calls it
        except (AttributeError, NotImplementedError):
            return Z[:0]

    def _warped(self, X: Tensor) -> Tensor:
        """Inputs as kernel and mean take them, ... q x d."""
        T = X if self.warp is None else self.warp(X)
        if T.dim() < 2 or T.shape[-1] != self.centers.shape[-1]:
            raise ValueError(f"points come as ... x q x {self.centers.shape[-1]}, got shape {tuple(X.shape)}")
        return T


@dataclass(frozen=True)
class KernelPosterior(PriorPosterior):
    """`Posterior` in the form above.

    Attributes:
        kernel: prior covariance k, a gpytorch kernel with frozen parameters.
        prior_mean: prior mean m, ... q x d -> ... q (a gpytorch mean).
        centers: Z, n x d.
        weights: alpha, n.
        down: R, n x r.
        noise: sigma^2(x) of a new measurement, ... q x d -> ... q.
        up: S, r x u, or None.
        warp: map from the inputs that callers give to those of kernel, mean and centers, undone by its `untransform`
            if it has one (botorch's input transform, or columns added); None is the identity. The noise sees what
            callers give.
        prior_variance: A where the centers do not show it, None takes the mean of k(z, z) over them.
        solver: solves with K + Sigma where R R' is only part of its inverse (LOVE); None where nothing is left out.
    """

    kernel: Kernel
    prior_mean: Mean
    centers: Tensor
    weights: Tensor
    down: Root
    noise: Noise
    up: Tensor | None = None
    warp: Module | None = None
    prior_variance: float | None = None
    solver: Solver | None = None

    @property
    def rank(self) -> int:
        """Number of features r."""
        return self.down.rank

    @cached_property
    def points(self) -> Tensor:
        """The centers before the warp, n x d; none (0 x d) where it cannot be undone."""
        return self.unwarped(self.centers)

    @property
    def exact(self) -> bool:
        """Whether the root leaves nothing out, so that `adapt` has nothing to add."""
        return self.solver is None

    @property
    def dtype(self) -> torch.dtype:
        """Number format of the centers."""
        return self.centers.dtype

    @property
    def device(self) -> torch.device:
        """Where the centers lie."""
        return self.centers.device

    def mean(self, X: Tensor) -> Tensor:
        """Posterior mean m(x) + k(x, Z) alpha, ... q x d -> ... q."""
        X = self._warped(X)
        return self._mean(X, self._cross(X))

    def covar(self, X: Tensor) -> Tensor:
        """Posterior covariance of f, ... q x d -> ... q x q."""
        X = self._warped(X)
        return self._covar(X, self._features(X, self._cross(X)))

    def mean_and_covar(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """`mean` (... q) and `covar` (... q x q) from one evaluation of k(X, Z)."""
        X = self._warped(X)
        K = self._cross(X)
        return self._mean(X, K), self._covar(X, self._features(X, K))

    def mean_variance_and_features(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`mean`, `variance` (both ... q) and `features` (... q x r) from one evaluation of k(X, Z)."""
        X = self._warped(X)
        K = self._cross(X)
        F = self._features(X, K)
        return self._mean(X, K), self._variance(X, F), F

    def features(self, X: Tensor) -> Tensor:
        """F(x) = k(x, Z) R, ... q x d -> ... q x r: all that a covariance needs beside the prior."""
        X = self._warped(X)
        return self._features(X, self._cross(X))

    def cross_covar(self, X1: Tensor, F1: Tensor, X2: Tensor, F2: Tensor) -> Tensor:
        """Covariance k(X1, X2) - F1 F2' + F1 S S' F2' from known features, ... p x q."""
        C = self.prior_covar(X1, X2) - F1 @ F2.mT
        return C if self.up is None else C + (F1 @ self.up) @ (F2 @ self.up).mT

    def cross_covar_product(self, S: Tensor, F_S: Tensor, W: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
        """(X, F) -> C(X, S) W = k(X, S) W - F (1 - S S') F_S' W, without C(X, S); the last factor is computed once."""
        D = F_S.mT @ W  # r x c
        return functools.partial(self._product, S, W, D if self.up is None else D - self.up @ (self.up.mT @ D))

    def _product(self, S: Tensor, W: Tensor, D: Tensor, X: Tensor, F: Tensor) -> Tensor:
        prior = self.prior_covar(X.reshape(-1, X.shape[-1]), S) @ W
        return prior.reshape(*X.shape[:-1], -1) - F @ D

    def augment(self, X: Tensor, noise: Tensor | float | None = None, Y: Tensor | None = None) -> KernelPosterior:
        """This posterior conditioned on measurements at X; exact conditioning, O(n r q + q^3).

            Z <- [Z; X]   R <- [[R, -P L^-T], [0, L^-T]]   S <- [S; 0]     with L L' = C(X, X) + Sigma
            alpha <- [alpha; 0] + R_new L^-1 (y - mean(X))                 P = R (1 - S S') F(X)'

        Args:
            X: q x d points.
            noise: their variance, a number or q; None takes the posterior's own `noise(X)`.
            Y: measured values, q; None conditions the covariance only and leaves the mean.

        Raises:
            ValueError: X is no matrix, shapes disagree, a noise variance is negative, or C + Sigma is not positive
                definite.
        """
        X, sigma2 = self.checked(X, noise, Y)
        with torch.no_grad():
            T = self._warped(X)
            K = self._cross(T)
            F = self._features(T, K)  # q x r
            L = factor_of(self._covar(T, F) + torch.diag_embed(sigma2))
            B = F if self.up is None else F - (F @ self.up) @ self.up.mT  # q x r
            down = self.down.extend(B, L)
            up = _padded(self.up, len(T))
            weights = torch.cat([self.weights, self.weights.new_zeros(len(T))])
            if Y is not None:
                residual = Y.to(self.centers).reshape(-1, 1) - self._mean(T, K).unsqueeze(-1)  # q x 1
                z = torch.linalg.solve_triangular(L, residual, upper=False)  # q x 1
                new = torch.cat([z.new_zeros(self.rank, 1), z])  # (r + q) x 1
                weights = weights + down.expand(new).squeeze(-1)
        solver = None if self.solver is None else self.solver.extend(T, sigma2)
        return replace(self, centers=torch.cat([self.centers, T]), weights=weights, down=down, up=up, solver=solver)

    def adapt(self, X: Tensor, tolerance: float = 1e-8) -> KernelPosterior:
        """This posterior with a root that is exact at X, in value and gradient; of use where R R' < (K + Sigma)^-1.

        The root also spans W = (K + Sigma)^-1 k(Z, X). Away from X it is no worse than before, and C remains never too
        small. The mean is untouched, and exact and sparse posteriors, which leave nothing out, are returned as they
        are. The rank grows by the number of points; adapt the posterior that you started from when X has moved.

        Args:
            X: ... q x d points, one root for all batches.
            tolerance: how far the variance may be off at each point, in units of the noise variance.
        """
        if self.solver is None:
            return self
        with torch.no_grad():
            X = X.detach().to(self.centers)
            B = self._cross(self._warped(X)).mT  # n x c
            W, KW = self.solver.solve(B, tolerance * self.noise(X).reshape(-1))
        return self.spanning(W, KW)

    def spanning(self, W: Tensor, KW: Tensor) -> KernelPosterior:
        """This posterior with the columns W added to what its root spans.

        R' (K + Sigma) R = 1 holds before and after (see `spanning_columns`), so that R R' stays a Galerkin projection,
        from below, whatever W is.

        Args:
            W: n x c.
            KW: (K + Sigma) W, n x c.
        """
        with torch.no_grad():
            columns = spanning_columns(self.down, W, KW)
        return replace(self, down=self.down.join(columns), up=_padded(self.up, columns.shape[-1]))

    def compress(self, rank: int) -> KernelPosterior:
        """This posterior with `rank` features: those that explain most variance at the centers.

        R <- R V with V the leading eigenvectors of F(Z)' F(Z). V has orthonormal columns, so R V V' R' <= R R': the
        covariance, and with it the information gain, can only grow. The mean is untouched. O(n^2 r). With an up-root,
        the (rare) directions in which the posterior knows less than the prior are all kept, as extra features.

        Raises:
            ValueError: rank < 1.
        """
        if rank < 1:
            raise ValueError(f"a rank is at least 1, got {rank}")
        if rank >= self.rank:
            return self
        with torch.no_grad():
            moment = self.centers.new_zeros(self.rank, self.rank)  # F(Z)' F(Z), r x r
            for Z in self.centers.split(1024):  # in chunks: no n x n matrix beside the root
                F = self.down.features(self._cross(Z))
                moment += F.mT @ F
            down, up = compressed(self.down, self.up, moment, rank)
        return replace(self, down=down, up=up)

    def compress_at(self, X: Tensor) -> KernelPosterior:
        """This posterior with one feature for each of q points (q x d): those that are exact there.

        R <- R V with V an orthonormal basis of the rows of F(X), so the covariance can only grow, as in `compress`,
        and is exact at X. The mean is untouched. O(n^2 q). One with an up-root, or no more features, stays as it is.
        """
        if self.up is not None or len(X) >= self.rank:
            return self
        with torch.no_grad():
            V = torch.linalg.qr(self.features(X).mT).Q  # r x q
            return replace(self, down=DenseRoot(self.down.expand(V)), solver=None)

    def to(self, *args: Any, **kwargs: Any) -> KernelPosterior:
        """The same posterior with another dtype or on another device (arguments as in `torch.Tensor.to`).

        Raises:
            ValueError: float32, which would leave more in C than the noise (see `drowned`).
        """
        moved = replace(
            self,
            kernel=copy.deepcopy(self.kernel).to(*args, **kwargs),
            prior_mean=copy.deepcopy(self.prior_mean).to(*args, **kwargs),
            centers=self.centers.to(*args, **kwargs),
            weights=self.weights.to(*args, **kwargs),
            down=self.down.to(*args, **kwargs),
            noise=self.noise.to(*args, **kwargs),
            up=None if self.up is None else self.up.to(*args, **kwargs),
            warp=None if self.warp is None else copy.deepcopy(self.warp).to(*args, **kwargs),
            solver=None if self.solver is None else self.solver.to(*args, **kwargs),
        )
        if moved.dtype == torch.float32 != self.dtype and drowned(self):
            raise ValueError(f"the noise variance is below {FLOAT32_NOISE:g} of the prior's: {DROWNED}; use float64")
        return moved

    def _cross(self, T: Tensor) -> Tensor:
        """k(T, Z), all batches in one matrix as all share the centers: ... q x d -> p x n, p = product(...) q."""
        return gram(self.kernel, T.reshape(-1, T.shape[-1]), self.centers)

    def _features(self, X: Tensor, K: Tensor) -> Tensor:
        return self.down.features(K).reshape(*X.shape[:-1], self.rank)

    def _mean(self, X: Tensor, K: Tensor) -> Tensor:
        return self.prior_mean(X) + (K @ self.weights).reshape(X.shape[:-1])

    def _covar(self, X: Tensor, F: Tensor) -> Tensor:
        C = gram(self.kernel, X, X) - _SelfProduct.apply(F)
        if self.up is None:
            return C
        G = F @ self.up
        return C + G @ G.mT

    def _variance(self, X: Tensor, F: Tensor) -> Tensor:
        v = self.kernel(X, diag=True) - F.square().sum(-1)
        if self.up is not None:
            v = v + (F @ self.up).square().sum(-1)
        return v.clamp_min(0.0)  # a variance; rounding may leave it a few ulp below zero at a noiseless center


def drowned(posterior: Posterior) -> bool:
    """Whether the noise is so small beside the prior variance that float32 would decide the information gain.

    A root in float32 leaves 1e-7 to 1e-6 of the prior variance in C. With 1,500 rows I was 0.1 % off at a noise
    variance of 0.01 of the prior's, 2 % at 1e-4 and 51 % at 1e-5; with more rows the last came out negative.
    """
    with torch.no_grad():
        least = min((float(posterior.noise(X).min()) for X in posterior.points.split(1024) if len(X)), default=math.inf)
    return least < FLOAT32_NOISE * posterior.amplitude


def with_prior(posterior: Posterior) -> PriorPosterior:
    """The posterior itself, for what has to change its kernel.

    Raises:
        ValueError: it is no `PriorPosterior`.
    """
    if not isinstance(posterior, PriorPosterior):
        raise ValueError(f"tasks and batches need a PriorPosterior, got {type(posterior).__name__}")
    return posterior


def over_centers(posterior: Posterior) -> KernelPosterior:
    """The posterior itself, for what has to change its weights.

    Raises:
        ValueError: it is no `KernelPosterior`.
    """
    if not isinstance(posterior, KernelPosterior):
        raise ValueError(f"weighted outputs need a KernelPosterior, got {type(posterior).__name__}")
    return posterior


def _padded(up: Tensor | None, count: int) -> Tensor | None:
    """[S; 0]: S for a root with more columns."""
    return None if up is None else torch.cat([up, up.new_zeros(count, up.shape[-1])])


class _SelfProduct(torch.autograd.Function):
    """F F', ... q x r -> ... q x q. Autograd would take it for a product of two matrices, at twice the work."""

    @staticmethod
    def forward(ctx: Any, F: Tensor) -> Tensor:
        ctx.save_for_backward(F)
        return F @ F.mT

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (F,) = ctx.saved_tensors
        return (grad + grad.mT) @ F
