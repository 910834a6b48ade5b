r"""Limits on a batch from a library: at most k rows of a group, and a distance that its rows keep from each other.

Greedy under limits takes, at each step, the best row among those that still have room. The rows with room only become
fewer, so gains still never rise, and a score with nothing chosen is still an upper bound: the certificate holds as it
does without limits, for the greedy batch under the limits over the whole library. How far the greedy batch can be
from the best one is another matter, see `Limits.guarantee`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError
from ...screening import Encoder, Table


@dataclass(frozen=True)
class Limits:
    """What a batch must keep to.

    Attributes:
        at_most: column of the library -> how many rows with the same value of it a batch may hold.
        min_distance: any two rows of a batch are at least this far apart. The distance is the square root of
            |x - x'|^2 over the continuous columns, each scaled by its measured range, plus s^2, s the share of the
            categorical columns and sequence letters in which the rows differ.
    """

    at_most: Mapping[str, int] = field(default_factory=dict)
    min_distance: float | None = None

    def __post_init__(self) -> None:
        for column, k in self.at_most.items():
            if isinstance(k, bool) or not isinstance(k, Integral) or k < 1:
                raise InputError(f"at most {k!r} rows with the same {column!r}: give a whole number, 1 or more")
        if self.min_distance is not None and not (math.isfinite(self.min_distance) and self.min_distance > 0):
            raise InputError(f"min_distance = {self.min_distance}: give a finite number above 0, or None")

    def __bool__(self) -> bool:
        return bool(self.at_most) or self.min_distance is not None

    def guarantee(self) -> str:
        """What is known about the greedy batch, in plain words."""
        if self.min_distance is not None:
            worst = "no worst-case factor is known under a minimum distance"
        elif len(self.at_most) == 1:
            worst = "at least 1/2 of the best batch's value if no gain is negative (at most k of each group)"
        elif self.at_most:
            worst = f"at least 1/{1 + len(self.at_most)} of the best batch's value if no gain is negative"
        else:
            worst = "at least 1 - 1/e = 63 % of the best batch's value if no gain is negative"
        limited = " under the limits" if self else ""
        return f"certified means: the same batch as greedy choice{limited} over all eligible rows; {worst}"


def group_codes(table: Table, limits: Limits) -> Tensor:
    """A code for the group of each row in each limited column, p x g; two groups with one code are unheard of."""
    import pandas as pd

    codes = [
        pd.util.hash_array(table.frame[column].astype(str).astype(object).to_numpy(), categorize=False)
        for column in limits.at_most
    ]
    return torch.from_numpy(np.stack(codes, axis=-1).view(np.int64) if codes else np.empty((len(table), 0), int))


class Room:
    """Which rows still have room in a batch that grows."""

    def __init__(self, limits: Limits, encoder: Encoder | None = None) -> None:
        self.caps = list(limits.at_most.values())
        self.min_distance = limits.min_distance
        self.labels = None if encoder is None else label_columns(encoder)
        self.counts: list[Counter[int]] = [Counter() for _ in self.caps]
        self.X: list[Tensor] = []

    def take(self, x: Tensor, group: Tensor) -> None:
        """A row is chosen: x of length d, and the codes of its groups, one for each column of `at_most`."""
        for count, code in zip(self.counts, group.tolist(), strict=True):
            count[code] += 1
        self.X.append(x)

    def full(self, column: int, code: int) -> bool:
        """Whether a group has as many rows as it may."""
        return self.counts[column][code] >= self.caps[column]

    def shut(self, X: Tensor, groups: Tensor, last: bool = False) -> Tensor:
        """Rows without room, p booleans.

        Args:
            X: p x d.
            groups: p x g codes.
            last: look only at what the last row taken has changed.
        """
        shut = torch.zeros(len(X), dtype=torch.bool, device=X.device)
        for column, cap in enumerate(self.caps):
            codes = [code for code, count in self.counts[column].items() if count >= cap]
            if codes:
                shut |= torch.isin(groups[:, column], torch.tensor(codes, device=groups.device)).to(X.device)
        if self.min_distance is not None:
            for x in self.X[-1:] if last else self.X:
                shut |= distance(X, x, self.labels) < self.min_distance
        return shut


def label_columns(encoder: Encoder) -> Tensor:
    """Which columns of X are labels or letters, d booleans."""
    labels = torch.zeros(encoder.width, dtype=torch.bool)
    for column, place in zip(encoder.columns, encoder.slices().values(), strict=True):
        labels[place] = column.kind != "continuous"
    return labels


def distance(X: Tensor, x: Tensor, labels: Tensor | None = None) -> Tensor:
    """The distance of `Limits`: p x d, d -> p."""
    if labels is None or not bool(labels.any()):
        return (X - x).norm(dim=-1)
    labels = labels.to(X.device)
    share = (X[:, labels] != x[labels]).to(X).mean(-1)
    return ((X[:, ~labels] - x[~labels]).square().sum(-1) + share.square()).sqrt()


def exchangeable(
    limits: Limits, encoder: Encoder, X: Tensor, groups: Tensor, others: Tensor, other_groups: Tensor
) -> Tensor:
    """Which row of a batch can be exchanged for which other row, q x c booleans.

    Args:
        limits: what the batch keeps to.
        encoder: of the features.
        X: q x d batch.
        groups: q x g codes, one column for each of `at_most`.
        others: c x d rows outside.
        other_groups: c x g codes.
    """
    allowed = torch.ones(len(X), len(others), dtype=torch.bool)
    for column, cap in enumerate(limits.at_most.values()):
        same = groups[:, column : column + 1] == other_groups[:, column]  # q x c
        allowed &= same.sum(0) - same.long() < cap
    if limits.min_distance is not None:
        labels = label_columns(encoder)
        near = torch.stack([distance(others, x, labels) < limits.min_distance for x in X])  # q x c
        allowed &= near.sum(0) - near.long() == 0
    return allowed
