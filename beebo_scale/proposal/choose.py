"""`choose`: the batch that a surrogate makes of a prepared choice."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, is_dataclass, replace
from functools import cached_property, partial
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..acquisition import BatchedEnergyEntropy
from ..energy import Energy, MeanEnergy, PointEnergy, SoftmaxEnergy, TargetEnergy, valued
from ..errors import InputError
from ..posterior import Posterior
from ..screening import Batch
from ..screening.encoding import CategoricalColumn
from ..screening.invalid import Fault
from ..screening.measured.labels import labels_near
from ..specs import Choice, plain
from ..surrogates.approximate.judged import GAIN_TOLERANCE, batch_gain_error, raised
from .box.blocks import ranked
from .box.multistart import optimize_box
from .box.repeats import replace_repeats
from .box.units import BoxUnits
from .jobs.chunks import ChunkRunner, on_first
from .library.certified import ROUNDING, choose_certified
from .library.encoded import EncodedLibrary
from .library.exchanges import improve_batch
from .library.products.encoded import EncodedProduct
from .library.products.search import choose_product
from .prepare import Prepared
from .provenance import versions
from .tradeoffs.aims import Aims, aims_of
from .tradeoffs.box import optimize_tradeoff
from .tradeoffs.search import choose_tradeoff

if TYPE_CHECKING:
    import pandas as pd

    from ..surrogates import Surrogate

MOST_JOINTLY = 1000  # rows of a batch with an energy that has no gain for each row
UNBOUNDED = (
    "acquisition_value is a(X) of the best batch that the restarts reached, as this surrogate sees it; "
    "no upper bound over all batches of a box is known"
)
EQUAL = "all {what} have the same prediction, so that the choice among them says nothing: has a feature an effect?"
NAMED = {"mean": MeanEnergy, "softmax": SoftmaxEnergy}


@dataclass(frozen=True, eq=False)
class _Found:
    """A batch: its rows as the user writes them (frame, X encoded), their gains, and what to record."""

    frame: pd.DataFrame
    X: Tensor
    gain: Tensor
    configuration: dict[str, Any]
    record: dict[str, Any]
    invalid: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()


def choose(
    prepared: Prepared, surrogate: Surrogate, runner: ChunkRunner | None = None, device: torch.device | str = "cpu"
) -> Batch:
    """Choose the next q experiments by BEEBO, a(X) = q E[summary] + T' sqrt(A) I(X).

    Args:
        prepared: from `prepare`, with the surrogate's features.
        surrogate: from `fit` or `load_surrogate`.
        runner: workers that share the work, and the ledger of what they have finished; all get the same batch.
        device: where to compute.

    Returns:
        A `Batch`; its `gain` is the rise of a(X) with each row, in standard deviations of the (transformed) target.

    Raises:
        InputError: an energy that the choice cannot have, or fewer candidates than q.
    """
    start, choice = time.monotonic(), prepared.choice
    runner, energy = runner or ChunkRunner(), energy_of(choice, surrogate)
    found, surrogate, error = _known_well(prepared, surrogate, energy, runner, torch.device(device))
    summary = surrogate.summary()
    run = {
        "configuration": _configuration(choice) | {"energy": _described(energy)} | found.configuration,
        "temperature": choice.temperature,
        "seed": choice.seed,
        **found.record,
        "information_gain_error": summary["information_gain_error"],
        **error,
        "surrogate": summary,
        "inputs": dict(prepared.inputs),
        "versions": versions(),
        "timings": {"propose_seconds": round(time.monotonic() - start, 3)},
    }
    return Batch(_completed(found, surrogate), run, found.invalid)


def _known_well(
    prepared: Prepared, surrogate: Surrogate, energy: Energy, runner: ChunkRunner, device: torch.device
) -> tuple[_Found, Surrogate, dict[str, Any]]:
    """The batch, the surrogate that chose it, and what to record of the error of I there.

    A root whose rank is chosen automatically grows until the error at the batch that it chooses is within tolerance.
    """
    pending = prepared.rules.pending
    for attempt in count():
        again = replace(runner, prefix=f"{attempt} times the rank doubled, " if attempt else "")
        found = _Chooser(surrogate, prepared, energy, again, device).found()
        error, beside = on_first(runner.workers, partial(batch_gain_error, surrogate, found.X, pending, device))
        higher = raised(surrogate) if error > GAIN_TOLERANCE else None
        if higher is None:
            break
        surrogate = higher
    levels = {
        column.name: column.levels for column in prepared.encoder.columns if isinstance(column, CategoricalColumn)
    }
    notes = [*prepared.notes, *found.notes, *labels_near(found.frame, levels)]
    record: dict[str, Any] = {"batch_information_gain_error": error}
    if beside:
        record["batch_information_gain_error_beside"] = beside
    if abs(error) > GAIN_TOLERANCE:
        size, more = "large" if error > 0 else "small", "rank" if surrogate.kind == "love" else "inducing points"
        note = f"the information gain of this batch is {abs(error):.0%} too {size} beside {beside}: "
        notes.append(note + f"ask for more {more} or for the exact surrogate")
    if notes:
        record["notes"] = notes
    return found, surrogate, record


def energy_of(choice: Choice, surrogate: Surrogate) -> Energy:
    """The energy that is after large (or small) targets, or after one value, given in the target's own units.

    Raises:
        InputError: a value that the transformed target cannot have, or an energy with a direction of its own.
    """
    tasks = surrogate.design.tasks
    choice.check_aims([task.name for task in tasks if task.aim], any(task.limited for task in tasks))
    energy: Energy = NAMED[choice.energy]() if isinstance(choice.energy, str) else choice.energy
    if isinstance(energy, PointEnergy) and choice.minimize:
        raise InputError(f"{type(energy).__name__} says itself what is good; leave minimize as it is")
    if choice.hit is None:
        return energy
    if tasks:
        raise InputError("a value to hit goes with one target; leave hit out, or name one target")
    value = surrogate.scale.standardise(torch.tensor(choice.hit, dtype=torch.float64))
    if not bool(torch.isfinite(value)):
        transform = surrogate.scale.transform
        raise InputError(f"hit = {choice.hit:g} is no value that a target with transform {transform} can have")
    return TargetEnergy(float(value))


def _configuration(choice: Choice) -> dict[str, Any]:
    """Settings of a choice that are plain types; files are told by their hashes, the box by its own record."""
    taken = {"library", "bounds", "integer", "constraints", "shared", "pending", "exclude", "energy"}
    taken |= {"choices", "incompatible"}
    limits_and_search = {"at_most", "at_most_distinct", "min_distance", "restarts", "steps", "search_start"}
    return {name: value for name, value in plain(choice).items() if name not in taken | limits_and_search}


def _described(energy: Energy) -> dict[str, Any]:
    """An energy as plain types: its name and what it was given."""
    given: dict[str, Any] = asdict(energy) if is_dataclass(energy) and not isinstance(energy, type) else {}
    return {"name": type(energy).__name__, **given}


def _completed(found: _Found, surrogate: Surrogate) -> pd.DataFrame:
    """The batch's rows with rank, prediction and gain."""
    frame = found.frame
    frame.insert(0, "rank", np.arange(1, len(frame) + 1))
    frame = frame.assign(**surrogate.predict_encoded(found.X).columns(), gain=found.gain.numpy())
    for name, prediction in surrogate.predict_targets(found.X).items():
        frame = frame.assign(**{f"{what} of {name}": values for what, values in prediction.columns().items()})
    return frame


