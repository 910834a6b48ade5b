"""Rover trajectory: a path for a rover through a field of trees, 60 inputs.

Source: Wang, Gehring, Kohli, Jegelka, Batched large-scale Bayesian optimization in high-dimensional spaces, AISTATS
2018. The centers of the trees are those of the authors' code (github.com/zi-w/Ensemble-Bayesian-Optimization, MIT
licence, Copyright (c) 2017 Zi Wang).
"""

from __future__ import annotations

from functools import cache
from math import comb

import numpy as np
from numpy.typing import NDArray

from .problem import Array, Problem

SITES = 30  # points that shape the path
STEPS = 1000  # points of the path at which the cost is taken
PATHS_AT_ONCE = 256  # paths at a time
START, GOAL = np.array([0.05, 0.05]), np.array([0.95, 0.95])
ROAD, TREE, MISS = 0.05, 20.0, 10.0  # cost of a length of free ground, of a length in a tree, of missing an end
TOP = 5.0
TYPICAL = -19.32  # mean over 16,384 uniform points, standard error 0.04
HALF = 0.025  # half the side of a tree
TREES = """
0.43143755 0.20876147  0.38485367 0.39183579  0.02985961 0.22328303  0.7803707 0.3447003  0.93685657 0.56297285
0.04194252 0.23598362  0.28049582 0.40984475  0.6756053 0.70939481  0.01926493 0.86972335  0.5993437 0.63347932
0.57807619 0.40180792  0.56824287 0.75486851  0.35403502 0.38591056  0.72492026 0.59969313  0.27618746 0.64322757
0.54029566 0.25492943  0.30903526 0.60166842  0.2913432 0.29636879  0.78512072 0.62340245  0.29592116 0.08400595
0.87548394 0.04877622  0.21714791 0.9607346  0.92624074 0.53441687  0.53639253 0.45127928  0.99892031 0.79537837
0.84621631 0.41891986  0.39432819 0.06768617  0.92365693 0.72217512  0.95520914 0.73956575  0.820383 0.53880139
0.22378049 0.9971974  0.34023233 0.91014706  0.64960636 0.35661133  0.29976464 0.33578931  0.43202238 0.11563227
0.66764947 0.52086962  0.45431078 0.94582745  0.12819915 0.33555344  0.19287232 0.8112075  0.61214791 0.71940626
0.4522542 0.47352186  0.95623345 0.74174186  0.17340293 0.89136853  0.04600255 0.53040724  0.42493468 0.41006649
0.37631485 0.88033853  0.66951947 0.29905739  0.4151516 0.77308712  0.55762991 0.26400156  0.6280609 0.53201974
0.92727447 0.61054975  0.93206587 0.42107549  0.63885574 0.37540613  0.15303425 0.57377797  0.8208471 0.16566631
0.14889043 0.35157346  0.71724622 0.57110725  0.32866327 0.8929578  0.74435871 0.47464421  0.9252026 0.21034329
0.57039306 0.54356078  0.56611551 0.02531317  0.84830056 0.01180542  0.51282028 0.73916524  0.58795481 0.46527371
0.83259048 0.98598188  0.00242488 0.83734691  0.72505789 0.04846931  0.07312971 0.30147979  0.55250344 0.23891255
0.51161315 0.46466442  0.802125 0.93440495  0.9157825 0.32441602  0.44927665 0.53380074  0.67708372 0.67527231
0.81868924 0.88356194  0.48228814 0.88668497  0.39805433 0.99341196  0.86671752 0.79016975  0.01115417 0.6924913
0.34272199 0.89543756  0.40721675 0.86164495  0.26317679 0.37334193  0.74446787 0.84782643  0.55560143 0.46405104
0.73567977 0.12776233  0.28080322 0.26036748  0.17507419 0.95540673  0.54233783 0.1196808  0.76670967 0.88396285
0.61297539 0.79057776  0.9344029 0.86252764  0.48746839 0.74942784  0.18657635 0.58127321  0.10377802 0.71463978
0.7771771 0.01463505  0.7635042 0.45498358  0.83345861 0.34749363  0.38273809 0.51890558  0.33887574 0.82842507
0.02073685 0.41776737  0.68754547 0.96430979  0.4704215 0.92717361  0.72666234 0.63241306  0.48494401 0.72003268
0.52601215 0.81641253  0.71426732 0.47077212  0.00258906 0.30377501  0.35495269 0.98585155  0.65507544 0.03458909
0.10550588 0.62032937  0.60259145 0.87110846  0.04959159 0.535785
"""


