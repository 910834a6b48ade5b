r"""Certified greedy choice from a library.

With the mean energy, adding row x to the batch S raises a(S) by

    gain(x | S) = mean(x) + T/2 log(1 + v(x | S) / sigma^2(x)),

and v(x | S) only shrinks as S grows. A gain computed for a smaller S therefore stays an upper bound for ever. So:
score every row once with S empty, keep a shortlist of the best, run greedy over the shortlist and re-evaluate only
rows whose stale bound could still win. If the last accepted gain is above the best score that was left out, no row
outside the shortlist could have been chosen at any step: the batch is the greedy batch over the whole library.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..information import marginal_gain
from ..posterior import Posterior
from ..progress import track

CHUNK = 2048  # rows scored at once: k(x, Z) of a chunk fits in the cache of a processor
BLOCK = 64  # stale rows re-evaluated at once
SHORTLIST = 50  # rows kept for each point of the batch


@dataclass(frozen=True)
class Choice:
    """Rows chosen from a library.

    Attributes:
        index: q rows of the library, in the order of choice.
        gain: q marginal gains, in the units of the posterior's mean; they never rise.
        certified: the batch is the greedy batch over all eligible rows.
        best_left_out: the best score outside the shortlist, -inf if nothing was left out.
        shortlist: rows in the shortlist.
    """

    index: Tensor
    gain: Tensor
    certified: bool
    best_left_out: float
    shortlist: int


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
    scores = X.new_empty(len(X))
    chunks = range(0, len(X), CHUNK)
    with torch.no_grad():
        for start in track(chunks, "scoring the library"):
            rows = X[start : start + CHUNK].to(posterior.centers)
            scores[start : start + CHUNK] = _first_gain(posterior, rows, T, sign).to(scores)
    return scores


def _first_gain(posterior: Posterior, X: Tensor, T: float, sign: float) -> Tensor:
    if T == 0.0:
        return sign * posterior.mean(X)
    mean, variance = posterior.mean_and_variance(X)
    return sign * mean + T * marginal_gain(variance, posterior.noise(X))


def choose(
    posterior: Posterior, X: Tensor, q: int, temperature: float, eligible: Tensor | None = None, maximize: bool = True
) -> Choice:
    """The greedy batch of q rows over a library in memory, certified.

    Args:
        posterior: of the surrogate.
        X: p x d library.
        q: batch size.
        temperature: T'.
        eligible: p booleans, the rows that may be chosen; all if None.
        maximize: False if small values of the target are good.

    Raises:
        ValueError: fewer eligible rows than q.
    """
    T = temperature * math.sqrt(posterior.amplitude)
    sign = 1.0 if maximize else -1.0
    scores = score(posterior, X, T, sign)
    if eligible is not None:
        scores = scores.masked_fill(~eligible, -math.inf)
    available = int((scores > -math.inf).sum())
    if not 0 < q <= available:
        raise ValueError(f"q = {q} rows asked for, {available} can be chosen")
    order = scores.argsort(descending=True, stable=True)[:available]  # ties go to the lowest row
    size = SHORTLIST * q
    while True:
        kept = order[:size].sort().values
        best_left_out = float(scores[order[size]]) if size < available else -math.inf
        chosen, gain = greedy(posterior, X[kept].to(posterior.centers), q, T, sign)
        certified = float(gain[-1]) > best_left_out
        if certified or size >= available:
            return Choice(kept[chosen.cpu()], gain, certified, best_left_out, len(kept))
        size *= 4


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
    with torch.no_grad():
        state = _Conditioned(posterior, X, q, T, sign)
        chosen = [state.accept() for _ in track(range(q), "choosing the batch")]
    index = torch.tensor([row for row, _ in chosen])
    return index, torch.tensor([gain for _, gain in chosen], dtype=torch.float64)


class _Conditioned:
    """Rows with their posterior given the points chosen so far, brought up to date only where it matters.

    The rows' covariance with the chosen points S is kept as columns of a partial Cholesky factor of C + Sigma:
    l(x) = L_S^-1 (C(S, x)), so that v(x | S) = v(x) - l(x)' l(x). A row of age a knows the first a columns.
    """

    def __init__(self, posterior: Posterior, X: Tensor, q: int, T: float, sign: float) -> None:
        self.posterior, self.X, self.T = posterior, X, T
        chunks = [posterior.mean_variance_and_features(rows) for rows in X.split(CHUNK)]
        mean, self.prior_variance, self.F = (torch.cat(parts) for parts in zip(*chunks, strict=True))  # K, K, K x r
        self.mean = sign * mean
        self.noise = posterior.noise(X)  # K
        self.columns = X.new_zeros(len(X), q)  # K x q, l(x) in rows
        self.age = torch.zeros(len(X), dtype=torch.long, device=X.device)
        self.bound = self.mean + T * marginal_gain(self.prior_variance, self.noise)  # K
        self.L = X.new_zeros(q, q)
        self.chosen: list[int] = []

    def accept(self) -> tuple[int, float]:
        """Choose the row with the largest gain given the rows chosen before."""
        t = len(self.chosen)
        while True:
            best = int((self.bound == self.bound.max()).nonzero()[0])  # the lowest of equals
            if self.age[best] == t:
                break
            block = self.bound.topk(min(BLOCK, len(self.bound) - t)).indices  # never a row chosen before
            self._refresh(torch.unique(torch.cat([block, block.new_tensor([best])])))
        gain = float(self.bound[best])
        self.L[t, :t] = self.columns[best, :t]
        self.L[t, t] = (self._variance(self.columns[best], best) + self.noise[best]).sqrt()
        self.chosen.append(best)
        self.bound[best] = -math.inf
        return best, gain

    def _refresh(self, rows: Tensor) -> None:
        """Bring rows up to the points chosen so far: the missing columns of l, then the bounds."""
        t, a = len(self.chosen), int(self.age[rows].min())
        if a < t:
            S = torch.tensor(self.chosen[a:], device=rows.device)
            C = self.posterior.cross_covar(self.X[rows], self.F[rows], self.X[S], self.F[S])  # B x (t - a)
            C = C - self.columns[rows, :a] @ self.L[a:t, :a].mT
            new = torch.linalg.solve_triangular(self.L[a:t, a:t].mT, C, upper=True, left=False)
            self.columns[rows, a:t] = new
        self.age[rows] = t
        variance = self._variance(self.columns[rows], rows)
        self.bound[rows] = self.mean[rows] + self.T * marginal_gain(variance, self.noise[rows])

    def _variance(self, columns: Tensor, rows: Tensor | int) -> Tensor:
        return (self.prior_variance[rows] - columns.square().sum(-1)).clamp_min(0.0)


def known(X: Tensor, measured: Tensor) -> tuple[Tensor, Tensor]:
    """Which rows of X (p x d) are among the measured (n x d), and which repeat an earlier row of X: p booleans each."""
    rows = torch.cat([measured, X])
    groups, inverse = torch.unique(rows, dim=0, return_inverse=True)
    position = torch.arange(len(rows), device=X.device)
    empty = position.new_full((len(groups),), len(rows))
    new = slice(len(measured), None)
    first = empty.scatter_reduce(0, inverse, position, "amin")
    first_in_X = empty.scatter_reduce(0, inverse[new], position[new], "amin")
    return first[inverse[new]] < len(measured), first_in_X[inverse[new]] < position[new]
