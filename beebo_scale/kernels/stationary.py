r"""Stationary kernels, fused for speed: with frozen hyperparameters (`freeze`) and with live ones (`live_gram`).

A posterior evaluates k(X, Z) and its gradient in X thousands of times with the hyperparameters fixed. Written as one
autograd function, k = A g(r^2) with r^2 = sum_i ((x_i - z_i) / l_i)^2 needs one saved matrix, dg/dr^2, and the
gradient is two small products; through autograd alone it is a dozen passes over n x q matrices each way.
"""

from __future__ import annotations

import copy
import functools
import math
from typing import Any, TypeVar

import torch
from gpytorch import Module
from gpytorch.kernels import AdditiveKernel, Kernel, MaternKernel, ProductKernel, RBFKernel, ScaleKernel
from linear_operator import to_dense
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

M = TypeVar("M", bound=nn.Module)


def freeze(kernel: Kernel) -> Kernel:
    """A copy of a kernel that is differentiable in its inputs only; fused if it is a stationary one known here.

    Known: RBF and Matern-1/2, -3/2, -5/2, with or without a ScaleKernel, without batches of hyperparameters; in a sum
    or a product, each part for itself.
    """
    if type(kernel) in (ProductKernel, AdditiveKernel) and kernel.active_dims is None:
        return type(kernel)(*[freeze(part) for part in kernel.kernels])
    amplitude, base = 1.0, kernel
    if type(kernel) is ScaleKernel and kernel.batch_shape == torch.Size():
        amplitude, base = float(kernel.outputscale.detach()), kernel.base_kernel
    nu = _smoothness(base)
    if nu is None:
        return frozen_copy(kernel)
    return StationaryKernel(nu, base.lengthscale.detach().reshape(-1), amplitude, kernel.active_dims)


def frozen_copy(module: M) -> M:
    """A copy whose parameters take no gradient and have no priors (whose closures cannot always be pickled)."""
    module = copy.deepcopy(module).requires_grad_(False).eval()
    for part in module.modules():
        if isinstance(part, Module):
            for name in list(part._priors):
                del part._priors[name], part._modules[name]
    return module


def gram(kernel: Kernel, X1: Tensor, X2: Tensor) -> Tensor:
    """k(X1, X2) as a dense matrix: ... p x d, ... q x d -> ... p x q."""
    return kernel(X1, X2).to_dense()


def live_gram(kernel: Kernel, X1: Tensor, X2: Tensor) -> Tensor:
    """k(X1, X2), differentiable in the hyperparameters and the inputs; the stationary kernels in it are fused.

    Sums, products and outputscales are taken apart; what is not known here is evaluated as it is.

    Args:
        kernel: any kernel without batches of hyperparameters.
        X1: p x d.
        X2: q x d.

    Returns:
        p x q, in the number format of the inputs.
    """
    if kernel.active_dims is not None:
        X1, X2 = X1[:, kernel.active_dims], X2[:, kernel.active_dims]
    return _live_forward(kernel, X1, X2)


def _live_forward(kernel: Kernel, X1: Tensor, X2: Tensor) -> Tensor:
    """`live_gram` at inputs that are cut to the kernel's active_dims."""
    nu = _smoothness(kernel)
    if nu is not None:
        lengthscale = kernel.lengthscale.reshape(-1).to(X1.dtype)
        center = X2.detach().mean(0)
        return _Covariance.apply((X1 - center) / lengthscale, (X2 - center) / lengthscale, nu, 0.0)
    if type(kernel) is ScaleKernel:  # its active_dims are those of its base
        return kernel.outputscale.to(X1.dtype) * _live_forward(kernel.base_kernel, X1, X2)
    if type(kernel) in (ProductKernel, AdditiveKernel):
        combine = torch.mul if type(kernel) is ProductKernel else torch.add
        return functools.reduce(combine, [live_gram(part, X1, X2) for part in kernel.kernels])
    return to_dense(kernel.forward(X1, X2)).to(X1.dtype)


def _smoothness(kernel: Kernel) -> float | None:
    """Nu of a stationary kernel known here (infinite for RBF), None for any other."""
    if kernel.batch_shape != torch.Size():
        return None
    if type(kernel) in (MaternKernel, SmoothnessKernel):
        return kernel.nu
    return math.inf if type(kernel) is RBFKernel else None


class SmoothnessKernel(MaternKernel):
    """A Matern kernel whose nu is a hyperparameter like others: part of the state, so that it is saved and restored.

    Files of earlier versions say nothing of it: then it is 5/2.
    """

    def get_extra_state(self) -> Tensor:
        """Nu."""
        return torch.tensor(self.nu, dtype=torch.float64)

    def set_extra_state(self, state: Tensor) -> None:
        """Take nu from a state."""
        self.nu = float(state)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        state_dict.setdefault(f"{prefix}_extra_state", torch.tensor(2.5, dtype=torch.float64))
        super()._load_from_state_dict(state_dict, prefix, *rest)


