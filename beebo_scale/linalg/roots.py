"""The down-root R (n x r) of a posterior: what it does to matrices, in three ways of keeping it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

BLOCK_ROWS = 1024  # of a row of blocks, at most, that grows instead of being followed by another


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


@dataclass(frozen=True)
class BlockRoot:
    """R = L^-T with the lower triangle L kept as rows of blocks: half the memory of a square, and extended in place.

    Attributes:
        rows: row i of blocks, b_i x (b_1 + ... + b_i): what stands left of the diagonal block, and that block. Their
            number format may be float32 to save memory; results have the format of the arguments.
    """

    rows: tuple[Tensor, ...] = ()

    @property
    def rank(self) -> int:
        """Number of columns r = n."""
        return self.rows[-1].shape[-1] if self.rows else 0

    def features(self, K: Tensor) -> Tensor:
        """K L^-T by forward substitution."""
        return _Substitution.apply(K, self.rows)

    def expand(self, B: Tensor) -> Tensor:
        """L^-T B by back substitution."""
        return _substitute_back(B.mT, self.rows).mT

    def extend(self, B: Tensor, L: Tensor) -> BlockRoot:
        """One more row of blocks, [B, L], in the number format of the others; only a small last row is copied."""
        row = torch.cat([B, L], dim=-1)
        if not self.rows:
            return BlockRoot((row,))
        *others, last = self.rows
        row = row.to(last.dtype)
        if len(last) + len(row) > BLOCK_ROWS:
            return BlockRoot((*self.rows, row))
        last = torch.cat([last, last.new_zeros(len(last), len(row))], dim=-1)
        return BlockRoot((*others, torch.cat([last, row])))

    def join(self, columns: Tensor) -> DenseRoot:
        """[L^-T, columns], no longer triangular."""
        return DenseRoot(self.expand(torch.eye(self.rank, dtype=columns.dtype, device=columns.device))).join(columns)

    def scaled(self, c: float) -> BlockRoot:
        """C R = (L / c)^-T, c above zero."""
        return BlockRoot(tuple(row / c for row in self.rows))

    def to(self, *args: Any, **kwargs: Any) -> BlockRoot:
        """The same root with another dtype or on another device."""
        return BlockRoot(tuple(row.to(*args, **kwargs) for row in self.rows))


class _Substitution(torch.autograd.Function):
    """K L^-T for K (p x n), L in rows of blocks; the gradient in K is that of the result times L^-1."""

    @staticmethod
    def forward(ctx: Any, K: Tensor, rows: tuple[Tensor, ...]) -> Tensor:
        ctx.rows = rows
        F = K.to(rows[0].dtype, copy=True) if rows else K.clone()
        for row in rows:
            known, end = row.shape[-1] - len(row), row.shape[-1]
            new = F[:, known:end].addmm_(F[:, :known], row[:, :known].mT, alpha=-1)
            new.copy_(torch.linalg.solve_triangular(row[:, known:].mT, new, upper=True, left=False))
        return F.to(K.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _substitute_back(grad, ctx.rows), None


def _substitute_back(B: Tensor, rows: tuple[Tensor, ...]) -> Tensor:
    """B L^-1 for B (p x n)."""
    F = B.to(rows[0].dtype, copy=True) if rows else B.clone()
    for row in reversed(rows):
        known, end = row.shape[-1] - len(row), row.shape[-1]
        new = F[:, known:end]
        new.copy_(torch.linalg.solve_triangular(row[:, known:], new, upper=False, left=False))
        F[:, :known].addmm_(new, row[:, :known], alpha=-1)
    return F.to(B.dtype)


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
