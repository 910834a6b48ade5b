r"""The posterior of blocks beside inducing points: the partially independent conditional (Snelson & Ghahramani 2007).

The prior covariance is given up between blocks, and only beyond what m inducing points Z carry,

    k_b(x, x') = F(x) F(x')' + [b(x) = b(x')] (k(x, x') - F(x) F(x')'),    F(x) = k(x, Z) L^-T,  L L' = k(Z, Z),

which is a kernel, so that what follows is exact for it. With L_b, E_b of `linalg.block_factors`, r_b = L_b^-1 (y - m),

    A = 1 + sum_b E_b' E_b       a = A^-1 sum_b E_b' r_b      beta_b = L_b^-T (r_b - E_b a)
    e(x) = L_b^-1 (k(X_b, x) - F_b F(x)')                     g(x) = F(x) - E_b' e(x)             b = b(x)
    mean(x)  = m(x) + F(x) (a - F_b' beta_b) + k(x, X_b) beta_b
    C(x, x') = g(x) A^-1 g(x')' + [b(x) = b(x')] (k(x, x') - F(x) F(x')' - e(x)' e(x'))

What a block needs is computed when its points come, and kept as long as memory allows. The gradient is that within a
block: the block of a point is where it is nearest, and has none.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor
from torch.nn import Module

from ....conditioned import Conditioned
from ....kernel_posterior import PriorPosterior
from ....kernels.stationary import gram
from ....linalg.block_factors import BlockFactor, Inducing, block_factor
from ....linalg.partition import Partition
from ....protocols import Noise
from ...data.observations import Measurements, Observations

POINTS_SHOWN = 2**25  # numbers of X up to which a search may start from all measured rows; else from inducing points
COLLECTED = 512  # points of a block that are worth computing its factor for ...
LARGE = 2**31  # ... where all factors take more bytes than this (no matter what is free: units of work must not differ)


@dataclass(frozen=True)
class Block:
    """What a point needs of its block.

    Attributes:
        factor: L_b and E_b, in the number format in which they are kept, without rows.
        beta: n.
        shared: a - F_b' beta_b, m.
    """

    factor: BlockFactor
    beta: Tensor
    shared: Tensor

    @property
    def size(self) -> int:
        """Bytes, about."""
        return sum(part.numel() * part.element_size() for part in (self.factor.L, self.factor.E))


class Kept:
    """Blocks in memory, those asked for last; one of them at least.

    Args:
        memory: bytes for them.
    """

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.blocks: OrderedDict[int, Block] = OrderedDict()
        self.size = 0

    def get(self, number: int, make: Callable[[int], Block]) -> Block:
        """A block, made if it is not there."""
        if number in self.blocks:
            self.blocks.move_to_end(number)
            return self.blocks[number]
        made = make(number)
        self.blocks[number] = made
        self.size += made.size
        while self.size > self.memory and len(self.blocks) > 1:
            self.size -= self.blocks.popitem(last=False)[1].size
        return made


@dataclass(frozen=True)
class BlocksPosterior(PriorPosterior):
    """`Posterior` of the form above.

    Features are [g(x) L_A^-T (m) | F(x) (m) | e(x), then zeros (largest block) | b(x) (1)], with L_A L_A' = A.

    Attributes:
        kernel: prior covariance k, parameters frozen; of points, and of rows.
        prior_mean: m, of points.
        inducing: Z and L; its kernel is that of rows.
        partition: rows by block.
        data: measured rows, unpacked block by block.
        residual: n measured values less their prior mean.
        sigma2: n noise variances of theirs.
        root: L_A, m x m.
        a: m.
        noise: sigma^2(x) of a new measurement.
        kept: blocks in memory.
        precision: number format in which L_b and E_b are kept and used. float32 halves time and memory; the mean is as
            exact as ever, the variance good to about 1e-6 k / sigma.
        answers: number format of points and answers; sums over rows and the mean are float64 in any case.
        warp: see `PriorPosterior`.
        prior_variance: see `PriorPosterior`.
    """

    kernel: Kernel
    prior_mean: Mean
    inducing: Inducing
    partition: Partition
    data: Measurements
    residual: Tensor
    sigma2: Tensor
    root: Tensor
    a: Tensor
    noise: Noise
    kept: Kept = field(repr=False, compare=False)
    precision: torch.dtype = torch.float64
    answers: torch.dtype = torch.float64
    warp: Module | None = None
    prior_variance: float | None = None

    # --- what a posterior says of itself -------------------------------------------------------------------

    @property
    def centers(self) -> Tensor:  # type: ignore[override]  # nobody writes it
        """The inducing points, m x d."""
        return self.inducing.Z

    @cached_property
    def points(self) -> Tensor:
        """Measured rows as callers give them; of very many numbers, or where they are packed, the inducing points."""
        small = isinstance(self.data, Observations) and self.data.X.numel() <= POINTS_SHOWN
        return self.unwarped(self.data.X if small else self.centers).to(self.answers)

    @property
    def dtype(self) -> torch.dtype:
        """Number format of answers."""
        return self.answers

    @property
    def device(self) -> torch.device:
        """Where the inducing points lie."""
        return self.centers.device

    @property
    def rank(self) -> int:
        """Number of features."""
        return 2 * len(self.inducing) + self._width + 1

    @cached_property
    def _width(self) -> int:
        """Rows of the largest block."""
        return int(self.partition.sizes.max())

    @cached_property
    def _at_points(self) -> Inducing:
        """The inducing points with the kernel of points."""
        return replace(self.inducing, kernel=self.kernel)

    @cached_property
    def _inverse(self) -> Tensor:
        """L_A^-T, m x m, in the format of the factors."""
        eye = torch.eye(len(self.root), dtype=self.root.dtype, device=self.root.device)
        return torch.linalg.solve_triangular(self.root, eye, upper=False).mT.to(self.precision)

    # --- parts ---------------------------------------------------------------------------------------------

    def parts(self, X: Tensor) -> Tensor:
        """The block of each of p points."""
        return self.partition.nearest(self.kernel, self._warped(X.double()))

    @property
    def points_together(self) -> int:
        """Many where not all blocks can be kept: each takes as long to get as hundreds of its points."""
        n, m, size = self.partition.sizes, len(self.inducing), torch.finfo(self.precision).bits // 8
        return 1 if size * int((n * (n + m)).sum()) <= LARGE else COLLECTED * len(self.partition)

    def block(self, number: int) -> Block:
        """What points of a block need, from memory or made."""
        return self.kept.get(number, self._made)

    def _made(self, number: int) -> Block:
        with torch.no_grad():
            sigma2 = self.sigma2[self.partition.rows(number)]
            return self.of_factor(number, block_factor(self.inducing, self._rows(number), sigma2))

    def _rows(self, number: int) -> Tensor:
        """X_b, n x d."""
        return self.data.take(self.partition.rows(number)).X

    def of_factor(self, number: int, factor: BlockFactor) -> Block:
        """A block from its factor in float64."""
        right = self.residual[self.partition.rows(number)].unsqueeze(-1)
        z = torch.linalg.solve_triangular(factor.L, right, upper=False) - (factor.E @ self.a).unsqueeze(-1)
        beta = torch.linalg.solve_triangular(factor.L.mT, z, upper=True).squeeze(-1)
        shared = self.a - (factor.E.mT @ z).squeeze(-1)
        return Block(factor.kept_in(self.precision), beta, shared)

    def precision_at(self, rows: Tensor) -> Tensor:
        """(K_b + Sigma)^-1 at some measured rows, h x h: blockdiag(Lambda_b^-1) - W A^-1 W', W_b = Lambda_b^-1 F_b."""
        label = self.partition.labels[rows]
        P, W = self.a.new_zeros(len(rows), len(rows)), self.a.new_zeros(len(rows), len(self.a))
        for number in label.unique().tolist():
            here = (label == number).nonzero().squeeze(-1)
            factor = self.block(number).factor
            columns = factor.L.new_zeros(len(factor.L), len(here))
            places = torch.searchsorted(self.partition.rows(number), rows[here])  # rows of a block rise
            columns[places, torch.arange(len(here), device=rows.device)] = 1.0
            half = torch.linalg.solve_triangular(factor.L, columns, upper=False)  # n x h
            P[here.unsqueeze(-1), here] = (half.mT @ half).to(P)
            W[here] = (half.mT @ factor.E).to(W)
        W = torch.linalg.solve_triangular(self.root, W.mT, upper=False)
        return P - W.mT @ W

    # --- moments -------------------------------------------------------------------------------------------

    def mean(self, X: Tensor) -> Tensor:
        """Posterior mean, ... q x d -> ... q; without features, so that it costs no more than kernel values."""
        T = self._warped(X.double())

        def of(number: int, T: Tensor) -> tuple[Tensor]:
            block = self.block(number)
            shared = torch.linalg.solve_triangular(self.inducing.L.mT, block.shared.unsqueeze(-1), upper=True)
            known = gram(self.kernel, T, self.centers) @ shared.squeeze(-1)
            return (known + gram(self.kernel, T, self._rows(number)) @ block.beta,)

        return (self.prior_mean(T) + self._over_blocks(T, of)[0]).to(X.dtype)

    def mean_and_variance(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """`mean` and `variance`, both ... q."""
        return self._moments(X, features=False)[:2]

    def variance(self, X: Tensor) -> Tensor:
        """The diagonal of `covar`, ... q x d -> ... q."""
        return self.mean_and_variance(X)[1]

    def mean_variance_and_features(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`mean`, `variance` (both ... q) and `features` (... q x r)."""
        return self._moments(X, features=True)

    def cross_covar(self, X1: Tensor, F1: Tensor, X2: Tensor, F2: Tensor) -> Tensor:
        """g_1 A^-1 g_2' + [b_1 = b_2] (k - F_1 F_2' - e_1' e_2) from known features, ... p x q."""
        m = len(self.inducing)
        same = (F1[..., -1:] == F2[..., -1:].mT).to(F1)  # ... p x q
        within = self.prior_covar(X1.double(), X2.double()).to(F1) - F1[..., m:-1] @ F2[..., m:-1].mT
        return F1[..., :m] @ F2[..., :m].mT + same * within

    def _moments(self, X: Tensor, features: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, variance and, if wanted, features (else ... q x 0), in the format of the points."""
        T = self._warped(X.double())
        mean, explained, F = self._over_blocks(T, lambda number, T: self._of_block(number, T, features))
        variance = (self.kernel(T, diag=True) - explained).clamp_min(0.0)
        return (self.prior_mean(T) + mean).to(X.dtype), variance.to(X.dtype), F.to(X.dtype)

    def _of_block(self, number: int, T: Tensor, features: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Of p points of one block: mean without m(x), prior variance less variance (both p), features."""
        block = self.block(number)
        K, F = gram(self.kernel, T, self._rows(number)), self._at_points.features(T)  # p x n, p x m
        low = F.to(self.precision)
        e = block.factor.residual(K.to(self.precision), low)
        G = ((low - e @ block.factor.E) @ self._inverse).to(F)
        e = e.to(F)
        explained = F.square().sum(-1) + e.square().sum(-1) - G.square().sum(-1)
        mean = F @ block.shared + K @ block.beta
        if not features:
            return mean, explained, F[:, :0]
        e = torch.nn.functional.pad(e, (0, self._width - e.shape[-1]))
        return mean, explained, torch.cat([G, F, e, F.new_full((len(F), 1), float(number))], dim=-1)

    def _over_blocks(self, T: Tensor, of: Callable[[int, Tensor], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """What `of` says of the points (... q x d) of each block: ... q x ...."""
        flat = T.reshape(-1, T.shape[-1])
        label = self.partition.nearest(self.kernel, flat)
        order = label.argsort(stable=True)
        numbers, counts = label[order].unique_consecutive(return_counts=True)
        places = order.split(counts.tolist()) if len(order) else (order,)
        found = [of(number, flat[some]) for number, some in zip(numbers.tolist() or [0], places, strict=True)]
        back = order.argsort()
        parts = (torch.cat(pieces)[back] for pieces in zip(*found, strict=True))
        return tuple(part.reshape(*T.shape[:-1], *part.shape[1:]) for part in parts)

    # --- others from it ------------------------------------------------------------------------------------

    def augment(self, X: Tensor, noise: Tensor | float | None = None, Y: Tensor | None = None) -> Conditioned:
        """This posterior conditioned on measurements at X, exactly: a point counts in the block of its nearest head.

        Raises:
            ValueError: X is no matrix, shapes disagree, a noise variance is negative, or C + Sigma is not positive
                definite.
        """
        return Conditioned.without(self).augment(X, noise, Y)

    def to(self, *args: Any, **kwargs: Any) -> BlocksPosterior:
        """With answers in another number format, or on another device; what float32 would harm stays in float64."""
        like = torch.empty(0, dtype=self.answers, device=self.device).to(*args, **kwargs)
        noise = self.noise.to(like.device, like.dtype)
        if like.device == self.device:
            return replace(self, answers=like.dtype, noise=noise)
        parts = ("inducing", "partition", "data", "residual", "sigma2", "root", "a")
        modules = {name: copy.deepcopy(getattr(self, name)) for name in ("kernel", "prior_mean", "warp")}
        moved = {name: getattr(self, name).to(like.device) for name in parts}
        moved |= {name: module if module is None else module.to(like.device) for name, module in modules.items()}
        return replace(self, **moved, noise=noise, kept=Kept(self.kept.memory), answers=like.dtype)