def rover() -> Problem:
    """5 less the cost of a path in the plane, [-0.1, 1.1]^60; the inputs are 30 points (x, y) that shape it.

        f(x) = 5 - int c(p) |dp| - 10 |p(0) - (0.05, 0.05)|_1 - 10 |p(1) - (0.95, 0.95)|_1

    c is 0.05, and 20 more inside of a tree or outside of the unit square; the integral is the trapezoidal sum over
    1,000 points. When measured, inputs are set with an error of standard deviation 1e-4, as in the authors' code.

    Nobody knows the largest value. No path is shorter than the straight line between the ends, and to miss an end by
    a length costs more than to drive it; hence f <= 5 - 0.05 |goal - start| = 4.936, which is `best`. Three runs of
    CMA-ES with 40,000 paths each, from the straight line, found 2.67 to 2.70. Starts are anywhere.
    """
    best = TOP - ROAD * float(np.linalg.norm(GOAL - START))
    bounds = np.array([[-0.1], [1.1]]) * np.ones(2 * SITES)
    return Problem(rewards, bounds, best, np.empty((0, 2 * SITES)), slip=1e-4, typical=TYPICAL)


def rewards(X: Array) -> Array:
    """The function of `rover`, n x 60 -> n."""
    parts = [X[i : i + PATHS_AT_ONCE].reshape(-1, SITES, 2) for i in range(0, len(X), PATHS_AT_ONCE)]
    return np.concatenate([_rewards(path(sites)) for sites in parts]) if parts else np.empty(0)


def _rewards(p: Array) -> Array:
    """Of paths, n x 1000 x 2 -> n."""
    c = cost(p)  # n x 1000
    lengths = np.linalg.norm(np.diff(p, axis=1), axis=-1)  # n x 999
    driven = (0.5 * (c[:, 1:] + c[:, :-1]) * lengths).sum(axis=-1)
    missed = np.abs(p[:, 0] - START).sum(axis=-1) + np.abs(p[:, -1] - GOAL).sum(axis=-1)
    return TOP - driven - MISS * missed


def path(sites: Array) -> Array:
    """Points of the cubic that fits the sites best by least squares, n x 30 x 2 -> n x 1000 x 2.

    A site belongs to the parameter u in [0, 1] that is its share of the way from site to site. The authors' code has
    FITPACK smooth a cubic B-spline until the squares of its errors sum to 30 - sqrt(60) = 22.3 or less; with all
    sites in the box they are 30 * 2 * 0.6^2 = 21.6 at most, so that FITPACK stops at its first spline, which has no
    knots inside: one cubic. This one also exists where a site is repeated, which FITPACK refuses.
    """
    way = np.linalg.norm(np.diff(sites, axis=1), axis=-1).cumsum(axis=-1)  # n x 29
    whole = np.where(way[:, -1:] > 0, way[:, -1:], 1.0)
    u = np.pad(way / whole, ((0, 0), (1, 0)))  # n x 30
    middle = sites.mean(axis=1, keepdims=True)  # the smallest solution is about it, where there are several
    weights = np.linalg.pinv(bernstein(u)) @ (sites - middle)  # n x 4 x 2
    return middle + bernstein(np.linspace(0.0, 1.0, STEPS)) @ weights


def bernstein(u: Array) -> Array:
    """The cubics C(3, k) u^k (1 - u)^(3 - k), ... -> ... x 4."""
    return np.stack([comb(3, k) * u**k * (1 - u) ** (3 - k) for k in range(4)], axis=-1)


def cost(p: Array) -> Array:
    """Cost c of `rover` at points of the plane, ... x 2 -> ...; it is constant between the edges of the trees."""
    x, y, blocked = _cells()
    i, j = np.searchsorted(x, p[..., 0], side="right"), np.searchsorted(y, p[..., 1], side="right")
    return ROAD + TREE * blocked[i, j].astype(np.float64)


@cache
def _cells() -> tuple[Array, Array, NDArray[np.bool_]]:
    """Edges in x and in y, and whether the cell between them is in a tree or outside of the unit square.

    A square holds its lower edges, not its upper ones. Cell i begins at edge i - 1, cell 0 at minus infinity.
    """
    centers = np.array(TREES.split(), dtype=np.float64).reshape(-1, 2)
    low, high = centers - HALF, centers + HALF  # trees x 2
    edges, within = [], []
    for axis in range(2):
        these = np.unique([*low[:, axis], *high[:, axis], 0.0, 1.0])
        begin = np.concatenate([[-np.inf], these])[:, None]
        edges.append(these)
        within.append((low[:, axis] <= begin) & (begin < high[:, axis]))  # cells x trees
    tree = (within[0][:, None] & within[1]).any(axis=-1)
    inside = [np.concatenate([[False], (e >= 0) & (e < 1)]) for e in edges]
    return edges[0], edges[1], tree | ~(inside[0][:, None] & inside[1])
