"""Exact moves of single values: for each point in turn, the best other label or neighbouring whole number."""

from __future__ import annotations

import torch
from torch import Tensor

from ...acquisition import BatchedEnergyEntropy
from .space import Space

ALTERNATIVES_TOGETHER = 512  # alternatives for which an approximate posterior is made exact at once
ALL_ALTERNATIVES = 100  # points of a space whose every point is an alternative to every other
MEMORY = 4_000_000  # numbers in the covariance matrices that are compared at once


def sweep(acqf: BatchedEnergyEntropy, X: Tensor, space: Space) -> Tensor:
    """One round of coordinate ascent over labels and whole numbers; a(X) never falls.

    Args:
        acqf: acquisition function; an approximate posterior is made exact at all that is compared.
        X: q x d batch of the space.
        space: its labels and whole numbers.

    Returns:
        q x d.
    """
    with torch.no_grad():
        X = _sweep_shared(acqf, X, space)
        step = max(1, ALTERNATIVES_TOGETHER // max(1, len(alternatives(X[0], space, False))))
        for first in range(0, len(X), step):
            points = range(first, min(first + step, len(X)))
            options = [alternatives(X[i], space, False) for i in points]
            options = [space.mended(some) for some in options]
            if any(len(some) for some in options):
                kind = _Moves if acqf.conditioned.outputs == 1 else _WholeMoves
                moves = kind(acqf.adapted(torch.cat([X, *options])), X)
                for i, some in zip(points, options, strict=True):
                    moves.consider(i, some)
                X = moves.X
        return X


def alternatives(x: Tensor, space: Space, shared: bool) -> Tensor:
    """What one point (d) becomes by another label or the next whole number in one (shared or own) column, n x d.

    Two whole numbers move together where that keeps an equality. In a small space of labels and whole numbers, an own
    move goes to any other point.
    """
    if not shared and space.count <= ALL_ALTERNATIVES:
        X = space.every()
        return X[(x == X)[:, space.tied].all(-1) & ~(x == X).all(-1)]
    options = []
    for column, codes in space.categorical.items():
        if (column in space.shared) == shared:
            options += [_with(x, column, code) for code in codes if code != x[column]]
    for column, k in space.integer.items():
        if (column in space.shared) == shared:
            lo, hi = space.bounds[:, column]
            step = ((x[column] - lo) / (hi - lo) * k).round()
            options += [_with(x, column, torch.lerp(lo, hi, s / k)) for s in (step - 1, step + 1) if 0 <= s <= k]
    for trade in [] if shared else space.trades:
        changed = x
        for column, change in zip(trade[:2], trade[2:], strict=True):
            k, (lo, hi) = space.integer[column], space.bounds[:, column]
            changed = _with(
                changed, column, torch.lerp(lo, hi, ((x[column] - lo) / (hi - lo) * k).round() / k + change / k)
            )
        options.append(changed)
    return torch.stack(options) if options else x.new_empty(0, len(x))


def _with(x: Tensor, column: int, value: Tensor) -> Tensor:
    x = x.clone()
    x[column] = value
    return x


def _sweep_shared(acqf: BatchedEnergyEntropy, X: Tensor, space: Space) -> Tensor:
    """Another shared label or whole number for the whole batch, as long as that helps."""
    most = sum(len(space.categorical.get(column, ())) + space.integer.get(column, 0) for column in space.shared)
    for _ in range(most):
        batches = [torch.where(space.tied, option, X) for option in alternatives(X[0], space, True)]
        batches = [batch for batch in map(space.mended, batches) if len(batch) == len(X)]
        values = torch.cat([acqf.adapted(batch)(batch) for batch in (X, *batches)])
        best = int(values.argmax())  # the batch itself comes first, and wins a tie
        if best == 0:
            break
        X = batches[best - 1]
    return X


class _Moves:
    """A batch with its mean, covariance and features, brought up to date as single points are exchanged."""

    def __init__(self, acqf: BatchedEnergyEntropy, X: Tensor) -> None:
        self.acqf, self.X = acqf, X.clone()
        posterior = acqf.conditioned
        self.mean, _, self.F = posterior.mean_variance_and_features(X)  # q, q x r
        self.covar = posterior.cross_covar(X, self.F, X, self.F)  # q x q
        self.value = acqf.of_moments(X, self.mean, self.covar)

    def consider(self, i: int, options: Tensor) -> None:
        """Exchange point i for the best of the options (n x d), if that raises the value."""
        for some in options.split(max(1, MEMORY // len(self.X) ** 2)):
            self._consider(i, some)

    def _consider(self, i: int, options: Tensor) -> None:
        if not len(options):
            return
        posterior = self.acqf.conditioned
        mean, variance, F = posterior.mean_variance_and_features(options)  # n, n, n x r
        row = posterior.cross_covar(options, F, self.X, self.F)  # n x q
        row[:, i] = variance
        X, means = self.X.repeat(len(options), 1, 1), self.mean.repeat(len(options), 1)
        X[:, i], means[:, i] = options, mean
        covar = self.covar.repeat(len(options), 1, 1)  # n x q x q
        covar[:, i, :], covar[:, :, i] = row, row
        values = self.acqf.of_moments(X, means, covar)
        best = int(values.argmax())
        if values[best] > self.value:
            self.X, self.mean, self.covar, self.value = X[best], means[best], covar[best], values[best]
            self.F[i] = F[best]


class _WholeMoves:
    """The same where a point stands for several values: each batch is evaluated from scratch."""

    def __init__(self, acqf: BatchedEnergyEntropy, X: Tensor) -> None:
        self.acqf, self.X, self.value = acqf, X.clone(), acqf(X)

    def consider(self, i: int, options: Tensor) -> None:
        """Exchange point i for the best of the options (n x d), if that raises the value."""
        for some in options.split(max(1, MEMORY // (self.acqf.conditioned.outputs * len(self.X)) ** 2)):
            batches = self.X.repeat(len(some), 1, 1)
            batches[:, i] = some
            values = self.acqf(batches)
            best = int(values.argmax())
            if values[best] > self.value:
                self.X, self.value = batches[best], values[best : best + 1]
