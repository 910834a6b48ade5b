"""`propose`: from a fitted surrogate to the next batch, out of a library or a box."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass, is_dataclass
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..acquisition import BatchedEnergyEntropy, check_temperature
from ..energy import Energy, MeanEnergy
from ..errors import InputError
from ..posterior import Posterior
from ..screening import Batch, Encoder, Table
from ..screening.library import Library, open_library
from .blocks import ranked
from .box import BoxSearch, optimize_box
from .eligible import Rules
from .limits import Limits
from .named import Named, read_excluded, read_pending
from .record import input_hashes, versions
from .repeats import replace_repeats
from .settings import Bounds, Box, settings_of
from .stream import Aim, check_library, choose
from .work import Crew

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
    library: str | os.PathLike[str] | pd.DataFrame | Table | Library | None = None,
    bounds: Bounds | Box | None = None,
    *,
    temperature: float = 0.5,
    maximize: bool = True,
    id: str | None = None,
    allow_repeats: bool = False,
    energy: Energy | None = None,
    pending: Named | None = None,
    exclude: Named | None = None,
    limits: Limits | None = None,
    search: BoxSearch | None = None,
    seed: int = 0,
    crew: Crew | None = None,
    device: torch.device | str = "cpu",
) -> Batch:
    """Choose the next q experiments by BEEBO, a(X) = q E[summary] + T' sqrt(A) I(X).

    Args:
        surrogate: from `fit` or `load_surrogate`.
        q: batch size.
        library: candidates to choose from, a file, a folder of Parquet files, DataFrame, or a table of
            `read_library` ...
        bounds: ... or a box: one (lo, hi) for each feature, in order or by name, in the features' own units, or a `Box`
            with fixed, whole and shared columns, labels and linear constraints.
        temperature: T'. 0 exploits; 0.5 is a balance; 2 explores.
        maximize: False if small targets are good.
        id: column of the library that names its rows.
        allow_repeats: also propose inputs that were measured already, and one input twice.
        energy: `MeanEnergy` (the default) or another.
        pending: experiments that are running, a file or frame with their feature columns or the library's ids: they
            count in I and are not proposed again.
        exclude: experiments that must not be proposed, likewise.
        limits: on a batch from a library.
        search: how hard to search a box.
        seed: of the starts in a box; a library needs no chance.
        crew: workers that share the work, and the ledger of what they have finished; all get the same batch.
        device: where to compute.

    Returns:
        A `Batch`; its `gain` is the rise of a(X) with each row, in standard deviations of the (transformed) target.

    Raises:
        InputError: an unusable q, temperature, library or box, or fewer candidates than q.
    """
    start = time.monotonic()
    request = Request(q, temperature, maximize, allow_repeats, seed)
    chooser = _Chooser(surrogate, request, energy or MeanEnergy(), crew or Crew(), torch.device(device))
    named = [source for source in (pending, exclude) if isinstance(source, (str, os.PathLike))]
    if library is not None and bounds is None:
        limits = limits or Limits()
        opened = open_library(library, surrogate.encoder.kinds, id, list(limits.at_most))
        found = chooser.from_library(opened, limits, chooser.rules(pending, exclude, opened))
    elif bounds is not None and library is None:
        box = bounds if isinstance(bounds, Box) else Box(bounds)
        found = chooser.from_box(box, search or BoxSearch(), chooser.rules(pending, exclude))
    else:
        raise InputError("give either a library or bounds to choose from, and not both")
    frame = _completed(found, surrogate)
    summary = surrogate.summary()
    run = {
        "configuration": asdict(request) | {"energy": _described(chooser.energy)} | found.configuration,
        "temperature": temperature,
        "seed": seed,
        **found.record,
        "information_gain_error": summary["information_gain_error"],
        "surrogate": summary,
        "inputs": input_hashes(*filter(None, [found.configuration.get("library"), *map(str, named)])),
        "versions": versions(),
        "timings": {"propose_seconds": round(time.monotonic() - start, 3)},
    }
    return Batch(frame, run)


def _completed(found: _Found, surrogate: Surrogate) -> pd.DataFrame:
    """The batch's rows with rank, prediction and gain."""
    mean, std = surrogate.predict_encoded(found.X)
    frame = found.frame
    frame.insert(0, "rank", np.arange(1, len(frame) + 1))
    frame["mean"], frame["std"], frame["gain"] = mean.numpy(), std.numpy(), found.gain.numpy()
    return frame


