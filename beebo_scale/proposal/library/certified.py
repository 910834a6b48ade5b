r"""Certified greedy choice from a library that is never whole in memory.

    score(x) = gain(x | nothing chosen) >= gain(x | S) for every S

1. Stream the library once, in chunks that workers share out, and keep the rows with the best scores.
2. Run lazy greedy over a shortlist of them. As long as each gain is above the best score that is not in the shortlist,
   no other row of the library could have been chosen: the batch IS the greedy batch over the whole library.
3. Where a gain is not, the shortlist grows: by rows whose scores were kept, and beyond those by another pass.
4. What was kept also bounds the value of every batch, see `upper_bound`, without another pass.

Rows with equal inputs are copies. Where repeats are not allowed, those in the same groups count once, the first; those
in other groups all take part until one of them is chosen.

Memory: 16 bytes (24 with groups) for each of the 800 q scores that are kept, no more than a million or 50 q of them;
8 d bytes for each row of the shortlist, at most `LARGEST` in all, and for the bound a few times 8 * 33; one chunk of
the library, and what `LazyGreedy` holds. Nothing grows with the library.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from math import inf, sqrt
from typing import Any

import torch
from torch import Tensor

from ...posterior import Posterior
from ...progress import track
from ...specs import Choice
from ..jobs.chunks import ChunkRunner
from . import lazy_greedy
from .best_rows import Top, best_of
from .encoded import KEPT_BYTES, EncodedChunk, EncodedLibrary
from .lazy_greedy import score_rows
from .plate_values import choose_values, values_bound
from .shortlist import LibrarySearch, Shortlist

RESERVE = 16  # scores kept for each row of the first shortlist, and the factor by which a further pass keeps more ...
ROUNDING = 1e-9  # of standardised units: scores that differ by less are the same
LONG = 1 << 20  # ... but no more than this in the first pass, unless the shortlist itself is longer


@dataclass(frozen=True, eq=False)
class CertifiedBatch:
    """Rows chosen from a library.

    Attributes:
        rows: q row numbers of the library, in the order of choice.
        gain: q marginal gains, in the units of the posterior's mean; they never rise.
        X: the rows encoded, q x d.
        certificate: certified, certified_points (how many of the first rows are), smallest_accepted_gain,
            best_score_left_out (None if nothing was), shortlist (its rows), value (a(X), the sum of the gains),
            upper_bound (no batch of q rows has a larger a(X)), passes (over the library), guarantee (in words).
        counts: rows of the library, and how many of them may not be proposed for what reason; `repeated` counts
            repeats within a chunk, and those between chunks that the shortlist met.
        runners_up: row numbers of the best scores that were not chosen, best first, no more than 8 q of them.
        alike: whether all rows that may be proposed have the same score but for rounding.
    """

    rows: Tensor
    gain: Tensor
    X: Tensor
    certificate: dict[str, Any]
    counts: dict[str, int]
    runners_up: Tensor
    alike: bool = False


def choose_certified(
    posterior: Posterior, library: EncodedLibrary, choice: Choice, runner: ChunkRunner | None = None
) -> CertifiedBatch:
    """The greedy batch of q rows over a library, certified.

    With pending rows the posterior's covariance is conditioned on them first. A library that has to be scored again
    is: the certificate says how many passes there were.

    Args:
        posterior: of the surrogate.
        library: with its rules and limits.
        choice: batch size, temperature and direction.
        runner: who works, and where finished chunks are kept; all workers get the same choice.

    Raises:
        InputError: a row of the library is not usable, or fewer rows than q can be chosen.
    """
    runner, q, pending = runner or ChunkRunner(), choice.q, library.rules.pending
    T = choice.temperature * sqrt(posterior.amplitude)
    if pending is not None and len(pending):
        posterior = posterior.augment(pending)
    task = LibrarySearch(posterior, library, q, T, choice.sign)
    plate = choose_values(task, runner) if library.limits.at_most_distinct else None
    task = task if plate is None else plate.task
    for number in count(1):
        keep, cap = _sizes(task, number)
        merge = partial(best_of, keep=keep, cap=cap)
        top = runner.reduce(f"scores {number}", len(_units(task)), partial(_scored, task, merge), merge)
        picked = runner.deal(f"choice {number}", 1, partial(_pick, task, top, keep, cap))[0]
        if len(picked["rows"]) == q:
            break
        if picked["exhausted"]:
            raise library.too_few(q, len(picked["rows"]), picked["counts"], limited=bool(library.limits))
    library.check_lists(picked["counts"])
    rows = picked["rows"]
    chosen = set(rows.tolist())
    X, certificate = library.rows(rows)[0], picked["certificate"]
    if plate is not None:
        certificate |= plate.record | {"upper_bound": values_bound(plate, rows, X, certificate["value"])}
    rest = [row for row in top["row"][: 9 * q].tolist() if row not in chosen]
    return CertifiedBatch(
        rows=rows,
        gain=gains_of(posterior, X, T, choice.sign),
        X=X,
        certificate={**certificate, "passes": number, "guarantee": library.limits.guarantee()},
        counts={"rows": len(library), **picked["counts"]},
        runners_up=torch.tensor(rest[: 8 * q], dtype=torch.long),
        alike=_alike(top),
    )


def _alike(top: Top) -> bool:
    """Whether all rows have the same score."""
    best = float(top["score"][0])
    return len(top["score"]) > 1 and best - top["lowest"] <= ROUNDING * max(1.0, abs(best))


def gains_of(posterior: Posterior, X: Tensor, T: float, sign: float) -> Tensor:
    """Gains of the rows of a batch in their order, q x d -> q; the same to the last bit however it was found."""
    with torch.no_grad():
        mean, _, F = posterior.mean_variance_and_features(X.to(posterior.points))
        noise = posterior.noise(X.to(posterior.points))
        C = posterior.cross_covar(X.to(mean), F, X.to(mean), F)
        L = torch.linalg.cholesky(C + torch.diag_embed(noise))
        gain = sign * mean + T * (L.diagonal() / noise.sqrt()).log()
        return gain.cummin(0).values.double().cpu()  # they never rise, but for rounding


def _sizes(task: LibrarySearch, number: int) -> tuple[int, int | None]:
    """Rows to keep in the number-th pass, and rows of one group by the first column that limits groups."""
    shortlist, more, at_most = lazy_greedy.SHORTLIST * task.q, RESERVE ** (number - 1), task.library.limits.at_most
    keep = max(shortlist, min(RESERVE * shortlist, LONG))
    cap = lazy_greedy.SHORTLIST * next(iter(at_most.values())) if at_most else None
    return keep * more, None if cap is None else cap * more


def _units(task: LibrarySearch) -> list[range]:
    """Chunks that are scored together: more than one where a part of the posterior takes long to get."""
    count, rows = task.library.count, max(1, len(task.library) // task.library.count)
    most = KEPT_BYTES // (rows * max(1, task.library.packing.size))
    step = max(1, min(most, -(-task.posterior.points_together // rows)))
    return [range(first, min(first + step, count)) for first in range(0, count, step)]


def _scored(task: LibrarySearch, merge: Any, units: Sequence[int]) -> Iterator[tuple[int, Top]]:
    """Units of the library, each as the best of its rows; the rows of a unit are packed in memory."""
    every = _units(task)
    chunks = task.library.chunks([chunk for unit in units for chunk in every[unit]])
    for unit in track(units, "scoring the library"):
        yield unit, merge(_top(task, [next(chunks)[1] for _ in every[unit]]))


def _top(task: LibrarySearch, chunks: Sequence[EncodedChunk]) -> Top:
    """All rows of some chunks that may be proposed, with their scores."""
    inside = [(chunk.eligible & task.inside(chunk.groups)).nonzero().squeeze(-1) for chunk in chunks]
    packed = torch.cat([chunk.rows[places] for chunk, places in zip(chunks, inside, strict=True)])

    def rows(numbers: Tensor) -> Tensor:
        return chunks[0].packing.unpack(packed[numbers])

    names = dict.fromkeys(name for chunk in chunks for name in chunk.counts)
    scores = score_rows(task.posterior, rows, len(packed), task.T, task.sign).cpu()
    return {
        "score": scores,
        "lowest": float(scores.min()) if len(scores) else inf,
        "row": torch.cat([chunk.first + places for chunk, places in zip(chunks, inside, strict=True)]),
        "groups": torch.cat([chunk.groups[places] for chunk, places in zip(chunks, inside, strict=True)]),
        "counts": {name: sum(chunk.counts.get(name, 0) for chunk in chunks) for name in names},
    }


def _pick(
    task: LibrarySearch, top: Top, keep: int, cap: int | None, chunks: Iterable[int]
) -> Iterator[tuple[int, Any]]:
    """Work of a single chunk: the greedy choice over the best rows, as far as it is certain."""
    for chunk in chunks:
        yield chunk, Shortlist(task, top, keep, cap).choose()
