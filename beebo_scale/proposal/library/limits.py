r"""Limits on a batch from a library: at most k rows of a group, and a distance that its rows keep from each other.

Greedy under limits takes, at each step, the best row among those that still have room. The rows with room only become
fewer, so gains still never rise, and a score with nothing chosen is still an upper bound: the certificate holds as it
does without limits, for the greedy batch under the limits over the whole library. How far the greedy batch can be
from the best one is another matter, see `upper_bound`.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import torch
from torch import Tensor

from ...screening import Encoder, Table
from ...specs import Limits


def group_codes(table: Table, limits: Limits) -> Tensor:
    """A code for the group of each row in each limited column, p x g; two groups with one code are unheard of."""
    import pandas as pd

    codes = [
        pd.util.hash_array(table.frame[column].astype(str).astype(object).to_numpy(), categorize=False)
        for column in limits.columns
    ]
    return torch.from_numpy(np.stack(codes, axis=-1).view(np.int64) if codes else np.empty((len(table), 0), int))


class LimitState:
    """Which rows still have room in a batch that grows."""

    def __init__(self, limits: Limits, encoder: Encoder | None = None) -> None:
        self.caps = list(limits.at_most.values())
        self.min_distance = limits.min_distance
        self.labels = None if encoder is None else label_columns(encoder)
        self.counts: list[Counter[int]] = [Counter() for _ in limits.columns]
        self.X: list[Tensor] = []

    def take(self, x: Tensor, group: Tensor) -> None:
        """A row is chosen: x of length d, and the codes of its groups, one for each limited column."""
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
        groups: q x g codes, one column for each of `limits.columns`.
        others: c x d rows outside.
        other_groups: c x g codes.
    """
    allowed = torch.ones(len(X), len(others), dtype=torch.bool)
    for column, cap in enumerate(limits.at_most.values()):
        same = groups[:, column : column + 1] == other_groups[:, column]  # q x c
        allowed &= same.sum(0) - same.long() < cap
    for name, most in limits.at_most_distinct.items():
        own, other = (codes[:, limits.columns.index(name)] for codes in (groups, other_groups))
        same = own.unsqueeze(-1) == own  # q x q
        rest = len(own.unique()) - (same.sum(-1) == 1).long()  # values that stay when a row goes
        here = own.unsqueeze(-1) == other  # q x c
        stays = here.sum(0) - here.long() > 0
        allowed &= rest.unsqueeze(-1) + (~stays).long() <= most
    if limits.min_distance is not None:
        labels = label_columns(encoder)
        near = torch.stack([distance(others, x, labels) < limits.min_distance for x in X])  # q x c
        allowed &= near.sum(0) - near.long() == 0
    return allowed
