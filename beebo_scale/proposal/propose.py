"""`propose`: from a fitted surrogate to the next batch, out of a library or a box."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..acquisition import BatchedEnergyEntropy, check_temperature
from ..errors import InputError
from ..screening import Batch, Table, read_library
from .box import BoxSearch, candidates, optimize_box
from .pool import SHORTLIST, choose, greedy
from .record import input_hashes, versions

if TYPE_CHECKING:
    import pandas as pd

    from ..surrogates import Surrogate

Bounds = Mapping[str, tuple[float, float]] | Sequence[tuple[float, float]]


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
        allow_repeats: also propose inputs that were measured already.
        search: how hard to search a box.
        seed: of the starts in a box; a library needs no chance.

    Returns:
        A `Batch`; its `gain` is the rise of a(X) with each row, in standard deviations of the (transformed) target.

    Raises:
        InputError: an unusable q, temperature, library or box, or fewer candidates than q.
    """
    check_temperature(temperature)
    if isinstance(q, bool) or not isinstance(q, int) or q < 1:
        raise InputError(f"q = {q}: a batch has at least one point")
    if library is not None and bounds is not None:
        raise InputError("give either a library or bounds to choose from, not both")
    start = time.monotonic()
    configuration = {
        "q": q,
        "temperature": temperature,
        "energy": "mean",
        "maximize": maximize,
        "allow_repeats": allow_repeats,
        "seed": seed,
    }
    if library is not None:
        table = library if isinstance(library, Table) else read_library(library, surrogate.encoder.kinds, id)
        frame, X, gain, found = _from_library(surrogate, table, q, temperature, maximize, allow_repeats)
        configuration["library"], sources = table.source, [table.source]
    elif bounds is not None:
        box, search = surrogate.encoder.bounds(bounds), search or BoxSearch()
        X, gain, found = _from_box(surrogate, box, q, temperature, maximize, allow_repeats, search, seed)
        frame, sources = surrogate.encoder.decode(X), []
        configuration |= {"bounds": _plain_bounds(surrogate, bounds), "search": asdict(search)}
    else:
        raise InputError("give a library or bounds to choose from")
    mean, std = surrogate.predict_encoded(X)
    frame.insert(0, "rank", np.arange(1, q + 1))
    frame["mean"], frame["std"], frame["gain"] = mean.numpy(), std.numpy(), gain.numpy()
    run = {
        "configuration": configuration,
        "temperature": temperature,
        "seed": seed,
        **found,
        "information_gain_error": surrogate.summary()["information_gain_error"],
        "surrogate": surrogate.summary(),
        "inputs": input_hashes(*sources),
        "versions": versions(),
        "timings": {"propose_seconds": round(time.monotonic() - start, 3)},
    }
    return Batch(frame, run)


def _from_library(
    surrogate: Surrogate, table: Table, q: int, temperature: float, maximize: bool, allow_repeats: bool
) -> tuple[pd.DataFrame, Tensor, Tensor, dict[str, Any]]:
    """Frame, encoded rows and gains of the chosen library rows, and what to record."""
    X = surrogate.encoder.encode(table)
    measured, repeated = _known(X, surrogate.data.X)
    if allow_repeats:
        measured = torch.zeros_like(measured)
    eligible = ~(measured | repeated)
    if q > int(eligible.sum()):
        raise InputError(
            f"{table.source}: q = {q}, but only {int(eligible.sum())} of its {len(table)} rows can be proposed "
            f"({int(measured.sum())} measured already, {int((repeated & ~measured).sum())} repeat an earlier row); "
            "lower q, or give a larger library"
        )
    choice = choose(surrogate.posterior(), X, q, temperature, eligible, maximize)
    found = {
        "certificate": {
            "certified": choice.certified,
            "smallest_accepted_gain": float(choice.gain[-1]),
            "best_score_left_out": choice.best_left_out,
            "shortlist": choice.shortlist,
        },
        "library": {
            "rows": len(table),
            "measured_already": int(measured.sum()),
            "repeated": int((repeated & ~measured).sum()),
        },
    }
    rows = choice.index.numpy()
    return table.take(rows).frame, X[choice.index], choice.gain, found


def _from_box(
    surrogate: Surrogate,
    bounds: Tensor,
    q: int,
    temperature: float,
    maximize: bool,
    allow_repeats: bool,
    search: BoxSearch,
    seed: int,
) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """Encoded batch and gains, best first, and what to record."""
    posterior = surrogate.posterior()
    acqf = BatchedEnergyEntropy(posterior, temperature, maximize=maximize)
    X, _ = optimize_box(acqf, bounds, q, search, seed)
    measured, repeated = _known(X, surrogate.data.X)
    clash = measured | repeated
    if not allow_repeats and bool(clash.any()):  # points that met in a corner of the box
        kept = X[~clash]
        rest = posterior.augment(kept) if len(kept) else posterior
        generator = torch.Generator().manual_seed(seed)
        pool = candidates(posterior, bounds, SHORTLIST * q, generator, acqf.sign)
        pool = pool[~_known(pool, torch.cat([surrogate.data.X, kept]))[0]]
        chosen, _ = greedy(rest, pool, int(clash.sum()), acqf.temperature, acqf.sign)
        X = torch.cat([kept, pool[chosen]])
    order, gain = greedy(posterior, X, q, acqf.temperature, acqf.sign)
    X = X[order]
    with torch.no_grad():
        value = float(acqf(X))
    return X, gain, {"acquisition_value": value, "replaced_repeats": 0 if allow_repeats else int(clash.sum())}


def _known(X: Tensor, measured: Tensor) -> tuple[Tensor, Tensor]:
    """Which rows of X were measured, and which repeat an earlier row of X: p booleans each."""
    rows = torch.cat([measured, X])
    groups, inverse = torch.unique(rows, dim=0, return_inverse=True)
    position = torch.arange(len(rows))
    first = position.new_full((len(groups),), len(rows)).scatter_reduce(0, inverse, position, "amin")[inverse]
    first_in_X = position.new_full((len(groups),), len(rows))
    first_in_X = first_in_X.scatter_reduce(0, inverse[len(measured) :], position[len(measured) :], "amin")
    new = slice(len(measured), None)
    return first[new] < len(measured), first_in_X[inverse[new]] < position[new]


def _plain_bounds(surrogate: Surrogate, bounds: Bounds) -> dict[str, list[float]]:
    """The box by feature name, as plain numbers."""
    names = list(surrogate.encoder.kinds)
    pairs = bounds if isinstance(bounds, Mapping) else dict(zip(names, bounds, strict=True))
    return {name: [float(lo), float(hi)] for name, (lo, hi) in ((name, pairs[name]) for name in names)}
