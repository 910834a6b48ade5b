r"""Certified greedy choice from a library that is never whole in memory.

    score(x) = gain(x | nothing chosen) >= gain(x | S) for every S

1. Stream the library once, in chunks that workers share out, and keep the rows with the best scores.
2. Run lazy greedy over a shortlist of them. As long as each gain is above the best score that is not in the shortlist,
   no other row of the library could have been chosen: the batch IS the greedy batch over the whole library.
3. Where a gain is not, the shortlist grows: by rows whose scores were kept, and beyond those by another pass.

Memory: 16 bytes (24 with groups) for each of the 800 q scores that are kept, no more than a million or 50 q of them;
8 d bytes for each row of the shortlist, at most `LARGEST` in all; one chunk of the library, and what `Greedy` holds.
Nothing grows with the library.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..posterior import Posterior
from ..progress import track
from ..screening import Encoder, Table
from ..screening.library import Library
from . import pool
from .eligible import Rules, repeats, row_hashes
from .limits import Limits, Room
from .pool import Greedy, score
from .work import Crew

RESERVE = 16  # scores kept for each row of the first shortlist, and the factor by which a further pass keeps more ...
LONG = 1 << 20  # ... but no more than this in the first pass, unless the shortlist itself is longer
GROWTH = 4  # the shortlist grows by this factor
LARGEST = 1 << 30  # bytes of the encoded shortlist; there the choice goes on without certificate
Top = dict[str, Any]  # score, row and group of the best rows, and counts: what goes into a ledger


@dataclass(frozen=True)
class Aim:
    """What is chosen, and by what.

    Attributes:
        q: batch size.
        temperature: T'.
        maximize: False if small values of the target are good.
        rules: which rows may be proposed.
        limits: what the batch must keep to.
    """

    q: int
    temperature: float = 0.5
    maximize: bool = True
    rules: Rules = field(default_factory=Rules)
    limits: Limits = field(default_factory=Limits)

    @property
    def sign(self) -> float:
        """-1 where small targets are good."""
        return 1.0 if self.maximize else -1.0


@dataclass(frozen=True, eq=False)
class Choice:
    """Rows chosen from a library.

    Attributes:
        rows: q row numbers of the library, in the order of choice.
        gain: q marginal gains, in the units of the posterior's mean; they never rise.
        table: the rows as the library has them.
        X: the rows encoded, q x d.
        certificate: certified, certified_points (how many of the first rows are), smallest_accepted_gain,
            best_score_left_out (None if nothing was), shortlist (its rows), passes (over the library), guarantee.
        counts: rows of the library, and how many of them may not be proposed for what reason; `repeated` counts
            repeats within a chunk, and those between chunks that the shortlist met.
        runners_up: row numbers of the best scores that were not chosen, best first, no more than 8 q of them.
    """

    rows: Tensor
    gain: Tensor
    table: Table
    X: Tensor
    certificate: dict[str, Any]
    counts: dict[str, int]
    runners_up: Tensor


def choose(posterior: Posterior, encoder: Encoder, library: Library, aim: Aim, crew: Crew | None = None) -> Choice:
    """The greedy batch of q rows over a library, certified.

    With pending rows the posterior's covariance is conditioned on them first. A library that has to be scored again
    is: the certificate says how many passes there were.

    Args:
        posterior: of the surrogate.
        encoder: of its features.
        library: opened with the group columns of the limits as labels.
        aim: what is asked for.
        crew: who works, and where finished chunks are kept; all workers get the same choice.

    Raises:
        InputError: a row of the library is not usable, or fewer rows than q can be chosen.
    """
    crew, library = crew or Crew(), library.bounded(encoder.width)
    T = aim.temperature * math.sqrt(posterior.amplitude)
    if aim.rules.pending is not None and len(aim.rules.pending):
        posterior = posterior.augment(aim.rules.pending)
    scorer = _Scorer(posterior, encoder, library, aim, T)
    for number in count(1):
        keep, cap = _sizes(aim, number)
        merge = partial(best_of, keep=keep, cap=cap)
        top = crew.reduce(f"scores {number}", library.count, partial(scorer.work, merge=merge), merge)
        picked = crew.deal(f"choice {number}", 1, partial(_pick, scorer, top, keep, cap))[0]
        if len(picked["rows"]) == aim.q:
            break
        if picked["exhausted"]:
            raise _too_few(library, aim, len(picked["rows"]), picked["counts"])
    rows = picked["rows"]
    table = library.take(rows.numpy())
    chosen = set(rows.tolist())
    rest = [row for row in top["row"][: 9 * aim.q].tolist() if row not in chosen]
    return Choice(
        rows=rows,
        gain=picked["gain"],
        table=table,
        X=encoder.encode(table),
        certificate={**picked["certificate"], "passes": number, "guarantee": aim.limits.guarantee()},
        counts={"rows": len(library), **picked["counts"]},
        runners_up=torch.tensor(rest[: 8 * aim.q], dtype=torch.long),
    )


def check_library(encoder: Encoder, library: Library, aim: Aim) -> None:
    """Read a library once, without scoring it, and refuse what `choose` would refuse; limits are not looked at.

    Keeps 8 bytes for each row that may be proposed, while it lasts.

    Raises:
        InputError: a row of the library is not usable, or fewer rows than q can be proposed.
    """
    library = library.bounded(encoder.width)
    hashes, counts = [np.empty(0, dtype=np.uint64)], Counter[str]()
    for _, table in track(library.chunks(), "checking the library", total=library.count):
        X = encoder.encode(table)
        eligible, found = aim.rules.judge(table, X)
        counts.update(found)
        hashes.append(row_hashes(X[eligible].numpy()))
    every = np.concatenate(hashes)
    available = len(every) if aim.rules.allow_repeats else len(np.unique(every))
    if available < aim.q:
        raise _too_few(library, aim, available, dict(counts, repeated=counts["repeated"] + len(every) - available))


def best_of(*tops: Top, keep: int, cap: int | None = None) -> Top:
    """The best `keep` + 1 rows of several tops, by score, then by row; with groups at most `cap` of each.

    The outcome does not depend on order or grouping: a row is kept if fewer than `keep` + 1 are better, of each group
    at most `cap` counted, and that of the last row is the best score left out (for groups see `_pick`).
    """
    merged: Top = {name: torch.cat([top[name] for top in tops]) for name in ("score", "row", "groups")}
    merged["counts"] = dict.fromkeys(name for top in tops for name in top["counts"])
    for name in merged["counts"]:
        merged["counts"][name] = sum(top["counts"].get(name, 0) for top in tops)
    order = _ranking(merged["score"].numpy(), merged["row"].numpy())
    if cap is not None:
        order = order[_place_in_group(merged["groups"][order, 0]) < cap]
    for name in ("score", "row", "groups"):
        merged[name] = merged[name][order[: keep + 1]]
    return merged


def _ranking(score: np.ndarray, row: np.ndarray) -> Tensor:
    """Order by score, the best first, then by row."""
    order = np.argsort(-score, kind="stable")  # quick where sorted lists follow each other, as they do in a merge
    if (score[order[1:]] == score[order[:-1]]).any():
        order = np.lexsort((row, -score))
    return torch.from_numpy(order)


def _place_in_group(groups: Tensor) -> Tensor:
    """How many earlier entries have the same group, n -> n."""
    order = groups.argsort(stable=True)
    run = groups[order]
    n = torch.arange(len(run))
    start = torch.cat([torch.ones(1, dtype=torch.bool), run[1:] != run[:-1]])[: len(run)]
    place = torch.empty_like(n)
    place[order] = n - torch.where(start, n, 0).cummax(0).values
    return place


def _sizes(aim: Aim, number: int) -> tuple[int, int | None]:
    """Rows to keep in the number-th pass, and rows of one group by the first column that limits groups."""
    shortlist, more = pool.SHORTLIST * aim.q, RESERVE ** (number - 1)
    keep = max(shortlist, min(RESERVE * shortlist, LONG))
    cap = pool.SHORTLIST * next(iter(aim.limits.at_most.values())) if aim.limits.at_most else None
    return keep * more, None if cap is None else cap * more


@dataclass(frozen=True, eq=False)
class _Scorer:
    """From rows of the library to scores."""

    posterior: Posterior
    encoder: Encoder
    library: Library
    aim: Aim
    T: float

    def work(self, chunks: Sequence[int], merge: Any) -> Iterator[tuple[int, Top]]:
        """Chunks of the library, each as the best of its rows."""
        tables = track(self.library.chunks(chunks), "scoring the library", total=len(chunks))
        for chunk, table in tables:
            X = self.encoder.encode(table)
            eligible, counts = self.aim.rules.judge(table, X)
            inside = eligible.nonzero().squeeze(-1)
            top = {
                "score": score(self.posterior, X[inside], self.T, self.aim.sign).cpu(),
                "row": self.library.first_row(chunk) + inside,
                "groups": self.groups(table)[inside],
                "counts": counts,
            }
            yield chunk, merge(top)

    def groups(self, table: Table) -> Tensor:
        """A code for the group of each row in each limited column, p x g; two groups with one code are unheard of."""
        import pandas as pd

        codes = [
            pd.util.hash_array(table.frame[column].astype(str).astype(object).to_numpy(), categorize=False)
            for column in self.aim.limits.at_most
        ]
        return torch.from_numpy(np.stack(codes, axis=-1).view(np.int64) if codes else np.empty((len(table), 0), int))


def _pick(scorer: _Scorer, top: Top, keep: int, cap: int | None, chunks: Iterable[int]) -> Iterator[tuple[int, Any]]:
    """Work of a single chunk: the greedy choice over the best rows, as far as it is certain."""
    for chunk in chunks:
        yield chunk, _Shortlist(scorer, top, keep, cap).choose()


class _Shortlist:
    """The rows that greedy chooses from, a growing number of the best."""

    def __init__(self, scorer: _Scorer, top: Top, keep: int, cap: int | None) -> None:
        self.scorer, self.top = scorer, top
        self.whole = len(top["row"]) <= keep  # else the last row stands for all that were left out
        self.length = min(keep, len(top["row"]))
        self.largest = max(scorer.aim.q, LARGEST // (8 * scorer.encoder.width))
        self.read = 0
        self.repeated = 0
        self.state = Greedy(scorer.posterior, scorer.aim.q, scorer.T, scorer.aim.sign)
        self.room = Room(scorer.aim.limits, scorer.encoder)
        self.rows = torch.empty(0, dtype=torch.long)  # K
        self.groups = top["groups"][:0]  # K x g
        self.capped = [] if cap is None else self._capped(cap)

    def choose(self) -> dict[str, Any]:
        """The batch, or as much of it as can be chosen without another pass."""
        q, certain = self.scorer.aim.q, None
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
        return self._report(len(self.state) if certain is None else certain)

    def _grow(self, size: int) -> None:
        """Read more of the best rows, up to `size` of them in all."""
        stop = min(size, self.length, self.largest)
        more, order = self.top["row"][self.read : stop].sort()
        if not len(more):
            return
        table = self.scorer.library.take(more.numpy())
        X, groups = self.scorer.encoder.encode(table), self.top["groups"][self.read : stop][order]
        old = len(self.rows)
        self.state.add(X, self.top["score"][self.read : stop][order], more)
        self.rows, self.groups, self.read = torch.cat([self.rows, more]), torch.cat([self.groups, groups]), stop
        gone = torch.zeros(len(self.rows), dtype=torch.bool)
        if not self.scorer.aim.rules.allow_repeats:
            gone[old:] = torch.from_numpy(repeats(self.state.X.cpu().numpy()))[old:]
            self.repeated += int(gone.sum())
        gone[old:] |= self.room.shut(self.state.X[old:], groups).cpu()
        self.state.remove(gone.to(self.state.bound.device))

    def _accept(self, row: int) -> None:
        self.state.accept(row)
        if self.scorer.aim.limits:
            self.room.take(self.state.X[row], self.groups[row])
            self.state.remove(self.room.shut(self.state.X, self.groups, last=True))

    def _left_out(self) -> tuple[float, int]:
        """The best that a row outside the shortlist may have: its score, and minus its row number."""
        while self.capped and self.room.full(0, self.capped[-1][2]):
            self.capped.pop()  # a group that is full stays full
        best = (-math.inf, 0)
        if self.read < len(self.top["score"]):
            best = (float(self.top["score"][self.read]), -int(self.top["row"][self.read]))
        return max(best, self.capped[-1][:2]) if self.capped else best

    def _capped(self, cap: int) -> list[tuple[float, int, int]]:
        """The groups of which rows may have been left out: none of these can be better than the last that was kept.

        Returns:
            Score of that row, minus the row number of the next, code of the group; the best last.
        """
        score, row, groups = (self.top[name][: self.length] for name in ("score", "row", "groups"))
        last = (_place_in_group(groups[:, 0]) == cap - 1).nonzero().squeeze(-1).flip(0)
        return list(zip(score[last].tolist(), (-1 - row[last]).tolist(), groups[last, 0].tolist(), strict=True))

    def _report(self, certain: int) -> dict[str, Any]:
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
            },
        }


def _too_few(library: Library, aim: Aim, available: int, counts: dict[str, int]) -> InputError:
    if aim.limits:
        return InputError(
            f"{library.source}: q = {aim.q}, but only {available} rows can be chosen under the limits; "
            "lower q, loosen the limits, or give a larger library"
        )
    why = [f"{counts.get('measured_already', 0)} measured already"]
    why += [f"{counts[name]} {name}" for name in ("pending", "excluded") if name in counts]
    why += [f"{counts['repeated']} repeat an earlier row"]
    return InputError(
        f"{library.source}: q = {aim.q}, but only {available} of its {len(library)} rows can be proposed "
        f"({', '.join(why)}); lower q, or give a larger library"
    )
