r"""How large blocks are where nobody says, and what larger ones would gain.

The factors of n rows in blocks of b rows take about n b^2 / 3 products beside n m^2 for the inducing points: a constant
`WORK` for both n b^2 and n m^2 makes them as large as can be for the same work. It is no measured time: the same rows
and seed give the same blocks on any machine.

The error of a model is measured on its own rows, each left out: with P = (K_b + Sigma)^-1, y_i - mean_i without row i
is (P (y - m))_i / P_ii = beta_i / P_ii. The same with a block cut in two says what blocks of half the size lose, and
twice the size should gain as much or less.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from ....linalg.block_factors import BlockFactor, block_factor
from ....linalg.partition import divided
from .fit import InBlocks, Sums, factor_at

POINTS = (4096, 2048, 1024)  # inducing points: the first m with n m^2 no more than `WORK`, else the last
WORK = 6.1e11  # n b^2, too
LEAST = 500  # rows of a block
LOOKED_AT = 8  # blocks that are cut in two, at most, and at most one in ...
SHARE = 4
EACH = 256  # rows of each that are left out, one at a time


def points_of_blocks(n: int) -> int:
    """Inducing points for n rows; few rows are one block, which needs none."""
    return min(max(1, n // 4), next((m for m in POINTS if n * m**2 <= WORK), POINTS[-1]))


def block_rows(n: int, memory: int) -> int:
    """Rows of a block for n rows; a few matrices of block by block must fit into so many bytes."""
    return min(n, max(LEAST, int(math.sqrt(WORK / n))), max(LEAST, int(math.sqrt(memory / 64))))


def gain_of_larger(rows: InBlocks, sums: Sums, seed: int = 0) -> float:
    """Root mean square of the left-out errors over that with blocks half as large, below 1 where size helps.

    Args:
        rows: in blocks, or a posterior over them.
        sums: over all of them.
        seed: of the blocks and rows looked at.
    """
    generator = torch.Generator().manual_seed(seed)
    count = min(LOOKED_AT, max(1, len(rows.partition) // SHARE))
    whole, halves = [], []
    with torch.no_grad():
        for block in torch.randperm(len(rows.partition), generator=generator)[:count].tolist():
            members = rows.partition.rows(block)
            some = torch.randperm(len(members), generator=generator)[:EACH].to(members.device)
            one = [(factor_at(rows, block), torch.arange(len(members), device=members.device))]
            two, residual = _cut(rows, one[0][0].X, members, seed), rows.residual[members]
            whole.append(_left_out(one, sums, residual, some))
            halves.append(_left_out(two, _exchanged(sums, one, two, residual), residual, some))
    return float((torch.cat(whole).square().mean() / torch.cat(halves).square().mean()).sqrt())


Parts = list[tuple[BlockFactor, Tensor]]  # of a block, each with the places of its rows


def _cut(rows: InBlocks, X: Tensor, members: Tensor, seed: int) -> Parts:
    """A block cut in two, as a partition into smaller blocks would."""
    parts = divided(rows.inducing.kernel, lambda places: X[places], len(X), -(-len(X) // 2), seed)
    places = [parts.rows(i) for i in range(len(parts))]
    return [(block_factor(rows.inducing, X[some], rows.sigma2[members[some]]), some) for some in places]


def _exchanged(sums: Sums, old: Parts, new: Parts, residual: Tensor) -> Sums:
    """The sums with the contribution of new parts in place of old ones."""
    A, c = sums.A, sums.c
    for sign, parts in ((-1.0, old), (1.0, new)):
        for factor, places in parts:
            r = torch.linalg.solve_triangular(factor.L, residual[places].unsqueeze(-1), upper=False)
            A, c = A + sign * factor.E.mT @ factor.E, c + sign * (factor.E.mT @ r).squeeze(-1)
    return replace(sums, A=A, c=c)


def _left_out(parts: Parts, sums: Sums, residual: Tensor, some: Tensor) -> Tensor:
    """Errors of some rows of a block in parts, each row without itself."""
    root = sums.root
    a = torch.cholesky_solve(sums.c.unsqueeze(-1), root)
    errors = residual.new_empty(len(residual))
    for factor, places in parts:
        r = torch.linalg.solve_triangular(factor.L, residual[places].unsqueeze(-1), upper=False)
        beta = torch.linalg.solve_triangular(factor.L.mT, r - factor.E @ a, upper=True).squeeze(-1)
        here = torch.isin(places, some).nonzero().squeeze(-1)
        errors[places[here]] = beta[here] / precision_of(factor, root, here).diagonal()
    return errors[some]


def precision_of(factor: BlockFactor, root: Tensor, rows: Tensor) -> Tensor:
    """(K_b + Sigma)^-1 at some rows of one block: Lambda^-1 - Lambda^-1 F A^-1 F' Lambda^-1, h x h."""
    columns = factor.L.new_zeros(len(factor.L), len(rows))
    columns[rows, torch.arange(len(rows), device=rows.device)] = 1.0
    half = torch.linalg.solve_triangular(factor.L, columns, upper=False)  # n x h
    W = torch.linalg.solve_triangular(root, factor.E.mT @ half, upper=False)  # m x h
    return half.mT @ half - W.mT @ W
