r"""A posterior over products of lists, by the numbers of their blocks.

The kernel of combinations knows a row by its blocks. Over rows that are products of known lists, k_j needs values for
pairs of blocks only: a table for each list, looked up. A row is then J whole numbers instead of thousands of columns,
and mean, covariance, augmentation and choice are those of any other posterior.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from gpytorch.kernels import AdditiveKernel, Kernel
from torch import Tensor

from ...errors import InputError
from ...kernel_posterior import KernelPosterior
from ...kernels.combinations import CombinationKernel, combined, distinct, polynomial
from ...kernels.stationary import live_gram
from ...posterior import Posterior
from ..gaussian_process.noise import ConstantNoise, ScaledNoise

TABLE = 4096  # different blocks of a list, at most, whose kernel is one table; beyond, values are computed when needed
FEW = 1 << 15  # values of a kernel matrix that are looked up one by one


class CodedKernel(Kernel):
    """`CombinationKernel` over codes: the j-th number of a row is the place of its block among `rows[j]`.

    Args:
        kernel: with frozen parameters.
        rows: different blocks of each part, encoded, u_j x d_j.
    """

    weights: Tensor

    def __init__(self, kernel: CombinationKernel, rows: Sequence[Tensor]) -> None:
        super().__init__()
        self.parts, self.terms = kernel.parts, kernel.terms
        self.register_buffer("weights", kernel.weights.detach().to(rows[0]).clone())
        for j, own in enumerate(rows):
            self.register_buffer(f"rows_{j}", own)
            whole = live_gram(self.parts[j], own, own).detach() if len(own) <= TABLE else None
            self.register_buffer(f"table_{j}", whole)

    def table(self, part: int, left: Tensor, right: Tensor) -> Tensor:
        """k_j between some blocks by their codes, p and q -> p x q."""
        whole, rows = getattr(self, f"table_{part}"), getattr(self, f"rows_{part}")
        if whole is not None:
            found: Tensor = whole[left.unsqueeze(-1), right]
            return found
        return live_gram(self.parts[part], rows[left], rows[right]).detach()

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        """Kernel matrix, ... p x J and ... q x J -> ... p x q (diag: ... p)."""
        if diag and (x1 is x2 or torch.equal(x1, x2)):
            return self.weights.sum().expand(x1.shape[:-1])
        c1, c2 = x1.long(), x2.long()
        if diag or x1.dim() > 2 or x2.dim() > 2:
            shape = (c1, c2) if diag else (c1.unsqueeze(-2), c2.unsqueeze(-3))
            factors = [self._values(j, *(c[..., j] for c in shape)) for j in range(len(self.parts))]
            return self._polynomial(factors)
        if len(c1) * len(c2) <= FEW:
            return self._polynomial(
                [self._values(j, a.unsqueeze(-1), b) for j, (a, b) in enumerate(zip(c1.T, c2.T, strict=True))]
            )
        tables, rows, columns = [], [], []
        for j in range(len(self.parts)):
            (u1, at1), (u2, at2) = (torch.unique(c[:, j], return_inverse=True) for c in (c1, c2))
            tables.append(self.table(j, u1, u2))
            rows.append(at1)
            columns.append(at2)
        return combined(self.weights, self.terms, tables, rows, columns)

    def _polynomial(self, factors: Sequence[Tensor]) -> Tensor:
        """The kernel from its factors, of any one shape."""
        value: Tensor = polynomial(list(zip(self.terms, self.weights.tolist(), strict=True)), factors)
        return value

    def _values(self, part: int, c1: Tensor, c2: Tensor) -> Tensor:
        """k_j of pairs of codes, of any one shape."""
        whole = getattr(self, f"table_{part}")
        if whole is not None:
            found: Tensor = whole[c1, c2]
            return found
        left, right = torch.broadcast_tensors(c1, c2)
        u1, at1 = torch.unique(left, return_inverse=True)
        u2, at2 = torch.unique(right, return_inverse=True)
        return self.table(part, u1, u2)[at1, at2]


@dataclass(frozen=True, eq=False)
class ProductPosterior:
    """A posterior over all products of some lists.

    Attributes:
        posterior: over rows of codes, ... q x J.
        blocks: code of each block of each list; blocks that are encoded alike have one code.
    """

    posterior: KernelPosterior
    blocks: tuple[Tensor, ...]

    @property
    def kernel(self) -> CodedKernel:
        """Of the posterior."""
        kernel = self.posterior.kernel
        assert isinstance(kernel, CodedKernel)
        return kernel

    def codes(self, index: Tensor) -> Tensor:
        """Rows of codes from the numbers of their blocks, n x J -> n x J, in the posterior's format."""
        columns = [own[at] for own, at in zip(self.blocks, index.to(self.posterior.device).unbind(-1), strict=True)]
        return torch.stack(columns, dim=-1).to(self.posterior.centers)


def over_products(posterior: Posterior, lists: Sequence[Tensor]) -> ProductPosterior:
    """A surrogate's posterior over the products of lists.

    Args:
        posterior: of a surrogate whose kernel is one of combinations.
        lists: the blocks of each feature, encoded, B_j x d_j, in the order of the features.

    Raises:
        InputError: another kernel, several targets, or a noise that depends on the row.
    """
    kernel, noise = getattr(posterior, "kernel", None), posterior.noise
    if isinstance(kernel, AdditiveKernel):  # with batches: a new row is in none of those measured
        kernel = kernel.kernels[0]
    if not isinstance(posterior, KernelPosterior) or not isinstance(kernel, CombinationKernel):
        raise InputError(
            "a choice from lists takes an exact, love, sgpr or svgp surrogate of one target whose kernel is one of "
            "combinations; fit it with --combine combinations"
        )
    if not isinstance(noise.base if isinstance(noise, ScaledNoise) else noise, ConstantNoise):
        raise InputError("a choice from lists knows one noise variance for all rows; leave noise_variance out")
    rows, blocks, centers = [], [], []
    for (a, b), own in zip(kernel.columns, lists, strict=True):
        own = own.to(posterior.centers)
        different, codes = _different(torch.cat([own, posterior.centers[:, a:b]]))
        rows.append(different)
        blocks.append(codes[: len(own)])
        centers.append(codes[len(own) :])
    with torch.no_grad():
        coded = replace(
            posterior,
            kernel=CodedKernel(kernel, rows),
            centers=torch.stack(centers, dim=-1).to(posterior.centers),
            warp=None,
            prior_variance=posterior.amplitude,
            solver=None,
        )
    return ProductPosterior(coded, tuple(blocks))


def _different(X: Tensor) -> tuple[Tensor, Tensor]:
    """`distinct`, also where most rows differ."""
    rows, place = distinct(X)
    if len(rows) == len(X):
        rows, place = torch.unique(X, dim=0, return_inverse=True)
    return rows, place
