r"""P = F F' + blockdiag(k - F F') + Sigma as a preconditioner of K + Sigma.

It is the covariance of the partially independent conditional (`block_factors`): rows of a block know each other as they
are, other rows by what m inducing points carry. With L = blockdiag(L_b), E = L^-1 F and C C' = 1 + E'E,

    P = L (1 + E E') L'        P^-1 = L^-T (1 - E (C C')^-1 E') L^-1 = W' W        W = (1 - E G' E') L^-1

where G = C^-T (1 + C)^-1: multiplied out, (1 - E G E') (1 - E G' E') = 1 - E (C C')^-1 E'. Two products with E and the
solves with the blocks' triangles cost n (4 m + n_b) for a column, little beside a product with K.

On 4,000 rows of kin40k (noise variance 2.5e-4 of the prior's) the RMSE of conjugate gradients is 1.007 times that of
the exact solution after 7 products, with a partial Cholesky factorisation of rank 500 instead 4.7 times
(scripts/benchmarks/results/love_solves.md).

Source: Snelson and Ghahramani 2007 (the covariance).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from .block_factors import BlockFactor, Inducing, block_factor
from .partition import divided

ONE_BLOCK = 4000  # rows up to which all of K + Sigma is factored: no dearer than blocks beside inducing points
SIZES = (500, 2048)  # of a block, and number of inducing points: one in SHARE rows, within these limits ...
SHARE = 16
NUMBERS = 2**30  # ... and so many numbers in all, 4 GB in float32: reached from 260,000 rows on


@dataclass(frozen=True)
class BlockPreconditioner:
    """W with W'W = P^-1, applied in the number format of its argument, whatever it is kept in.

    Attributes:
        inducing: points that carry what blocks share.
        order: n, row numbers block by block.
        blocks: factors of the blocks, in this order.
        inner: 1 + E'E, m x m.
    """

    inducing: Inducing
    order: Tensor
    blocks: tuple[BlockFactor, ...]
    inner: Tensor

    @classmethod
    def of(
        cls, kernel: Kernel, Z: Tensor, sigma2: Tensor, size: int | None = None, dtype: torch.dtype = torch.float32
    ) -> BlockPreconditioner:
        """Factored in float64; O(n (m^2 + n_b^2)).

        Args:
            kernel: k, parameters frozen.
            Z: n x d, as the kernel takes them.
            sigma2: n noise variances.
            size: of a block, and number of inducing points (random rows); None by the number of rows.
            dtype: number format that blocks are kept in where there are several.

        Raises:
            InputError: a block is not positive definite.
        """
        kernel, Z, sigma2 = copy.deepcopy(kernel).double(), Z.double(), sigma2.double()
        size = min(len(Z), block_size(len(Z)) if size is None else size)
        parts = divided(kernel, lambda rows: Z[rows.to(Z.device)], len(Z), size)
        m, dtype = (size, dtype) if len(parts) > 1 else (1, Z.dtype)
        drawn = torch.randperm(len(Z), generator=torch.Generator().manual_seed(1))[:m].sort().values
        inducing = Inducing.of(kernel, Z[drawn.to(Z.device)])
        empty = cls(inducing, parts.order[:0], (), torch.eye(m, dtype=Z.dtype, device=Z.device))
        rows = (parts.rows(block) for block in range(len(parts)))
        return empty.extend(((some, Z[some], sigma2[some]) for some in rows), dtype)

    def extend(self, blocks: Iterable[tuple[Tensor, Tensor, Tensor]], dtype: torch.dtype) -> BlockPreconditioner:
        """With more rows.

        Args:
            blocks: of each its row numbers (n_b), inputs (n_b x d) and noise variances (n_b).
            dtype: number format that they are kept in.
        """
        order, factors, inner = [self.order], list(self.blocks), self.inner.clone()
        for rows, X, sigma2 in blocks:
            factors.append(block_factor(self.inducing, X.to(inner), sigma2.to(inner)).kept_in(dtype))
            E = factors[-1].E.to(inner)  # as it is kept
            inner += E.mT @ E
            order.append(rows)
        return BlockPreconditioner(self.inducing, torch.cat(order), tuple(factors), inner)

    @cached_property
    def G(self) -> Tensor:
        """((1 + C) C')^-1, m x m."""
        C = torch.linalg.cholesky(self.inner)
        return torch.linalg.inv(self.inner + C.mT)

    @cached_property
    def largest(self) -> float:
        """About what the eigenvalues of K are at most."""
        L = self.inducing.L
        return float((L @ L.mT).norm()) * len(self.order) / len(L)

    def whiten(self, V: Tensor) -> Tensor:
        """W V, n x c, block by block."""
        parts = [torch.linalg.solve_triangular(b.L.to(V), v, upper=False) for b, v in self._parts(V[self.order])]
        return self._less(parts, self.G.mT)

    def unwhiten(self, V: Tensor) -> Tensor:
        """W' V, n x c."""
        parts = self._parts(self._less([v for _, v in self._parts(V)], self.G))
        found = torch.empty_like(V)
        found[self.order] = torch.cat([torch.linalg.solve_triangular(b.L.to(V).mT, v, upper=True) for b, v in parts])
        return found

    def _less(self, parts: list[Tensor], G: Tensor) -> Tensor:
        """V - E G E' V."""
        E = [b.E for b in self.blocks]
        D = G.to(parts[0]) @ torch.stack([e.to(v).mT @ v for e, v in zip(E, parts, strict=True)]).sum(0)
        return torch.cat([v - e.to(v) @ D for e, v in zip(E, parts, strict=True)])

    def _parts(self, V: Tensor) -> list[tuple[BlockFactor, Tensor]]:
        """The blocks with their rows of V, n x c."""
        return list(zip(self.blocks, V.split([len(b.L) for b in self.blocks]), strict=True))


def block_size(n: int) -> int:
    """Rows of a block, and inducing points, for n rows."""
    least, most = SIZES
    return n if n <= ONE_BLOCK else max(1, min(most, max(least, n // SHARE), NUMBERS // (2 * n)))
