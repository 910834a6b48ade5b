r"""A batch for several targets from a library that is never whole in memory.

    score(x) = energy of x alone + T/2 logdet(1 + Sigma^-1/2 V(x) Sigma^-1/2) >= gain(x | S) for every S

1. Stream the library once and keep the rows with the best scores; the best score left out bounds all others. Where the
   posterior knows many rows a bound takes the place of the score: the exact mean with a variance given some of the
   measured rows only (`PairsPosterior.coarse`), which costs a small part.
2. Lazy greedy choice among them (`TradeoffGreedy`), drawing jointly only rows that could win.
3. The batch is drawn anew, to say what it is worth without the luck of the draw that chose it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import sqrt
from typing import Any

import torch
from torch import Tensor

from ...progress import track
from ...specs import Choice
from ...surrogates.data.pairs import PairsPosterior
from ..jobs.chunks import ChunkRunner
from ..library import lazy_greedy
from ..library.best_rows import Top, best_of
from ..library.encoded import EncodedLibrary
from ..library.exclusion import original_inputs
from ..library.limits import LimitState
from ..library.plate_values import Selections, choose_values
from ..library.shortlist import LibrarySearch
from .aims import Aims
from .greedy import TradeoffGreedy, moments
from .samples import JointSamples
from .worth import Worth, information, standard_error

SAMPLES, MOST_SAMPLES = 128, 512  # joint samples that choose, at first and at most
ERROR = 0.1  # of the improvement: a larger standard error asks for more samples
JUDGED = 1024  # fresh samples of the batch
SCORED_AT_ONCE = 512
COARSE = 256  # measured inputs that variances are bounded by
MEMORY = 1 << 29  # bytes for features and columns of the rows among which the batch is chosen


@dataclass(frozen=True, eq=False)
class TradeoffBatch:
    """Rows chosen from a library.

    Attributes:
        rows: q row numbers, in order of choice.
        gain: what each adds to a(X) of those before it, by the samples that chose; they never rise.
        X: the rows encoded, q x d.
        certificate: as of `CertifiedBatch`, beside samples and standard_error of the energy.
        counts: as of `CertifiedBatch`.
        notes: what a user should know, one line each.
    """

    rows: Tensor
    gain: Tensor
    X: Tensor
    certificate: dict[str, Any]
    counts: dict[str, int]

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know, one line each."""
        error, energy = (
            self.certificate.get("standard_error", 0.0),
            self.certificate.get("energy_by_fresh_samples", 0.0),
        )
        if error <= ERROR * energy:
            return ()
        samples = self.certificate["samples"]
        return (f"the expected improvement is known to {error:.3g} of {energy:.3g} only, by {samples} samples",)


def choose_tradeoff(
    aims: Aims, library: EncodedLibrary, choice: Choice, runner: ChunkRunner | None = None
) -> TradeoffBatch:
    """The greedy batch of q rows; arguments as of `choose_certified`.

    Raises:
        InputError: a row of the library is not usable, or fewer rows than q can be chosen.
    """
    runner, q, posterior = runner or ChunkRunner(), choice.q, aims.posterior
    T = choice.temperature * sqrt(posterior.amplitude)
    pending = library.rules.pending
    if pending is not None and len(pending):
        posterior = posterior.augment(pending.to(posterior.points))
    keep = _rows(posterior, q)
    merge, scored = partial(best_of, keep=keep), partial(score, posterior, worth=aims.worth(q, SAMPLES), T=T)
    task, plate = LibrarySearch(posterior, library, q, T, 1.0), None
    if library.limits.at_most_distinct:
        plate = choose_values(task, runner, scored, partial(_Selections, aims=aims, seed=choice.seed))
        task = plate.task
    top = runner.reduce("scores of several targets", library.count, partial(_scored, task, scored, merge), merge)
    work = partial(_pick, aims, posterior, library, choice, T, top, keep)
    picked = runner.deal("choice of several targets", 1, work)[0]
    rows, counts = picked.pop("rows"), top["counts"] | {}
    counts["repeated"] = counts.get("repeated", 0) + picked.pop("repeated")
    if len(rows) < q:
        raise library.too_few(q, len(rows), counts, limited=bool(library.limits))
    library.check_lists(counts)
    certificate = picked["certificate"]
    if plate is not None:
        certificate |= plate.record | {"upper_bound": max(plate.bound(), certificate["value"])}
    return TradeoffBatch(rows, picked["gain"], library.rows(rows)[0], certificate, {"rows": len(library), **counts})


