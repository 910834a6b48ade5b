r"""Rows cut into blocks: those nearest to the same head, in the distance of a kernel.

    b(x) = argmin_h k(x, x) + k(h, h) - 2 k(x, h)

so that it works for numbers, sequences, categories and fingerprints alike. Heads are rows: drawn at random, then moved
a few times to the middle of their blocks (k-medoids on some rows), as compact blocks leave less between each other. A
block that is too large gets more heads out of itself until it is not; blocks only shrink by that, as rows leave for
nearer heads. A point of no row belongs to the block of its nearest head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from ..kernels.stationary import gram

Rows = Callable[[Tensor], Tensor]  # row numbers (p) -> inputs (p x d), as the kernel takes them

COMPARED_NUMBERS, COMPARED_ROWS = 2**22, 2**14  # of k(rows, heads) at once, 32 MB, and rows of it
TIE = 1e-9  # of k(h, h): heads as near as that are equally near, whatever rounding says, and the first one counts
MOVES = 5  # of the heads ...
SAMPLE = 64  # ... to the middle of so many rows for each
SAMPLE_NUMBERS = 2**25  # ... and at most so many numbers of X
SPLIT = 1.5  # a block is too large from so many times the size asked for on
PROGRESS = 0.9  # splitting ends where more than this share of the rows in too large blocks remains in such


@dataclass(frozen=True)
class Partition:
    """n rows in K blocks; a block that no head could split has been cut, so that there may be fewer heads than blocks.

    Attributes:
        heads: h x d, as the kernel takes them; head i is that of block i.
        labels: n, block of each row.
        order: n, row numbers block by block, in a block rising.
        starts: K + 1, where each block starts in `order`, and n.
    """

    heads: Tensor
    labels: Tensor
    order: Tensor
    starts: Tensor

    @classmethod
    def of(cls, heads: Tensor, labels: Tensor, count: int) -> Partition:
        """From the labels, 0 to count - 1."""
        sizes = torch.bincount(labels, minlength=count)
        starts = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
        return cls(heads, labels, labels.argsort(stable=True), starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def sizes(self) -> Tensor:
        """Rows in each block, K."""
        return self.starts.diff()

    def rows(self, block: int) -> Tensor:
        """Numbers of the rows of a block."""
        return self.order[int(self.starts[block]) : int(self.starts[block + 1])]

    def nearest(self, kernel: Kernel, X: Tensor) -> Tensor:
        """Block of each point, ... q x d -> ... q; no gradient, and the same alone or among others."""
        with torch.no_grad():
            flat = X.reshape(-1, X.shape[-1])
            known = kernel(self.heads, diag=True)  # h
            chunks = flat.split(_at_once(len(self.heads)))
            found = [_nearest(kernel, part, self.heads, known)[0] for part in chunks]
            return torch.cat([torch.empty(0, dtype=torch.long, device=X.device), *found]).reshape(X.shape[:-1])

    def to(self, *args: Any, **kwargs: Any) -> Partition:
        """The same with heads of another dtype, or on another device."""
        heads = self.heads.to(*args, **kwargs)
        moved = {name: value.to(heads.device) for name, value in vars(self).items() if name != "heads"}
        return replace(self, heads=heads, **moved)


def divided(kernel: Kernel, rows: Rows, n: int, size: int, seed: int = 0) -> Partition:
    """Cut n rows into blocks of about `size` rows, at most `SPLIT` times as many.

    O(n K) values of the kernel for K = n / size heads or somewhat more; memory O(n + K d).

    Args:
        kernel: k, parameters frozen.
        rows: inputs by row number; asked for a chunk at a time.
        n: number of rows.
        size: of a block; n or more leaves one block.
        seed: of the draws, made on the CPU.

    Raises:
        ValueError: size < 1 or no rows.
    """
    if size < 1 or n < 1:
        raise ValueError(f"blocks take one row or more of one or more, got size = {size} of {n} rows")
    generator = torch.Generator().manual_seed(seed)
    count, drawn = -(-n // size), torch.randperm(n, generator=generator)
    sample = max(count, min(SAMPLE * count, SAMPLE_NUMBERS // rows(drawn[:1]).shape[-1]))
    heads, most = _moved(kernel, rows(drawn[:sample]), count), int(SPLIT * size)
    labels, near = torch.zeros(n, dtype=torch.long, device=heads.device), heads.new_full((n,), -torch.inf)
    with torch.no_grad():
        _compare(kernel, rows, heads, 0, labels, near)
        left = n / PROGRESS + 1
        while True:
            more, inside = _more_heads(labels.cpu(), len(heads), size, most, generator)
            if not len(more) or inside > PROGRESS * left:
                break
            left = inside
            added = rows(more)
            _compare(kernel, rows, added, len(heads), labels, near)
            heads = torch.cat([heads, added])
    sizes = torch.bincount(labels, minlength=len(heads))
    heads, labels = heads[sizes > 0], (sizes > 0).cumsum(0)[labels] - 1  # heads of equal inputs may have lost all
    return Partition.of(heads, *_cut(labels, len(heads), size, most))


def _at_once(heads: int) -> int:
    """Rows that are compared at once."""
    return max(1, min(COMPARED_ROWS, COMPARED_NUMBERS // heads))


def _nearest(kernel: Kernel, X: Tensor, heads: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
    """Nearest head of p points and how near it is, 2 k(x, h) - k(h, h): p, p."""
    near = 2 * gram(kernel, X, heads) - known  # p x h
    best = near.amax(-1, keepdim=True)
    label = (near >= best - TIE * known.abs().amax()).long().argmax(-1)
    return label, near.gather(-1, label.unsqueeze(-1)).squeeze(-1)


def _moved(kernel: Kernel, X: Tensor, count: int) -> Tensor:
    """The first `count` of some rows, each moved several times to the row nearest to all of its block."""
    place = torch.arange(count, device=X.device)
    with torch.no_grad():
        for _ in range(MOVES if 1 < count < len(X) else 0):
            heads = X[place]
            known = kernel(heads, diag=True)
            chunks = X.split(_at_once(count))
            label = torch.cat([_nearest(kernel, part, heads, known)[0] for part in chunks])
            for block in label.unique().tolist():
                members = (label == block).nonzero().squeeze(-1)[: 8 * SAMPLE]
                M = X[members]
                near = 2 * gram(kernel, M, M).mean(0) - kernel(M, diag=True)
                place[block] = int(members[near.argmax()])
    return X[place]


def _compare(kernel: Kernel, rows: Rows, heads: Tensor, first: int, labels: Tensor, near: Tensor) -> None:
    """Give rows that are nearer to new heads, the first of them number `first`, to these; in place."""
    known = kernel(heads, diag=True)
    for some in torch.arange(len(labels), device=labels.device).split(_at_once(len(heads))):
        label, nearness = _nearest(kernel, rows(some), heads, known)
        nearer = nearness > near[some] + TIE * known.abs().amax()
        labels[some[nearer]], near[some[nearer]] = first + label[nearer], nearness[nearer]


def _more_heads(labels: Tensor, count: int, size: int, most: int, generator: torch.Generator) -> tuple[Tensor, int]:
    """Rows out of too large blocks, as many as bring each to its size beside its head, and rows in such blocks."""
    sizes = torch.bincount(labels, minlength=count)
    large = (sizes > most).nonzero().squeeze(-1)
    place = torch.randperm(len(labels), generator=generator)
    place = place[torch.isin(labels[place], large)]
    place = place[labels[place].argsort(stable=True)]  # block by block, each in random order
    starts = torch.cat([sizes.new_zeros(1), sizes[large].cumsum(0)])[:-1]
    wanted = torch.div(sizes[large] + size - 1, size, rounding_mode="floor") - 1
    chosen = [place[s : s + w] for s, w in zip(starts.tolist(), wanted.tolist(), strict=True)]
    return torch.cat([place[:0], *chosen]).sort().values, len(place)


def _cut(labels: Tensor, count: int, size: int, most: int) -> tuple[Tensor, int]:
    """Labels with blocks that are still too large cut in parts, all rows of which are as near to each other's head."""
    sizes = torch.bincount(labels, minlength=count)
    for block in (sizes > most).nonzero().squeeze(-1).tolist():
        members = (labels == block).nonzero().squeeze(-1)
        for part in members.tensor_split(-(-len(members) // size))[1:]:
            labels[part] = count
            count += 1
    return labels, count
