"""Partial Cholesky factors of a covariance matrix, row after row (Harbrecht, Peters & Schneider 2012)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def pivoted_cholesky(
    rest: Tensor, row: Callable[[int], Tensor], pivot: Callable[[Tensor], int | None], F: Tensor, known: int = 0
) -> list[int]:
    """Fill F with rows f_j such that F'F <= C, with equality in the rows and columns of the pivots.

        f_j = (c_i - F_{:j}' F_{:j,i}) / sqrt(rest_i),    rest <- rest - f_j^2

    Args:
        rest: n, the diagonal of C less what F explains already.
        row: i -> row i of C, n.
        pivot: what is left of the diagonal (n) -> the next row to take, or None to stop.
        F: m x n, at most m pivots are taken; filled in place.
        known: rows of F that are filled already.

    Returns:
        The pivots, at most m - known.
    """
    pivots: list[int] = []
    for j in range(known, len(F)):
        i = pivot(rest)
        if i is None:
            break
        torch.div(row(i) - F[:j, i] @ F[:j], rest[i].sqrt(), out=F[j])
        rest = rest - F[j].square()
        rest[i] = 0.0
        pivots.append(i)
    return pivots
