r"""Lazy greedy choice among rows.

With the mean energy, adding row x to the batch S raises a(S) by

    gain(x | S) = mean(x) + T/2 log(1 + v(x | S) / sigma^2(x)),

and v(x | S) only shrinks as S grows. A gain computed for a smaller S therefore stays an upper bound for ever, and only
rows whose stale bound could still win are evaluated again. `stream` makes of this a certified choice from a library.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from ...information import marginal_gain
from ...posterior import Posterior
from ...progress import track
from .exclusion import known as known

SCORED_AT_ONCE = 1024  # rows scored at once: k(x, Z) of a chunk fits in the cache of a processor
STALE_AT_ONCE = 8  # stale rows re-evaluated at once, and twice as many each time that was not enough
SPAN = 64  # ... together with others that are so many points ahead of them
SOLVE = 256  # points of a triangular solve: larger ones are done in parts
SHORTLIST = 50  # rows kept for each point of the batch
CACHE = 1 << 30  # bytes for features and columns of the rows most likely to be chosen


def score(posterior: Posterior, X: Tensor, T: float, sign: float = 1.0) -> Tensor:
    """gain(x | nothing chosen) = mean(x) + T/2 log(1 + v(x) / sigma^2(x)) for every row.

    Args:
        posterior: of the surrogate.
        X: p x d library.
        T: scaled temperature T' sqrt(A).
        sign: -1 where small targets are good.

    Returns:
        p.
    """
    return score_rows(posterior, lambda rows: X[rows], len(X), T, sign).to(X)


def score_rows(posterior: Posterior, rows: Callable[[Tensor], Tensor], p: int, T: float, sign: float = 1.0) -> Tensor:
    """`score` for p rows that are asked for by their numbers, those that need the same part of the posterior together.

    Args:
        posterior: of the surrogate.
        rows: numbers (k) -> k x d.
        p: number of rows.
        T: scaled temperature.
        sign: -1 where small targets are good.

    Returns:
        p.
    """
    numbers, like = torch.arange(p, device="cpu"), posterior.points
    with torch.no_grad():
        order = numbers
        if posterior.parts(rows(numbers[:1]).to(like)) is not None:
            parts = [_parts(posterior, rows(some).to(like)).cpu() for some in numbers.split(SCORED_AT_ONCE)]
            order = torch.cat([numbers[:0], *parts]).argsort(stable=True)
        found = [_first_gain(posterior, rows(some).to(like), T, sign) for some in order.split(SCORED_AT_ONCE) if p]
        scores = torch.cat([like.new_empty(0), *found])
        return scores[order.argsort().to(scores.device)]


def _parts(posterior: Posterior, X: Tensor) -> Tensor:
    """`Posterior.parts`, all the same where all points need all of it."""
    found = posterior.parts(X)
    return torch.zeros(len(X), dtype=torch.long, device=X.device) if found is None else found


def _first_gain(posterior: Posterior, X: Tensor, T: float, sign: float) -> Tensor:
    if T == 0.0:
        return sign * posterior.mean(X)
    mean, variance = posterior.mean_and_variance(X)
    return sign * mean + T * marginal_gain(variance, posterior.noise(X))


def greedy(posterior: Posterior, X: Tensor, q: int, T: float, sign: float = 1.0) -> tuple[Tensor, Tensor]:
    """Lazy greedy maximisation of sum of means + T I over the rows of X.

    Args:
        posterior: of the surrogate.
        X: K x d rows.
        q: how many to choose, at most K.
        T: scaled temperature.
        sign: -1 where small targets are good.

    Returns:
        Chosen rows (q, in order of choice) and their gains (q, never rising). Equal gains go to the lowest row.
    """
    state = LazyGreedy(posterior, q, T, sign)
    state.add(X)
    for _ in track(range(q), "choosing the batch"):
        row, _ = state.best()
        state.accept(row)
    return torch.tensor(state.chosen), torch.tensor(state.gains, dtype=torch.float64)


class LazyGreedy:
    """A greedy choice under way, over rows that may still be added.

    The rows' covariance with the chosen points S is kept as columns of a partial Cholesky factor of C + Sigma:
    l(x) = L_S^-1 C(S, x), so that v(x | S) = v(x) - l(x)' l(x). A row of age a knows the first a columns.

    Features and columns are held only for the M rows with the largest bounds, M = CACHE / (8 (q + r)) but at least
    2 q; where another row's bound is the largest, the M are chosen anew and the rows that come in start at age 0. That
    costs time but changes nothing. Memory: 8 M (q + r) + 8 q (q + r) + 8 K (d + 3) bytes.

    Args:
        posterior: of the surrogate.
        q: most points to choose.
        T: scaled temperature.
        sign: -1 where small targets are good.
    """

    def __init__(self, posterior: Posterior, q: int, T: float, sign: float = 1.0) -> None:
        self.posterior, self.T, self.sign = posterior, T, sign
        self.chosen: list[int] = []
        self.gains: list[float] = []
        empty = posterior.points.new_empty
        self.X = empty(0, posterior.points.shape[-1])  # K x d
        self.bound = empty(0)  # K
        self.number = torch.empty(0, dtype=torch.long, device=posterior.device)  # K, equal gains go to the lowest
        self.slot = torch.empty(0, dtype=torch.long, device=posterior.device)  # K, place in the cache or -1
        self.outside = -math.inf  # largest bound of a row that is not in the cache
        self.L = empty(q, q)
        self.S = empty(q, self.X.shape[-1])  # the chosen points ...
        self.F_S = empty(q, posterior.rank)  # ... and their features
        self.capacity = max(2 * q + STALE_AT_ONCE, CACHE // (8 * (q + posterior.rank)))
        self.cache = _Cache(posterior, q)

    def __len__(self) -> int:
        return len(self.chosen)

    def add(self, X: Tensor, bound: Tensor | None = None, number: Tensor | None = None) -> None:
        """Let more rows take part.

        Args:
            X: p x d.
            bound: p upper bounds of their gains, if known.
            number: p whole numbers that rank equal gains, the lowest first; None takes the order of coming.
        """
        old = len(self.X)
        X = X.to(self.posterior.points)
        self.X = torch.cat([self.X, X.reshape(-1, X.shape[-1])]) if old else X
        bound = X.new_full((len(X),), math.inf) if bound is None else bound.to(X)
        number = torch.arange(old, old + len(X), device=X.device) if number is None else number
        self.bound = torch.cat([self.bound, bound])
        self.number = torch.cat([self.number, number.to(self.number)])
        self.slot = torch.cat([self.slot, self.slot.new_full((len(X),), -1)])
        self._look_outside()

    def remove(self, rows: Tensor) -> None:
        """Take rows (K booleans) out of the choice for good."""
        self.bound.masked_fill_(rows, -math.inf)
        self._look_outside()

    def best(self) -> tuple[int, float]:
        """The row with the largest gain given those chosen, and that gain; -1 and -inf if there is none."""
        loaded, size = False, STALE_AT_ONCE
        with torch.no_grad():
            while True:
                bounds = self.bound[self.cache.rows]  # M
                top = float(bounds.max()) if len(bounds) else -math.inf
                if self.outside > top or (self.outside == top > -math.inf and not loaded):
                    self._load()
                    loaded = True
                    continue
                if top == -math.inf:
                    return -1, top
                ties = (bounds == top).nonzero().squeeze(-1)
                best = ties[self.number[self.cache.rows[ties]].argmin()]
                if int(self.cache.age[best]) == len(self.chosen):
                    return int(self.cache.rows[best]), top
                block = bounds.topk(min(size, len(bounds))).indices
                self._refresh(torch.unique(torch.cat([block, best.reshape(1)])))
                size *= 2

    def accept(self, row: int) -> None:
        """Choose the row that `best` has just named."""
        t, place = len(self.chosen), int(self.slot[row])
        self.L[t, :t] = self.cache.columns[place, :t]
        self.L[t, t] = (self.cache.left[place] + self.cache.noise[place]).sqrt()
        self.S[t], self.F_S[t] = self.X[row], self.cache.F[place]
        self.chosen.append(row)
        self.gains.append(float(self.bound[row]))
        self.bound[row] = -math.inf

    def _look_outside(self) -> None:
        absent = self.bound[self.slot < 0]
        self.outside = float(absent.max()) if len(absent) else -math.inf

    def _load(self) -> None:
        """Bring the rows with the largest bounds into the cache."""
        wanted = self.bound.argsort(descending=True, stable=True)[: self.capacity]
        wanted = wanted[self.bound[wanted] > -math.inf]
        new = wanted[self.slot[wanted] < 0].sort().values
        new = new[_parts(self.posterior, self.X[new]).argsort(stable=True)]  # a part of the posterior comes once
        keep = torch.zeros_like(self.slot, dtype=torch.bool)
        keep[wanted] = True
        excess = max(0, len(self.cache.rows) + len(new) - self.capacity)
        free = (~keep[self.cache.rows]).nonzero().squeeze(-1)[:excess]
        self.slot[self.cache.rows[free]] = -1
        grown = torch.arange(len(self.cache.rows), len(self.cache.rows) + len(new) - len(free), device=free.device)
        places = torch.cat([free, grown])
        self.cache.grow(len(grown))
        self.slot[new] = places
        for rows, at in zip(new.split(SCORED_AT_ONCE), places.split(SCORED_AT_ONCE), strict=True):
            first = self.cache.fill(at, rows, self.X[rows], self.T, self.sign)
            self.bound[rows] = first if not self.chosen else torch.minimum(self.bound[rows], first)
        self._look_outside()

    def _refresh(self, places: Tensor) -> None:
        """Bring rows in the cache up to the points chosen so far, those of like age together."""
        t = len(self.chosen)
        alive = self.bound[self.cache.rows[places]] > -math.inf  # no row that was chosen or removed
        places = places[alive & (self.cache.age[places] < t)]
        while len(places):
            age = self.cache.age[places]
            near = age <= age.min() + SPAN
            self.bring(places[near], int(age.min()))
            places = places[~near]

    def bring(self, places: Tensor, a: int) -> None:
        """The columns from a on of rows of age a or more, then their bounds."""
        t, cache = len(self.chosen), self.cache
        rows, columns = cache.rows[places], cache.columns[places, :t]  # B, B x t
        C = self.posterior.cross_covar(self.X[rows], cache.F[places], self.S[a:t], self.F_S[a:t])  # B x (t - a)
        for i in range(a, t, SOLVE):
            j = min(i + SOLVE, t)
            rest = C[:, i - a : j - a] - columns[:, :i] @ self.L[i:j, :i].mT
            columns[:, i:j] = torch.linalg.solve_triangular(self.L[i:j, i:j].mT, rest, upper=True, left=False)
        cache.columns[places, a:t] = columns[:, a:]
        cache.age[places] = t
        cache.left[places] = (cache.variance[places] - columns.square().sum(-1)).clamp_min(0.0)
        gain = self.T * marginal_gain(cache.left[places], cache.noise[places])
        self.bound[rows] = cache.mean[places] + gain


class _Cache:
    """What is known about the rows that may be chosen next, M of them in no particular order."""

    def __init__(self, posterior: Posterior, q: int) -> None:
        empty = posterior.points.new_empty
        self.posterior = posterior
        self.rows = torch.empty(0, dtype=torch.long, device=posterior.device)
        self.age = torch.empty(0, dtype=torch.long, device=posterior.device)
        self.mean, self.variance, self.noise = empty(0), empty(0), empty(0)  # with nothing chosen
        self.left = empty(0)  # variance given the points that the row knows
        self.F = empty(0, posterior.rank)  # M x r
        self.columns = empty(0, q)  # M x q, l(x) in rows, written up to the age of the row

    def grow(self, count: int) -> None:
        """Make place for more rows."""
        for name in ("rows", "age", "mean", "variance", "noise", "left", "F", "columns"):
            old = getattr(self, name)
            new = old.new_empty(len(old) + count, *old.shape[1:])
            new[: len(old)] = old
            setattr(self, name, new)

    def fill(self, places: Tensor, rows: Tensor, X: Tensor, T: float, sign: float) -> Tensor:
        """Put rows (with their points X) into places; returns their gains with nothing chosen."""
        mean, variance, F = self.posterior.mean_variance_and_features(X)
        self.rows[places], self.age[places], self.F[places] = rows, 0, F
        self.mean[places], self.noise[places] = sign * mean, self.posterior.noise(X)
        self.variance[places] = self.left[places] = variance
        return sign * mean + T * marginal_gain(variance, self.noise[places])
