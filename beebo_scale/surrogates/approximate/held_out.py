r"""How wrong the information gain of an approximation is, measured on rows that the data have and it does not know.

A posterior that stands in for the exact one makes C wrong by how much depends on the kernel, the noise and the data,
and no rule of thumb finds it (1 % to 200 % at the same rank). So I is computed both ways for batches of measured rows
h, given only the other rows t: points with the distribution of the data, at which neither posterior has been.
Nothing is computed twice. With K + Sigma over all rows,

    C(h, h | t) + Sigma_h = [ (K + Sigma)^-1 ]_hh^-1

is exact. A root of low rank is found without the rows h, which enter it afterwards (`love.Projection`); a posterior
over inducing points forgets them by algebra (`forgotten`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...information import information_gain
from ...posterior import Posterior

BATCHES, Q = 8, 64  # batches that are held out, and rows in each, as long as ...
BATCH_SHARE, SHARE = 8, 4  # ... a batch is no more than one row in so many, and all of them one in so many
SEED = 920_817_003  # of the draw: always the same, so that inducing points can keep away from the rows held out


def held_out_rows(n: int, batches: int = BATCHES) -> Tensor:
    """Rows to be held out of n, in batches: b x q; none (0 x 0) of a single row. Fewer are the first of more."""
    q = min(Q, max(n // BATCH_SHARE, min(n - 1, 1)))
    b = min(batches, max(1, n // SHARE // q)) if q else 0
    return torch.randperm(n, generator=torch.Generator().manual_seed(SEED))[: b * q].reshape(b, q)


def others(rows: Tensor, n: int) -> Tensor:
    """All but some rows of n, in order."""
    left = torch.ones(n, dtype=torch.bool, device=rows.device)
    left[rows.flatten()] = False
    return left.nonzero().squeeze(-1)


def excess_of(covar: Tensor, exact: Tensor, noise: Tensor) -> float:
    """Mean over batches of I / I_exact - 1; b x q x q, b x q x q and b x q."""
    if not covar.numel():
        return 0.0
    return float((information_gain(covar, noise) / information_gain(exact, noise)).mean()) - 1.0


def excess(posterior: Posterior, exact: Posterior, X: Tensor) -> float:
    """`excess_of` for two posteriors at batches X, b x q x d."""
    with torch.no_grad():
        return excess_of(posterior.covar(X), exact.covar(X), posterior.noise(X))


def in_batches(C: Tensor, held: Tensor) -> Tensor:
    """The diagonal blocks of a matrix over all rows held out (b x q of them): b x q x q."""
    b, q = held.shape
    return C.reshape(b, q, b, q).diagonal(dim1=0, dim2=2).permute(2, 0, 1)


def forgotten(C: Tensor, known: Tensor, sigma2: Tensor) -> Tensor:
    r"""Covariance at q rows once these rows have left q(v), for a posterior k - a'a + a' S a over inducing points.

        S' = (S^-1 - A Sigma^-1 A')^-1 = S + S A (Sigma - D)^-1 A' S,     D = A' S A,     C' = C + D (Sigma - D)^-1 D

    with A the whitened features of the rows.

    Args:
        C: ... q x q covariance that knows them.
        known: D, ... q x q, below Sigma.
        sigma2: ... q noise variances that they entered with.
    """
    s = sigma2.sqrt().unsqueeze(-1)  # ... q x 1
    g, V = torch.linalg.eigh(known / (s * s.mT))
    g = g.clamp(0.0, 1.0 - 1e-8)  # in exact arithmetic from zero to below one
    V = s * V
    return C + (V * (g.square() / (1 - g)).unsqueeze(-2)) @ V.mT
