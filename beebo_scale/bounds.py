r"""True bounds of the information gain for batches too large for one q x q matrix.

Lower: C >= L L' for a partial pivoted Cholesky factor L (q x k), and logdet grows with C, so dropping the residual
C - L L' gives I >= 1/2 logdet(1 + L' Sigma^-1 L). Upper: by Fischer's inequality logdet of a positive definite matrix
is at most that of its diagonal blocks, so I <= sum of I over the parts of any partition of the batch. (Dropping only
the off-diagonal of the residual, as FITC does, is neither: it overestimates without limit.)
"""

from __future__ import annotations

import torch
from torch import Tensor

from .information import information_gain
from .linalg.pivoted_cholesky import pivoted_cholesky
from .posterior import Posterior


def information_gain_lower_bound(posterior: Posterior, X: Tensor, rank: int = 512) -> Tensor:
    """A number that the information gain of the batch is never below; exact from rank = q on.

    Args:
        posterior: of the surrogate.
        X: q x d batch.
        rank: columns of the pivoted Cholesky factor. Cost O(q rank (r + rank)), memory O(q (r + rank)).

    Returns:
        A scalar, in nats.

    Raises:
        ValueError: rank < 1.
    """
    if rank < 1:
        raise ValueError(f"a rank is at least 1, got {rank}")
    with torch.no_grad():
        half = _columns(posterior, X, min(rank, len(X))) / posterior.noise(X).sqrt()  # k x q
        return information_gain(half @ half.mT, 1.0)


def information_gain_upper_bound(posterior: Posterior, X: Tensor, block: int = 512) -> Tensor:
    """A number that the information gain of the batch is never above; exact if one block holds it all.

    Args:
        posterior: of the surrogate.
        X: q x d batch; it is cut into blocks of close points, so that little correlation is cut.
        block: most points in a block. Cost O(q block (r + block)).

    Returns:
        A scalar, in nats.

    Raises:
        ValueError: block < 1.
    """
    if block < 1:
        raise ValueError(f"a block has at least 1 point, got {block}")
    with torch.no_grad():
        gains = [information_gain(posterior.covar(part), posterior.noise(part)) for part in _halves(X, block)]
        return torch.stack(gains).sum()


def _halves(X: Tensor, block: int) -> list[Tensor]:
    """Cut points at the median of their widest coordinate until no part is larger than a block (a k-d tree)."""
    if len(X) <= block:
        return [X]
    widest = int((X.amax(0) - X.amin(0)).argmax())
    order = X[:, widest].argsort(stable=True)
    middle = len(X) // 2
    return _halves(X[order[:middle]], block) + _halves(X[order[middle:]], block)


def _columns(posterior: Posterior, X: Tensor, rank: int) -> Tensor:
    """L' (k x q, k <= rank) with L L' <= C: columns at the points of largest remaining variance over noise."""
    F, variance, noise = posterior.features(X), posterior.variance(X), posterior.noise(X)  # q x r, q, q
    floor = 1e-12 * float(variance.max())  # what is left below it is rounding

    def column(i: int) -> Tensor:
        return posterior.cross_covar(X, F, X[i : i + 1], F[i : i + 1]).squeeze(-1)

    def pivot(rest: Tensor) -> int | None:
        i = int((rest / noise).argmax())
        return i if float(rest[i]) > floor else None

    L = X.new_zeros(rank, len(X))
    return L[: len(pivoted_cholesky(variance, column, pivot, L))]
