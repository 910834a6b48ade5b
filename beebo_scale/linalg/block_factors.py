r"""What inducing points carry, and the factor of a block of rows beyond that.

    F(x) = k(x, Z) L^-T,  L L' = k(Z, Z)       L_b L_b' = k(X_b, X_b) - F_b F_b' + Sigma_b       E_b = L_b^-1 F_b

of the partially independent conditional (Snelson and Ghahramani 2007), and of the matrix F F' + blockdiag(k - F F') +
Sigma as a preconditioner. k(Z, Z) gets a relative jitter: F F' then explains a little less, never too much, and nothing
is added to k between rows of a block.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from ..errors import InputError
from ..kernels.stationary import gram

JITTER = 1e-8  # of the mean of k(z, z)


@dataclass(frozen=True)
class Inducing:
    """Inducing points and the features that they give.

    Attributes:
        kernel: k, parameters frozen.
        Z: m x d, as the kernel takes them.
        L: m x m, factor of k(Z, Z).
    """

    kernel: Kernel
    Z: Tensor
    L: Tensor

    @classmethod
    def of(cls, kernel: Kernel, Z: Tensor, jitter: float = JITTER) -> Inducing:
        """With the factor of k(Z, Z).

        Raises:
            InputError: it is not positive definite.
        """
        with torch.no_grad():
            K = gram(kernel, Z, Z)
            K.diagonal().add_(jitter * K.diagonal().mean())
            L, info = torch.linalg.cholesky_ex(K)
        if bool(info.any()) or not bool(L.isfinite().all()):
            raise InputError(
                f"the covariance of the {len(Z)} inducing points is not positive definite: points repeat each other, "
                "or the kernel is not a valid one; choose other points"
            )
        return cls(kernel, Z, L)

    def __len__(self) -> int:
        return len(self.Z)

    def features(self, X: Tensor) -> Tensor:
        """F(x), ... q x d -> ... q x m, differentiable in X; those of no batch in one product."""
        K = gram(self.kernel, X.reshape(-1, X.shape[-1]), self.Z)
        F = torch.linalg.solve_triangular(self.L.mT, K, upper=True, left=False)
        return F.reshape(*X.shape[:-1], len(self.Z))

    def to(self, *args: Any, **kwargs: Any) -> Inducing:
        """The same with another dtype or on another device."""
        kernel = copy.deepcopy(self.kernel).to(*args, **kwargs)
        return replace(self, kernel=kernel, Z=self.Z.to(*args, **kwargs), L=self.L.to(*args, **kwargs))


@dataclass(frozen=True)
class BlockFactor:
    """Of a block of n rows.

    Attributes:
        X: n x d, as the kernel takes them.
        L: L_b, n x n.
        E: E_b = L_b^-1 F_b, n x m.
    """

    X: Tensor
    L: Tensor
    E: Tensor

    def residual(self, K: Tensor, F: Tensor) -> Tensor:
        """Rows e(x)' = (L_b^-1 (k(X_b, x) - F_b F(x)'))' from k(x, X_b), p x n, and F(x), p x m: p x n."""
        return torch.linalg.solve_triangular(self.L.mT, K, upper=True, left=False) - F @ self.E.mT

    def solve(self, B: Tensor) -> Tensor:
        """(L_b L_b')^-1 B, n x c."""
        return torch.cholesky_solve(B, self.L)

    def kept_in(self, dtype: torch.dtype) -> BlockFactor:
        """L and E in another number format, without the rows, which whoever keeps this has somewhere, maybe packed."""
        return BlockFactor(self.X[:0], self.L.to(dtype), self.E.to(dtype))

    def to(self, *args: Any, **kwargs: Any) -> BlockFactor:
        """The same with another dtype or on another device."""
        return BlockFactor(*(part.to(*args, **kwargs) for part in (self.X, self.L, self.E)))


def block_factor(inducing: Inducing, X: Tensor, sigma2: Tensor) -> BlockFactor:
    """The factor of one block: O(n m^2 + n^2 m + n^3).

    Args:
        inducing: points that carry what blocks share.
        X: n x d rows.
        sigma2: n noise variances.

    Raises:
        InputError: the block is not positive definite.
    """
    with torch.no_grad():
        F = inducing.features(X)  # n x m
        C = gram(inducing.kernel, X, X) - F @ F.mT
        C.diagonal().add_(sigma2)
        L, info = torch.linalg.cholesky_ex(C)
        if bool(info.any()) or not bool(L.diagonal().isfinite().all()):
            raise InputError(
                f"the covariance of a block of {len(X)} measured rows is not positive definite: inputs repeat each "
                f"other and the noise variance ({float(sigma2.min()):.3g}) is too small, or the kernel is not a valid "
                "one; raise the noise variance or merge repeated rows"
            )
        return BlockFactor(X, L, torch.linalg.solve_triangular(L, F, upper=False))
