r"""The LOVE surrogate: a posterior over n training rows with a down-root of rank r << n.

With the whitened matrix H = Sigma^-1/2 K Sigma^-1/2 + 1, an orthonormal S (n x r) and the Rayleigh-Ritz eigenpairs
S' H S = V diag(lambda) V',

    R = Sigma^-1/2 S V diag(lambda)^-1/2,     R R' = Sigma^-1/2 S (S' H S)^-1 S' Sigma^-1/2 <= (K + Sigma)^-1.

R R' is a Galerkin projection: whatever S is, C and I are never too small. S spans H^2 Omega for a random Omega, a
randomised subspace iteration with one power step. The mean is exact up to the tolerance of conjugate gradients.

How far off I is at a rank is measured on some rows that S is found without and that enter the root afterwards, which
keeps the r largest Ritz values (`projection`, `held_out`).

Sources: Pleiss et al. 2018 (LOVE: the same form, with a Krylov space for S); Jiang et al. 2020 (low-rank posteriors
updated by new points); Halko, Martinsson, Tropp 2011 (randomised subspace iteration); Wenger et al. 2022 (IterGP:
the projection and what it overestimates). Whitening is what makes r suffice when each row has its own noise. The solves
are preconditioned by blocks beside inducing points (`linalg.block_preconditioner`).
"""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass, replace
from typing import Literal

import torch
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor

from ...errors import InputError
from ...kernel_posterior import KernelPosterior
from ...kernels.stationary import freeze
from ...linalg.conjugate_gradients import CovarianceSolver, Solution
from ...linalg.kernel_matrix import KernelMatrix
from ...linalg.roots import DenseRoot
from ...protocols import Noise
from ...workers import Workers
from ..data.observations import Measurements
from ..gaussian_process.gaussian_process import GaussianProcess, own_noise
from .held_out import excess_of, held_out_rows, in_batches
from .projection import Projection, down_root
from .rank import affordable_rank, free_memory

FIRST_RANK = 128  # of rank="auto"; it doubles from there
FEW = 1000  # rows, of which one batch is held out, else two: each column of the inverse has its cost
PRODUCTS, SECONDS = 40, 1.1e-8  # with K as a rule, and for each of its values on one thread of a CPU (float32 mostly)
LONG = 3600.0  # seconds that are told beforehand
HELD_OUT_TOLERANCE = 0.01  # relative, of I of a row held out, by what its exact variance is off


@dataclass(frozen=True)
class LoveOptions:
    """How a LOVE posterior is built.

    Attributes:
        rank: r, or "auto": r doubles until the estimated relative error of I is at most `error` or memory ends.
        error: that tolerance.
        memory: bytes that building the root may take, None for half of what is free.
        seed: of the random sketch.
        mean_tolerance: how far the mean may be from the exact one, about, in standard deviations of a prediction.
        block: rows of a block of the preconditioner and number of its inducing points, None by n.
        max_iterations: limit of conjugate gradients.
        sketch_dtype: number format of the products that find the subspace. float32 halves their cost and cannot harm:
            the projection on what they find is computed in float64.
    """

    rank: int | Literal["auto"] = "auto"
    error: float = 0.05
    memory: int | None = None
    seed: int = 0
    mean_tolerance: float = 0.02
    block: int | None = None
    max_iterations: int = 1000
    sketch_dtype: torch.dtype | None = torch.float32

    def __post_init__(self) -> None:
        if self.rank != "auto" and (not isinstance(self.rank, int) or self.rank < 1):
            raise InputError(f"rank = {self.rank!r}: give a whole number, 1 or more, or 'auto'")


@dataclass(frozen=True)
class LoveReport:
    """How good the posterior is and what was decided on the way; plain values.

    Attributes:
        rank: r.
        information_gain_error: mean relative excess of I on rows held out; of the rank at the end of the fit, should
            a batch have asked for a higher one.
        tolerance_met: whether that is at most the tolerance, and the solves that say so have converged.
        stopped_by: what ended the search for r: "rank" (it was given), "tolerance", "memory" or "rows" (r = n).
        cg_iterations: products with K that the mean's weights and the rows held out took.
        cg_residual: their largest relative residual.
        cg_converged: whether all of them met their tolerance.
        mean_error: estimate of how far the mean is from the exact one, in standard deviations of a prediction: the root
            of the share of (y - m)' (K + Sigma)^-1 (y - m) that is missing; None in files of earlier versions.
    """

    rank: int
    information_gain_error: float
    tolerance_met: bool
    stopped_by: str
    cg_iterations: int
    cg_residual: float
    cg_converged: bool
    mean_error: float | None = None


def love_posterior(
    gp: GaussianProcess,
    data: Measurements,
    options: LoveOptions | None = None,
    noise: Noise | None = None,
    workers: Workers | None = None,
) -> tuple[KernelPosterior, LoveReport]:
    """The LOVE posterior of `gp` given the observations.

    Args:
        gp: prior and noise.
        data: n observations.
        options: rank and tolerances.
        noise: of a new measurement; None takes the process's own, see `own_noise`.
        workers: that share the products with K out; None is this process alone.

    Raises:
        InputError: noise of zero, or a kernel that is not positive definite.
    """
    gp = copy.deepcopy(gp).requires_grad_(False)
    noise = own_noise(gp, data) if noise is None else noise
    return condition_love(freeze(gp.kernel), gp.mean, data.X, data.y, gp.noise_of(data), noise, options, workers)


