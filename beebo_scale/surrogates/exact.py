"""The exact posterior of a Gaussian process: one n x n matrix, factored once."""

from __future__ import annotations

import torch
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor
from torch.nn import Module

from ..errors import InputError
from ..posterior import Noise, Posterior, gram
from ..roots import CholeskyRoot

CHUNK = 1024  # rows of K computed at once, so that the temporaries of a kernel stay small beside K itself


def condition_exactly(
    kernel: Kernel, mean: Mean, Z: Tensor, y: Tensor, sigma2: Tensor, noise: Noise, warp: Module | None = None
) -> Posterior:
    """The posterior given y = f(Z) + noise: R = L^-T with L L' = K + Sigma, alpha = (K + Sigma)^-1 (y - m).

    Args:
        kernel: k, parameters frozen.
        mean: m, parameters frozen.
        Z: n x d inputs, as the kernel takes them.
        y: n targets.
        sigma2: n noise variances of the targets.
        noise: sigma^2(x) of a new measurement.
        warp: see `Posterior`.

    Raises:
        InputError: K + Sigma is not positive definite.
    """
    with torch.no_grad():
        K = Z.new_empty(len(Z), len(Z))
        for start in range(0, len(Z), CHUNK):
            K[start : start + CHUNK] = gram(kernel, Z[start : start + CHUNK], Z)
        K.diagonal().add_(sigma2)
        L, info = torch.linalg.cholesky_ex(K)
        if bool(info.any()):
            raise InputError(
                f"the covariance of the {len(Z)} measured rows is not positive definite: inputs repeat each other and "
                f"the noise variance ({float(sigma2.min()):.3g}) is too small, or the kernel is not a valid one; "
                "raise the noise variance or merge repeated rows"
            )
        alpha = torch.cholesky_solve((y - mean(Z)).unsqueeze(-1), L).squeeze(-1)
    return Posterior(kernel, mean, centers=Z, weights=alpha, down=CholeskyRoot(L), noise=noise, warp=warp)
