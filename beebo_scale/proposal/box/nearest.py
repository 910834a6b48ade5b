r"""The nearest points of a box under linear conditions: many small quadratic programs with the same rows, at once.

minimise |x - y|^2 / 2 subject to A x >= b (some rows with equality) and 0 <= x <= top. With multipliers lambda the
solution is x = clip(y + A' lambda), where lambda maximises a concave function without kinks in its slope b - A x. It
is climbed by Newton steps on the rows that bind (Bertsekas, SIAM J. Control Optim. 20, 1982), and by steepest ascent
where these fail; the few that converge slowly go to an active-set method, one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

Array = NDArray[np.float64]
STEPS = 25  # of Newton; nearly all points need fewer than eight
CLOSE = 1e-14  # of the conditions, times the size of the numbers that meet in them
MOST = 100.0  # multiplier that rounding is allowed for
REACH = 1e4  # of one Newton step
APART = 1e-11  # conditions that miss each other by less are met


@dataclass(frozen=True, eq=False)
class Conditions:
    """A x >= b, rows with `equal` as equalities, inside 0 <= x <= top; N problems of n columns and m rows.

    Attributes:
        A: m x n, rows about as long as one, or zero.
        b: N x m.
        top: n.
        equal: m booleans.
    """

    A: Array
    b: Array
    top: Array
    equal: NDArray[np.bool_]

    def of(self, some: NDArray[np.intp]) -> Conditions:
        """Those of some problems."""
        return Conditions(self.A, self.b[some], self.top, self.equal)

    def at(self, Y: Array, multipliers: Array) -> Array:
        """The minimiser for given multipliers, N x n."""
        return np.clip(Y + multipliers @ self.A, 0.0, self.top)

    def missed(self, X: Array) -> Array:
        """The slope b - A x, N x m."""
        return self.b - X @ self.A.T

    def residual(self, missed: Array, multipliers: Array) -> Array:
        """How far from optimal: |min(lambda, A x - b)|, for an equality |A x - b|; the largest of each problem, N."""
        return np.abs(np.where(self.equal, missed, np.minimum(multipliers, -missed))).max(axis=1)

    def allowed(self, multipliers: Array) -> Array:
        """Those of inequalities not below zero."""
        return np.where(self.equal, multipliers, np.maximum(multipliers, 0.0))

    def value(self, Y: Array, multipliers: Array) -> Array:
        """The concave function, N."""
        X = self.at(Y, multipliers)
        return 0.5 * np.square(X - Y).sum(axis=1) + (multipliers * self.missed(X)).sum(axis=1)

    def impossible(self, multipliers: Array) -> NDArray[np.bool_]:
        """Whether a weighted sum of the conditions holds nowhere in the box, which proves that there is no point, N."""
        weights = multipliers @ self.A
        most = np.maximum(weights, 0.0) @ self.top - (multipliers * self.b).sum(axis=1)
        return most < -APART * np.abs(multipliers).sum(axis=1)

    def none_alone(self) -> NDArray[np.bool_]:
        """Whether one condition alone holds nowhere in the box, N."""
        most, least = np.maximum(self.A, 0.0) @ self.top, np.minimum(self.A, 0.0) @ self.top
        none: NDArray[np.bool_] = ((most < self.b - APART) | (self.equal & (least > self.b + APART))).max(axis=1)
        return none


def nearest(Y: Array, conditions: Conditions) -> tuple[Array, NDArray[np.bool_]]:
    """The nearest points, N x n, and whether there is one, N; where not, a point of the box.

    Args:
        Y: N x n.
        conditions: of the N problems.
    """
    X, found = np.clip(Y, 0.0, conditions.top), ~conditions.none_alone()
    multipliers = np.zeros_like(conditions.b)
    left = np.flatnonzero(found)
    for _ in range(STEPS):
        here, y, t = conditions.of(left), Y[left], multipliers[left]
        X[left] = here.at(y, t)
        missed = here.missed(X[left])
        lost = here.impossible(t)
        found[left[lost]] = False
        size = 1.0 + np.abs(t).max(axis=1).clip(max=MOST)
        open_ = ~lost & (here.residual(missed, t) > CLOSE * size)
        if not open_.any():
            return X, found
        left = left[open_]
        multipliers[left] = _climbed(y[open_], t[open_], missed[open_], conditions.of(left))
    for i in left:
        x = _least_distance(Y[i], conditions.of(np.array([i])))
        X[i], found[i] = (X[i], False) if x is None else (x, True)
    return X, found


def _climbed(Y: Array, multipliers: Array, missed: Array, conditions: Conditions) -> Array:
    """Better multipliers, N x m: the full Newton step where it is nearly the end, else the best of three steps."""
    A, equal = conditions.A, conditions.equal
    binding = equal | (multipliers > 0.0) | (missed > 0.0)  # N x m
    slope = np.where(binding, missed, 0.0)
    Z = Y + multipliers @ A
    moves = (Z > 0.0) & (conditions.top > Z)  # columns that are not at an end, N x n
    H = np.einsum("im,jm,Nm->Nij", A, A, moves, optimize=True) if len(A) > 16 else (A * moves[:, None]) @ A.T
    H *= binding[:, :, None] & binding[:, None, :]
    H[:, range(len(A)), range(len(A))] += np.where(binding, 1e-11, 1.0)
    newton = np.linalg.solve(H, slope[:, :, None])[:, :, 0]
    newton *= (REACH / np.abs(newton).max(axis=1, keepdims=True).clip(REACH)).clip(max=1.0)
    full = conditions.allowed(multipliers + newton)
    before = conditions.residual(missed, multipliers)
    ended = conditions.residual(conditions.missed(conditions.at(Y, full)), full) <= 0.1 * before
    if ended.all():
        return full
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(~equal & (slope < 0.0), -multipliers / slope, np.inf).min(axis=1)
    steep = multipliers + np.minimum(_far(Z, slope, conditions), room)[:, None] * slope
    along = conditions.allowed(multipliers + _far(Z, newton, conditions)[:, None] * newton)
    steps = np.stack([conditions.allowed(steep), along, full])  # 3 x N x m
    best = np.stack([conditions.value(Y, step) for step in steps]).argmax(axis=0)
    return np.where(ended[:, None], full, steps[best, np.arange(len(Y))])


def _far(Z: Array, direction: Array, conditions: Conditions) -> Array:
    """Where the function is largest on a line of multipliers, N: the slope along it falls in pieces."""
    weights = direction @ conditions.A  # N x n
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.stack([-Z / weights, (conditions.top - Z) / weights])
    ends = np.where(weights == 0.0, np.inf, ends)
    first, last = np.maximum(ends.min(axis=0), 0.0), np.maximum(ends.max(axis=0), 0.0)
    t = np.concatenate([first, last], axis=1)
    order = t.argsort(axis=1)
    t = np.take_along_axis(t, order, axis=1)
    change = np.square(np.where(np.isfinite(first), weights, 0.0))
    fall = np.take_along_axis(np.concatenate([change, -change], axis=1), order, axis=1).cumsum(axis=1)
    start = (direction * conditions.missed(np.clip(Z, 0.0, conditions.top))).sum(axis=1)  # the slope at zero
    reach = np.where(np.isfinite(t), t, 0.0)
    lengths = np.diff(reach, axis=1).clip(0.0)
    slopes = np.concatenate([start[:, None], start[:, None] - (fall[:, :-1] * lengths).cumsum(axis=1)], axis=1)
    piece = (slopes > 0.0).sum(axis=1) - 1  # the last piece end before the top
    rows, piece = np.arange(len(Z)), piece.clip(0)
    steep = fall[rows, piece]
    beyond = np.where(steep > 0.0, slopes[rows, piece] / np.where(steep > 0.0, steep, 1.0), 0.0).clip(max=REACH)
    return np.where(start > 0.0, reach[rows, piece] + beyond, 0.0)


def _least_distance(y: Array, conditions: Conditions) -> Array | None:
    """One nearest point, n, as non-negative least squares (Lawson and Hanson, chapter 23); None if there is none."""
    A, b, top = conditions.A, conditions.b[0], conditions.top
    eye, equal = np.eye(len(y)), conditions.equal
    faces = np.concatenate([A, -A[equal], eye, -eye])
    ends = np.concatenate([b, -b[equal], np.zeros(len(y)), -top])
    E = np.concatenate([faces.T, (ends - faces @ y)[None]])
    f = np.r_[np.zeros(len(y)), 1.0]
    u, _ = nnls(E, f, maxiter=50 * E.shape[1])
    r = E @ u - f
    return None if -r[-1] < APART else np.clip(y - r[:-1] / r[-1], 0.0, top)
