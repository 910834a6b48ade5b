r"""Prior kernels by column kind.

A screen's kernel is a product (or a sum) over its columns: one ARD Matern for all continuous columns, an exchange
kernel over the sites of each DNA sequence and over all categorical columns, a substitution kernel (`substitution.py`)
over the sites of each protein, a Tanimoto kernel over each fingerprint.
Names of the priors: "botorch" (today's defaults: log-normal lengthscales that grow with sqrt(d), no outputscale),
"paper" (the defaults of the paper's time: gamma priors on lengthscale and outputscale) and "search" (those of the
paper, but no lengthscale far below the distance between neighbours, see `bound_lengthscales`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from gpytorch.constraints import GreaterThan, Interval
from gpytorch.kernels import AdditiveKernel, IndexKernel, Kernel, ProductKernel, ScaleKernel
from gpytorch.priors import GammaPrior, LogNormalPrior
from torch import Tensor
from torch.autograd.function import once_differentiable

from .combinations import CombinationKernel
from .stationary import SmoothnessKernel
from .substitution import SubstitutionKernel

PRIORS = ("botorch", "paper", "search")
COMBINE = ("product", "sum", "combinations")
NEIGHBOURS = 0.25  # of n^(-1/d), the distance between neighbours: the shortest lengthscale that a search is led by


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
        return _Exchange.apply(x1, x2, theta)


class _Exchange(torch.autograd.Function):
    """exp(-sum_s theta_s [x_s != x'_s]), differentiable in theta, without ever a ... p x q x s tensor."""

    @staticmethod
    def forward(ctx: Any, X1: Tensor, X2: Tensor, theta: Tensor) -> Tensor:
        exponent: Tensor | float = 0.0
        for s in range(X1.shape[-1]):
            exponent = exponent - (X1[..., :, None, s] != X2[..., None, :, s]) * theta[s]
        k = torch.exp(torch.as_tensor(exponent))
        ctx.save_for_backward(X1, X2, k)
        return k

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, Tensor]:
        X1, X2, k = ctx.saved_tensors
        V = grad * k
        slopes = [-(V * (X1[..., :, None, s] != X2[..., None, :, s])).sum() for s in range(X1.shape[-1])]
        return None, None, torch.stack(slopes)


class TanimotoKernel(Kernel):
    r"""Tanimoto similarity of fingerprints, binary or counts: k(x, x') = <x, x'> / (|x|^2 + |x'|^2 - <x, x'>).

    Two rows of zeros have k = 1, a row of zeros and any other k = 0. Positive definite: with c = <x, x'> and
    s = |x|^2 + |x'|^2 >= 2c, k = sum_{n >= 1} (c / s)^n, where c^n is a power of an inner product and
    s^-n = int_0^inf t^(n-1) exp(-t s) dt / (n-1)! a mixture of products exp(-t |x|^2) exp(-t |x'|^2); rows of zeros are
    a block of their own. No hyperparameters. Gower (1971); Ralaivola et al., Neural Networks 18 (2005).
    """

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: object) -> Tensor:
        """Kernel matrix, ... p x b and ... q x b -> ... p x q (diag: ... p)."""
        n1, n2 = x1.square().sum(-1), x2.square().sum(-1)
        if diag:
            common = (x1 * x2).sum(-1)
        else:
            common, n1, n2 = x1 @ x2.mT, n1.unsqueeze(-1), n2.unsqueeze(-2)
        union = n1 + n2 - common
        return torch.where(union > 0, common / union.clamp_min(torch.finfo(union.dtype).tiny), 1.0)


