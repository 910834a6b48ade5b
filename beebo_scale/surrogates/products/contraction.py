r"""The posterior mean of all products of lists, tile by tile, without a kernel evaluation.

With k = sum_S w_S prod_{j in S} k_j over terms S, the mean of a product (i_1, ..., i_J) is

    m + sum_n alpha_n sum_S w_S prod_{j in S} k_j(i_j, n),        n over the centers,

which is contracted list by list. One list, c, comes last: centers that share a block there are added up before, so that
a product costs as many multiplications as there are different blocks of c among the centers, instead of N. A tile is
all blocks of c times some of the lists B, for one choice of blocks of the lists A:

    tile = m + y_0 + K_c Y,     Y[u] = sum over n with block u of alpha_n sum_{S with c} w_S k_A(n) k_B(., n),

y_0 the terms without c. Centers that share blocks of B, too, are added up first, so Y is a product of small matrices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from ...kernels.combinations import polynomial
from .coded import ProductPosterior

WIDE = 1024  # products of the lists B in a tile, about
TILE = 1 << 22  # numbers of a tile, at most


class Contraction:
    """Means of all products.

    Args:
        over: the posterior over products.
    """

    def __init__(self, over: ProductPosterior) -> None:
        self.over, self.kernel = over, over.kernel
        self.sizes = [len(own) for own in over.blocks]
        self.strides = [math.prod(self.sizes[j + 1 :]) for j in range(len(self.sizes))]
        self.centers = over.posterior.centers.long()  # N x J
        self.last, self.outer, self.inner = self._arranged()
        self.width = math.prod(self.sizes[j] for j in self.inner)
        self.cut = max(1, min(self.width, TILE // self.sizes[self.last]))
        self.segments = -(-self.width // self.cut)
        used, self.place = torch.unique(self.centers[:, self.last], return_inverse=True)
        self.used = len(used)
        self.K = self.kernel.table(self.last, over.blocks[self.last], used)  # |c| x U
        self._tables: dict[tuple[tuple[int, ...], int], Tensor] = {}

    @property
    def count(self) -> int:
        """Number of tiles."""
        return self.segments * math.prod(self.sizes[j] for j in self.outer)

    @property
    def products(self) -> int:
        """Products in a tile, at most."""
        return self.sizes[self.last] * self.cut

    @cached_property
    def shift(self) -> float:
        """The prior mean m."""
        return float(self.over.posterior.prior_mean(self.over.posterior.centers[:1]))

    @cached_property
    def slack(self) -> float:
        """More than rounding can make of a mean."""
        posterior = self.over.posterior
        scale = float(posterior.weights.abs().sum()) * posterior.amplitude + abs(self.shift)
        return 64 * torch.finfo(posterior.dtype).eps * scale

    def means(self, tile: int) -> Tensor:
        """Means of the products of a tile, |c| x |B|."""
        a, segment = divmod(tile, self.segments)
        factors = {j: self._row(j, i) for j, i in self._outer_blocks(a).items()}
        inside = self._summed(True, factors, segment)
        return (self.K @ inside).add_(self._summed(False, factors, segment) + self.shift)

    def rows(self, tile: int, places: Tensor) -> Tensor:
        """Row numbers of some products of a tile, by their places in it (n x 2)."""
        a, segment = divmod(tile, self.segments)
        base = sum(self.strides[j] * i for j, i in self._outer_blocks(a).items())
        number: Tensor = base + self.strides[self.last] * places[:, 0]
        at = places[:, 1] + segment * self.cut
        return number + self.offsets[at]

    @cached_property
    def offsets(self) -> Tensor:
        """What the blocks of the lists B add to a row number, |B|."""
        offsets = torch.zeros(1, dtype=torch.long, device=self.centers.device)
        for j in self.inner:
            own = self.strides[j] * torch.arange(self.sizes[j], device=offsets.device)
            offsets = (offsets.unsqueeze(-1) + own).flatten()
        return offsets

    def _arranged(self) -> tuple[int, list[int], list[int]]:
        """The list that comes last, those that are fixed in a tile, and those that run through it."""
        n = len(self.centers)
        used = [len(own.unique()) for own in self.centers.T]
        last = min(range(len(self.sizes)), key=lambda j: used[j] + 4 * n / self.sizes[j])
        outer = [j for j in range(len(self.sizes)) if j != last]
        inner = [outer.pop()] if outer else []
        while outer and math.prod(self.sizes[j] for j in [outer[-1], *inner]) <= WIDE:
            inner.insert(0, outer.pop())
        return last, outer, inner

    def _outer_blocks(self, a: int) -> dict[int, int]:
        """The blocks of the lists A of a tile."""
        found = {}
        for j in reversed(self.outer):
            a, found[j] = divmod(a, self.sizes[j])
        return found

    def _row(self, part: int, block: int) -> Tensor:
        """k_j between one block and all centers, N."""
        used, place = self._different[part]
        return self.kernel.table(part, self.over.blocks[part][block : block + 1], used)[0, place]

    @cached_property
    def _different(self) -> list[tuple[Tensor, Tensor]]:
        """Different blocks of the centers in each list, and the place of each center among them."""
        return [torch.unique(own, return_inverse=True) for own in self.centers.T]

    @cached_property
    def _groups(self) -> dict[bool, dict[tuple[int, ...], list[tuple[tuple[int, ...], float]]]]:
        """Terms with c and without -> lists of B in the term -> lists of A in it, and its weight."""
        groups: dict[bool, dict[tuple[int, ...], list[tuple[tuple[int, ...], float]]]] = {True: {}, False: {}}
        for term, w in zip(self.kernel.terms, self.kernel.weights.tolist(), strict=True):
            mine = groups[self.last in term].setdefault(tuple(j for j in term if j in self.inner), [])
            mine.append((tuple(j for j in term if j in self.outer), w))
        return groups

    def _summed(self, with_last: bool, factors: dict[int, Tensor], segment: int) -> Tensor:
        """Y (U x |B|), or y_0 (1 x |B|)."""
        width = min(self.cut, self.width - segment * self.cut)
        rows = self.used if with_last else 1
        total = self.K.new_zeros(rows, width)
        for own, terms in self._groups[with_last].items():
            weights = self.over.posterior.weights * polynomial(terms, factors)  # N
            at, count = self._joint(own)
            at = self.place * count + at if with_last else at
            summed = torch.bincount(at, weights, minlength=rows * count).reshape(rows, count)
            total += summed @ self._table(own, segment).mT if own else summed
        return total

    @cached_property
    def _joints(self) -> dict[tuple[int, ...], tuple[Tensor, Tensor]]:
        every = {own for groups in self._groups.values() for own in groups if own}
        return {own: torch.unique(self.centers[:, own], dim=0, return_inverse=True) for own in sorted(every)}

    def _joint(self, own: tuple[int, ...]) -> tuple[Tensor, int]:
        """Place of each center among those that differ in some lists (N), and how many these are."""
        if not own:
            return torch.zeros_like(self.place), 1
        codes, place = self._joints[own]
        return place, len(codes)

    def _table(self, own: tuple[int, ...], segment: int) -> Tensor:
        """The product of k_j over some lists of B, between the products of B in a segment and different centers."""
        if (own, segment) not in self._tables:
            codes = self._joints[own][0]
            at = torch.arange(segment * self.cut, min(self.width, (segment + 1) * self.cut), device=codes.device)
            index = self._inner_blocks(at)
            found = self.K.new_ones(1)
            for j, column in zip(own, codes.T, strict=True):
                blocks, place = torch.unique(self.over.blocks[j][index[j]], return_inverse=True)
                found = self.kernel.table(j, blocks, column)[place] * found
            if self.segments > 1:
                self._tables.clear()
            self._tables[own, segment] = found
        return self._tables[own, segment]

    def _inner_blocks(self, at: Tensor) -> dict[int, Tensor]:
        """The blocks of the lists B by places among their products."""
        found: dict[int, Tensor] = {}
        for j in reversed(self.inner):
            found[j] = at % self.sizes[j]
            at = at // self.sizes[j]
        return found


def index_of(rows: Tensor, sizes: Sequence[int]) -> Tensor:
    """Numbers of the blocks of some rows, n -> n x J; the last list runs fastest."""
    columns = []
    for size in reversed(sizes):
        columns.append(rows % size)
        rows = rows // size
    return torch.stack(columns[::-1], dim=-1)
