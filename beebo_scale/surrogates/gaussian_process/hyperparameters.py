"""Hyperparameters found with care: a coarse fit first, and another start where that one fails or stops at a limit.

L-BFGS finds one optimum of the likelihood. Bad ones show: a parameter stops at a limit, or noise explains all. Then
another start is tried, and where there are many rows a rougher kernel too, Matern-3/2 for Matern-5/2. All of it happens
on a part of the rows, where it costs little; what explains all rows best goes on with them.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from botorch.optim.utils import get_parameters_and_bounds
from torch import Tensor

from ...errors import InputError
from ...kernels.stationary import SmoothnessKernel
from ..data.observations import Measurements, draw_inputs
from .gaussian_process import FitReport, GaussianProcess, fit_hyperparameters, log_marginal_likelihood

COARSE = 1000  # rows of the first fit, where there are at least twice as many
CLOSE = 1e-3  # relative distance from a limit that counts as being on it
ALL_NOISE = 0.95  # of the variance of a standardised target: no signal was found
ROUGH = 1.5  # nu of the rougher kernel
SMOOTH, NOISY = 5.0, 0.3  # the other start: lengthscales so many times longer, this noise variance

Step = Callable[[], object] | None
TrainedState = dict[str, Any]


def find_hyperparameters(
    gp: GaussianProcess,
    data: Measurements,
    maxiter: int = 100,
    on_step: Step = None,
    fresh: GaussianProcess | None = None,
) -> FitReport:
    """`fit_hyperparameters` from the values that `gp` holds, and from others where that ends badly; in place.

    Args:
        gp: where the first start is.
        data: the observations.
        maxiter: limit of the L-BFGS iterations of each fit.
        on_step: called after every evaluation.
        fresh: the other start, where the first one comes from an earlier fit, and with fewer than COARSE rows always
            tried; None takes longer lengthscales and more noise than the first.

    Raises:
        InputError: no start leads to a finite likelihood.
    """
    part = data
    if len(data) >= 2 * COARSE:
        part = data.take(draw_inputs(data.count, COARSE, torch.Generator().manual_seed(0)))
    ends: list[tuple[float, TrainedState, FitReport]] = []
    starts = 0
    both = maxiter > 0 and len(part) < COARSE  # cheap, and one start in thirteen misses the better optimum
    for start in _starts(gp, fresh):
        gp.load_state_dict(start)
        starts += 1
        ends += _end(gp, part, data, maxiter, on_step)
        if ends and not both and (not ends[-1][-1].limits or maxiter == 0):
            break
    if part is not data and fresh is None and ends and _roughen(gp, _best(ends)[1]):
        ends += _end(gp, part, data, maxiter, on_step)
    if not ends:
        raise InputError(
            f"no hyperparameters explain the {len(part)} rows that they were fitted on: the likelihood is not finite; "
            "look for extreme values among the features and the targets, and for known noise variances near zero"
        )
    _, state, report = _best(ends)
    gp.load_state_dict(state)
    finer = report if part is data else _attempt(gp, data, maxiter, on_step)
    if finer is None:
        gp.load_state_dict(state)
    return replace(finer or report, starts=starts, limits=limits(gp, data))


def limits(gp: GaussianProcess, data: Measurements) -> tuple[str, ...]:
    """Where hyperparameters stand that could not go on, in words; none if the fit ended well."""
    parameters, bounds = get_parameters_and_bounds(gp)
    found = []
    for name, p in parameters.items():
        if name in bounds and not (data.noise is not None and name.startswith("likelihood.")):
            found += list(_on_bounds(name.rsplit("raw_", 1)[-1], p.detach(), *bounds[name]))
    if data.noise is None and float(gp.sigma2.detach().min()) > ALL_NOISE:
        found.append("noise explains the whole target")
    return tuple(found)


def _on_bounds(name: str, p: Tensor, lower: float | None, upper: float | None) -> Iterator[str]:
    """'3 of 8 lengthscale at the lower limit 0.025', for each limit that is reached."""
    for side, bound in (("lower", lower), ("upper", upper)):
        if bound is not None and abs(bound) != torch.inf:
            count = int(((p - bound).abs() <= CLOSE * abs(bound)).sum())
            if count:
                of = f"{count} of {p.numel()} {name}" if p.numel() > 1 else name
                yield f"{of} at the {side} limit {bound:g}"


def _starts(gp: GaussianProcess, fresh: GaussianProcess | None) -> Iterator[TrainedState]:
    """Hyperparameters to start from, one after the other."""
    first = copy.deepcopy(gp.state_dict())
    yield first
    if fresh is not None:
        yield copy.deepcopy(fresh.state_dict())
        return
    other = copy.deepcopy(gp)
    other.load_state_dict(first)
    with torch.no_grad():
        for module in other.kernel.modules():
            if getattr(module, "has_lengthscale", False):
                constraint = module.raw_lengthscale_constraint
                longer = (SMOOTH * module.lengthscale).clamp(max=0.9 * float(constraint.upper_bound))
                module.lengthscale = torch.maximum(longer, module.lengthscale)
        other.likelihood.noise = torch.full_like(other.likelihood.noise, NOISY)
    yield other.state_dict()


def _roughen(gp: GaussianProcess, state: TrainedState) -> bool:
    """Take a state but with Matern-3/2 kernels; False if there is none to change."""
    gp.load_state_dict(state)
    kernels = [module for module in gp.kernel.modules() if isinstance(module, SmoothnessKernel)]
    for kernel in kernels:
        kernel.nu = ROUGH
    return bool(kernels)


def _end(
    gp: GaussianProcess, part: Measurements, data: Measurements, maxiter: int, on_step: Step
) -> list[tuple[float, TrainedState, FitReport]]:
    """Where a fit to a part of the rows ends: what it is worth on all of them, the state, the report; or nothing."""
    report = _attempt(gp, part, maxiter, on_step)
    try:
        value = float("nan") if report is None else _objective(gp, data)
    except torch.linalg.LinAlgError:
        return []
    if report is None or not math.isfinite(value):
        return []
    return [(value, copy.deepcopy(gp.state_dict()), replace(report, limits=limits(gp, data)))]


def _best(ends: list[tuple[float, TrainedState, FitReport]]) -> tuple[float, TrainedState, FitReport]:
    """The end with the largest value, the first of these."""
    return max(ends, key=lambda end: end[0])


def _attempt(gp: GaussianProcess, data: Measurements, maxiter: int, on_step: Step) -> FitReport | None:
    """A fit, or None if it breaks down."""
    try:
        report = fit_hyperparameters(gp, data, maxiter, on_step)
    except torch.linalg.LinAlgError:
        return None
    return report if math.isfinite(report.log_likelihood) else None


def _objective(gp: GaussianProcess, data: Measurements) -> float:
    """What the fits maximise."""
    with torch.no_grad():
        return float(log_marginal_likelihood(gp, data) + gp.log_prior())