def check_request(
    request: Request,
    measured: Table,
    library: Library | None,
    box: Box | None,
    pending: Named | None = None,
    exclude: Named | None = None,
) -> None:
    """Refuse before the fit what `propose` would refuse after it; a library is read once.

    Raises:
        InputError: a box, a library or named experiments that do not go with the measured features, or fewer
            candidates than q.
    """
    encoder = Encoder.from_table(measured)
    _check_names(encoder, None if library is None else library.id)
    rules = _rules(encoder, encoder.encode(measured), request, pending, exclude, library)
    if box is not None:
        settings_of(encoder, box)
    if library is not None:
        check_library(encoder, library, Aim(request.q, rules=rules))


def _check_names(encoder: Encoder, id: str | None) -> None:
    taken = [name for name in ADDED if name == id or name in encoder.kinds]
    if taken:
        raise InputError(f"column {taken[0]!r} has the name of a column that a batch adds; rename it in all files")


@dataclass(frozen=True, eq=False)
class _Chooser:
    """Who chooses what, from whatever it is."""

    surrogate: Surrogate
    request: Request
    energy: Energy
    crew: Crew
    device: torch.device

    @cached_property
    def posterior(self) -> Posterior:
        """Where it is computed with."""
        return self.surrogate.posterior().to(self.device)

    def rules(self, pending: Named | None, exclude: Named | None, library: Library | None = None) -> Rules:
        """What must not be proposed."""
        return _rules(self.surrogate.encoder, self.surrogate.data.X, self.request, pending, exclude, library)

    def from_library(self, library: Library, limits: Limits, rules: Rules) -> _Found:
        """A certified greedy batch."""
        request, encoder = self.request, self.surrogate.encoder
        _check_names(encoder, library.id)
        aim = Aim(request.q, request.temperature, request.maximize, rules, limits)
        choice = choose(self.posterior, encoder, library, aim, self.crew)
        return _Found(
            frame=choice.table.frame,
            X=choice.X,
            gain=choice.gain,
            configuration={"library": library.source, "limits": asdict(limits)},
            record={"certificate": choice.certificate, "library": choice.counts},
        )

    def from_box(self, box: Box, search: BoxSearch, rules: Rules) -> _Found:
        """The best batch of many starts."""
        request, encoder = self.request, self.surrogate.encoder
        _check_names(encoder, None)
        settings = settings_of(encoder, box)
        space, taken = settings.space.to(self.device), rules.taken().to(self.device)
        running = None if rules.pending is None else rules.pending.to(self.device)
        acqf = BatchedEnergyEntropy(self.posterior, request.temperature, self.energy, running, request.maximize)
        X, _, found = optimize_box(acqf, space, request.q, search, request.seed, self.crew)
        replaced = 0
        if not request.allow_repeats:
            X, replaced = replace_repeats(acqf, X, space, taken, request.seed)
        if request.q <= search.block:
            acqf = acqf.adapted(X)  # the final value and gains from a root that is exact at the batch
        order, gain = ranked(acqf, X)
        X = X[order]
        value = float(acqf(X).detach()) if request.q <= search.block else float(gain.sum())
        X = X.cpu()
        return _Found(
            frame=settings.frame(X),
            X=X,
            gain=gain,
            configuration=settings.record() | {"search": asdict(search)},
            record={
                "certificate": None,
                "acquisition_value": value,
                "replaced_repeats": replaced,
                "box": found,
            },
        )


def _rules(
    encoder: Encoder,
    measured: Tensor,
    request: Request,
    pending: Named | None,
    exclude: Named | None,
    library: Library | None,
) -> Rules:
    """What must not be proposed; `measured` are encoded rows."""
    id = None if library is None else library.id
    excluded, ids = (None, frozenset[str]()) if exclude is None else read_excluded(exclude, encoder, id)
    running = None if pending is None else read_pending(pending, encoder, library)
    return Rules(measured, running, excluded, ids, request.allow_repeats)


def _described(energy: Energy) -> dict[str, Any]:
    """An energy as plain types: its name and what it was given."""
    given: dict[str, Any] = asdict(energy) if is_dataclass(energy) and not isinstance(energy, type) else {}
    return {"name": type(energy).__name__, **given}