class TaskKernel(IndexKernel):
    """B[t, t'] = (W W' + diag(v))[t, t'], looked up: gpytorch's own goes through sparse tensors, which warn.

    With `weights` w, -1 stands for the weighted sum of all tasks: B[-1, t] = (w' B)[t] and B[-1, -1] = w' B w.
    """

    weights: Tensor | None

    def __init__(self, num_tasks: int, **options: Any) -> None:
        super().__init__(num_tasks, **options)
        self.register_buffer("weights", None, persistent=False)

    @property
    def covariance(self) -> Tensor:
        """B, t x t."""
        return self.covar_factor @ self.covar_factor.mT + torch.diag_embed(self.var)

    def forward(self, i1: Tensor, i2: Tensor, diag: bool = False, **params: object) -> Tensor:
        """Kernel matrix, ... p x 1 and ... q x 1 -> ... p x q (diag: ... p)."""
        B = self.covariance
        if self.weights is not None:
            J = torch.cat([torch.eye(len(B), dtype=B.dtype, device=B.device), self.weights.to(B).unsqueeze(0)])
            B = J @ B @ J.mT  # the sum comes last, where -1 looks
        t1, t2 = i1.squeeze(-1).round().long(), i2.squeeze(-1).round().long()
        return B[t1, t2] if diag else B[t1.unsqueeze(-1), t2.unsqueeze(-2)]


def continuous_kernel(columns: Sequence[int], priors: str) -> Kernel:
    """ARD Matern over columns scaled to [0, 1], nu = 5/2 to start with (see `search` for when it changes)."""
    d = len(columns)
    if priors != "botorch":
        prior, constraint = GammaPrior(3.0, 6.0), GreaterThan(1e-4)
    else:
        prior = LogNormalPrior(math.sqrt(2.0) + 0.5 * math.log(d), math.sqrt(3.0))
        constraint = GreaterThan(2.5e-2, transform=None, initial_value=prior.mode)
    kernel = SmoothnessKernel(
        nu=2.5, ard_num_dims=d, active_dims=tuple(columns), lengthscale_prior=prior, lengthscale_constraint=constraint
    )
    if priors != "botorch":
        kernel.lengthscale = 0.5
    return kernel


def bound_lengthscales(kernel: Kernel, n: int) -> None:
    r"""Let no lengthscale of the Matern kernels be below n^(-1/d) / 4, in place; lengthscales below are raised.

    n^(-1/d) is the distance between neighbours among n points that fill the unit cube. A likelihood of few rows in
    many inputs often likes one very short lengthscale best: along that input no two rows are close, so that any
    ruggedness counts as signal without noise, and a search sees nothing but uncertainty (ten rounds of Ackley in 10
    inputs: 0.80 of the way to the optimum without the bound, 0.96 with it; Rastrigin in 20: 0.38, 0.63).
    """
    for part in kernel.modules():
        if isinstance(part, SmoothnessKernel):
            shortest = NEIGHBOURS * n ** (-1.0 / part.ard_num_dims)
            lengthscale = part.lengthscale.detach().clamp_min((1.0 + 1e-3) * shortest)
            part.register_constraint("raw_lengthscale", GreaterThan(shortest))
            part.lengthscale = lengthscale


def exchange_kernel(columns: Sequence[int]) -> Kernel:
    """Exchange kernel over sites or categorical columns."""
    return _by_site(ExchangeKernel, columns)


def substitution_kernel(columns: Sequence[int]) -> Kernel:
    """Substitution kernel over the sites of a protein."""
    return _by_site(SubstitutionKernel, columns)


def _by_site(kind: type[Kernel], columns: Sequence[int]) -> Kernel:
    """A kernel with a weight for each site; a priori one letter changed leaves correlation 1/e or so."""
    s = len(columns)
    prior = LogNormalPrior(0.5 * math.log(s), 1.0)
    constraint = Interval(1e-2, 1e3, initial_value=prior.mode)
    return kind(ard_num_dims=s, active_dims=tuple(columns), lengthscale_prior=prior, lengthscale_constraint=constraint)


