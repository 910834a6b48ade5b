r"""Fronts of several targets: which rows are not dominated, the volume that a set dominates, and directions through it.

Heights u (n x m) are what is to become large in each of m targets above a reference point, which lies at zero. The
hypervolume is the volume of all points between zero and a row. It is also an average over directions w, uniform on the
positive part of the unit sphere (Zhang and Golovin, Random hypervolume scalarizations, 2020, lemma 5):

    HV(U) = c_m E_w [ max over rows of min over j of (max(u_j, 0) / w_j)^m ],    c_m = pi^(m/2) / (2^m Gamma(m/2 + 1)).

In this form a set's value is a mean of maxima, as in facility location: monotone and submodular for any directions.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def nondominated(U: Tensor) -> Tensor:
    """Which rows of n x m heights no other row reaches or exceeds in all targets, n booleans; of equals the first."""
    order = U.sum(-1).argsort(descending=True, stable=True)  # a row is dominated by rows before it only
    kept = U.new_empty(0, U.shape[-1])
    inside = torch.zeros(len(U), dtype=torch.bool, device=U.device)
    for i in order.tolist():
        if not bool((kept >= U[i]).all(-1).any()):
            kept = torch.cat([kept, U[i : i + 1]])
            inside[i] = True
    return inside


def hypervolume(U: Tensor) -> float:
    """The volume dominated by n x m heights, exactly; slices along the last target, O(n^(m - 1) log n)."""
    U = U[(U > 0).all(-1)]
    if not len(U):
        return 0.0
    if U.shape[-1] == 1:
        return float(U.max())
    U = U[nondominated(U)]
    U = U[U[:, -1].argsort(descending=True)]
    if U.shape[-1] == 2:
        width = U[:, 0].cummax(0).values
        return float((width * (U[:, 1] - torch.cat([U[1:, 1], U.new_zeros(1)]))).sum())
    depths = (U[:, -1] - torch.cat([U[1:, -1], U.new_zeros(1)])).tolist()
    return sum(depth * hypervolume(U[: i + 1, :-1]) for i, depth in enumerate(depths) if depth > 0)


def orthant_volume(m: int) -> float:
    """c_m, the volume of the unit ball in the positive orthant."""
    return math.pi ** (m / 2) / (2**m * math.gamma(m / 2 + 1))


def directions(count: int, m: int, seed: int) -> Tensor:
    """Directions spread evenly over the positive part of the unit sphere, count x m, in no order."""
    points = torch.quasirandom.SobolEngine(m, scramble=True, seed=seed).draw(count, dtype=torch.float64)
    normal = torch.special.ndtri(0.5 + 0.5 * points.clamp(1e-9, 1 - 1e-9))  # |N(0, 1)|
    W = (normal / normal.norm(dim=-1, keepdim=True)).clamp_min(1e-6)
    return W[torch.randperm(count, generator=torch.Generator().manual_seed(seed))]


def reach(U: Tensor, W: Tensor) -> Tensor:
    """c_m min over j of (max(u_j, 0) / w_j)^m: heights ... x m and directions that broadcast against it, ... ."""
    m = U.shape[-1]
    least = (U.clamp_min(0.0) / W).amin(-1)
    return orthant_volume(m) * least.pow(m)


def reference_point(Y: Tensor) -> Tensor:
    """A reference point for measured targets that are to become large, n x m -> m.

    The worst value of each target on the front, less a tenth of the front's range there (botorch's rule); where the
    front has no range, of the range of all rows.
    """
    front = Y[nondominated(Y)]
    worst, best = front.amin(0), front.amax(0)
    range_ = torch.where(best > worst, best - worst, Y.amax(0) - Y.amin(0))
    return worst - 0.1 * range_
