r"""Which transform of the target predicts rows best that the fit has not seen.

Densities of differently transformed targets can be compared only in the target's own units: p(y) = N(z) |dz / dy|. The
slope of a root is infinite at zero, where screens have many targets, and that of ranks jumps from value to value. So
the probability of a cell of small width w around y takes the place of the density,

    NLPD = mean of -log [ (Phi(b) - Phi(a)) / w ],   a, b = z(y -+ w / 2) less the predicted mean, by its std,

the same up to O(w^2) wherever the density is smooth, and finite everywhere.

It judges predictions of all rows alike; where most of a screen is inactive, it is mostly the inactive ones that choose.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ...errors import InputError
from ...screening import EncodedTable, Table
from ..gaussian_process.gaussian_process import exact_posterior, fit_hyperparameters
from ..surrogate import new_gp
from .observations import merge_replicates
from .target import TargetScale, check_transform

CANDIDATES = ("none", "sqrt", "log", "rank")
COMPARED_ROWS = 1000  # distinct inputs that the comparison sees
HELD_OUT_SHARE = 1 / 3
CELL = 0.01  # width of a cell, of the middle half of the targets


def choose_transform(
    measured: Table | EncodedTable,
    *,
    priors: str = "botorch",
    rows: int = COMPARED_ROWS,
    maxiter: int = 50,
    seed: int = 0,
) -> str:
    """The transform of the target with the least held-out NLPD; see `transform_scores` for the arguments.

    Targets with known noise variances stay as they are: these have no counterpart after a transform.

    Raises:
        InputError: several targets, or too few distinct inputs to hold some out.
    """
    measured = EncodedTable.of(measured)
    table = measured.table
    if table.weights:
        raise InputError("held-out rows choose the transform of one target; of several, name one or take auto")
    if table.noise_variance is not None:
        return "none"
    scores = transform_scores(measured, priors=priors, rows=rows, maxiter=maxiter, seed=seed)
    return min(scores, key=lambda name: scores[name])


def transform_scores(
    measured: Table | EncodedTable,
    *,
    priors: str = "botorch",
    rows: int = COMPARED_ROWS,
    maxiter: int = 50,
    seed: int = 0,
) -> dict[str, float]:
    """Held-out NLPD of every transform that the targets can have, in their own units, by exact Gaussian processes.

    Args:
        measured: rows, encoded or not.
        priors: of the hyperparameters, as in `fit`.
        rows: at most so many distinct inputs, drawn at random; a third of them, with all their replicates, is held out.
        maxiter: limit of L-BFGS iterations of each fit.
        seed: of the draw.

    Returns:
        Transform -> NLPD; smaller is better. A few seconds for each at 1,000 rows.

    Raises:
        InputError: no target, or too few distinct inputs to hold some out.
    """
    encoded = EncodedTable.of(measured)
    table, encoder, X = encoded.table, encoded.encoder, encoded.X
    if table.y is None:
        raise InputError(f"{table.source}: no target to learn from; read it with read_table(..., target=...)")
    y = torch.tensor(table.y)
    train, test = _split(X, rows, seed)
    if len(y[train].unique()) < 2:
        raise InputError(f"{table.source}: too few different targets to compare transforms; name one")
    width = _cell(y)
    scores = {}
    for name in CANDIDATES:
        try:
            check_transform(y, name, table.noise_variance is not None)
        except InputError:
            continue
        scale = TargetScale.of(y[train], name)
        data = merge_replicates(X[train], scale.standardise(y[train]))
        gp = new_gp(encoder, priors)
        fit_hyperparameters(gp, data, maxiter)
        posterior = exact_posterior(gp, data)
        with torch.no_grad():
            mean, variance = posterior.mean_and_variance(X[test])
            std = (variance + posterior.noise(X[test])).sqrt()
            scores[name] = float(-log_density(scale, y[test], mean, std, width).mean())
    return scores


def log_density(scale: TargetScale, y: Tensor, mean: Tensor, std: Tensor, width: float) -> Tensor:
    """Logarithm of the mean density of a target over the cell y -+ width / 2, in its own units.

    Args:
        scale: of the target.
        y: n targets, own units.
        mean: n predicted means, standardised units.
        std: n standard deviations of a measurement, standardised units.
        width: of the cell, own units.
    """
    a, b = ((_z(scale, y + side * width) - mean) / std for side in (-0.5, 0.5))
    a, b = torch.where(a + b > 0, -b, a), torch.where(a + b > 0, -a, b)  # the side where Phi is small and exact
    low, high = torch.special.log_ndtr(a), torch.special.log_ndtr(b)
    share = torch.where(torch.isinf(low), low, low - high).clamp_max(-1e-15)  # rounding, far out
    return high + torch.log(-torch.expm1(share)) - math.log(width)


def _z(scale: TargetScale, edge: Tensor) -> Tensor:
    """Standardised edge of a cell; a root or logarithm takes all probability below zero to zero."""
    if scale.transform not in ("sqrt", "log"):
        return scale.standardise(edge)
    z = scale.standardise(edge.clamp_min(0.0))
    return torch.where(edge > 0, z, torch.full_like(z, -math.inf))


def _split(X: Tensor, rows: int, seed: int) -> tuple[Tensor, Tensor]:
    """Row numbers to fit and to hold out; rows with the same input go together."""
    groups, inverse = torch.unique(X, dim=0, return_inverse=True)
    if len(groups) < 6:
        raise InputError(f"{len(groups)} distinct inputs are too few to compare transforms; name one")
    drawn = torch.randperm(len(groups), generator=torch.Generator().manual_seed(seed))[:rows]
    part = torch.zeros(len(groups), dtype=torch.long)  # 0: not drawn, 1: fit, 2: held out
    held = round(HELD_OUT_SHARE * len(drawn))
    part[drawn[held:]], part[drawn[:held]] = 1, 2
    return (part[inverse] == 1).nonzero().squeeze(-1), (part[inverse] == 2).nonzero().squeeze(-1)


def _cell(y: Tensor) -> float:
    """Width of a cell; of the standard deviation where the middle half of the targets is one value."""
    ordered = y.sort().values
    middle = float(ordered[(3 * len(y)) // 4] - ordered[len(y) // 4])
    return CELL * (middle if middle > 0 else float(y.std()))
