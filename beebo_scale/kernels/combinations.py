r"""The kernel of combinations: main effects, pairs and the whole product of the kernels of several parts.

    k(x, x') = sum_j w_j k_j + sum_{i < j} w_ij k_i k_j + w k_1 k_2 ... k_J,       k_j = k_j(x_j, x'_j),  k_j(x, x) = 1

x_j is a block (an acid, a letter at a site, a temperature) and k_j the kernel of its kind. All weights are learned; a
sum of products of positive definite kernels with weights above zero is one itself. A term of main effects says that a
block does the same whatever it is combined with, one of pairs that two blocks act on each other, the last that the
combination as a whole matters; interactions of three blocks and more are in the last one only.

Many rows share few blocks, so each k_j is evaluated once for different blocks, and looked up.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import torch
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import Kernel
from gpytorch.priors import LogNormalPrior
from torch import Tensor
from torch.autograd.function import once_differentiable

from .stationary import live_gram

Terms = tuple[tuple[int, ...], ...]  # each the parts that it is a product of
LEAST = 1e-6  # weight of a term, in units of the standardised target
SPREAD = 1.5  # standard deviation of the logarithm of a weight a priori
NUMBERS_TOGETHER = 1 << 18  # numbers of k computed together: they stay in the cache of a processor


def terms_of(parts: int) -> Terms:
    """Main effects, pairs and the whole product of so many parts."""
    single = [(j,) for j in range(parts)]
    pairs = list(combinations(range(parts), 2))
    return (*single, *pairs, *([tuple(range(parts))] if parts > 2 else []))


class CombinationKernel(Kernel):
    """See the module.

    Args:
        parts: kernels k_j over the columns of their parts alone, with k_j(x, x) = 1.
        columns: first column and end of each part in the rows.
    """

    def __init__(self, parts: Sequence[Kernel], columns: Sequence[tuple[int, int]]) -> None:
        super().__init__()
        self.parts, self.columns = torch.nn.ModuleList(parts), tuple(columns)
        self.terms = terms_of(len(parts))
        order = torch.tensor([min(len(term), 3) for term in self.terms])
        share = 1.0 / (order.unique().numel() * (order.unsqueeze(0) == order.unsqueeze(1)).sum(0)).double()
        self.register_parameter("raw_weights", torch.nn.Parameter(share.clone()))
        self.register_prior("weights_prior", LogNormalPrior(share.log(), torch.full_like(share, SPREAD)), "weights")
        self.register_constraint("raw_weights", GreaterThan(LEAST, transform=None))

    @property
    def weights(self) -> Tensor:
        """Of the terms."""
        return self.raw_weights

    @weights.setter
    def weights(self, value: Tensor) -> None:
        self.initialize(raw_weights=value)

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: object) -> Tensor:
        """Kernel matrix, ... p x d and ... q x d -> ... p x q (diag: ... p)."""
        w = self.weights.to(x1)
        if diag and (x1 is x2 or torch.equal(x1, x2)):
            return w.sum().expand(x1.shape[:-1])
        if diag or x1.dim() > 2 or x2.dim() > 2:
            grams = [
                part(x1[..., a:b], x2[..., a:b], diag=True) if diag else part(x1[..., a:b], x2[..., a:b]).to_dense()
                for part, (a, b) in zip(self.parts, self.columns, strict=True)
            ]
            return polynomial(list(zip(self.terms, w.unbind(), strict=True)), grams)
        same, tables, codes = x1 is x2, [], []
        for part, (a, b) in zip(self.parts, self.columns, strict=True):
            u1, c1 = distinct(x1[:, a:b])
            u2, c2 = (u1, c1) if same else distinct(x2[:, a:b])
            tables.append(live_gram(part, u1, u2))
            codes += [c1, c2]
        return combined(w, self.terms, tables, codes[0::2], codes[1::2])


def combined(
    weights: Tensor, terms: Terms, tables: Sequence[Tensor], rows: Sequence[Tensor], columns: Sequence[Tensor]
) -> Tensor:
    """The kernel matrix from tables of the parts' kernels (u_j x v_j) and the places of rows (p) and columns (q)."""
    found: Tensor = _Combined.apply(weights, terms, rows, columns, *tables)
    return found