class StationaryKernel(Kernel):
    """A g_nu(r): Matern-nu, or RBF for nu = inf, with lengthscales l and amplitude A as constants."""

    lengthscales: Tensor

    def __init__(self, nu: float, lengthscales: Tensor, amplitude: float, active_dims: Tensor | None) -> None:
        super().__init__()
        self.nu, self.amplitude = nu, amplitude
        self.register_buffer("lengthscales", lengthscales.clone())
        self.active_dims = active_dims

    def scaled(self, c: float) -> StationaryKernel:
        """C k, c above zero."""
        return StationaryKernel(self.nu, self.lengthscales, c * self.amplitude, self.active_dims)

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        """... p x d, ... q x d -> ... p x q (diag: ... p)."""
        if diag:
            if x1 is x2 or torch.equal(x1, x2):
                return x1.new_full(x1.shape[:-1], self.amplitude)
            x1, x2 = x1.unsqueeze(-2), x2.unsqueeze(-2)
            return self.forward(x1, x2).flatten(-3)
        center = x2.detach().reshape(-1, x2.shape[-1]).mean(0)  # distances through products lose digits far from zero
        A, B = (x1 - center) / self.lengthscales, (x2 - center) / self.lengthscales
        return _Covariance.apply(A, B, self.nu, math.log(self.amplitude))


class _Covariance(torch.autograd.Function):
    """A g_nu(|a_i - b_j|): ... p x d, ... q x d -> ... p x q."""

    @staticmethod
    def forward(ctx: Any, A: Tensor, B: Tensor, nu: float, log_amplitude: float) -> Tensor:
        r2 = _squared_distances(A, B, exact=nu == 0.5)
        if not any(ctx.needs_input_grad):
            return _profile(r2, nu, log_amplitude, slope=False)[0]
        k, slope = _profile(r2, nu, log_amplitude)
        ctx.save_for_backward(A, B, slope)
        return k

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        A, B, slope = ctx.saved_tensors
        V = grad * slope  # dL / dr^2, ... p x q
        grad_A = grad_B = None
        if ctx.needs_input_grad[0]:
            grad_A = (2 * (V.sum(-1, keepdim=True) * A - V @ B)).sum_to_size(A.shape)
        if ctx.needs_input_grad[1]:
            grad_B = (2 * (V.sum(-2).unsqueeze(-1) * B - V.mT @ A)).sum_to_size(B.shape)
        return grad_A, grad_B, None, None


def _squared_distances(A: Tensor, B: Tensor, exact: bool) -> Tensor:
    """|a_i - b_j|^2: ... p x d, ... q x d -> ... p x q; by a product, or exactly where k has a kink at zero.

    The product leaves 1e-16 |a|^2 between equal points: nothing to a kernel smooth in r^2, but 1e-8 to exp(-r).
    """
    if exact:
        return torch.cdist(A, B, compute_mode="donot_use_mm_for_euclid_dist").square_()
    a2, b2 = A.square().sum(-1, keepdim=True), B.square().sum(-1, keepdim=True)
    left = torch.cat([-2 * A, a2, torch.ones_like(a2)], dim=-1)
    right = torch.cat([B, torch.ones_like(b2), b2], dim=-1)
    return (left @ right.mT).clamp_(min=0.0)  # |a|^2 + |b|^2 - 2 a'b in one product


def _profile(r2: Tensor, nu: float, log_amplitude: float, slope: bool = True) -> tuple[Tensor, Tensor | None]:
    """A g_nu and its slope d/dr^2, if asked for, at squared distances; r2 is overwritten."""
    if nu == math.inf:
        k = r2.mul_(-0.5).add_(log_amplitude).exp_()
        return k, -0.5 * k if slope else None
    s = r2.mul_(2 * nu).sqrt_()  # sqrt(2 nu) r
    e = torch.sub(log_amplitude, s).exp_()  # A exp(-s)
    if nu == 2.5:  # k = (1 + s + s^2 / 3) e, slope = -5/6 (1 + s) e
        d = (s + 1).mul_(e).mul_(-5 / 6) if slope else None
        return s.div(3).add_(1).mul_(s).add_(1).mul_(e), d
    if nu == 1.5:  # k = (1 + s) e, slope = -3/2 e
        d = -1.5 * e if slope else None
        return s.add_(1).mul_(e), d
    return e, torch.where(s > 0, -0.5 * e / s, 0.0) if slope else None  # nu = 1/2 has a kink at zero: no slope there
