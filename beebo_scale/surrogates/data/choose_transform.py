r"""Which transform of the target predicts rows best that the fit has not seen, above all the good ones.

Densities of differently transformed targets can be compared only in the target's own units: p(y) = N(z) |dz / dy|. The
slope of a root is infinite at zero, where screens have many targets, and that of ranks jumps from value to value. So
the probability of a cell around y takes the place of the density; the measured values share out the line among them,
each from half way to the one below to half way to the one above, so that cells are small where values are close: a
target that is to become small over orders of magnitude is told apart at 1e-6 as well as at 1,

    NLPD = mean of -log [ (Phi(b) - Phi(a)) / w ],   a, b = z(edge) less the predicted mean, by its std, w the width.

Where it is known which end of the target is good, the other half of the rows counts only as being there, -log of the
probability to lie beyond the median (censored likelihood: Diks, Panchenko and van Dijk, J. Econometrics 163, 2011; as
proper a score as the full one). Else all rows count alike: where most of a screen is inactive, mostly inactive ones.
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
COMPARED_ROWS = 600  # distinct inputs that the comparison sees
FOLDS, FOLDED_ROWS = 3, 300  # so many distinct inputs are held out in turn; of more, one third is
LEAST_ROWS = 12  # distinct inputs from which on "auto" compares
SKEWNESS, EXCESS = 0.5, 1.0  # skewness and excess kurtosis up to which "auto" leaves a target as it is


def automatic_transform(measured: EncodedTable, priors: str, seed: int, minimize: bool | None) -> str:
    """The transform that "auto" stands for; see `choose_transform`.

    "none" where the measured values are near to normal, as then no transform changes much; else that of
    `choose_transform`, but the rule of `TargetScale.of` for several targets, for known noise variances, for fewer than
    LEAST_ROWS distinct inputs, and where no other is ahead of it by a standard error.
    """
    table = measured.table
    if table.y is None or table.weights or table.noise_variance is not None:
        return "auto"
    y = torch.tensor(table.y)
    z = (y - y.mean()) / y.std()
    if not bool(torch.isfinite(z).all()) or len(y.unique()) < LEAST_ROWS // 2:
        return "auto"
    if abs(float(z.pow(3).mean())) < SKEWNESS and float(z.pow(4).mean()) < 3 + EXCESS:
        return "none"
    if len(torch.unique(measured.X, dim=0)) < LEAST_ROWS:
        return "auto"
    return _chosen(_compared(measured, priors, COMPARED_ROWS, 50, seed, minimize), TargetScale.of(y).transform)


def choose_transform(
    measured: Table | EncodedTable,
    *,
    priors: str = "botorch",
    rows: int = COMPARED_ROWS,
    maxiter: int = 50,
    seed: int = 0,
    minimize: bool | None = None,
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
    return _chosen(_compared(measured, priors, rows, maxiter, seed, minimize))


def transform_scores(
    measured: Table | EncodedTable,
    *,
    priors: str = "botorch",
    rows: int = COMPARED_ROWS,
    maxiter: int = 50,
    seed: int = 0,
    minimize: bool | None = None,
) -> dict[str, float]:
    """Held-out NLPD of every transform that the targets can have, in their own units, by exact Gaussian processes.

    Args:
        measured: rows, encoded or not.
        priors: of the hyperparameters, as in `fit`.
        rows: at most so many distinct inputs, drawn at random, are compared; all replicates of one are held out
            together. Up to 300 are held out in turn, of more a third.
        maxiter: limit of L-BFGS iterations of each fit.
        seed: of the draw.
        minimize: whether small values are good: the other half of the rows counts as such. None counts all alike.

    Returns:
        Transform -> NLPD; smaller is better. A second for each at 600 rows.

    Raises:
        InputError: no target, or too few distinct inputs to hold some out.
    """
    compared = _compared(EncodedTable.of(measured), priors, rows, maxiter, seed, minimize)
    return {name: float(nlpd.mean()) for name, nlpd in compared.items()}


def _chosen(compared: dict[str, Tensor], usual: str | None = None) -> str:
    """The transform with the least NLPD; `usual` unless another is ahead of it by a standard error."""
    best = min(compared, key=lambda name: float(compared[name].mean()))
    if usual not in compared or best == usual:
        return best
    ahead = compared[usual] - compared[best]
    return best if float(ahead.mean()) > float(ahead.std()) / len(ahead) ** 0.5 else usual


def _compared(
    encoded: EncodedTable, priors: str, rows: int, maxiter: int, seed: int, minimize: bool | None
) -> dict[str, Tensor]:
    """NLPD of each held-out row with every transform that the targets can have."""
    table, X = encoded.table, encoded.X
    if table.y is None:
        raise InputError(f"{table.source}: no target to learn from; read it with read_table(..., target=...)")
    y = torch.tensor(table.y)
    splits = _splits(X, rows, seed)
    if any(len(y[train].unique()) < 2 for train, _ in splits):
        raise InputError(f"{table.source}: too few different targets to compare transforms; name one")
    low, high = _cells(y)
    good, edge = _good(y, low, high, minimize)
    compared = {}
    for name in CANDIDATES:
        try:
            check_transform(y, name, table.noise_variance is not None)
        except InputError:
            continue
        gp, parts = new_gp(encoded.encoder, priors), []
        for train, test in splits:
            scale = TargetScale.of(y[train], name)
            data = merge_replicates(X[train], scale.standardise(y[train]))
            fit_hyperparameters(gp, data, maxiter)  # from where the last split ended
            posterior = exact_posterior(gp, data)
            with torch.no_grad():
                mean, variance = posterior.mean_and_variance(X[test])
                std = (variance + posterior.noise(X[test])).sqrt()
                nlpd = -log_density(scale, low[test], high[test], mean, std)
                if minimize is not None:
                    beyond = (mean - _z(scale, edge)) / std if minimize else (_z(scale, edge) - mean) / std
                    nlpd = torch.where(good[test], nlpd, -torch.special.log_ndtr(beyond))
            parts.append(nlpd)
        compared[name] = torch.cat(parts)
    return compared


def _cells(y: Tensor) -> tuple[Tensor, Tensor]:
    """Edges of the cell of each of n targets: half way to the next value, as far on the other side at the ends."""
    values, place = y.unique(return_inverse=True)
    middle = (values[1:] + values[:-1]) / 2
    edges = torch.cat([2 * values[:1] - middle[:1], middle, 2 * values[-1:] - middle[-1:]])
    return edges[place], edges[place + 1]


def _good(y: Tensor, low: Tensor, high: Tensor, minimize: bool | None) -> tuple[Tensor, Tensor]:
    """Which of n targets are in the good half, and the edge of the cells that bounds it."""
    if minimize:
        good = y <= y.quantile(0.5)
        return good, high[good].amax()
    good = y >= y.quantile(0.5)
    return good, low[good].amin()


def log_density(scale: TargetScale, low: Tensor, high: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Logarithm of the mean density of a target over a cell, in its own units.

    Args:
        scale: of the target.
        low: n lower edges, own units.
        high: n upper edges, own units.
        mean: n predicted means, standardised units.
        std: n standard deviations of a measurement, standardised units.
    """
    a, b = ((_z(scale, edge) - mean) / std for edge in (low, high))
    a, b = torch.where(a + b > 0, -b, a), torch.where(a + b > 0, -a, b)  # the side where Phi is small and exact
    below, above = torch.special.log_ndtr(a), torch.special.log_ndtr(b)
    share = torch.where(torch.isinf(below), below, below - above).clamp_max(-1e-15)  # rounding, far out
    return above + torch.log(-torch.expm1(share)) - (high - low).log()


def _z(scale: TargetScale, edge: Tensor) -> Tensor:
    """Standardised edge of a cell; a root or logarithm takes all probability below zero to zero."""
    if scale.transform not in ("sqrt", "log"):
        return scale.standardise(edge)
    z = scale.standardise(edge.clamp_min(0.0))
    return torch.where(edge > 0, z, torch.full_like(z, -math.inf))


def _splits(X: Tensor, rows: int, seed: int) -> list[tuple[Tensor, Tensor]]:
    """Row numbers to fit and to hold out, once or in turn; rows with the same input go together."""
    groups, inverse = torch.unique(X, dim=0, return_inverse=True)
    if len(groups) < 6:
        raise InputError(f"{len(groups)} distinct inputs are too few to compare transforms; name one")
    drawn = torch.randperm(len(groups), generator=torch.Generator().manual_seed(seed))[:rows]
    fold = torch.full((len(groups),), -1)  # -1: not drawn
    fold[drawn] = torch.arange(len(drawn)) % FOLDS
    mine, turns = fold[inverse], range(FOLDS if len(drawn) <= FOLDED_ROWS else 1)
    return [(((mine != k) & (mine >= 0)).nonzero()[:, 0], (mine == k).nonzero()[:, 0]) for k in turns]