def polynomial(terms: Sequence[tuple[tuple[int, ...], Any]], factors: Any) -> Any:
    """Sum of weight times product of factors over the terms, by Horner's scheme."""
    first = next((term[0] for term, _ in terms if term), None)
    if first is None:
        return sum(weight for _, weight in terms)
    inner = [(term[1:], weight) for term, weight in terms if term[:1] == (first,)]
    others = [(term, weight) for term, weight in terms if term[:1] != (first,)]
    value = factors[first] * polynomial(inner, factors)
    return value + polynomial(others, factors) if others else value


def distinct(X: Tensor) -> tuple[Tensor, Tensor]:
    """Different rows of X (n x d -> u x d), and the place of each row among them (n); all of them where it is unsure.

    Rows are told apart by a sum of their whole numbers with random weights, which is exact in float64, and compared.
    """
    every = X, torch.arange(len(X), device=X.device)
    if X.requires_grad:
        return every
    key = X.detach().double()
    if X.shape[-1] > 1:
        draw = torch.Generator().manual_seed(0)
        weights = torch.randint(1, 1 << 30, (X.shape[-1],), generator=draw).to(key)
        key = key @ weights.unsqueeze(-1)
    values, place = torch.unique(key.squeeze(-1), return_inverse=True)
    if 2 * len(values) > len(X):
        return every
    first = torch.full((len(values),), len(X), device=X.device)
    first = first.scatter_reduce(0, place, torch.arange(len(X), device=X.device), "amin")
    rows = X[first]
    parts = zip(X.split(1024), place.split(1024), strict=True)
    return (rows, place) if all(torch.equal(part, rows[at]) for part, at in parts) else every


class _Combined(torch.autograd.Function):
    """`combined`, differentiable in weights and tables; never more than a few rows of any k_j at once."""

    @staticmethod
    def forward(ctx: Any, w: Tensor, terms: Terms, rows: Any, columns: Any, *tables: Tensor) -> Tensor:
        ctx.save_for_backward(w, *tables)
        ctx.terms, ctx.rows, ctx.columns = terms, rows, columns
        wide = [table[:, at] for table, at in zip(tables, columns, strict=True)]  # u_j x q
        K = w.new_empty(len(rows[0]), len(columns[0]))
        weighted = list(zip(terms, w.tolist(), strict=True))
        for some in _pieces(K):
            K[some] = polynomial(weighted, [table[at[some]] for table, at in zip(wide, rows, strict=True)])
        return K

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        w, *tables = ctx.saved_tensors
        needed = ctx.needs_input_grad[4:]
        wide = [table[:, at] for table, at in zip(tables, ctx.columns, strict=True)]
        slopes = [torch.zeros_like(table) if need else None for table, need in zip(wide, needed, strict=True)]
        by_term, values = torch.zeros_like(w), w.tolist()
        for some in _pieces(grad):
            factors = [table[at[some]] for table, at in zip(wide, ctx.rows, strict=True)]
            for i, product in enumerate(_products(ctx.terms, factors, grad[some])):
                by_term[i] += product.sum()
            for j, slope in enumerate(slopes):
                if slope is not None:
                    left = [(_without(t, j), v) for t, v in zip(ctx.terms, values, strict=True) if j in t]
                    slope.index_add_(0, ctx.rows[j][some], grad[some] * polynomial(left, factors))
        back = [
            None if slope is None else torch.zeros_like(table).index_add_(1, at, slope)
            for table, slope, at in zip(tables, slopes, ctx.columns, strict=True)
        ]
        return by_term, None, None, None, *back


def _pieces(K: Tensor) -> list[slice]:
    """Rows of a matrix that are computed together."""
    size = max(1, NUMBERS_TOGETHER // max(1, K.shape[1]))
    return [slice(start, start + size) for start in range(0, len(K), size)]


def _products(terms: Terms, factors: Sequence[Tensor], start: Tensor) -> list[Tensor]:
    """The start times the product of each term's factors."""
    known: dict[tuple[int, ...], Tensor] = {(): start}
    for term in terms:
        for end in range(1, len(term) + 1):
            if term[:end] not in known:
                known[term[:end]] = known[term[: end - 1]] * factors[term[end - 1]]
    return [known[term] for term in terms]


def _without(term: tuple[int, ...], part: int) -> tuple[int, ...]:
    return tuple(j for j in term if j != part)
