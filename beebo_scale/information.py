r"""How much a batch of measurements would tell (paper, section 3; DPP and UCB appendices).

The batch itself is what gets measured, so C_aug = (C^-1 + Sigma^-1)^-1 and the paper's difference of two log
determinants is exactly

    I(X) = 1/2 logdet C - 1/2 logdet C_aug = 1/2 logdet( 1 + Sigma^-1/2 C Sigma^-1/2 ).

The matrix under the logdet is never below the identity: repeated points, tiny noise and a singular C are harmless.
"""

from __future__ import annotations

import torch
from torch import Tensor


def information_gain(covar: Tensor, noise: Tensor | float) -> Tensor:
    """Information gain I = 1/2 logdet(1 + Sigma^-1/2 C Sigma^-1/2) of measuring a batch, in nats.

    Args:
        covar: C, ... q x q posterior covariance of the latent function at the batch.
        noise: sigma^2, variance of each measurement in the units of C: a number or ... q.

    Returns:
        ..., below zero by no more than the rounding in C.

    Raises:
        ValueError: a noise variance that is not above zero, or C or noise that is not finite.
    """
    sigma2 = torch.as_tensor(noise, dtype=covar.dtype, device=covar.device)
    if not bool((sigma2 > 0).all()):
        raise ValueError("noise variances must be above zero: a noiseless measurement has infinite information")
    s = sigma2.rsqrt().expand(covar.shape[:-1])  # ... q
    eye = torch.eye(covar.shape[-1], dtype=covar.dtype, device=covar.device)
    M = eye + s.unsqueeze(-1) * covar * s.unsqueeze(-2)  # ... q x q
    if not bool(torch.isfinite(M).all() & torch.isfinite(sigma2).all()):
        raise ValueError("covariance or noise is not finite")
    L, info = torch.linalg.cholesky_ex(M)
    if not bool(info.any()):
        return L.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return _spectral_half_logdet(M)


def marginal_gain(variance: Tensor, noise: Tensor | float) -> Tensor:
    """Information of one more measurement, 1/2 log(1 + v / sigma^2), in nats.

    Args:
        variance: v, ... posterior variance after conditioning on all points chosen so far.
        noise: sigma^2, a number or ....

    Returns:
        ...
    """
    sigma2 = torch.as_tensor(noise, dtype=variance.dtype, device=variance.device)
    return 0.5 * torch.log1p(variance / sigma2)


def _spectral_half_logdet(M: Tensor) -> Tensor:
    """1/2 logdet M where rounding took an eigenvalue of C below -sigma^2 and the Cholesky factor does not exist.

    M >= 1 holds in exact arithmetic, so eigenvalues below one are rounding and count as one. The gradient
    1/2 M^-1 is set by hand: that of an eigendecomposition is undefined where eigenvalues meet.
    """
    with torch.no_grad():
        eigenvalues, Q = torch.linalg.eigh(M)
        eigenvalues = eigenvalues.clamp_min(1.0)
        half_logdet = 0.5 * eigenvalues.log().sum(-1)
        half_inverse = 0.5 * (Q / eigenvalues.unsqueeze(-2)) @ Q.mT
    return half_logdet + (half_inverse * (M - M.detach())).sum((-2, -1))