def icm_kernel(data: Kernel, tasks: int, task_column: int, rank: int | None = None) -> Kernel:
    """Intrinsic model of coregionalisation: k((x, t), (x', t')) = k(x, x') B[t, t'], B = W W' + diag(v).

    Args:
        data: kernel over the inputs, its `active_dims` leaving out the task column.
        tasks: number of tasks 0, 1, ....
        task_column: where the task stands.
        rank: columns of W; all if None. Correlations between tasks may be negative.
    """
    between = TaskKernel(num_tasks=tasks, rank=rank or tasks, active_dims=(task_column,))
    with torch.no_grad():  # gpytorch draws both from the global generator; tasks start alike, correlations above zero
        between.covar_factor.copy_(0.5 + 0.5 * torch.eye(tasks, rank or tasks))
        between.raw_var.fill_(-2.0)
    return ProductKernel(data, between)


def scaled_kernel(kernel: Kernel, start: float = 1.0) -> Kernel:
    """A k, the outputscale A log-normal around 1: for kernels whose own size says nothing about the target."""
    scaled = ScaleKernel(kernel, outputscale_prior=LogNormalPrior(0.0, 1.0))
    scaled.outputscale = start
    return scaled


def screen_kernel(
    kinds: Mapping[str, str],
    slices: Mapping[str, slice],
    priors: str = "botorch",
    combine: str = "product",
    alone: bool = True,
) -> Kernel:
    """The kernel of a screen: one factor (or term) for each kind of columns.

    Args:
        kinds: feature -> column kind.
        slices: feature -> its columns in the encoded rows.
        priors: one of PRIORS.
        combine: "product" where the features act together; "sum" where each adds its own effect, with an outputscale
            for each; "combinations" for main effects, pairs and the whole product, see `CombinationKernel`.
        alone: whether the rows have no other columns.

    Returns:
        A gpytorch kernel over the encoded rows.

    Raises:
        ValueError: unknown priors or combine.
    """
    if priors not in PRIORS:
        raise ValueError(f"priors are {', '.join(PRIORS)}, got {priors!r}")
    if combine not in COMBINE:
        raise ValueError(f"kernels combine by {' or '.join(COMBINE)}, got {combine!r}")
    if combine == "combinations" and len(kinds) > 1:
        return _combinations(kinds, slices, priors)
    parts = _parts(kinds, {name: list(range(s.start, s.stop)) for name, s in slices.items()}, priors, alone)
    if combine == "sum" and len(parts) > 1:
        return AdditiveKernel(*[scaled_kernel(part, 1 / len(parts)) for part in parts])
    kernel = parts[0] if len(parts) == 1 else ProductKernel(*parts)
    if priors != "botorch":
        return ScaleKernel(kernel, outputscale_prior=GammaPrior(2.0, 0.15))
    return scaled_kernel(kernel) if "smiles" in kinds.values() else kernel


def _combinations(kinds: Mapping[str, str], slices: Mapping[str, slice], priors: str) -> Kernel:
    """Each feature a part of its own."""
    parts = [
        _parts({name: kind}, {name: list(range(slices[name].stop - slices[name].start))}, priors)[0]
        for name, kind in kinds.items()
    ]
    for part in parts:
        part.active_dims = None
    return CombinationKernel(parts, [(slices[name].start, slices[name].stop) for name in kinds])


SEQUENCES = {"protein": substitution_kernel, "dna": exchange_kernel}


def _parts(kinds: Mapping[str, str], columns: Mapping[str, list[int]], priors: str, alone: bool = True) -> list[Kernel]:
    """Kernels over disjoint columns."""
    continuous = [i for name, kind in kinds.items() if kind == "continuous" for i in columns[name]]
    categorical = [i for name, kind in kinds.items() if kind == "categorical" for i in columns[name]]
    parts = [continuous_kernel(continuous, priors)] if continuous else []
    parts += [exchange_kernel(categorical)] if categorical else []
    parts += [SEQUENCES[kind](columns[name]) for name, kind in kinds.items() if kind in SEQUENCES]
    alone = alone and len(kinds) == 1  # then the rows need not be copied to pick their columns
    fingerprints = [columns[name] for name, kind in kinds.items() if kind == "smiles"]
    return parts + [TanimotoKernel(active_dims=None if alone else tuple(own)) for own in fingerprints]
