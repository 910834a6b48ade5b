r"""The LOVE surrogate: a posterior over n training rows with a down-root of rank r << n.

With the whitened matrix H = Sigma^-1/2 K Sigma^-1/2 + 1, an orthonormal S (n x r) and the Rayleigh-Ritz eigenpairs
S' H S = V diag(lambda) V',

    R = Sigma^-1/2 S V diag(lambda)^-1/2,     R R' = Sigma^-1/2 S (S' H S)^-1 S' Sigma^-1/2 <= (K + Sigma)^-1.

R R' is a Galerkin projection: whatever S is, C and I are never too small. S spans H^2 Omega for a random Omega, a
randomised subspace iteration with one power step. The mean is exact up to the tolerance of conjugate gradients.

Sources: Pleiss et al. 2018 (LOVE: the same form, with a Krylov space for S); Jiang et al. 2020 (low-rank posteriors
updated by new points); Halko, Martinsson, Tropp 2011 (randomised subspace iteration); Wenger et al. 2022 (IterGP:
the projection and what it overestimates). Whitening is what makes r suffice when each row has its own noise.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor

from ...errors import InputError
from ...kernel_posterior import KernelPosterior
from ...kernels.stationary import freeze, gram
from ...linalg.conjugate_gradients import CovarianceSolver, Solution
from ...linalg.kernel_matrix import KernelMatrix
from ...linalg.roots import DenseRoot
from ...protocols import Noise
from ...workers import Workers
from ..data.observations import Measurements
from ..gaussian_process.gaussian_process import GaussianProcess, own_noise
from .rank import Probes, affordable_rank, excess, free_memory

FIRST_RANK = 128  # of rank="auto"; it doubles from there
PROBE_TOLERANCE = 1e-4  # what the exact variance at a probe may be off by, in units of the noise variance


@dataclass(frozen=True)
class LoveOptions:
    """How a LOVE posterior is built.

    Attributes:
        rank: r, or "auto": r doubles until the estimated relative error of I is at most `error` or memory ends.
        error: that tolerance.
        memory: bytes that building the root may take, None for half of what is free.
        seed: of the random sketch and of the probe batches.
        mean_tolerance: relative residual of the mean's weights, whitened and preconditioned.
        preconditioner: rank of the partial Cholesky factorisation that preconditions conjugate gradients, None by n.
        max_iterations: limit of conjugate gradients.
        sketch_dtype: number format of the products that find the subspace. float32 halves their cost and cannot harm:
            the projection on what they find is computed in float64.
        batches: probe batches ...
        q: ... and points in each, for the estimated error of I.
    """

    rank: int | Literal["auto"] = "auto"
    error: float = 0.05
    memory: int | None = None
    seed: int = 0
    mean_tolerance: float = 1e-4
    preconditioner: int | None = None
    max_iterations: int = 1000
    sketch_dtype: torch.dtype | None = torch.float32
    batches: int = 2
    q: int = 64

    def __post_init__(self) -> None:
        if self.rank != "auto" and (not isinstance(self.rank, int) or self.rank < 1):
            raise InputError(f"rank = {self.rank!r}: give a whole number, 1 or more, or 'auto'")


@dataclass(frozen=True)
class LoveReport:
    """How good the posterior is and what was decided on the way; plain values.

    Attributes:
        rank: r.
        information_gain_error: estimated mean relative excess of I on the probe batches.
        tolerance_met: whether that is at most the tolerance.
        stopped_by: what ended the search for r: "rank" (it was given), "tolerance", "memory" or "rows" (r = n).
        cg_iterations: products with K that the mean's weights and the probes took.
        cg_residual: their largest relative residual.
        cg_converged: whether all of them met their tolerance.
    """

    rank: int
    information_gain_error: float
    tolerance_met: bool
    stopped_by: str
    cg_iterations: int
    cg_residual: float
    cg_converged: bool


def love_posterior(
    gp: GaussianProcess,
    data: Measurements,
    options: LoveOptions | None = None,
    noise: Noise | None = None,
    continuous: Sequence[int] = (),
    workers: Workers | None = None,
) -> tuple[KernelPosterior, LoveReport]:
    """The LOVE posterior of `gp` given the observations.

    Args:
        gp: prior and noise.
        data: n observations.
        options: rank and tolerances.
        noise: of a new measurement; None takes the process's own, see `own_noise`.
        continuous: columns of the inputs that probes may fill from the box of the data.
        workers: that share the products with K out; None is this process alone.

    Raises:
        InputError: noise of zero, or a kernel that is not positive definite.
    """
    gp = copy.deepcopy(gp).requires_grad_(False)
    noise = own_noise(gp, data) if noise is None else noise
    return condition_love(
        freeze(gp.kernel), gp.mean, data.X, data.y, gp.noise_of(data), noise, options, continuous, workers
    )


def condition_love(
    kernel: Kernel,
    mean: Mean,
    Z: Tensor,
    y: Tensor,
    sigma2: Tensor,
    noise: Noise,
    options: LoveOptions | None = None,
    continuous: Sequence[int] = (),
    workers: Workers | None = None,
) -> tuple[KernelPosterior, LoveReport]:
    """The LOVE posterior given y = f(Z) + noise; arguments as in `condition_exactly` and `love_posterior`."""
    options, workers = options or LoveOptions(), workers or Workers()
    if not bool((sigma2 > 0).all()):
        raise InputError("LOVE whitens by the noise: the noise variance of every measured row must be above zero")
    with torch.no_grad():
        K = KernelMatrix(kernel, Z, workers=workers)
        solver = CovarianceSolver(K, sigma2, options.preconditioner, options.max_iterations)
        probes = Probes(options.batches, options.q, seed=options.seed).draw(Z, continuous)
        found = _solve(solver, y - mean(Z), probes, noise, options)
        alone = replace(solver, K=replace(K, workers=Workers()))  # later solves are each worker's own
        empty = DenseRoot(Z.new_zeros(len(Z), 0))
        posterior = KernelPosterior(kernel, mean, Z, found.X[:, 0].clone(), empty, noise, solver=alone)
        return _choose_rank(posterior, K, sigma2, probes, found, options)


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
    s = sigma2.sqrt().unsqueeze(-1)  # n x 1
    low = K if sketch is None else replace(K, product_dtype=sketch)
    generator = torch.Generator().manual_seed(seed)
    S = torch.randn(len(K), rank, generator=generator, dtype=torch.float64).to(s)
    for _ in range(2):  # the sketch and the power step
        S = torch.linalg.qr((low @ (S / s)) / s).Q
    T = S.mT @ ((K @ (S / s)) / s)  # r x r
    if not bool(torch.isfinite(T).all()):
        raise InputError("the covariance of the measured rows is not finite; check the inputs and the kernel")
    g, V = torch.linalg.eigh(0.5 * (T + T.mT))  # of S' H S - 1
    if float(g[0]) < -1e-3 - 10 * len(K) * torch.finfo(g.dtype).eps * float(g[-1]):
        raise InputError("the covariance of the measured rows is not positive definite: the kernel is no valid one")
    # Below zero is rounding; zero leaves R smaller than it might be, on the safe side.
    return K.workers.first((S @ (V * (1 + g.clamp_min(0.0)).rsqrt())) / s)


def _solve(solver: CovarianceSolver, y: Tensor, probes: Tensor, noise: Noise, options: LoveOptions) -> Solution:
    """The mean's weights (first column) and (K + Sigma)^-1 k(Z, probes): they help each other to converge."""
    P = probes.flatten(0, 1)  # c x d
    B = torch.cat([y.unsqueeze(-1), gram(solver.K.kernel, solver.K.Z, P)], dim=-1)  # n x (1 + c)
    relative = torch.zeros_like(B[0])
    relative[0] = options.mean_tolerance
    error = torch.cat([relative.new_zeros(1), PROBE_TOLERANCE * noise(P)])
    return solver.solution(B, error, relative)


def _choose_rank(
    posterior: KernelPosterior, K: KernelMatrix, sigma2: Tensor, probes: Tensor, found: Solution, options: LoveOptions
) -> tuple[KernelPosterior, LoveReport]:
    """The posterior with its root, and the report."""
    n, auto = len(K), options.rank == "auto"
    memory = free_memory(K.Z.device) if options.memory is None else options.memory
    memory = int(K.workers.first(torch.tensor(memory, device=K.Z.device)))
    most = min(n, affordable_rank(n, memory)) if options.rank == "auto" else min(n, options.rank)
    rank = min(FIRST_RANK, most) if auto else most
    while True:
        root = down_root(K, sigma2, rank, options.seed, options.sketch_dtype)
        rooted = replace(posterior, down=DenseRoot(root))
        error = excess(rooted, rooted.spanning(found.X[:, 1:], found.KX[:, 1:]), probes)
        met = error <= options.error
        if not auto or met or rank == most:
            break
        rank = min(2 * rank, most)
    stopped_by = "rank" if not auto else "tolerance" if met else "rows" if rank == n else "memory"
    return rooted, LoveReport(rank, error, met, stopped_by, found.iterations, found.residual, found.converged)
