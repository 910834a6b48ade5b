"""`propose`: from a fitted surrogate to the next batch, out of a library or a box."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from ..acquisition import BatchedEnergyEntropy, check_temperature
from ..errors import InputError
from ..screening import Batch, Encoder, Table
from ..screening.library import Library, open_library
from .blocks import ranked
from .box import BoxSearch, optimize_box
from .eligible import Rules
from .record import input_hashes, versions
from .repeats import replace_repeats
from .settings import Bounds, Box, settings_of
from .stream import Aim, check_library, choose

if TYPE_CHECKING:
    import pandas as pd

    from ..surrogates import Surrogate

ADDED = ("rank", "mean", "std", "gain")  # columns of a batch beside the id and the features


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
    bounds: Bounds | Box | None = None,
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
        opened = open_library(library, surrogate.encoder.kinds, id)
        found = _from_library(surrogate, opened, request)
    elif bounds is not None and library is None:
        box = bounds if isinstance(bounds, Box) else Box(bounds)
        found = _from_box(surrogate, box, search or BoxSearch(), request)
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


def check_request(request: Request, measured: Table, library: Table | None, bounds: Bounds | Box | None) -> None:
    """Refuse before the fit what `propose` would refuse after it.

    Raises:
        InputError: a box or a library that does not go with the measured features, or fewer candidates than q.
    """
    encoder = Encoder.from_table(measured)
    _check_names(encoder, None if library is None else library.id)
    if bounds is not None:
        settings_of(encoder, bounds if isinstance(bounds, Box) else Box(bounds))
    if library is not None:
        rules = Rules(measured=encoder.encode(measured), allow_repeats=request.allow_repeats)
        check_library(encoder, open_library(library, encoder.kinds), Aim(request.q, rules=rules))


def _check_names(encoder: Encoder, id: str | None) -> None:
    taken = [name for name in ADDED if name == id or name in encoder.kinds]
    if taken:
        raise InputError(f"column {taken[0]!r} has the name of a column that a batch adds; rename it in all files")


def _from_library(surrogate: Surrogate, library: Library, request: Request) -> _Found:
    _check_names(surrogate.encoder, library.id)
    rules = Rules(measured=surrogate.data.X, allow_repeats=request.allow_repeats)
    aim = Aim(request.q, request.temperature, request.maximize, rules)
    choice = choose(surrogate.posterior(), surrogate.encoder, library, aim)
    return _Found(
        frame=choice.table.frame,
        X=choice.X,
        gain=choice.gain,
        configuration={"library": library.source},
        record={"certificate": choice.certificate, "library": choice.counts},
    )


def _from_box(surrogate: Surrogate, box: Box, search: BoxSearch, request: Request) -> _Found:
    _check_names(surrogate.encoder, None)
    settings = settings_of(surrogate.encoder, box)
    space = settings.space
    acqf = BatchedEnergyEntropy(surrogate.posterior(), request.temperature, maximize=request.maximize)
    X, _, found = optimize_box(acqf, space, request.q, search, request.seed)
    replaced = 0
    if not request.allow_repeats:
        X, replaced = replace_repeats(acqf, X, space, surrogate.data.X, request.seed)
    if request.q <= search.block:
        acqf = acqf.adapted(X)  # the final value and gains from a root that is exact at the batch
    order, gain = ranked(acqf, X)
    X = X[order]
    return _Found(
        frame=settings.frame(X),
        X=X,
        gain=gain,
        configuration=settings.record() | {"search": asdict(search)},
        record={
            "certificate": None,
            "acquisition_value": float(gain.sum()),
            "replaced_repeats": replaced,
            "box": found,
        },
    )
