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
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError
from ...posterior import Posterior
from ...progress import track
from ...screening import Encoder, Table
from ...screening.library import Library
from ..jobs.chunks import Crew
from . import lazy_greedy as pool
from .best_rows import Top, best_of
from .exclusion import row_hashes
from .lazy_greedy import score
from .limits import group_codes
from .shortlist import Aim as Aim
from .shortlist import Shortlist, Task

RESERVE = 16  # scores kept for each row of the first shortlist, and the factor by which a further pass keeps more ...
LONG = 1 << 20  # ... but no more than this in the first pass, unless the shortlist itself is longer


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
    task = Task(posterior, encoder, library, aim, T)
    for number in count(1):
        keep, cap = _sizes(aim, number)
        merge = partial(best_of, keep=keep, cap=cap)
        top = crew.reduce(f"scores {number}", library.count, partial(_scored, task, merge), merge)
        picked = crew.deal(f"choice {number}", 1, partial(_pick, task, top, keep, cap))[0]
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


def _sizes(aim: Aim, number: int) -> tuple[int, int | None]:
    """Rows to keep in the number-th pass, and rows of one group by the first column that limits groups."""
    shortlist, more = pool.SHORTLIST * aim.q, RESERVE ** (number - 1)
    keep = max(shortlist, min(RESERVE * shortlist, LONG))
    cap = pool.SHORTLIST * next(iter(aim.limits.at_most.values())) if aim.limits.at_most else None
    return keep * more, None if cap is None else cap * more


def _scored(task: Task, merge: Any, chunks: Sequence[int]) -> Iterator[tuple[int, Top]]:
    """Chunks of the library, each as the best of its rows."""
    for chunk, table in track(task.library.chunks(chunks), "scoring the library", total=len(chunks)):
        X = task.encoder.encode(table)
        eligible, counts = task.aim.rules.judge(table, X)
        inside = eligible.nonzero().squeeze(-1)
        top = {
            "score": score(task.posterior, X[inside], task.T, task.aim.sign).cpu(),
            "row": task.library.first_row(chunk) + inside,
            "groups": group_codes(table, task.aim.limits)[inside],
            "counts": counts,
        }
        yield chunk, merge(top)


def _pick(task: Task, top: Top, keep: int, cap: int | None, chunks: Iterable[int]) -> Iterator[tuple[int, Any]]:
    """Work of a single chunk: the greedy choice over the best rows, as far as it is certain."""
    for chunk in chunks:
        yield chunk, Shortlist(task, top, keep, cap).choose()


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
