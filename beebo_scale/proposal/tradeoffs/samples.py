"""Joint samples of a posterior at more and more points."""

from __future__ import annotations

import torch
from torch import Tensor

from ...outcomes import cholesky
from ...surrogates.data.pairs import PairsPosterior


class JointSamples:
    """S joint samples of all targets, extended point by point without a change to what was drawn before.

    With L L' = C over the pairs that are known and W = L^-1 C(known, new), new pairs are mean + W' z + R e, R R' what
    is left of their covariance, z the normal numbers of the known pairs and e new ones: the exact joint distribution,
    up to a jitter that enters samples only. Half of the samples are the other half mirrored at the mean.

    Args:
        posterior: of several targets.
        samples: S, even.
        seed: of the normal numbers.
        capacity: pairs, at most; 8 (capacity + S) bytes for each.
    """

    def __init__(self, posterior: PairsPosterior, samples: int, seed: int, capacity: int) -> None:
        self.posterior, self.count, self.capacity = posterior, samples, capacity
        self.generator = torch.Generator().manual_seed(seed)
        self.L = torch.empty(0, 0, dtype=posterior.dtype, device=posterior.device)
        self.z = self.L.new_empty(0, samples)
        self.X = self.L.new_empty(0, 0)
        self.F = self.L.new_empty(0, posterior.rank)
        self.size = 0  # pairs that are known

    def room(self) -> int:
        """How many more points there is room for."""
        return (self.capacity - self.size) // self.posterior.tasks

    def at(self, X: Tensor, mean: Tensor, F: Tensor) -> Tensor:
        """Draw at n more points.

        Args:
            X: n x d.
            mean: their posterior means, n x t.
            F: their features, (n t) x r.

        Returns:
            S x n x t.
        """
        old, new = self.size, mean.numel()
        C = self.posterior.cross_covar(X, F, X, F)
        z = torch.randn(new, self.count // 2, generator=self.generator, dtype=torch.float64).to(C)
        z = torch.cat([z, -z], dim=-1)
        f = mean.reshape(-1, 1).expand(-1, self.count)
        self._grow(old + new)
        if old:
            c = self.posterior.cross_covar(self.X, self.F[:old], X, F)  # old x new
            W = torch.linalg.solve_triangular(self.L[:old, :old], c, upper=False)
            C, f = C - W.mT @ W, f + W.mT @ self.z[:old]
            self.L[old : old + new, :old] = W.mT
        R = cholesky(C)
        self.L[old : old + new, old : old + new] = R
        self.z[old : old + new], self.F[old : old + new] = z, F
        self.X = torch.cat([self.X, X]) if old else X
        self.size = old + new
        return (f + R @ z).mT.reshape(self.count, len(X), -1)

    def _grow(self, size: int) -> None:
        """Make place for so many pairs, and for as many again where there is need."""
        if size <= len(self.L):
            return
        size = min(max(size, 2 * len(self.L)), max(self.capacity, size))
        L, z, F = (
            self.L.new_zeros(size, size),
            self.z.new_empty(size, self.count),
            self.F.new_empty(size, self.F.shape[1]),
        )
        known = self.size
        L[:known, :known], z[:known], F[:known] = self.L[:known, :known], self.z[:known], self.F[:known]
        self.L, self.z, self.F = L, z, F