def condition_love(
    kernel: Kernel,
    mean: Mean,
    Z: Tensor,
    y: Tensor,
    sigma2: Tensor,
    noise: Noise,
    options: LoveOptions | None = None,
    workers: Workers | None = None,
) -> tuple[KernelPosterior, LoveReport]:
    """The LOVE posterior given y = f(Z) + noise; arguments as in `condition_exactly` and `love_posterior`."""
    options, workers = options or LoveOptions(), workers or Workers()
    if not bool((sigma2 > 0).all()):
        raise InputError("LOVE whitens by the noise: the noise variance of every measured row must be above zero")
    hours = PRODUCTS * SECONDS * len(Z) ** 2 / torch.get_num_threads() / workers.size / 3600
    if Z.device.type == "cpu" and 3600 * hours > LONG:
        warnings.warn(
            f"products with the covariance of all {len(Z):,} rows will take about {hours:.0f} hours here; a GPU or "
            "more workers take less, kind blocks minutes",
            stacklevel=2,
        )
    with torch.no_grad():
        K = KernelMatrix(kernel, Z, workers=workers)
        solver = CovarianceSolver(K, sigma2, options.block, options.max_iterations)
        held = held_out_rows(len(Z), 2 if len(Z) >= FEW else 1).to(Z.device)
        found = _solve(solver, y - mean(Z), held.flatten(), options)
        # Later solves are each worker's own.
        alone = solver if workers.size == 1 else replace(solver, K=replace(K, workers=Workers()))
        empty = DenseRoot(Z.new_zeros(len(Z), 0))
        posterior = KernelPosterior(kernel, mean, Z, found.X[:, 0].clone(), empty, noise, solver=alone)
        return _choose_rank(posterior, K, sigma2, held, found, options)


def raised_root(
    gp: GaussianProcess, data: Measurements, rank: int, options: LoveOptions | None = None
) -> Tensor | None:
    """The root of twice the rank, or as near as rows and memory allow; None where they allow no more."""
    options = options or LoveOptions()
    kernel, n = freeze(copy.deepcopy(gp.kernel)), len(data)
    memory = free_memory(data.y.device) if options.memory is None else options.memory
    more = min(2 * rank, n, affordable_rank(n, memory))
    if more <= rank:
        return None
    with torch.no_grad():
        K, sigma2 = KernelMatrix(kernel, data.take(torch.arange(n)).X), gp.noise_of(data)
        return down_root(K, sigma2, more, options.seed, options.sketch_dtype)


def _solve(solver: CovarianceSolver, y: Tensor, held: Tensor, options: LoveOptions) -> Solution:
    """The mean's weights (first column) and the columns `held` of (K + Sigma)^-1: they help each other to converge."""
    columns = y.new_zeros(len(y), len(held))
    columns[held, torch.arange(len(held), device=y.device)] = 1.0
    relative = y.new_zeros(1 + len(held))
    relative[0] = options.mean_tolerance
    # V = C + sigma^2 = 1 / inverse_hh has I = 1/2 log(V / sigma^2), and dI = -1/2 V d inverse_hh; the inverse is taken
    # for that of the preconditioner.
    inverse = solver.preconditioner.whiten(columns).square().sum(0)
    error = HELD_OUT_TOLERANCE * inverse * -(solver.sigma2[held] * inverse).clamp_max(1 - 1e-6).log()
    return solver.solution(torch.cat([y.unsqueeze(-1), columns], dim=-1), torch.cat([y.new_zeros(1), error]), relative)


def _choose_rank(
    posterior: KernelPosterior, K: KernelMatrix, sigma2: Tensor, held: Tensor, found: Solution, options: LoveOptions
) -> tuple[KernelPosterior, LoveReport]:
    """The posterior with its root, and the report."""
    n, auto = len(K), options.rank == "auto"
    memory = free_memory(K.Z.device) if options.memory is None else options.memory
    memory = int(K.workers.first(torch.tensor(memory, device=K.Z.device)))
    most = min(n, affordable_rank(n, memory)) if options.rank == "auto" else min(n, options.rank)
    rank, rows = min(FIRST_RANK, most) if auto else most, held.flatten()
    inverse = found.X[rows, 1:]  # (K + Sigma)^-1_hh
    exact = torch.linalg.inv(0.5 * (inverse + inverse.mT)) - torch.diag_embed(sigma2[rows])
    exact, noise = in_batches(exact, held), posterior.noise(K.Z[rows]).reshape(held.shape)
    while True:
        projection = Projection.drawn(K, sigma2, rank, rows, options.seed, options.sketch_dtype)
        covar = in_batches(projection.at_held(sigma2), held)
        error = float(K.workers.first(exact.new_tensor(excess_of(covar, exact, noise))))
        met = error <= options.error
        if not auto or met or rank == most:
            break
        rank = min(2 * rank, most)
    rooted = replace(posterior, down=DenseRoot(K.workers.first(projection.root(sigma2, rank))))
    stopped_by = "rank" if not auto else "tolerance" if met else "rows" if rank == n else "memory"
    sure = met and found.converged
    report = LoveReport(rank, error, sure, stopped_by, found.iterations, found.residual, found.converged)
    return rooted, replace(report, mean_error=float(found.share[0]))
