r"""Sums over blocks: one pass over the rows, blocks shared out among workers, the same bits for any number of them.

    A = 1 + sum_b E_b' E_b      c = sum_b E_b' r_b      logdet = sum_b logdet L_b      square = sum_b r_b' r_b

Blocks are taken in groups, group i by worker i mod W, and added in the order of the groups. What is added so far can be
kept in a file, from which a run that was killed goes on, with as many workers as it then has.
"""

from __future__ import annotations

import copy
import math
import time
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from .... import archives
from ....kernel_posterior import FLOAT32_NOISE
from ....kernels.stationary import freeze
from ....linalg.block_factors import BlockFactor, Inducing, block_factor
from ....linalg.partition import Partition
from ....protocols import Noise
from ....workers import Workers
from ...data.observations import Measurements
from ...gaussian_process.gaussian_process import GaussianProcess, own_noise
from ..rank import free_memory
from .posterior import LARGE, BlocksPosterior, Kept

GROUPS = 64  # of blocks, at most: what workers send each other is m x m numbers for each
ROWS_AT_ONCE = 16_384  # unpacked
KEPT = 3 * 2**30  # bytes of factors
SAVED_EVERY = 10.0  # seconds
DAMAGED = "{path}: what an earlier run had added up is damaged ({why}); delete it"


@dataclass(frozen=True)
class Sums:
    """What all rows say about the inducing points.

    Attributes:
        A: m x m.
        c: m.
        log_likelihood: of the rows under the kernel of blocks, replicates by their means.
    """

    A: Tensor
    c: Tensor
    log_likelihood: float

    @property
    def root(self) -> Tensor:
        """L_A, m x m."""
        return torch.linalg.cholesky(self.A)


class InBlocks(Protocol):
    """Rows in blocks, as `Rows` and a posterior over them have them."""

    @property
    def inducing(self) -> Inducing:
        """Points that carry what blocks share."""

    @property
    def partition(self) -> Partition:
        """Of the rows."""

    @property
    def data(self) -> Measurements:
        """N observations."""

    @property
    def residual(self) -> Tensor:
        """Values less their prior mean, n."""

    @property
    def sigma2(self) -> Tensor:
        """Noise variances, n."""


@dataclass(frozen=True)
class Rows:
    """Measured rows in blocks, and the process that explains them.

    Attributes:
        gp: prior and noise, frozen.
        inducing: points that carry what blocks share.
        partition: of the rows.
        data: n observations.
        residual: n values less their prior mean.
        sigma2: n noise variances.
    """

    gp: GaussianProcess
    inducing: Inducing
    partition: Partition
    data: Measurements
    residual: Tensor
    sigma2: Tensor

    @classmethod
    def of(cls, gp: GaussianProcess, Z: Tensor, partition: Partition, data: Measurements) -> Rows:
        """With what the process says of each row, in chunks."""
        gp = copy.deepcopy(gp).requires_grad_(False)
        with torch.no_grad():
            sigma2, residual = torch.empty_like(data.y), torch.empty_like(data.y)
            for some in torch.arange(len(data), device=data.y.device).split(ROWS_AT_ONCE):
                part = data.take(some)
                sigma2[some], residual[some] = gp.noise_of(part), part.y - gp.mean(part.X)
        return cls(gp, Inducing.of(freeze(gp.kernel), Z), partition, data, residual, sigma2)

    def precision(self, asked: str = "auto") -> torch.dtype:
        """Number format of the factors; "auto" is float32 only where there are many and the noise is large enough."""
        if asked != "auto":
            return torch.float64 if asked == "float64" else torch.float32
        with torch.no_grad():
            prior = float(self.inducing.kernel(self.inducing.Z, diag=True).mean())
        drowned = float(self.sigma2.min()) < FLOAT32_NOISE * prior
        return torch.float64 if drowned or self.bytes <= LARGE else torch.float32

    @cached_property
    def identity(self) -> str:
        """Of rows, hyperparameters and blocks, in a few letters."""
        parts = (self.inducing.L, self.residual, self.sigma2, self.partition.labels)
        return sha256(b"".join(part.cpu().numpy().tobytes() for part in parts)).hexdigest()[:16]

    @property
    def bytes(self) -> int:
        """Of all factors in float64."""
        n = self.partition.sizes
        return 8 * int((n * (n + len(self.inducing))).sum())

    def posterior(
        self,
        sums: Sums,
        noise: Noise | None = None,
        precision: torch.dtype = torch.float64,
        memory: int | None = None,
        factors: dict[int, BlockFactor] | None = None,
    ) -> BlocksPosterior:
        """The posterior.

        Args:
            sums: over all rows.
            noise: of a new measurement, None takes the process's own (see `own_noise`).
            precision: number format in which factors are kept.
            memory: bytes for them, None takes half of what is free, at most `KEPT`.
            factors: that are at hand.
        """
        root = sums.root
        a = torch.cholesky_solve(sums.c.unsqueeze(-1), root).squeeze(-1)
        posterior = BlocksPosterior(
            kernel=self.inducing.kernel,
            prior_mean=self.gp.mean,
            inducing=self.inducing,
            partition=self.partition,
            data=self.data,
            residual=self.residual,
            sigma2=self.sigma2,
            root=root,
            a=a,
            noise=own_noise(self.gp, self.data) if noise is None else noise,
            kept=Kept(min(KEPT, free_memory(a.device)) if memory is None else memory),
            precision=precision,
        )
        for number, factor in (factors or {}).items():
            posterior.kept.get(number, lambda number, factor=factor: posterior.of_factor(number, factor))  # type: ignore[misc]
        return posterior


