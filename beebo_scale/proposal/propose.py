"""`propose`: from a fitted surrogate to the next batch, out of a library or a box."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..acquisition import BatchedEnergyEntropy, check_temperature
from ..errors import InputError
from ..screening import Batch, Encoder, Table, read_library
from .box import BoxSearch, optimize_box, replace_repeats
from .pool import choose, greedy, known
from .record import input_hashes, versions

if TYPE_CHECKING:
    import pandas as pd

    from ..surrogates import Surrogate

ADDED = ("rank", "mean", "std", "gain")  # columns of a batch beside the id and the features
Bounds = Mapping[str, tuple[float, float]] | Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Request:
    """What is asked for, whatever it is chosen from; see `propose`."""

    q: int
    temperature: float = 0.5
    maximize: bool = True
    allow_repeats: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        check_temperature(self.temperature)
        if isinstance(self.q, bool) or not isinstance(self.q, Integral):
            raise InputError(f"q = {self.q!r} is not a whole number")
        if self.q < 1:
            raise InputError(f"q = {self.q}: a batch has at least one point; give 1 or more")
        if not 0 <= self.seed < 2**63:
            raise InputError(f"seed = {self.seed}: give a whole number from 0 to 2^63 - 1")


@dataclass(frozen=True, eq=False)
class _Found:
    """A batch: its rows as the user writes them (frame, X encoded), their gains, and what to record."""

    frame: pd.DataFrame
    X: Tensor
    gain: Tensor
    configuration: dict[str, Any]
    record: dict[str, Any]


def propose(
    surrogate: Surrogate,
    q: int,
    library: str | os.PathLike[str] | pd.DataFrame | Table | None = None,
    bounds: Bounds | None = None,
    *,
    temperature: float = 0.5,
    maximize: bool = True,
    id: str | None = None,
    allow_repeats: bool = False,
    search: BoxSearch | None = None,
    seed: int = 0,
) -> Batch:
    """Choose the next q experiments by meanBEEBO, a(X) = sum of means + T' sqrt(A) I(X).

    Args:
        surrogate: from `fit` or `load_surrogate`.
        q: batch size.
        library: candidates to choose from, a file, DataFrame or `read_library` table ...
        bounds: ... or a box: one (lo, hi) for each feature, in order or by name, in the features' own units.
        temperature: T'. 0 exploits; 0.5 is a balance; 2 explores.
        maximize: False if small targets are good.
        id: column of the library that names its rows.
        allow_repeats: also propose inputs that were measured already, and one input twice.
        search: how hard to search a box.
        seed: of the starts in a box; a library needs no chance.

    Returns:
        A `Batch`; its `gain` is the rise of a(X) with each row, in standard deviations of the (transformed) target.

    Raises:
        InputError: an unusable q, temperature, library or box, or fewer candidates than q.
    """
    start = time.monotonic()
    request = Request(q, temperature, maximize, allow_repeats, seed)
    if library is not None and bounds is None:
        table = library if isinstance(library, Table) else read_library(library, surrogate.encoder.kinds, id)
        found = _from_library(surrogate, table, request)
    elif bounds is not None and library is None:
        found = _from_box(surrogate, bounds, search or BoxSearch(), request)
    else:
        raise InputError("give either a library or bounds to choose from, and not both")
    mean, std = surrogate.predict_encoded(found.X)
    frame = found.frame
    frame.insert(0, "rank", np.arange(1, q + 1))
    frame["mean"], frame["std"], frame["gain"] = mean.numpy(), std.numpy(), found.gain.numpy()
    summary = surrogate.summary()
    run = {
        "configuration": asdict(request) | {"energy": "mean"} | found.configuration,
        "temperature": temperature,
        "seed": seed,
        **found.record,
        "information_gain_error": summary["information_gain_error"],
        "surrogate": summary,
        "inputs": input_hashes(*filter(None, [found.configuration.get("library")])),
        "versions": versions(),
        "timings": {"propose_seconds": round(time.monotonic() - start, 3)},
    }
    return Batch(frame, run)


def check_request(request: Request, measured: Table, library: Table | None, bounds: Bounds | None) -> None:
    """Refuse before the fit what `propose` would refuse after it.

    Raises:
        InputError: a box or a library that does not go with the measured features, or fewer candidates than q.
    """
    encoder = Encoder.from_table(measured)
    _check_names(encoder, None if library is None else library.id)
    if bounds is not None:
        encoder.bounds(bounds)
    if library is not None:
        _eligible(library, encoder.encode(library), encoder.encode(measured), request)


def _check_names(encoder: Encoder, id: str | None) -> None:
    taken = [name for name in ADDED if name == id or name in encoder.kinds]
    if taken:
        raise InputError(f"column {taken[0]!r} has the name of a column that a batch adds; rename it in all files")


def _eligible(table: Table, X: Tensor, measured: Tensor, request: Request) -> tuple[Tensor, dict[str, int]]:
    """Which rows of a library (encoded as X) may be proposed, p booleans, and what there is to say about the others."""
    old, repeated = known(X, measured)
    repeated &= ~old
    counts = {"rows": len(table), "measured_already": int(old.sum()), "repeated": int(repeated.sum())}
    eligible = torch.ones_like(old) if request.allow_repeats else ~(old | repeated)
    if request.q > int(eligible.sum()):
        raise InputError(
            f"{table.source}: q = {request.q}, but only {int(eligible.sum())} of its {len(table)} rows can be proposed "
            f"({counts['measured_already']} measured already, {counts['repeated']} repeat an earlier row); "
            "lower q, or give a larger library"
        )
    return eligible, counts


def _from_library(surrogate: Surrogate, table: Table, request: Request) -> _Found:
    _check_names(surrogate.encoder, table.id)
    X = surrogate.encoder.encode(table)
    eligible, counts = _eligible(table, X, surrogate.data.X, request)
    choice = choose(surrogate.posterior(), X, request.q, request.temperature, eligible, request.maximize)
    certificate = {
        "certified": choice.certified,
        "smallest_accepted_gain": float(choice.gain[-1]),
        "best_score_left_out": choice.best_left_out,
        "shortlist": choice.shortlist,
    }
    return _Found(
        frame=table.take(choice.index.numpy()).frame,
        X=X[choice.index],
        gain=choice.gain,
        configuration={"library": table.source},
        record={"certificate": certificate, "library": counts},
    )


def _from_box(surrogate: Surrogate, own: Bounds, search: BoxSearch, request: Request) -> _Found:
    _check_names(surrogate.encoder, None)
    bounds = surrogate.encoder.bounds(own)
    acqf = BatchedEnergyEntropy(surrogate.posterior(), request.temperature, maximize=request.maximize)
    X, _ = optimize_box(acqf, bounds, request.q, search, request.seed)
    replaced = 0
    if not request.allow_repeats:
        X, replaced = replace_repeats(acqf, X, bounds, surrogate.data.X, request.seed)
    acqf = acqf.adapted(X)  # the final value and gains from a root that is exact at the batch
    order, gain = greedy(acqf.conditioned, X, request.q, acqf.temperature, acqf.sign)
    X = X[order]
    with torch.no_grad():
        value = float(acqf(X))
    box = _by_name(surrogate.encoder, own)
    return _Found(
        frame=_in_own_units(surrogate.encoder.decode(X), box),
        X=X,
        gain=gain,
        configuration={"bounds": {name: list(pair) for name, pair in box.items()}, "search": asdict(search)},
        record={"certificate": None, "acquisition_value": value, "replaced_repeats": replaced},
    )


def _by_name(encoder: Encoder, own: Bounds) -> dict[str, tuple[float, float]]:
    """The box by feature name, in the order of the features."""
    pairs = own if isinstance(own, Mapping) else dict(zip(encoder.kinds, own, strict=True))
    return {name: (float(pairs[name][0]), float(pairs[name][1])) for name in encoder.kinds}


def _in_own_units(frame: pd.DataFrame, box: Mapping[str, tuple[float, float]]) -> pd.DataFrame:
    """Settings without the dust of decoding (79.99999999999999), and never outside the box for it."""
    for name, (lo, hi) in box.items():
        digits = 9 - math.floor(math.log10(hi - lo))
        frame[name] = frame[name].round(digits).clip(lo, hi)
    return frame
