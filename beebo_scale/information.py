r"""How much a batch of measurements would tell (paper, section 3; DPP and UCB appendices).

The batch itself is what gets measured, so C_aug = (C^-1 + Sigma^-1)^-1 and the paper's difference of two log
determinants is exactly

    I(X) = 1/2 logdet C - 1/2 logdet C_aug = 1/2 logdet( 1 + Sigma^-1/2 C Sigma^-1/2 ).

The matrix under the logdet is never below the identity: repeated points, tiny noise and a singular C are harmless.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def information_gain(covar: Tensor, noise: Tensor | float) -> Tensor:
    """Information gain I = 1/2 logdet(1 + Sigma^-1/2 C Sigma^-1/2) of measuring a batch, in nats.

    Args:
        covar: C, ... q x q posterior covariance of the latent function at the batch.
        noise: sigma^2, variance of each measurement in the units of C: a number or ... q.

    Returns:
        ... in the format of C, below zero by no more than the rounding in C. Computed in float64: with little noise the
        rounding of float32 would make information of repeated points.

    Raises:
        ValueError: a noise variance that is not above zero, or C or noise that is not finite.
    """
    sigma2 = torch.as_tensor(noise, dtype=torch.float64, device=covar.device)
    if not bool((sigma2 > 0).all()):
        raise ValueError("noise variances must be above zero: a noiseless measurement has infinite information")
    s = sigma2.rsqrt().expand(covar.shape[:-1])  # ... q
    eye = torch.eye(covar.shape[-1], dtype=torch.float64, device=covar.device)
    M = eye + s.unsqueeze(-1) * covar * s.unsqueeze(-2)  # ... q x q, float64
    if not bool(torch.isfinite(M).all() & torch.isfinite(sigma2).all()):
        raise ValueError("covariance or noise is not finite")
    return _HalfLogdet.apply(M).to(covar.dtype)


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


class _HalfLogdet(torch.autograd.Function):
    """1/2 logdet M, ... q x q -> ..., with the gradient 1/2 M^-1.

    Written down, as the derivative of a factorisation costs more and loses digits. Where rounding took an eigenvalue
    of C below -sigma^2 there is no Cholesky factor; M >= 1 holds in exact arithmetic, so eigenvalues below one are
    rounding and count as one.
    """

    @staticmethod
    def forward(ctx: Any, M: Tensor) -> Tensor:
        L, info = torch.linalg.cholesky_ex(M)
        if not bool(info.any()):
            ctx.inverse = torch.cholesky_inverse
            ctx.save_for_backward(L)
            return L.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        eigenvalues, Q = torch.linalg.eigh(M)
        eigenvalues = eigenvalues.clamp_min(1.0)
        ctx.inverse = lambda root: root @ root.mT
        ctx.save_for_backward(Q * eigenvalues.rsqrt().unsqueeze(-2))
        return 0.5 * eigenvalues.log().sum(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (root,) = ctx.saved_tensors
        return 0.5 * grad.unsqueeze(-1).unsqueeze(-1) * ctx.inverse(root)
