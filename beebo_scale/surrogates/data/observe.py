"""From a table to the rows that a process sees: encoded, standardised, replicates merged."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError
from ...screening import EncodedTable, Encoder, Table
from .observations import Observations, merge_replicates
from .target import TargetScale
from .tasks_and_batches import NONE, Design, Task

FEW = 3  # different values of a target, at most, that say nothing of its distribution
MAD = 1.4826  # median absolute deviation to standard deviation of a normal variable
EXTREME = 3.0


def observe(
    measured: Table | EncodedTable, transform: str, robust: bool = False
) -> tuple[Encoder, TargetScale, Design, Observations]:
    """Encoder, scale of the target, columns beside the features, and the rows.

    Several targets are stacked, a row for each value that there is, each standardised by itself.

    Args:
        measured: rows, encoded or not.
        transform: of the targets, see `TargetScale.of`.
        robust: center and scale by medians, and merge no replicates, as one of them may be an outlier.

    Raises:
        InputError: no target, or one that cannot have the transform.
    """
    encoded = EncodedTable.of(measured)
    table, encoder, X = encoded.table, encoded.encoder, encoded.X
    if table.y is None or table.target is None:
        raise InputError(f"{table.source}: no target to learn from; read it with read_table(..., target=...)")
    y = torch.tensor(table.y)  # copied: pandas may hand out arrays nobody may write to
    if table.weights:
        return _several(table, transform, encoder, X, robust)
    noise = None if table.noise_variance is None else torch.tensor(table.noise_variance)
    scale = target_scale(y, transform, noise is not None, robust)
    noise = None if noise is None else scale.standardise_variance(noise)
    batch, levels = batch_codes(table.batch)
    design = Design(encoder.width, batch=table.batch_column, levels=levels)
    return encoder, scale, design, _rows(design.rows(X, batch=batch), scale.standardise(y), noise, robust)


def _several(
    table: Table, transform: str, encoder: Encoder, X: Tensor, robust: bool
) -> tuple[Encoder, TargetScale, Design, Observations]:
    """`observe` for several targets."""
    y = torch.tensor(table.y)  # n x t
    scales = [target_scale(column[~column.isnan()], transform, False, robust) for column in y.T]
    free = (-math.inf, math.inf)
    tasks = tuple(
        Task(n, w, s, table.aims.get(n, ""), table.limits.get(n, free))
        for (n, w), s in zip(table.weights.items(), scales, strict=True)
    )
    batch, levels = batch_codes(table.batch)
    design = Design(encoder.width, tasks, table.batch_column, levels)
    row, task = (~y.isnan()).nonzero().T  # of each value
    if batch is not None:  # what a batch does to one target says nothing about another
        batch = torch.where(batch[row] == NONE, NONE, batch[row] * len(tasks) + task)
    z = torch.stack([scale.standardise(column) for scale, column in zip(scales, y.T, strict=True)], -1)  # n x t
    return encoder, TargetScale(0.0, 1.0), design, _rows(design.rows(X[row], task, batch), z[row, task], None, robust)


def few(y: Tensor) -> bool:
    """Whether a target (n) has so few different values that medians tell nothing and none can lie far out."""
    return len(y.unique()) <= FEW


def target_scale(y: Tensor, transform: str, noise_known: bool = False, robust: bool = False) -> TargetScale:
    """The scale of a target; where robust, by the median and the median absolute deviation of g(y).

    A target with few different values is never scaled by medians: of 0, 0, 0.01, 0.01 and 1 the last would lie at 67.

    Args:
        y: n targets, own units.
        transform: see `TargetScale.of`; where robust, "auto" is "none".
        noise_known: see `TargetScale.of`.
        robust: whether outliers should count little.

    Raises:
        InputError: as in `TargetScale.of`.
    """
    if not robust:
        return TargetScale.of(y, transform, noise_known=noise_known)
    scale = TargetScale.of(y, "none" if transform == "auto" else transform)
    if few(y):
        return scale
    z = scale.standardise(y)
    center = z.median()
    spread = MAD * float((z - center).abs().median())  # zero where more than half of the values are equal
    return replace(scale, shift=scale.shift + scale.scale * float(center), scale=scale.scale * (spread or 1.0))


def _rows(X: Tensor, y: Tensor, noise: Tensor | None, robust: bool) -> Observations:
    """The rows with replicates merged, or each for itself."""
    if not robust:
        return merge_replicates(X, y, noise)
    return Observations(X, y, None, count=torch.ones_like(y), scatter=torch.zeros_like(y))


def without_extremes(data: Observations) -> Observations:
    """Rows with targets clipped at EXTREME robust standard deviations: for Gaussian starting values of a robust fit."""
    return replace(data, y=data.y.clamp(-EXTREME, EXTREME))


def batch_codes(labels: np.ndarray | None) -> tuple[Tensor | None, int]:
    """Number of the batch of each row, n, NONE where unknown (empty), and how many there are; None without."""
    if labels is None:
        return None, 0
    levels, codes = np.unique(labels, return_inverse=True)
    known = levels != ""
    numbers = np.where(known, np.cumsum(known) - 1.0, NONE)
    return torch.from_numpy(numbers[codes]), int(known.sum())
