"""The down-root R (n x r) of a posterior: what it does to matrices, in two ways of keeping it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor


class Root(Protocol):
    """The down-root R (n x r), known by what it does."""

    @property
    def rank(self) -> int:
        """Number of columns r."""
        ...

    def features(self, K: Tensor) -> Tensor:
        """K R for K (p x n): p x r."""
        ...

    def expand(self, B: Tensor) -> Tensor:
        """R B for B (r x c): n x c."""
        ...

    def extend(self, B: Tensor, L: Tensor) -> Root:
        """The root [[R, -R B' L^-T], [0, L^-T]] for B (q x r) and lower triangular L (q x q)."""
        ...

    def join(self, columns: Tensor) -> Root:
        """The root [R, columns] for columns n x c."""
        ...

    def scaled(self, c: float) -> Root:
        """C R."""
        ...

    def to(self, *args: Any, **kwargs: Any) -> Root:
        """The same root with another dtype or on another device."""
        ...


@dataclass(frozen=True)
class DenseRoot:
    """R kept as an n x r matrix."""

    R: Tensor

    @property
    def rank(self) -> int:
        """Number of columns r."""
        return self.R.shape[-1]

    def features(self, K: Tensor) -> Tensor:
        """K R."""
        return K @ self.R

    def expand(self, B: Tensor) -> Tensor:
        """R B."""
        return self.R @ B

    def extend(self, B: Tensor, L: Tensor) -> DenseRoot:
        """[[R, -R B' L^-T], [0, L^-T]]."""
        eye = torch.eye(L.shape[-1], dtype=L.dtype, device=L.device)
        L_invT = torch.linalg.solve_triangular(L, eye, upper=False).mT  # q x q
        right = torch.cat([-self.R @ (B.mT @ L_invT), L_invT])  # (n + q) x q
        left = torch.cat([self.R, self.R.new_zeros(L.shape[-1], self.rank)])  # (n + q) x r
        return DenseRoot(torch.cat([left, right], dim=-1))

    def join(self, columns: Tensor) -> DenseRoot:
        """[R, columns]."""
        return DenseRoot(torch.cat([self.R, columns], dim=-1))

    def scaled(self, c: float) -> DenseRoot:
        """C R."""
        return DenseRoot(c * self.R)

    def to(self, *args: Any, **kwargs: Any) -> DenseRoot:
        """The same root with another dtype or on another device."""
        return DenseRoot(self.R.to(*args, **kwargs))


@dataclass(frozen=True)
class CholeskyRoot:
    """R = L^-T for a lower triangular L (n x n): products are triangular solves, half the work of R itself."""

    L: Tensor

    @property
    def rank(self) -> int:
        """Number of columns r = n."""
        return self.L.shape[-1]

    def features(self, K: Tensor) -> Tensor:
        """K L^-T."""
        return torch.linalg.solve_triangular(self.L, K.mT, upper=False).mT

    def expand(self, B: Tensor) -> Tensor:
        """L^-T B."""
        return torch.linalg.solve_triangular(self.L.mT, B, upper=True)

    def extend(self, B: Tensor, L: Tensor) -> CholeskyRoot:
        """[[L_0, 0], [B, L]], whose inverse transpose is [[R, -R B' L^-T], [0, L^-T]]."""
        top = torch.cat([self.L, self.L.new_zeros(self.rank, L.shape[-1])], dim=-1)
        return CholeskyRoot(torch.cat([top, torch.cat([B, L], dim=-1)]))

    def join(self, columns: Tensor) -> DenseRoot:
        """[L^-T, columns], no longer triangular."""
        eye = torch.eye(self.rank, dtype=self.L.dtype, device=self.L.device)
        return DenseRoot(self.expand(eye)).join(columns)

    def scaled(self, c: float) -> CholeskyRoot:
        """C R = (L / c)^-T, c above zero."""
        return CholeskyRoot(self.L / c)

    def to(self, *args: Any, **kwargs: Any) -> CholeskyRoot:
        """The same root with another dtype or on another device."""
        return CholeskyRoot(self.L.to(*args, **kwargs))


def spanning_columns(root: Root, W: Tensor, KW: Tensor) -> Tensor:
    """Columns that make a root with R' (K + Sigma) R = 1 span W as well, and keep that property.

        F = R' (K + Sigma) W,     W' (K + Sigma) W - F' F = V diag(g) V',     columns = (W - R F) V diag(g)^-1/2

    Args:
        root: R, n x r.
        W: n x c.
        KW: (K + Sigma) W, n x c.

    Returns:
        n x k, k <= c: directions of W that R spans already, or that repeat each other, are left out.
    """
    F = root.features(KW.mT).mT  # r x c
    whole = W.mT @ KW  # c x c
    rest = whole - F.mT @ F
    g, V = torch.linalg.eigh(0.5 * (rest + rest.mT))
    keep = g > 10 * len(g) * torch.finfo(g.dtype).eps * whole.diagonal().sum()  # below is rounding
    return (W - root.expand(F)) @ (V[:, keep] * g[keep].rsqrt())


def compressed(root: Root, up: Tensor | None, moment: Tensor, rank: int) -> tuple[DenseRoot, Tensor | None]:
    """Down-root and up-root with about `rank` features, those with the largest part of a second moment.

    With an up-root S, 1 - S S' = T T' - T_ T_' is split by sign, R T is compressed and R T_ kept as it is.

    Args:
        root: R, n x r.
        up: S, r x u, or None.
        moment: F' F of the features to be kept, r x r.
        rank: number of features to keep.
    """
    if up is None:
        return DenseRoot(root.expand(_leading(moment, rank))), None
    eye = torch.eye(root.rank, dtype=up.dtype, device=up.device)
    g, Q = torch.linalg.eigh(eye - up @ up.mT)
    T = Q[:, g > 0] * g[g > 0].sqrt()
    T_ = Q[:, g < 0] * g[g < 0].neg().sqrt()
    V = T @ _leading(T.mT @ moment @ T, rank)
    down = DenseRoot(root.expand(torch.cat([V, T_], dim=-1)))
    if T_.shape[-1] == 0:
        return down, None
    eye_ = torch.eye(T_.shape[-1], dtype=up.dtype, device=up.device)
    return down, torch.cat([eye_.new_zeros(V.shape[-1], T_.shape[-1]), 2**0.5 * eye_])  # -1 + 2 = +1 on T_


def _leading(M: Tensor, rank: int) -> Tensor:
    """The `rank` leading eigenvectors of a symmetric matrix."""
    return torch.linalg.eigh(M).eigenvectors[:, -rank:]
