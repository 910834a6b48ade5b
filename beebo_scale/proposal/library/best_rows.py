"""The best rows of a library by score, from the best of its parts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

Top = dict[str, Any]  # score (n), row (n), groups (n x g) of the best rows, counts, lowest score: for a ledger


def best_of(*tops: Top, keep: int, cap: int | None = None) -> Top:
    """The best `keep` + 1 rows of several tops, by score, then by row; with groups at most `cap` of each.

    The outcome does not depend on order or grouping: a row is kept if fewer than `keep` + 1 are better, of each group
    at most `cap` counted, and that of the last row is the best score left out (for groups see `_pick`).
    """
    merged: Top = {name: torch.cat([top[name] for top in tops]) for name in ("score", "row", "groups")}
    merged["counts"] = dict.fromkeys(name for top in tops for name in top["counts"])
    for name in merged["counts"]:
        merged["counts"][name] = sum(top["counts"].get(name, 0) for top in tops)
    merged["lowest"] = min(top.get("lowest", math.inf) for top in tops)
    order = _order(merged["score"].numpy(), merged["row"].numpy())
    if cap is not None:
        order = order[place_in_group(merged["groups"][order, 0]) < cap]
    for name in ("score", "row", "groups"):
        merged[name] = merged[name][order[: keep + 1]]
    return merged


def _order(score: np.ndarray, row: np.ndarray) -> Tensor:
    """Order by score, the best first, then by row."""
    order = np.argsort(-score, kind="stable")  # quick where sorted lists follow each other, as they do in a merge
    if (score[order[1:]] == score[order[:-1]]).any():
        order = np.lexsort((row, -score))
    return torch.from_numpy(order)


def place_in_group(groups: Tensor) -> Tensor:
    """How many earlier entries have the same group, n -> n."""
    order = groups.argsort(stable=True)
    run = groups[order]
    n = torch.arange(len(run))
    start = torch.cat([torch.ones(1, dtype=torch.bool), run[1:] != run[:-1]])[: len(run)]
    place = torch.empty_like(n)
    place[order] = n - torch.where(start, n, 0).cummax(0).values
    return place
