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

    def scaled(self, c: float) -> CholeskyRoot:
        """C R = (L / c)^-T, c above zero."""
        return CholeskyRoot(self.L / c)

    def to(self, *args: Any, **kwargs: Any) -> CholeskyRoot:
        """The same root with another dtype or on another device."""
        return CholeskyRoot(self.L.to(*args, **kwargs))