@dataclass(frozen=True, eq=False)
class _Chooser:
    """Who chooses what, from whatever it is."""

    surrogate: Surrogate
    prepared: Prepared
    energy: Energy
    runner: ChunkRunner
    device: torch.device

    def found(self) -> _Found:
        """From the library or the box."""
        if self.surrogate.design.trades:
            return self._traded(aims_of(self.surrogate, self.prepared.choice, self.device))
        if self.prepared.library is not None:
            return self._from_library(self.prepared.library)
        assert self.prepared.box is not None
        return self._from_box(self.prepared.box)

    @cached_property
    def posterior(self) -> Posterior:
        """What the choice is made by: its mean is the energy of a point."""
        return valued(self.surrogate.posterior(), self.energy).to(self.device)

    @property
    def joint(self) -> Energy:
        """The energy over that mean."""
        return MeanEnergy() if isinstance(self.energy, PointEnergy) else self.energy

    @cached_property
    def acquisition(self) -> BatchedEnergyEntropy:
        """The function a(X), given what is pending."""
        pending, choice = self.prepared.rules.pending, self.prepared.choice
        running = None if pending is None else pending.to(self.device)
        return BatchedEnergyEntropy(self.posterior, choice.temperature, self.joint, running, not choice.minimize)

    def _from_library(self, library: EncodedLibrary | EncodedProduct) -> _Found:
        """A certified greedy batch, and where the energy weighs the batch jointly, what exchanges make of it."""
        choice = self.prepared.choice
        if isinstance(library, EncodedProduct):
            certified = choose_product(self.posterior, library, choice, self.runner)
        else:
            certified = choose_certified(self.posterior, library, choice, self.runner)
        rows, X, gain = certified.rows, certified.X, certified.gain
        record = {"certificate": certified.certificate, "library": certified.counts}
        if not isinstance(self.joint, MeanEnergy):
            if len(rows) > MOST_JOINTLY:
                raise InputError(
                    f"q = {len(rows)}: an energy other than the mean weighs the batch jointly, which takes up to "
                    f"{MOST_JOINTLY} rows of a library; lower q, or take the mean energy"
                )
            try:
                better = improve_batch(self.acquisition, library, certified)
            except ValueError as error:  # of the energy, in its own words
                raise InputError(str(error)) from error
            rows, X, gain = better.rows, better.X, better.gain
            record["swaps"] = better.record
        invalid = library.library.invalid
        if invalid:
            record["library"] |= {"invalid": len(invalid)}
        configuration = {"library": library.source, "limits": asdict(library.limits)}
        if isinstance(library, EncodedProduct):
            configuration |= {"choices": {own.name: own.source for own in library.library.lists}}
        notes = (EQUAL.format(what=f"rows of {library.source} that may be proposed"),) if certified.alike else ()
        return _Found(library.take(rows).frame, X, gain, configuration, record, invalid, notes)

    def _traded(self, aims: Aims) -> _Found:
        """A batch for several targets."""
        library, units = self.prepared.library, self.prepared.box
        if units is not None:
            return self._traded_box(aims, units)
        assert library is not None
        if isinstance(library, EncodedProduct):
            raise InputError(
                "several targets with directions, or limits on targets, go with a written library or a box"
            )
        batch = choose_tradeoff(aims, library, self.prepared.choice, self.runner)
        record = {"certificate": batch.certificate, "library": batch.counts, "outcomes": aims.record}
        configuration = {"library": library.source, "limits": asdict(library.limits)}
        found = library.take(batch.rows).frame
        return _Found(
            found, batch.X, batch.gain, configuration, record, library.library.invalid, (*aims.notes, *batch.notes)
        )

    def _traded_box(self, aims: Aims, units: BoxUnits) -> _Found:
        """A batch for several targets from a box."""
        choice, rules = self.prepared.choice, self.prepared.rules
        taken, pending = rules.taken().to(self.device), rules.pending
        pending = None if pending is None else pending.to(self.device)
        X, gain, record = optimize_tradeoff(aims, units.space.to(self.device), choice, taken, pending, self.runner)
        X = X.cpu()
        record = {"certificate": None, "upper_bound": None, "guarantee": UNBOUNDED, **record, "outcomes": aims.record}
        configuration = units.record() | {"search": asdict(choice.search)}
        return _Found(units.frame(X), X, gain, configuration, record, (), aims.notes)

    def _from_box(self, units: BoxUnits) -> _Found:
        """The best batch of many starts."""
        choice, rules = self.prepared.choice, self.prepared.rules
        space, taken = units.space.to(self.device), rules.taken().to(self.device)
        acqf, search = self.acquisition, choice.search
        X, _, found = optimize_box(acqf, space, choice.q, search, choice.seed, self.runner)
        replaced = 0
        if not choice.allow_repeats:
            X, replaced = replace_repeats(acqf, X, space, taken, choice.seed)
        if choice.q <= search.block:
            acqf = acqf.adapted(X)  # the final value and gains from a root that is exact at the batch
        order, gain = ranked(acqf, X)
        X = X[order]
        value = float(acqf(X).detach()) if choice.q <= search.block else float(gain.sum())
        X = X.cpu()
        with torch.no_grad():
            mean = self.posterior.mean(X.to(self.device)).cpu()
        flat = len(X) > 1 and float(mean.max() - mean.min()) <= ROUNDING
        return _Found(
            frame=units.frame(X),
            X=X,
            gain=gain,
            configuration=units.record() | {"search": asdict(search)},
            record={
                "certificate": None,
                "acquisition_value": value,
                "upper_bound": None,
                "guarantee": UNBOUNDED,
                "replaced_repeats": replaced,
                "box": found,
            },
            notes=(EQUAL.format(what="proposals"),) if flat else (),
        )
