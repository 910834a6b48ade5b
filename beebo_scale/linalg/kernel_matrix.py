r"""Products with K = k(Z, Z) that never hold an n x n matrix.

K V is computed block by block, `gram` of a block times the rows of V that it meets, and summed in float64 whatever the
number format of the blocks. A block that stays in the cache of a processor costs less than half of one that does not.
Row chunks have a fixed size and are shared out over workers, so that the result is the same for any number of them.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from ..kernels.stationary import gram
from ..workers import Workers
from .keops import COLUMNS, gains, keops_product

CACHED = (256, 2048)  # rows and columns of a block on a CPU: 4 MB in float64
LARGE = (4096, 16384)  # on a GPU: 512 MB, large enough that launching kernels does not count


@dataclass(frozen=True)
class KernelMatrix:
    """K = k(Z, Z), known by its products.

    Attributes:
        kernel: k, parameters frozen.
        Z: n x d inputs, as the kernel takes them.
        product_dtype: number format of the blocks, None that of Z. Sums are always in the format of Z: with float32
            blocks a product is good to about 1e-6 of |K| |V|.
        block: rows and columns of a block, None by device. The rows are also the chunk that a worker computes.
        workers: that share the rows out.
        keops: whether pykeops computes products with few columns where it can (a stationary kernel, pykeops and a
            compiler installed); None where it is expected to be faster (`gains`).
    """

    kernel: Kernel
    Z: Tensor
    product_dtype: torch.dtype | None = None
    block: tuple[int, int] | None = None
    workers: Workers = field(default_factory=Workers)
    keops: bool | None = None

    def __len__(self) -> int:
        return len(self.Z)

    def __matmul__(self, V: Tensor) -> Tensor:
        """K V: n x c -> n x c, in the number format of Z."""
        kernel, Z = self._low
        V = V.to(Z.dtype)
        product = None
        if self._by_keops(Z, V.shape[-1]):  # on a CPU little is lost without
            product = keops_product(kernel, told=bool(self.keops) or Z.is_cuda)
        rows = self._blocks[0]
        count = -(-len(Z) // rows)  # chunks, rounded up
        parts = self.Z.new_zeros(-(-count // self.workers.size), rows, V.shape[-1])
        for slot, chunk in enumerate(self.workers.own(count)):
            X = Z[chunk * rows : (chunk + 1) * rows]
            parts[slot, : len(X)] = self._rows(X, V) if product is None else product(X, Z, V)
        return self.workers.gather(parts, count).flatten(0, 1)[: len(Z)]

    def _by_keops(self, Z: Tensor, columns: int) -> bool:
        return gains(Z, columns) if self.keops is None else self.keops and columns <= COLUMNS

    def rows(self, index: Tensor) -> Tensor:
        """k(z_i, Z) for some i: len(index) x n."""
        return gram(self.kernel, self.Z[index], self.Z)

    def diagonal(self) -> Tensor:
        """k(z, z): n."""
        return self.kernel(self.Z, diag=True)

    def with_rows(self, Z: Tensor) -> KernelMatrix:
        """The matrix over [Z; new rows], p x d."""
        return replace(self, Z=torch.cat([self.Z, Z]))

    def to(self, *args: Any, **kwargs: Any) -> KernelMatrix:
        """The same matrix with another dtype or on another device."""
        kernel = copy.deepcopy(self.kernel).to(*args, **kwargs)
        return replace(self, kernel=kernel, Z=self.Z.to(*args, **kwargs))

    def _rows(self, X: Tensor, V: Tensor) -> Tensor:
        """k(X, Z) V for one chunk of rows."""
        kernel, Z = self._low
        total = self.Z.new_zeros(len(X), V.shape[-1])
        columns = self._blocks[1]
        for start in range(0, len(Z), columns):
            total += gram(kernel, X, Z[start : start + columns]) @ V[start : start + columns]
        return total

    @cached_property
    def _low(self) -> tuple[Kernel, Tensor]:
        """Kernel and inputs in the number format of the blocks."""
        if self.product_dtype in (None, self.Z.dtype):
            return self.kernel, self.Z
        return copy.deepcopy(self.kernel).to(self.product_dtype), self.Z.to(self.product_dtype)

    @property
    def _blocks(self) -> tuple[int, int]:
        return self.block or (CACHED if self.Z.device.type == "cpu" else LARGE)
