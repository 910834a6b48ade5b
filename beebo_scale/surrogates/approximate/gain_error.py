r"""How wrong the information gain of a sparse posterior is, measured beside an exact one; see `held_out`.

Up to `REFERENCE_ROWS` rows the reference is the exact posterior itself. Beyond, it is for each batch the exact
posterior of the rows nearest to it: knowing less it has the larger C and I, so that the error found is a lower bound of
the true one.
"""

from __future__ import annotations

import copy

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from ...kernel_posterior import PriorPosterior, over_centers
from ...kernels.stationary import freeze, gram
from ...posterior import Posterior
from ...protocols import Noise
from ..data.observations import Measurements
from ..gaussian_process.exact import factor
from ..gaussian_process.gaussian_process import GaussianProcess, exact_posterior
from .blocks.posterior import BlocksPosterior
from .held_out import BATCHES, excess_of, forgotten, held_out_rows, others
from .inducing import JITTER, prior_factor

# Rows of the reference: its factor takes a few seconds and 256 MB, as long as those of eight half as large.
REFERENCE_ROWS = 8000
COMPARED_AT_ONCE = 8192  # rows compared with the points at once


def sparse_gain_error(
    posterior: Posterior,
    gp: GaussianProcess,
    data: Measurements,
    sigma2: Tensor | None = None,
    rows: int = REFERENCE_ROWS,
) -> tuple[float, str]:
    """Mean relative error of I on batches held out, I / I_reference - 1, and what the reference is, in words.

    Args:
        posterior: over inducing points; those of `held_out_rows` should not be among them.
        gp: prior and noise, the hyperparameters that the posterior has.
        data: all n observations.
        sigma2: noise variances that the rows held out entered q(v) with (of a Student-t likelihood its sites); None
            takes those of `gp`.
        rows: of the reference; half of them for each batch where there are more.
    """
    held, posterior = held_out_rows(len(data)), over_centers(posterior)
    if not held.numel():
        return 0.0, "the exact one"
    H, kernel = data.take(held.flatten()), posterior.kernel
    with torch.no_grad():
        sigma2 = (gp.noise_of(H) if sigma2 is None else sigma2).reshape(held.shape)
        X = H.X.reshape(*held.shape, -1)  # b x q x d
        L, C = prior_factor(kernel, posterior.centers, JITTER), posterior.covar(X)
        A = torch.linalg.solve_triangular(L, gram(kernel, posterior.centers, H.X), upper=False)  # m x b q
        A = A.mT.reshape(*held.shape, -1)  # b x q x m
        C = forgotten(C, C - gram(kernel, X, X) + A @ A.mT, sigma2)
        return _beside_exact(posterior, gp, data, held, C, rows)


def blocks_gain_error(
    posterior: BlocksPosterior, gp: GaussianProcess, data: Measurements, rows: int = REFERENCE_ROWS
) -> tuple[float, str]:
    """`sparse_gain_error` for blocks: with P = (K_b + Sigma)^-1, C(h, h) given all but h is [P_hh]^-1 - Sigma_h.

    Two batches where blocks cannot all be kept, as nearly each row held out needs another block.
    """
    few = posterior.points_together > 1
    held = held_out_rows(len(data), 2 if few else BATCHES).to(data.y.device)
    if not held.numel():
        return 0.0, "the exact one"
    with torch.no_grad():
        P = torch.stack([posterior.precision_at(batch) for batch in held])
        C = torch.linalg.inv(P) - torch.diag_embed(posterior.sigma2[held])
        return _beside_exact(posterior, gp, data, held, 0.5 * (C + C.mT), rows)


def _beside_exact(
    posterior: PriorPosterior, gp: GaussianProcess, data: Measurements, held: Tensor, C: Tensor, rows: int
) -> tuple[float, str]:
    """Mean relative error of I from C, b x q x q covariances at the rows held out (b x q), and the reference."""
    X = data.take(held.flatten()).X.reshape(*held.shape, -1)  # b x q x d
    if len(data) <= rows:
        exact, words = _without_each(gp, data, held), f"the exact one of all {len(data):,} distinct inputs"
    else:
        parts = [
            reference_at(gp, data, posterior.noise, posterior.kernel, x, others(some, len(data)), rows, rows // 2)
            for some, x in zip(held, X, strict=True)
        ]
        exact, words = torch.stack([part.covar(x) for (part, _), x in zip(parts, X, strict=True)]), parts[0][1]
    return excess_of(C, exact, posterior.noise(X)), words


def _without_each(gp: GaussianProcess, data: Measurements, held: Tensor) -> Tensor:
    """Exact covariance at each batch (b x q rows) given all rows but those of the batch: b x q x q."""
    data = data.take(torch.arange(len(data), device=data.y.device))
    sigma2 = gp.noise_of(data)
    root = factor(freeze(copy.deepcopy(gp.kernel)), data.X, sigma2, data.X.dtype)
    columns = data.X.new_zeros(held.numel(), len(data))
    columns[torch.arange(held.numel(), device=held.device), held.flatten()] = 1.0
    F = root.features(columns).reshape(*held.shape, -1)  # b x q x n, F F' = (K + Sigma)^-1 at the batch
    return torch.linalg.inv(F @ F.mT) - torch.diag_embed(sigma2[held])


def reference_at(
    gp: GaussianProcess,
    data: Measurements,
    noise: Noise,
    kernel: Kernel,
    P: Tensor,
    among: Tensor,
    rows: int = REFERENCE_ROWS,
    nearest: int = REFERENCE_ROWS,
) -> tuple[Posterior, str]:
    """The exact posterior over whole rows to compare with, and in words what it knows.

    Args:
        gp: prior and noise.
        data: all n observations.
        noise: of a new measurement.
        kernel: by which rows are near.
        P: p x d points at which it is to be compared, as the kernel takes them.
        among: numbers of the rows that it may know.
        rows: that it may know all of ...
        nearest: ... and how many it knows if there are more.
    """
    if len(among) <= rows:
        return exact_posterior(gp, data.take(among), noise), f"the exact one of {len(among):,} distinct inputs"
    near = nearest_rows(kernel, data, P, nearest, among)
    words = f"a lower bound, from the {len(near):,} of {len(among):,} distinct inputs that are nearest"
    return exact_posterior(gp, data.take(near), noise), words


def nearest_rows(kernel: Kernel, data: Measurements, P: Tensor, rows: int, among: Tensor) -> Tensor:
    """The rows with the largest covariance with each of p points (p x d), the same number for each; at most `rows`."""
    each = max(1, rows // len(P))
    best, index = P.new_empty(len(P), 0), torch.empty(len(P), 0, dtype=torch.long, device=P.device)
    with torch.no_grad():
        for chunk in among.to(P.device).split(COMPARED_AT_ONCE):
            k = torch.cat([best, gram(kernel, P, data.take(chunk).X)], dim=-1)
            found = torch.cat([index, chunk.expand(len(P), -1)], dim=-1)
            best, place = k.topk(min(each, k.shape[-1]), dim=-1)
            index = found.gather(-1, place)
    return index.unique()
