"""`propose`: from a fitted surrogate to the next batch, out of a library or a box."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass, is_dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..acquisition import BatchedEnergyEntropy
from ..energy import Energy, MeanEnergy, PointEnergy, worth
from ..errors import InputError
from ..posterior import Posterior
from ..screening import Batch, Encoder, Table
from ..screening.invalid import Fault
from ..screening.library import Library, open_library
from .box.blocks import ranked
from .box.multistart import BoxSearch, optimize_box
from .box.repeats import replace_repeats
from .box.units import Bounds, Box, settings_of
from .jobs.chunks import Crew
from .library.certified import Aim, Choice, check_library, choose
from .library.exchanges import JointChoice, improve_choice
from .library.exclusion import Rules
from .library.limits import Limits
from .provenance import input_hashes, versions
from .request import Request, check_names, rules_of

if TYPE_CHECKING:
    import pandas as pd

    from ..surrogates import Surrogate
    from .request import Listing

MOST_JOINTLY = 1000  # rows of a batch with an energy that has no gain for each row


@dataclass(frozen=True, eq=False)
class _Found:
    """A batch: its rows as the user writes them (frame, X encoded), their gains, and what to record."""

    frame: pd.DataFrame
    X: Tensor
    gain: Tensor
    configuration: dict[str, Any]
    record: dict[str, Any]
    invalid: tuple[Fault, ...] = ()


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
    drop_invalid: bool = False,
    energy: Energy | None = None,
    pending: Listing | None = None,
    exclude: Listing | None = None,
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
        drop_invalid: leave out rows of the library that cannot be read, instead of refusing it: the batch is that of a
            library without them, and its `invalid` lists them.
        energy: `MeanEnergy` (the default), `SoftmaxEnergy`, or `TargetEnergy` to come close to a value.
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
    if isinstance(energy, PointEnergy) and not maximize:
        raise InputError(f"{type(energy).__name__} says itself what is good; leave maximize as it is")
    chooser = _Chooser(surrogate, request, energy or MeanEnergy(), crew or Crew(), torch.device(device))
    named = [source for source in (pending, exclude) if isinstance(source, (str, os.PathLike))]
    if library is not None and bounds is None:
        limits = limits or Limits()
        encoder = surrogate.encoder
        lengths = encoder.lengths if drop_invalid else None
        opened = open_library(library, encoder.kinds, id, list(limits.at_most), lengths=lengths)
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
    return Batch(frame, run, found.invalid)


def _completed(found: _Found, surrogate: Surrogate) -> pd.DataFrame:
    """The batch's rows with rank, prediction and gain."""
    mean, std = surrogate.predict_encoded(found.X)
    frame = found.frame
    frame.insert(0, "rank", np.arange(1, len(frame) + 1))
    frame["mean"], frame["std"], frame["gain"] = mean.numpy(), std.numpy(), found.gain.numpy()
    for name, (mean, std) in surrogate.predict_targets(found.X).items():
        frame[f"mean of {name}"], frame[f"std of {name}"] = mean.numpy(), std.numpy()
    return frame


def check_request(
    request: Request,
    measured: Table,
    library: Library | None,
    box: Box | None,
    pending: Listing | None = None,
    exclude: Listing | None = None,
) -> None:
    """Refuse before the fit what `propose` would refuse after it; a library is read once.

    Raises:
        InputError: a box, a library or named experiments that do not go with the measured features, or fewer
            candidates than q.
    """
    encoder = Encoder.from_table(measured)
    check_names(encoder, None if library is None else library.id)
    rules = rules_of(encoder, encoder.encode(measured), request, pending, exclude, library)
    if box is not None:
        settings_of(encoder, box)
    if library is not None:
        check_library(encoder, library, Aim(request.q, rules=rules))


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
        """What the choice is made by: its mean is what a point is worth."""
        return worth(self.surrogate.posterior(), self.energy).to(self.device)

    @property
    def joint(self) -> Energy:
        """The energy over that mean."""
        return MeanEnergy() if isinstance(self.energy, PointEnergy) else self.energy

    def rules(self, pending: Listing | None, exclude: Listing | None, library: Library | None = None) -> Rules:
        """What must not be proposed."""
        return rules_of(self.surrogate.encoder, self.surrogate.measured, self.request, pending, exclude, library)

    def acquisition(self, rules: Rules) -> BatchedEnergyEntropy:
        """A(X) given what is pending."""
        running = None if rules.pending is None else rules.pending.to(self.device)
        return BatchedEnergyEntropy(
            self.posterior, self.request.temperature, self.joint, running, self.request.maximize
        )

    def from_library(self, library: Library, limits: Limits, rules: Rules) -> _Found:
        """A certified greedy batch."""
        request, encoder = self.request, self.surrogate.encoder
        check_names(encoder, library.id, *library.labels)
        aim = Aim(request.q, request.temperature, request.maximize, rules, limits)
        choice = choose(self.posterior, encoder, library, aim, self.crew)
        frame, X, gain = choice.table.frame, choice.X, choice.gain
        record = {"certificate": choice.certificate, "library": choice.counts}
        if not isinstance(self.joint, MeanEnergy):
            better = self._improved(library, aim, choice)
            frame, X, gain = library.take(better.rows.numpy()).frame, better.X, better.gain
            record["swaps"] = better.record
        configuration = {"library": library.source, "limits": asdict(limits)}
        if library.invalid:
            record["library"] |= {"invalid": len(library.invalid)}
        return _Found(frame, X, gain, configuration, record, library.invalid)

    def _improved(self, library: Library, aim: Aim, choice: Choice) -> JointChoice:
        """The batch of the mean energy after exchanges that raise the joint value."""
        if aim.q > MOST_JOINTLY:
            raise InputError(
                f"q = {aim.q}: an energy other than the mean weighs the batch jointly, which takes up to "
                f"{MOST_JOINTLY} rows of a library; lower q, or take the mean energy"
            )
        try:
            return improve_choice(self.acquisition(aim.rules), self.surrogate.encoder, library, aim, choice)
        except ValueError as error:  # of the energy, in its own words
            raise InputError(str(error)) from error

    def from_box(self, box: Box, search: BoxSearch, rules: Rules) -> _Found:
        """The best batch of many starts."""
        request, encoder = self.request, self.surrogate.encoder
        check_names(encoder)
        settings = settings_of(encoder, box)
        space, taken = settings.space.to(self.device), rules.taken().to(self.device)
        acqf = self.acquisition(rules)
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


def _described(energy: Energy) -> dict[str, Any]:
    """An energy as plain types: its name and what it was given."""
    given: dict[str, Any] = asdict(energy) if is_dataclass(energy) and not isinstance(energy, type) else {}
    return {"name": type(energy).__name__, **given}
