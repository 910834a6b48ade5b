"""Greedy choice over a shortlist of a library's best rows, certain as far as it goes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ...posterior import Posterior
from ...progress import track
from . import lazy_greedy as pool
from .best_rows import Top, place_in_group
from .exclusion import original_inputs, repeated_in_group
from .lazy_greedy import LazyGreedy
from .limits import LimitState
from .upper_bound import Others, upper_bound

GROWTH = 4  # the shortlist grows by this factor
LARGEST = 1 << 30  # bytes of the encoded shortlist; there the choice goes on without certificate


@dataclass(frozen=True, eq=False)
class LibrarySearch:
    """All that scores and chooses.

    Attributes:
        posterior: conditioned on what is pending.
        library: to choose from, an `EncodedLibrary` or rows of products.
        q: batch size.
        T: scaled temperature T' sqrt(A).
        sign: -1 where small targets are good.
        values: limited column -> codes of the values that may be on the plate, see `plate_values`.
    """

    posterior: Posterior
    library: Any
    q: int
    T: float
    sign: float
    values: Mapping[int, Tensor] = field(default_factory=dict)

    def inside(self, groups: Tensor) -> Tensor:
        """Which rows, by the codes of their groups (n x g), may be on the plate, n booleans."""
        inside = torch.ones(len(groups), dtype=torch.bool)
        for column, codes in self.values.items():
            inside &= torch.isin(groups[:, column], codes)
        return inside


class Shortlist:
    """The rows that greedy chooses from, a growing number of the best."""

    def __init__(self, task: LibrarySearch, top: Top, keep: int, cap: int | None) -> None:
        self.task, self.top = task, top
        self.whole = len(top["row"]) <= keep  # else the last row stands for all that were left out
        self.length = min(keep, len(top["row"]))
        self.largest = max(task.q, LARGEST // (8 * task.library.encoder.width))
        self.read = 0
        self.repeated = 0
        self.state = LazyGreedy(task.posterior, task.q, task.T, task.sign)
        self.limits = LimitState(task.library.limits, task.library.encoder)
        self.rows = torch.empty(0, dtype=torch.long)  # K
        self.groups = top["groups"][:0]  # K x g
        self.score = top["score"][:0]  # K
        self.original = torch.empty(0, dtype=torch.long)  # K, the first row with the same input
        self.cut = [] if cap is None else self._cut(cap)
        self.capped = list(self.cut)  # ... that have room

    def choose(self) -> dict[str, Any]:
        """The batch, or as much of it as can be chosen without another pass."""
        q, certain = self.task.q, None
        self._grow(pool.SHORTLIST * q)
        with track(None, "choosing the batch", total=q) as bar:
            while len(self.state) < q:
                row, gain = self.state.best()
                if row >= 0 and (gain, -int(self.rows[row])) > self._left_out():
                    self._accept(row)
                    bar.update()
                elif self.read < min(self.length, self.largest):
                    self._grow(GROWTH * self.read)
                elif self.read < self.largest or gain == -math.inf:
                    break  # another pass may help, or nothing can
                else:
                    certain = len(self.state) if certain is None else certain
                    self._accept(row)
                    bar.update()
        return self.report(len(self.state) if certain is None else certain)

    def lowest(self) -> float | None:
        """The gain of the last point if the batch is filled from the rows at hand, certain or not; None if it cannot.

        Ends the use of the shortlist: what it adds is no part of a batch.
        """
        while len(self.state) < self.task.q:
            row, gain = self.state.best()
            if row < 0:
                return None
            self._accept(row)
        return gain

    def _grow(self, size: int) -> None:
        """Read more of the best rows, up to `size` of them in all."""
        stop = min(size, self.length, self.largest)
        more, order = self.top["row"][self.read : stop].sort()
        if not len(more):
            return
        (X, _), groups = self.task.library.rows(more), self.top["groups"][self.read : stop][order]
        old = len(self.rows)
        score = self.top["score"][self.read : stop][order]
        self.state.add(X, score, more)
        self.score = torch.cat([self.score, score])
        self.rows, self.groups, self.read = torch.cat([self.rows, more]), torch.cat([self.groups, groups]), stop
        gone = torch.zeros(len(self.rows), dtype=torch.bool)
        if self.task.library.rules.allow_repeats:
            self.original = torch.arange(len(self.rows))
        else:
            self.original = original_inputs(self.state.X, self.task.library.encoder)
            gone[old:] = repeated_in_group(self.original, self.groups)[old:]
            self.repeated += int(gone.sum())
            gone[old:] |= torch.isin(self.original, self.original[self.state.chosen])[old:]
        gone[old:] |= self.limits.shut(self.state.X[old:], groups).cpu()
        self.state.remove(gone.to(self.state.bound.device))

    def _accept(self, row: int) -> None:
        self.state.accept(row)
        if self.task.library.limits:
            self.limits.take(self.state.X[row], self.groups[row])
            shut = self.limits.shut(self.state.X, self.groups, last=True)
            self.state.remove(shut | (self.original == self.original[row]).to(shut.device))

    def _left_out(self) -> tuple[float, int]:
        """The best that a row outside the shortlist may have: its score, and minus its row number."""
        while self.capped and self.limits.full(0, self.capped[-1][2]):
            self.capped.pop()  # a group that is full stays full
        best = (-math.inf, 0)
        if self.read < len(self.top["score"]):
            best = (float(self.top["score"][self.read]), -int(self.top["row"][self.read]))
        return max(best, self.capped[-1][:2]) if self.capped else best

    def _cut(self, cap: int) -> list[tuple[float, int, int]]:
        """The groups of which rows may have been left out: none of these can be better than the last that was kept.

        Returns:
            Score of that row, minus the row number of the next, code of the group; the best last.
        """
        score, row, groups = (self.top[name][: self.length] for name in ("score", "row", "groups"))
        last = (place_in_group(groups[:, 0]) == cap - 1).nonzero().squeeze(-1).flip(0)
        return list(zip(score[last].tolist(), (-1 - row[last]).tolist(), groups[last, 0].tolist(), strict=True))

    def _others(self) -> Others:
        """The library outside the shortlist; what was not kept counts with the best that it may be."""
        q, read, length, caps = self.task.q, self.read, self.length, self.limits.caps
        scores = [self.top["score"][read:length]]
        groups = [self.top["groups"][read:length]]
        known = [torch.ones_like(groups[0], dtype=torch.bool)]

        def add(score: float, number: int, code: int | None) -> None:
            scores.append(scores[0].new_full((number,), score))
            groups.append(groups[0].new_zeros(number, groups[0].shape[-1]))
            known.append(torch.zeros_like(groups[-1], dtype=torch.bool))
            if code is not None:
                groups[-1][:, 0], known[-1][:, 0] = code, True

        for score, _, code in self.cut:
            add(score, min(q, caps[0]), code)
        if not self.whole:
            add(float(self.top["score"][length]), min(q, len(self.task.library) - length), None)
        return Others(torch.cat(scores), torch.cat(groups), torch.cat(known))

    def _upper_bound(self) -> float | None:
        """Of the value of any batch, once this one is whole."""
        if len(self.state) < self.task.q:
            return None
        parts = self.score, self.groups, self.original, self._others(), self.limits.caps
        return upper_bound(self.state, *parts)

    def report(self, certain: int) -> dict[str, Any]:
        """The batch so far, of which the first `certain` points are."""
        left_out, _ = self._left_out()
        gains = self.state.gains
        counts = dict(self.top["counts"])
        counts["repeated"] = counts.get("repeated", 0) + self.repeated
        return {
            "rows": self.rows[self.state.chosen],
            "gain": torch.tensor(gains, dtype=torch.float64),
            "exhausted": left_out == -math.inf or self.read >= self.largest,
            "counts": counts,
            "certificate": {
                "certified": certain == len(gains),
                "certified_points": certain,
                "smallest_accepted_gain": gains[-1] if gains else None,
                "best_score_left_out": None if left_out == -math.inf else left_out,
                "shortlist": self.read,
                "value": math.fsum(gains),
                "upper_bound": self._upper_bound(),
            },
        }
