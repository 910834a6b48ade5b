r"""P = F F' + blockdiag(k - F F') + Sigma as a preconditioner of K + Sigma.

It is the covariance of the partially independent conditional (`block_factors`): rows of a block know each other as they
are, other rows by what m inducing points carry. With L = blockdiag(L_b), E = L^-1 F and C C' = 1 + E'E,

    P = L (1 + E E') L'        P^-1 = L^-T (1 - E (C C')^-1 E') L^-1 = W' W        W = (1 - E G' E') L^-1

where G = C^-T (1 + C)^-1: multiplied out, (1 - E G E') (1 - E G' E') = 1 - E (C C')^-1 E'. Two products with E and the
solves with the blocks' triangles cost n (4 m + n_b) for a column, little beside a product with K.

On kin40k (36,000 rows, noise variance 2.5e-4 of the prior's) conjugate gradients need 15 to 20 products to the RMSE of
the exact solution, where partial Cholesky factorisations of rank 2,048 to 4,500 had not converged after 55.

Source: Snelson and Ghahramani 2007 (the covariance).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from .block_factors import BlockFactor, Inducing, block_factor
from .partition import divided

ONE_BLOCK = 4000  # rows up to which all of K + Sigma is factored: no dearer than blocks beside inducing points
SIZES = (1000, 2048)  # of a block, and number of inducing points: one in SHARE rows, within these limits ...
SHARE = 16
NUMBERS = 2**30  # ... and so many numbers in all, 4 GB in float32: reached from 260,000 rows on


@dataclass(frozen=True)
class BlockPreconditioner:
    """W with W'W = P^-1, applied in the number format of its argument, whatever it is kept in.

    Attributes:
        order: n, row numbers block by block.
        blocks: factors of the blocks, in this order.
        G: m x m.
        largest: eigenvalue of K is at most about this.
    """

    order: Tensor
    blocks: tuple[BlockFactor, ...]
    G: Tensor
    largest: float

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
        C, blocks = torch.eye(m, dtype=Z.dtype, device=Z.device), []
        for rows in (parts.rows(b) for b in range(len(parts))):
            blocks.append(block_factor(inducing, Z[rows], sigma2[rows]).kept_in(dtype))
            E = blocks[-1].E.to(Z.dtype)  # as it is kept
            C += E.mT @ E
        C = torch.linalg.cholesky(C)
        G = torch.linalg.inv(C @ C.mT + C.mT)  # ((1 + C) C')^-1
        return cls(parts.order, tuple(blocks), G, float((inducing.L @ inducing.L.mT).norm()) * len(Z) / m)

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