def _rows(posterior: PairsPosterior, q: int) -> int:
    """How many rows are kept, by what they take in memory."""
    each = 8 * posterior.tasks * (posterior.rank + q * posterior.tasks)
    return max(2 * q, min(lazy_greedy.SHORTLIST * q, MEMORY // each))


def _scored(
    task: LibrarySearch, scored: Callable[[Tensor], Tensor], merge: Any, chunks: Sequence[int]
) -> Iterator[tuple[int, Top]]:
    for number, chunk in track(task.library.chunks(chunks), "scoring the library", total=len(chunks)):
        inside = (chunk.eligible & task.inside(chunk.groups)).nonzero().squeeze(-1)
        groups = chunk.groups[inside]
        top = {"score": scored(chunk.X(inside)), "row": chunk.first + inside, "groups": groups, "counts": chunk.counts}
        yield number, merge(top)


class _Selections(Selections):
    """Selections of values, compared by greedy batches for several targets."""

    tries, compared = 16, 1024

    def __init__(self, task: LibrarySearch, top: Top, aims: Aims, seed: int) -> None:
        self.aims, self.seed, self.worth = aims, seed, aims.worth(task.q, SAMPLES // 2)
        super().__init__(task, top)

    def _look_at_rows(self) -> None:
        """`TradeoffGreedy` does, each time."""

    def _greedy(self, rows: Tensor) -> tuple[int, float]:
        task, X = self.task, self.X[rows.to(self.X.device)]
        shut = _Shut(task.library, X, self.groups[rows], self.original[rows])
        posterior: Any = task.posterior
        state = TradeoffGreedy(posterior, X, self.worth, task.T, task.q, SAMPLES // 2, self.seed, shut)
        state.choose()
        return len(state.chosen), sum(state.gains)


class _Shut:
    """Rows without room, as a batch grows: by the limits, and copies of what was chosen."""

    def __init__(self, library: EncodedLibrary, X: Tensor, groups: Tensor, original: Tensor) -> None:
        self.limits = LimitState(library.limits, library.encoder)
        self.X, self.groups, self.original = X, groups, original

    def __call__(self, row: int) -> Tensor:
        """K booleans, once a row is chosen."""
        self.limits.take(self.X[row], self.groups[row])
        shut = self.limits.shut(self.X, self.groups, last=True).cpu()
        return shut | (self.original == self.original[row])


def score(posterior: PairsPosterior, X: Tensor, worth: Worth, T: float) -> Tensor:
    """What single points are worth with nothing chosen, or a bound of it, n x d -> n on the CPU."""
    scores = torch.empty(len(X), dtype=torch.float64)
    coarse = posterior.coarse(COARSE)
    with torch.no_grad():
        for rows in torch.arange(len(X)).split(SCORED_AT_ONCE):
            x = X[rows].to(posterior.points)
            mean, V, noise, _ = moments(coarse, x)
            if coarse is posterior:
                energy = worth.alone(mean, V)
            else:
                energy = worth.ceiling(posterior.mean(x).reshape(mean.shape), V.diagonal(dim1=-2, dim2=-1))
            scores[rows] = (energy + T * information(V, noise)).cpu().double()
    return scores


def _pick(
    aims: Aims,
    posterior: PairsPosterior,
    library: EncodedLibrary,
    choice: Choice,
    T: float,
    top: Top,
    keep: int,
    chunks: Sequence[int],
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Work of a single chunk: the greedy choice among the rows kept."""
    order = top["row"][:keep].argsort()
    rows, groups = top["row"][:keep][order], top["groups"][:keep][order]
    X = library.rows(rows)[0]
    repeats = library.rules.allow_repeats
    original = torch.arange(len(X)) if repeats else original_inputs(X, library.encoder)
    first = original == torch.arange(len(X))
    left_out = float(top["score"][keep]) if len(top["score"]) > keep else -torch.inf
    for chunk in chunks:
        samples, state = SAMPLES, None
        while True:
            worth, shut = aims.worth(choice.q, samples), _Shut(library, X, groups, original)
            state = TradeoffGreedy(posterior, X, worth, T, choice.q, samples, choice.seed, shut, state)
            state.best_left_out = left_out
            if not library.limits.columns:
                state.open &= first.to(state.open.device)
            state.choose()
            found = judged(aims, posterior, X[state.chosen], samples, choice.q, choice.seed)
            if worth.joint is None or samples >= MOST_SAMPLES or found["standard_error"] <= ERROR * found["energy"]:
                break
            asked = samples * (found["standard_error"] / (ERROR * max(found["energy"], 1e-12))) ** 2
            samples = 2 * samples if asked <= 2 * samples else MOST_SAMPLES
        yield (
            chunk,
            {
                "rows": rows[state.chosen],
                "gain": torch.tensor(state.gains, dtype=torch.float64),
                "repeated": int((~first).sum()),
                "certificate": _certificate(state, found, left_out, len(X), library),
            },
        )


def judged(aims: Aims, posterior: PairsPosterior, X: Tensor, samples: int, q: int, seed: int) -> dict[str, Any]:
    """The energy of a batch by fresh samples, and its standard error by as many samples as chose it."""
    worth = aims.worth(q, JUDGED)
    if worth.joint is None or not len(X):
        return {"energy": 0.0, "standard_error": 0.0}
    with torch.no_grad():
        mean, _, _, F = moments(posterior, X.to(posterior.points))
        fresh = JointSamples(posterior, JUDGED, seed + 1, mean.numel()).at(X.to(mean), mean, F)
        values = worth.factor * worth.joint.of_samples(fresh)
    return {
        "energy": float(values.mean()),
        "standard_error": standard_error(values) * (JUDGED / samples) ** 0.5,
        "fresh_standard_error": standard_error(values),
    }


def _certificate(
    state: TradeoffGreedy, found: dict[str, Any], left_out: float, kept: int, library: EncodedLibrary
) -> dict[str, Any]:
    value = float(sum(state.gains))
    certificate = {
        "certified": state.certain == len(state.gains),
        "certified_points": state.certain,
        "smallest_accepted_gain": state.gains[-1] if state.gains else None,
        "best_score_left_out": None if left_out == -torch.inf else left_out,
        "shortlist": kept,
        "value": value,
        "upper_bound": max(state.bound, value),
        "passes": 1,
    }
    words = library.limits.guarantee()
    if state.samples is not None:
        information_part = float(sum(state.informations))
        certificate |= {
            "samples": state.samples.count,
            "drawn_jointly": state.samples.size // state.posterior.tasks,
            "energy": value - information_part,
            "energy_by_fresh_samples": found["energy"],
            "standard_error": found["standard_error"],
        }
        words += "; the energy is that of so many joint samples, up to the standard error that is given"
    return certificate | {"guarantee": words}
