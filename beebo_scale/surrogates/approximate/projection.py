r"""Down-roots of low rank: Rayleigh-Ritz pairs of the whitened covariance in a random subspace (see `love`).

Some rows may be held out: the subspace S is found without them, so that C at these rows shows how good it is (see
`held_out`). They enter afterwards, as what is projected on is the span of S and of these rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ...errors import InputError
from ...kernels.stationary import gram
from ...linalg.kernel_matrix import KernelMatrix
from .held_out import others


@dataclass(frozen=True)
class Projection:
    """A subspace of whitened rows that leaves some rows out, and what G = Sigma^-1/2 K Sigma^-1/2 does to it.

    Attributes:
        S: n x r, orthonormal, zero in the rows held out.
        T: S' G S, r x r.
        held: numbers of the h rows held out.
        G_held: G at these, h x h.
        Q: G_ht S_t, h x r.
    """

    S: Tensor
    T: Tensor
    held: Tensor
    G_held: Tensor
    Q: Tensor

    @classmethod
    def drawn(
        cls, K: KernelMatrix, sigma2: Tensor, rank: int, held: Tensor, seed: int = 0, sketch: torch.dtype | None = None
    ) -> Projection:
        """By randomised subspace iteration with one power step; of fewer columns where no more rows are left."""
        s = sigma2.sqrt().unsqueeze(-1)  # n x 1
        low = K if sketch is None else replace(K, product_dtype=sketch)
        generator, rest = torch.Generator().manual_seed(seed), others(held, len(K)).to(s.device)
        S = torch.randn(len(K), min(rank, len(rest)), generator=generator, dtype=torch.float64).to(s)
        S[held] = 0.0
        for _ in range(2):  # the sketch and the power step
            S[rest] = torch.linalg.qr(((low @ (S / s)) / s)[rest]).Q
        GS, t = (K @ (S / s)) / s, s[held]
        T, G = S.mT @ GS, gram(K.kernel, K.Z[held], K.Z[held]) / (t * t.mT)
        if not bool(torch.isfinite(T).all()):
            raise InputError("the covariance of the measured rows is not finite; check the inputs and the kernel")
        return cls(S, 0.5 * (T + T.mT), held, G, GS[held])

    def at_held(self, sigma2: Tensor) -> Tensor:
        """C at the rows held out, which it does not know, h x h."""
        g, V = torch.linalg.eigh(self.T)
        F, s = self.Q @ (V * (1 + g.clamp_min(0.0)).rsqrt()), sigma2[self.held].sqrt()
        return torch.outer(s, s) * (self.G_held - F @ F.mT)

    def root(self, sigma2: Tensor, rank: int) -> Tensor:
        """R, n x r: the Rayleigh-Ritz pairs with the largest values in the span of S and the rows held out."""
        columns = self.S.shape[-1]
        T = torch.cat([torch.cat([self.T, self.Q.mT], -1), torch.cat([self.Q, self.G_held], -1)])
        g, V = torch.linalg.eigh(T)
        if float(g[0]) < -1e-3 - 10 * len(self.S) * torch.finfo(g.dtype).eps * float(g[-1]):
            raise InputError("the covariance of the measured rows is not positive definite: the kernel is no valid one")
        # Below zero is rounding; zero leaves R smaller than it might be, on the safe side.
        V = V[:, -rank:] * (1 + g[-rank:].clamp_min(0.0)).rsqrt()
        R = self.S @ V[:columns]
        R[self.held] = V[columns:]
        return R / sigma2.sqrt().unsqueeze(-1)


def down_root(K: KernelMatrix, sigma2: Tensor, rank: int, seed: int = 0, sketch: torch.dtype | None = None) -> Tensor:
    """Root R by randomised subspace iteration with one power step; three products of K with r columns.

    Args:
        K: n x n.
        sigma2: n noise variances, above zero.
        rank: r, at most n.
        seed: of the sketch, drawn on the CPU.
        sketch: number format of the first two products.

    Returns:
        n x r, with R' (K + Sigma) R = 1.

    Raises:
        InputError: K is not positive semidefinite, or not finite.
    """
    none = torch.empty(0, dtype=torch.long, device=K.Z.device)
    return K.workers.first(Projection.drawn(K, sigma2, rank, none, seed, sketch).root(sigma2, rank))
