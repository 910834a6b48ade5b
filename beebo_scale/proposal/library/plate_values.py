r"""Rules of the plate: no more than k different values of a column among all q rows of a batch.

The values on the plate are chosen first, then the rows: the certified greedy batch among those with these values.

1. Of every combination of values of limited columns (a cell) the best q rows by score are kept from one pass over the
   library, and the score of the next one, which bounds the rest of the cell.
2. Selections of values are compared by the greedy batches over the best of these rows: all selections where they are
   few, else those that single exchanges of values lead to.
3. A bound over every batch that keeps to the rule, whatever its values. With o the rows, S_i prefixes of the batch,
   b_i(o) = mean(o) + T dI(o | S_i) (see `upper_bound`) and V the rows by the value of one column,

       a(X) <= T I(S_i) + min over l of [ q l + sum of the k largest over v of sum over o in V_v of (b_i(o) - l)^+ ],

   which is what Lagrange makes of 'the q largest of the rows with k values'. The smallest over prefixes and columns.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ...information import marginal_gain
from ...posterior import Posterior
from ...progress import track
from ..jobs.chunks import ChunkRunner
from .best_rows import Top, best_of, place_in_group
from .exclusion import original_inputs
from .lazy_greedy import SCORED_AT_ONCE, score
from .limits import LimitState
from .shortlist import LibrarySearch

KEPT = 1 << 20  # rows kept for all cells together
COMPARED = 4096  # of these, rows among which selections are compared
TRIES = 64  # selections compared
PREFIXES = 8  # of the batch that are tried for the bound, besides the empty one
REFINED = 1 << 14  # rows whose bounds are brought up to the prefixes; the others count with their scores
HALVINGS = 60  # of the interval in which the best l lies


@dataclass(frozen=True, eq=False)
class PlateValues:
    """Which values may be on the plate.

    Attributes:
        task: the search, with rows of these values alone.
        top: the best rows of each cell, from which the bound comes.
        record: how many selections there are, and how many were compared.
    """

    task: LibrarySearch
    top: Top
    record: dict[str, Any]

    def bound(self) -> float:
        """Of any batch that keeps to the rules, from the scores alone."""
        q = self.task.q
        return _bound(self, self.top["score"].unsqueeze(-1), torch.zeros(1), q)


def choose_values(
    task: LibrarySearch,
    runner: ChunkRunner,
    scored: Callable[[Tensor], Tensor] | None = None,
    compare: Callable[[LibrarySearch, Top], Selections] | None = None,
) -> PlateValues:
    """Choose the values of all columns that have a rule.

    Args:
        task: the search.
        runner: workers that share the library.
        scored: scores of rows (n x d -> n on the CPU) that bound what they add to any batch; None takes those of the
            mean energy ...
        compare: ... and what compares selections by it.
    """
    merge = partial(_best_of_cells, each=task.q)
    own = scored or (lambda X: score(task.posterior, X, task.T, task.sign).cpu())
    top = runner.reduce("values", task.library.count, partial(_scored, task, own, merge), merge)
    found = runner.deal("plate values", 1, partial(_pick, compare or Selections, task, top))[0]
    values = dict(zip(_columns(task), found["values"], strict=True))
    return PlateValues(replace(task, values=values), top, found["record"])


def _columns(task: LibrarySearch) -> list[int]:
    """Where the columns with a rule stand among those of the groups."""
    limits = task.library.limits
    return [limits.columns.index(name) for name in limits.at_most_distinct]


def _scored(
    task: LibrarySearch, scored: Callable[[Tensor], Tensor], merge: Any, chunks: Sequence[int]
) -> Iterator[tuple[int, Top]]:
    for number, chunk in track(task.library.chunks(chunks), "comparing values", total=len(chunks)):
        rows = chunk.eligible.nonzero().squeeze(-1)
        yield (
            number,
            merge(
                {"score": scored(chunk.X(rows)), "row": chunk.first + rows, "groups": chunk.groups[rows], "counts": {}}
            ),
        )


def _best_of_cells(*tops: Top, each: int) -> Top:
    """The best rows of several tops, `each` + 1 of a cell: the last stands for all that were left out of it."""
    top = best_of(*tops, keep=KEPT)
    inside = place_in_group(_cells(top["groups"])) <= each
    return top | {name: top[name][inside] for name in ("score", "row", "groups")}


def _cells(groups: Tensor) -> Tensor:
    """One number for the values of all columns, n x g -> n."""
    return torch.unique(groups, dim=0, return_inverse=True)[1]


def _pick(compare: Any, task: LibrarySearch, top: Top, chunks: Iterable[int]) -> Iterator[tuple[int, Any]]:
    """Work of a single chunk: the selection."""
    for chunk in chunks:
        yield chunk, compare(task, top).best()


class Selections:
    """Selections of values, compared by greedy batches of the mean energy among the best rows."""

    tries, compared = TRIES, COMPARED

    def __init__(self, task: LibrarySearch, top: Top) -> None:
        self.task, self.columns = task, _columns(task)
        place = place_in_group(_cells(top["groups"]))
        order = torch.argsort(place, stable=True)  # the best of each cell first
        rows = order[: self.compared].sort().values
        self.scores, self.groups = top["score"][rows], top["groups"][rows]
        self.codes = [self.groups[:, column].unique(return_inverse=True) for column in self.columns]
        at_most = list(task.library.limits.at_most_distinct.values())
        self.most = [min(k, len(values)) for k, (values, _) in zip(at_most, self.codes, strict=True)]
        X = task.library.rows(top["row"][rows])[0]
        once = task.library.rules.allow_repeats
        self.original = torch.arange(len(X)) if once else original_inputs(X, task.library.encoder)
        self.X = X.to(task.posterior.points)
        self.values: dict[tuple[tuple[int, ...], ...], tuple[int, float]] = {}
        self._look_at_rows()

    def _look_at_rows(self) -> None:
        task = self.task
        with torch.no_grad():
            parts = [task.posterior.mean_variance_and_features(x) for x in self.X.split(SCORED_AT_ONCE)]
            self.mean, self.variance, self.F = (torch.cat(some) for some in zip(*parts, strict=True))
            self.noise = torch.cat([task.posterior.noise(x) for x in self.X.split(SCORED_AT_ONCE)])

    def best(self) -> dict[str, Any]:
        """The values of the best selection, and what was compared."""
        counts = [math.comb(len(values), k) for k, (values, _) in zip(self.most, self.codes, strict=True)]
        total = math.prod(counts)
        if total <= self.tries:
            ways = [itertools.combinations(range(len(v)), k) for k, (v, _) in zip(self.most, self.codes, strict=True)]
            for selection in itertools.product(*ways):
                self._value(selection)
        else:
            self._climb()
        best = max(self.values, key=lambda selection: self.values[selection])  # the first of equals
        values = [codes[list(some)] for (codes, _), some in zip(self.codes, best, strict=True)]
        return {"values": values, "record": {"selections": total, "selections_compared": len(self.values)}}

    def _climb(self) -> None:
        """Single exchanges of values, the most promising first, as long as one helps."""
        here = self._first()
        self._value(here)
        while True:
            others = [other for other in self._neighbours(here) if other not in self.values]
            others.sort(key=self._promise, reverse=True)
            before = self.values[here]
            for other in others[: self.tries - len(self.values)]:
                if self._value(other) > before:
                    here = other
                    break
            else:
                return

    def _first(self) -> tuple[tuple[int, ...], ...]:
        """Column by column, the values whose rows reach furthest above the q-th best score."""
        inside, selection = torch.ones(len(self.scores), dtype=torch.bool), []
        for k, (values, codes) in zip(self.most, self.codes, strict=True):
            own = self.scores.masked_fill(~inside, -math.inf)
            level = own.topk(min(self.task.q, int(inside.sum()))).values[-1]
            reach = torch.zeros(len(values), dtype=own.dtype).index_add(0, codes, (own - level).clamp_min(0.0))
            chosen = reach.argsort(descending=True, stable=True)[:k]
            inside &= torch.isin(codes, chosen)
            selection.append(tuple(sorted(chosen.tolist())))
        return tuple(selection)

    def _neighbours(self, here: tuple[tuple[int, ...], ...]) -> Iterator[tuple[tuple[int, ...], ...]]:
        for i, (own, (values, _)) in enumerate(zip(here, self.codes, strict=True)):
            for out, new in itertools.product(own, set(range(len(values))) - set(own)):
                yield (*here[:i], tuple(sorted({*own, new} - {out})), *here[i + 1 :])

    def _inside(self, selection: tuple[tuple[int, ...], ...]) -> Tensor:
        inside = torch.ones(len(self.scores), dtype=torch.bool)
        for (_, codes), some in zip(self.codes, selection, strict=True):
            inside &= torch.isin(codes, torch.tensor(some))
        return inside

    def _promise(self, selection: tuple[tuple[int, ...], ...]) -> tuple[int, float]:
        scores = self.scores[self._inside(selection)]
        best = scores.topk(min(self.task.q, len(scores))).values
        return len(best), float(best.sum())

    def _value(self, selection: tuple[tuple[int, ...], ...]) -> tuple[int, float]:
        """How many rows the greedy batch has, and its value."""
        if selection not in self.values:
            self.values[selection] = self._greedy(self._inside(selection).nonzero().squeeze(-1))
        return self.values[selection]

    def _greedy(self, rows: Tensor) -> tuple[int, float]:
        """Greedy choice among some rows, under the other limits, too."""
        task, at = self.task, rows.to(self.X.device)
        X, F, groups, original = self.X[at], self.F[at], self.groups[rows], self.original[rows]
        left, mean, noise = self.variance[at].clone(), task.sign * self.mean[at], self.noise[at]
        limits, q, total = LimitState(task.library.limits, task.library.encoder), min(task.q, len(rows)), 0.0
        columns, open_ = X.new_empty(q, len(X)), torch.ones(len(X), dtype=torch.bool, device=X.device)
        with torch.no_grad():
            for t in range(q):
                gain = (mean + task.T * marginal_gain(left, noise)).masked_fill(~open_, -math.inf)
                best = int(gain.argmax())
                if float(gain[best]) == -math.inf:
                    return t, total
                total += float(gain[best])
                c = task.posterior.cross_covar(X[best : best + 1], F[best : best + 1], X, F).squeeze(0)
                columns[t] = (c - columns[:t, best] @ columns[:t]) / (left[best] + noise[best]).sqrt()
                left = (left - columns[t].square()).clamp_min(0.0)
                limits.take(X[best], groups[best])
                open_ &= ~(limits.shut(X, groups, last=True) | (original == original[best]).to(X.device))
        return q, total


def values_bound(found: PlateValues, rows: Tensor, X: Tensor, value: float) -> float:
    """The bound above for a batch: its row numbers (q), inputs (q x d) and value."""
    task, top, q = found.task, found.top, len(rows)
    prefixes = torch.linspace(0, q, PREFIXES + 1).round().long().unique() if task.T else torch.zeros(1).long()
    return max(_bound(found, *_bounds(task.posterior, task, top, rows, X, prefixes), q), value)


def _bound(found: PlateValues, bound: Tensor, information: Tensor, q: int) -> float:
    """The smallest over prefixes (p), columns and caps, from bounds of the rows kept (n x p)."""
    task, top = found.task, found.top
    rest = (place_in_group(_cells(top["groups"])) == q).nonzero().squeeze(-1).repeat(q)  # as many as may be chosen
    groups = torch.cat([top["groups"], top["groups"][rest]])
    beyond = top["score"][-1:].expand(q if len(top["row"]) > KEPT else 0)  # of unknown values
    totals = []
    for b, gained in zip(bound.unbind(-1), information.tolist(), strict=True):
        known = torch.cat([b, top["score"][rest]])
        for column, most in zip(_columns(task), task.library.limits.at_most_distinct.values(), strict=True):
            for some in _within_caps(known, groups, task.library.limits.at_most.values(), column):
                every = torch.cat([known[some], beyond])
                totals.append(task.T * gained + best_of_values(every, groups[some, column], q, most))
    return min(totals)


def _within_caps(bound: Tensor, groups: Tensor, caps: Iterable[int], column: int) -> Iterator[Tensor]:
    """All rows; then, for each column with a cap, the best of each of its groups by the value of another column."""
    yield torch.arange(len(bound))
    order = bound.argsort(descending=True, stable=True)
    for i, cap in enumerate(caps):
        yield order[place_in_group(_cells(groups[order][:, [i, column]])) < cap]


def best_of_values(bound: Tensor, codes: Tensor, q: int, most: int) -> float:
    """No sum of q of the bounds (n) of rows with at most `most` values (codes) is larger.

    Bounds beyond the codes are of rows of unknown values, which count with every selection.
    """
    values, codes = codes.unique(return_inverse=True)

    def total(level: float) -> float:
        above = (bound - level).clamp_min(0.0)
        reach = above.new_zeros(len(values)).index_add(0, codes, above[: len(codes)])
        return q * level + float(reach.topk(min(most, len(values))).values.sum() + above[len(codes) :].sum())

    low, high = float(bound.min()) - 1.0, float(bound.max())  # convex in the level
    best = min(total(low), total(high))
    for _ in range(HALVINGS):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        at_a, at_b = total(a), total(b)
        best = min(best, at_a, at_b)
        low, high = (low, b) if at_a < at_b else (a, high)
    return best


def _bounds(
    posterior: Posterior, task: LibrarySearch, top: Top, rows: Tensor, X: Tensor, prefixes: Tensor
) -> tuple[Tensor, Tensor]:
    """Bounds of mean(o) + T dI(o | S_i) of the rows kept (n x p), and I(S_i) (p)."""
    bound = top["score"].unsqueeze(-1).repeat(1, len(prefixes))
    if task.T == 0.0:
        return bound, torch.zeros(1)
    with torch.no_grad():
        X = X.to(posterior.points)
        _, _, F = posterior.mean_variance_and_features(X)
        noise = posterior.noise(X)
        L = torch.linalg.cholesky(posterior.cross_covar(X, F, X, F) + noise.diag())
        gained = (L.diagonal() / noise.sqrt()).log().cumsum(0)
        for some in torch.arange(min(len(bound), REFINED)).split(SCORED_AT_ONCE):
            x = task.library.rows(top["row"][some])[0].to(X)
            mean, variance, f = posterior.mean_variance_and_features(x)
            told = torch.linalg.solve_triangular(L, posterior.cross_covar(X, F, x, f), upper=False).square().cumsum(0)
            left = variance - torch.cat([told.new_zeros(1, len(x)), told])[prefixes.to(told.device)]  # p x n
            gain = marginal_gain(left.clamp_min(0.0), posterior.noise(x))
            turn = (top["row"][some].unsqueeze(-1) == rows).nonzero()  # of rows that are in the batch
            for place, i in turn.tolist():
                gain[prefixes > i, place] = 0.0
            bound[some] = torch.minimum(bound[some], (task.sign * mean + task.T * gain).mT.cpu().to(bound))
    return bound, torch.cat([gained.new_zeros(1), gained])[prefixes.to(gained.device)].cpu()
