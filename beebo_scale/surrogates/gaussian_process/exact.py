r"""The exact posterior of a Gaussian process: one triangle of n x n numbers and nothing else of that size.

L L' = K + Sigma row of blocks by row of blocks. The rows so far are the root of a posterior; a further block of inputs
X has the features F = k(X, Z) L^-T there, and the row [F, G] with G G' = k(X, X) + Sigma - F F' extends it. Every
kernel value is computed once, and almost all work is in matrix products.
"""

from __future__ import annotations

import torch
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor
from torch.nn import Module

from ...errors import InputError
from ...kernel_posterior import DROWNED, FLOAT32_NOISE, KernelPosterior, drowned
from ...kernels.stationary import gram
from ...linalg.kernel_matrix import KernelMatrix
from ...linalg.roots import BlockRoot, CholeskyRoot, Root
from ...protocols import Noise

ROWS_OF_FACTOR = 1024  # rows of L computed at once
REFINEMENTS = 10  # of the weights, at most, where L is in float32
RESIDUAL = 1e-9  # relative, of (K + Sigma) alpha = y - m, at which they end


def condition_exactly(
    kernel: Kernel,
    mean: Mean,
    Z: Tensor,
    y: Tensor,
    sigma2: Tensor,
    noise: Noise,
    warp: Module | None = None,
    dtype: torch.dtype | None = None,
) -> KernelPosterior:
    """The posterior given y = f(Z) + noise: R = L^-T with L L' = K + Sigma, alpha = (K + Sigma)^-1 (y - m).

    Args:
        kernel: k, parameters frozen.
        mean: m, parameters frozen.
        Z: n x d inputs, as the kernel takes them.
        y: n targets.
        sigma2: n noise variances of the targets.
        noise: sigma^2(x) of a new measurement.
        warp: see `Posterior`.
        dtype: number format in which L is kept, None that of Z. float32 halves memory and time; the mean is as exact
            as ever (its weights are refined with products in the format of Z), the covariance good to about 1e-6 k.

    Raises:
        InputError: K + Sigma is not positive definite, or L in float32 would decide the information gain (see
            `kernel_posterior.drowned`).
    """
    with torch.no_grad():
        root = factor(kernel, Z, sigma2, dtype or Z.dtype)
        residual = (y - mean(Z)).unsqueeze(-1)  # n x 1
        alpha = _solve(root, residual)
        if dtype not in (None, Z.dtype):
            alpha = _refined(alpha, root, KernelMatrix(kernel, Z), sigma2.unsqueeze(-1), residual)
    made = KernelPosterior(kernel, mean, centers=Z, weights=alpha.squeeze(-1), down=root, noise=noise, warp=warp)
    if (dtype or Z.dtype) == torch.float32 and drowned(made):
        raise InputError(
            f"the noise variance of some points is below {FLOAT32_NOISE:g} of the prior variance: {DROWNED}; take the "
            "factor (or the model) in float64, or another kind of surrogate"
        )
    return made


def factor(kernel: Kernel, Z: Tensor, sigma2: Tensor, dtype: torch.dtype) -> Root:
    """Root L^-T with L L' = k(Z, Z) + Sigma; diagonal blocks factored in the format of Z, the rest kept in `dtype`."""
    root = BlockRoot()
    for start in range(0, len(Z), ROWS_OF_FACTOR):
        X = Z[start : start + ROWS_OF_FACTOR]
        K = Z.new_empty(len(X), start, dtype=dtype)
        for column in range(0, start, 4 * ROWS_OF_FACTOR):  # piece by piece: a kernel takes several times its result
            end = min(column + 4 * ROWS_OF_FACTOR, start)
            K[:, column:end] = gram(kernel, X, Z[column:end])
        F = root.features(K)
        C = gram(kernel, X, X) - (F @ F.mT).to(Z.dtype)
        C.diagonal().add_(sigma2[start : start + ROWS_OF_FACTOR])
        G, info = torch.linalg.cholesky_ex(C)
        if bool(info.any()) or not bool(G.diagonal().isfinite().all()):
            raise _indefinite(len(Z), float(sigma2.min()), dtype)
        root = root.extend(F, G.to(dtype))
    return root if len(root.rows) != 1 or dtype != Z.dtype else CholeskyRoot(root.rows[0])


def _solve(root: Root, B: Tensor) -> Tensor:
    """(L L')^-1 B, n x c."""
    return root.expand(root.features(B.mT).mT)


def _refined(alpha: Tensor, root: Root, K: KernelMatrix, sigma2: Tensor, b: Tensor) -> Tensor:
    """Alpha corrected by what it leaves of b, as long as that helps; n x 1."""
    size = float(b.norm())
    left = b - (K @ alpha + sigma2 * alpha)
    for _ in range(REFINEMENTS):
        if float(left.norm()) <= RESIDUAL * size:
            break
        trial = alpha + _solve(root, left)
        rest = b - (K @ trial + sigma2 * trial)
        if float(rest.norm()) >= float(left.norm()):
            break
        alpha, left = trial, rest
    return alpha


def _indefinite(n: int, least: float, dtype: torch.dtype) -> InputError:
    format_ = "" if dtype == torch.float64 else f" in {str(dtype).removeprefix('torch.')}"
    return InputError(
        f"the covariance of the {n} measured rows is not positive definite{format_}: inputs repeat each other and the "
        f"noise variance ({least:.3g}) is too small, or the kernel is not a valid one; raise the noise variance or "
        "merge repeated rows"
    )
