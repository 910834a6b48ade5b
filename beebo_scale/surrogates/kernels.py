r"""Prior kernels by column kind.

A screen's kernel is a product over its columns: one ARD Matern-5/2 for all continuous columns, an exchange kernel
over the sites of each sequence and over all categorical columns. Names of the priors: "botorch" (today's defaults:
log-normal lengthscales that grow with sqrt(d), no outputscale) and "paper" (the defaults of the paper's time: gamma
priors on lengthscale and outputscale).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from gpytorch.constraints import GreaterThan, Interval
from gpytorch.kernels import IndexKernel, Kernel, MaternKernel, ProductKernel, ScaleKernel
from gpytorch.priors import GammaPrior, LogNormalPrior
from torch import Tensor

PRIORS = ("botorch", "paper")


class ExchangeKernel(Kernel):
    r"""Product over sites of exchange kernels: k(x, x') = exp(-sum_s theta_s [x_s != x'_s]).

    Any two different letters at site s correlate by exp(-theta_s): the Hamming distance with one weight for each
    site. Positive definite, since each factor is (1 - rho) [x = x'] + rho with rho in (0, 1). Codes enter by equality
    only, so a letter that was never measured is no error. theta_s is kept as `lengthscale` 1 / theta_s, large where a
    site matters little.
    """

    has_lengthscale = True

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: object) -> Tensor:
        """Kernel matrix, ... p x s and ... q x s -> ... p x q (diag: ... p)."""
        theta = self.lengthscale.reciprocal().squeeze(-2)  # s
        if diag:
            return torch.exp(-((x1 != x2) * theta).sum(-1))
        distance: Tensor | float = 0.0
        for s in range(x1.shape[-1]):  # one site at a time: no ... p x q x s tensor
            distance = distance + (x1[..., :, None, s] != x2[..., None, :, s]) * theta[..., s]
        return torch.exp(-torch.as_tensor(distance))


class TaskKernel(IndexKernel):
    """B[t, t'] = (W W' + diag(v))[t, t'], looked up: gpytorch's own goes through sparse tensors, which warn."""

    def forward(self, i1: Tensor, i2: Tensor, diag: bool = False, **params: object) -> Tensor:
        """Kernel matrix, ... p x 1 and ... q x 1 -> ... p x q (diag: ... p)."""
        B = self.covar_factor @ self.covar_factor.mT + torch.diag_embed(self.var)
        t1, t2 = i1.squeeze(-1).round().long(), i2.squeeze(-1).round().long()
        return B[t1, t2] if diag else B[t1.unsqueeze(-1), t2.unsqueeze(-2)]


def continuous_kernel(columns: Sequence[int], priors: str) -> Kernel:
    """ARD Matern-5/2 over columns scaled to [0, 1]."""
    d = len(columns)
    if priors == "paper":
        prior, constraint = GammaPrior(3.0, 6.0), GreaterThan(1e-4)
    else:
        prior = LogNormalPrior(math.sqrt(2.0) + 0.5 * math.log(d), math.sqrt(3.0))
        constraint = GreaterThan(2.5e-2, transform=None, initial_value=prior.mode)
    kernel = MaternKernel(
        nu=2.5, ard_num_dims=d, active_dims=tuple(columns), lengthscale_prior=prior, lengthscale_constraint=constraint
    )
    if priors == "paper":
        kernel.lengthscale = 0.5
    return kernel


def exchange_kernel(columns: Sequence[int]) -> Kernel:
    """Exchange kernel over sites or categorical columns; a priori one letter changed leaves correlation 1/e or so."""
    s = len(columns)
    prior = LogNormalPrior(0.5 * math.log(s), 1.0)
    constraint = Interval(1e-2, 1e3, initial_value=prior.mode)
    return ExchangeKernel(
        ard_num_dims=s, active_dims=tuple(columns), lengthscale_prior=prior, lengthscale_constraint=constraint
    )


def icm_kernel(data: Kernel, tasks: int, task_column: int, rank: int | None = None) -> Kernel:
    """Intrinsic model of coregionalisation: k((x, t), (x', t')) = k(x, x') B[t, t'], B = W W' + diag(v).

    Args:
        data: kernel over the inputs, its `active_dims` leaving out the task column.
        tasks: number of tasks 0, 1, ....
        task_column: where the task stands.
        rank: columns of W; all if None. Correlations between tasks may be negative.
    """
    return ProductKernel(data, TaskKernel(num_tasks=tasks, rank=rank or tasks, active_dims=(task_column,)))


def screen_kernel(kinds: Mapping[str, str], slices: Mapping[str, slice], priors: str = "botorch") -> Kernel:
    """The product kernel of a screen.

    Args:
        kinds: feature -> column kind.
        slices: feature -> its columns in the encoded rows.
        priors: "botorch" or "paper".

    Returns:
        A gpytorch kernel over the encoded rows.

    Raises:
        ValueError: unknown priors.
    """
    if priors not in PRIORS:
        raise ValueError(f"priors are {' or '.join(PRIORS)}, got {priors!r}")
    columns = {name: list(range(s.start, s.stop)) for name, s in slices.items()}
    continuous = [i for name, kind in kinds.items() if kind == "continuous" for i in columns[name]]
    categorical = [i for name, kind in kinds.items() if kind == "categorical" for i in columns[name]]
    factors = [continuous_kernel(continuous, priors)] if continuous else []
    factors += [exchange_kernel(categorical)] if categorical else []
    factors += [exchange_kernel(columns[name]) for name, kind in kinds.items() if kind in ("protein", "dna")]
    kernel = factors[0] if len(factors) == 1 else ProductKernel(*factors)
    if priors == "paper":
        return ScaleKernel(kernel, outputscale_prior=GammaPrior(2.0, 0.15))
    return kernel