def factor_at(rows: InBlocks, block: int) -> BlockFactor:
    """Of a block, in float64."""
    some = rows.partition.rows(block)
    return block_factor(rows.inducing, rows.data.take(some).X, rows.sigma2[some])


def added(
    rows: Rows, workers: Workers | None = None, saved: Path | None = None, keep: dict[int, BlockFactor] | None = None
) -> Sums:
    """The sums over all blocks.

    Args:
        rows: in blocks.
        workers: that share the blocks out; None is this process alone.
        saved: file of what is added so far, which all workers see; gone when all is added.
        keep: filled with the factors of this worker's blocks.
    """
    workers, m = workers or Workers(), len(rows.inducing)
    step = -(-len(rows.partition) // GROUPS)
    groups = [range(i, min(i + step, len(rows.partition))) for i in range(0, len(rows.partition), step)]
    total, done = rows.residual.new_zeros(m * m + m + 2), 0
    if saved is not None:
        total, done = _earlier(rows, total, saved, workers)
    start = time.monotonic()
    for first in range(done, len(groups), workers.size):
        turn = groups[first : first + workers.size]
        mine = _part(rows, turn[workers.rank], keep) if workers.rank < len(turn) else None
        for owner in range(len(turn)):
            value = mine if owner == workers.rank and mine is not None else torch.empty_like(total)
            if workers.size > 1:
                dist.broadcast(value, src=owner)
            total = total + value
        if saved is not None and workers.rank == 0 and time.monotonic() - start > SAVED_EVERY:
            archives.save(saved, {"identity": rows.identity, "total": total.cpu(), "done": first + len(turn)})
            start = time.monotonic()
    P, c, logdet, square = total[: m * m].reshape(m, m), total[m * m : -2], total[-2], total[-1]
    sums = Sums(P + torch.eye(m, dtype=P.dtype, device=P.device), c, 0.0)
    if saved is not None and workers.rank == 0:
        saved.unlink(missing_ok=True)
    root = sums.root
    z = torch.linalg.solve_triangular(root, c.unsqueeze(-1), upper=False)
    value = -0.5 * (square - z.square().sum()) - logdet - root.diagonal().log().sum()
    return Sums(sums.A, c, float(value) - 0.5 * len(rows.data) * math.log(2 * math.pi))


def _earlier(rows: Rows, total: Tensor, saved: Path, workers: Workers) -> tuple[Tensor, int]:
    """What a killed run of the same rows had added up, and the number of its groups, as worker 0 finds it."""
    state = torch.cat([total, total.new_zeros(1)])
    if workers.rank == 0 and saved.exists():
        content = archives.load(saved, DAMAGED)
        if content["identity"] == rows.identity:
            state = torch.cat([content["total"].to(total), total.new_full((1,), content["done"])])
    state = workers.first(state)
    return state[:-1], int(state[-1])


def _part(rows: Rows, blocks: range, keep: dict[int, BlockFactor] | None) -> Tensor:
    """The sums over some blocks as one vector: m x m, m, 1, 1."""
    total: Any = 0.0
    for block in blocks:
        factor = factor_at(rows, block)
        right = rows.residual[rows.partition.rows(block)].unsqueeze(-1)
        r = torch.linalg.solve_triangular(factor.L, right, upper=False).squeeze(-1)
        parts = ((factor.E.mT @ factor.E).reshape(-1), factor.E.mT @ r)
        total = total + torch.cat([*parts, factor.L.diagonal().log().sum().reshape(1), (r @ r).reshape(1)])
        if keep is not None:
            keep[block] = factor
    return total
