r"""SGPR: the collapsed variational bound of Titsias (2009) over m inducing points, in full batches.

With the sums (P, b, c) of `inducing` over all n rows and B = 1 + P, the best q(v) gives

    bound = c - 1/2 logdet B + 1/2 b' B^-1 b + 1/2 tr P  <=  log N(y; m, K + Sigma).

Its gradient goes through the sums: dbound/dP = 1/2 (1 - B^-1 - v v') and dbound/db = v with v = B^-1 b are m x m and m,
and a second pass over the rows carries them on to the hyperparameters. Each pass holds one chunk of rows: O(chunk m +
m^2) memory, O(n m^2) time.

In an initialised `torch.distributed` group every worker holds all rows (n x d is little beside the work on it) and
computes chunks rank::W; the sums of each chunk go round and are added in the order of the chunks. Value and gradient
are then the same bits for every W.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
from botorch.optim.utils import get_parameters_and_bounds
from torch import Tensor

from ...kernel_posterior import KernelPosterior
from ...protocols import Noise
from ...workers import Workers
from ..data.observations import Measurements
from ..gaussian_process.gaussian_process import FitReport, GaussianProcess, own_noise
from ..gaussian_process.minimise import minimise
from .inducing import JITTER, Moments, factor_gradient, inducing_posterior, moments, prior_factor

ROWS_OF_WORK = 4096  # rows whose features are held at once, and the unit of work of a worker


def sgpr_bound(
    gp: GaussianProcess, Z: Tensor, data: Measurements, jitter: float = JITTER, chunk: int = ROWS_OF_WORK
) -> Tensor:
    """The collapsed bound on the log marginal likelihood, differentiable in the hyperparameters and in Z.

    The gradient is computed along with the value where one may be asked for; under `torch.no_grad` it is left out.

    Args:
        gp: prior and noise.
        Z: m x d inducing points.
        data: n observations.
        jitter: of K_ZZ, relative.
        chunk: rows at once.

    Returns:
        A scalar.

    Raises:
        InputError: K_ZZ is not positive definite.
    """
    inputs = [p for p in (*gp.parameters(), Z) if p.requires_grad] if torch.is_grad_enabled() else []
    with torch.no_grad():
        L = prior_factor(gp.kernel, Z, jitter)
        sums = all_moments(gp, Z, L, data, chunk)
        value, G, v = collapse(sums)
    if not inputs:
        return Workers.current().first(value)
    slopes = _slopes(gp, (Z, L), data, inputs, (G, v), chunk)
    factor = prior_factor(gp.kernel, Z, jitter)  # once more, now with its graph
    through = torch.autograd.grad(factor, inputs, factor_gradient(L, G, v, sums.P, sums.b), allow_unused=True)
    # Worker 0's bits for all: an optimiser that sees others may stop elsewhere and leave its fellows waiting.
    slopes = Workers.current().first(torch.cat([value.reshape(1), slopes + _flat(through, inputs)]))
    value, pieces = slopes[0], slopes[1:].split([p.numel() for p in inputs])
    for p, slope in zip(inputs, pieces, strict=True):  # the value and gradient found, as a node of the graph
        value = value + (slope.reshape(p.shape) * (p - p.detach())).sum()
    return value


def fit_sgpr(
    gp: GaussianProcess,
    Z: Tensor,
    data: Measurements,
    maxiter: int = 100,
    on_step: Callable[[], object] | None = None,
    jitter: float = JITTER,
    chunk: int = ROWS_OF_WORK,
) -> FitReport:
    """Maximise bound + log prior over the hyperparameters by full-batch L-BFGS, in place.

    Args:
        gp: starts from the values it holds.
        Z: m x d inducing points; moved too if it requires a gradient.
        data: n observations.
        maxiter: iteration limit.
        on_step: called after every evaluation of the bound, of which an iteration takes one or a little more.
        jitter: of K_ZZ, relative.
        chunk: rows at once.

    Returns:
        Its `log_likelihood` is the bound.
    """
    parameters, bounds = get_parameters_and_bounds(gp, requires_grad=True)
    if data.noise is not None:
        parameters = {name: p for name, p in parameters.items() if not name.startswith("likelihood.")}
    if Z.requires_grad:
        parameters = {**parameters, "Z": Z}

    def loss() -> Tensor:
        return -(sgpr_bound(gp, Z, data, jitter, chunk) + gp.log_prior()) / len(data)

    result = minimise(loss, parameters, bounds, maxiter, on_step)
    with torch.no_grad():
        final = float(sgpr_bound(gp, Z, data, jitter, chunk))
    return FitReport(len(data), int(result.step or 0), result.status.name == "SUCCESS", final)


def sgpr_posterior(
    gp: GaussianProcess,
    Z: Tensor,
    data: Measurements,
    noise: Noise | None = None,
    jitter: float = JITTER,
    chunk: int = ROWS_OF_WORK,
) -> KernelPosterior:
    """The posterior under the best q(v) for all rows: one pass over them.

    New rows enter by `Posterior.augment`, which conditions this posterior on them exactly.

    Args:
        gp: prior and noise.
        Z: m x d inducing points.
        data: n observations.
        noise: of a new measurement, None takes the process's own (see `own_noise`).
        jitter: of K_ZZ, relative.
        chunk: rows at once.
    """
    with torch.no_grad():
        L = prior_factor(gp.kernel, Z, jitter)
        sums = all_moments(gp, Z, L, data, chunk)
    return inducing_posterior(gp, Z, L, sums.P, sums.b, own_noise(gp, data) if noise is None else noise)


def all_moments(gp: GaussianProcess, Z: Tensor, L: Tensor, data: Measurements, chunk: int = ROWS_OF_WORK) -> Moments:
    """`moments` of all rows, shared among the workers; no gradient."""
    m = len(Z)

    def part(rows: Tensor) -> Tensor:
        sums = moments(gp, Z, L, data.take(rows))
        return torch.cat([sums.P.reshape(-1), sums.b, sums.c.reshape(1)]).to(L.dtype)

    with torch.no_grad():
        flat = add_over_chunks(part, len(data), chunk, L.new_zeros(m * m + m + 1))
    P, b, c = flat.split([m * m, m, 1])
    return Moments(P.reshape(m, m), b, c.squeeze(0))


def add_over_chunks(part: Callable[[Tensor], Tensor], n: int, chunk: int, total: Tensor) -> Tensor:
    """Sum of part(rows) over chunks of the rows 0 .. n - 1, chunk i computed by worker i mod W, added in order.

    Args:
        part: rows -> a vector like `total`.
        n: number of rows.
        chunk: rows in a chunk.
        total: zeros, what the sum starts from.
    """
    workers = Workers.current()
    chunks = torch.arange(n, device=total.device).split(chunk)
    for start in range(0, len(chunks), workers.size):  # a chunk for each worker, then one broadcast after another
        turn = chunks[start : start + workers.size]
        mine = part(turn[workers.rank]) if workers.rank < len(turn) else None
        for owner in range(len(turn)):
            value = mine if owner == workers.rank and mine is not None else torch.empty_like(total)
            if workers.size > 1:
                dist.broadcast(value, src=owner)
            total = total + value
    return total


def collapse(sums: Moments) -> tuple[Tensor, Tensor, Tensor]:
    """The bound, its derivative in P (m x m) and in b, which is v = B^-1 b (m)."""
    eye = torch.eye(len(sums.b), dtype=sums.b.dtype, device=sums.b.device)
    factor = torch.linalg.cholesky(eye + sums.P)
    v = torch.cholesky_solve(sums.b.unsqueeze(-1), factor).squeeze(-1)
    value = sums.c - factor.diagonal().log().sum() + 0.5 * (sums.b @ v + sums.P.diagonal().sum())
    return value, 0.5 * (eye - torch.cholesky_inverse(factor) - torch.outer(v, v)), v


def _slopes(
    gp: GaussianProcess,
    at: tuple[Tensor, Tensor],
    data: Measurements,
    inputs: list[Tensor],
    outputs: tuple[Tensor, Tensor],
    chunk: int,
) -> Tensor:
    """Second pass: gradient in `inputs` at fixed L, given that in P and b; `at` is (Z, L). One flat vector."""
    Z, L = at

    def part(rows: Tensor) -> Tensor:
        sums = moments(gp, Z, L, data.take(rows))
        weights = (*outputs, torch.ones_like(sums.c))
        return _flat(torch.autograd.grad((sums.P, sums.b, sums.c), inputs, weights, allow_unused=True), inputs)

    return add_over_chunks(part, len(data), chunk, L.new_zeros(sum(p.numel() for p in inputs)))


def _flat(slopes: tuple[Tensor | None, ...], inputs: list[Tensor]) -> Tensor:
    """Gradients as one vector, zeros where a parameter has none."""
    pairs = zip(slopes, inputs, strict=True)
    return torch.cat([torch.zeros_like(p).reshape(-1) if s is None else s.reshape(-1) for s, p in pairs])
