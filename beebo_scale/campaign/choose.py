"""The batch of a round: what `propose` makes of the books."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ..energy import MeanEnergy, TargetEnergy
from ..errors import InputError
from ..proposal import Request, propose
from ..screening import Batch
from ..screening.library import Library
from ..surrogates import Surrogate
from .state import Books

if TYPE_CHECKING:
    import pandas as pd


def choose_batch(surrogate: Surrogate, books: Books, request: Request, library: Library | None) -> Batch:
    """Choose from the library or the box of a campaign; nothing that is pending, measured or has failed.

    Args:
        surrogate: of all results.
        books: results and proposals.
        request: of the round.
        library: of the candidates, if there are any.
    """
    settings = books.settings
    return propose(
        surrogate,
        library=library,
        bounds=settings.box,
        id=settings.id,
        energy=energy_of(surrogate, settings.hit),
        search=settings.search(),
        pending=_some(books.features(books.pending)),
        exclude=_some(books.features(books.failed)),
        **vars(request),
    )


def energy_of(surrogate: Surrogate, hit: float | None) -> MeanEnergy | TargetEnergy:
    """The energy that is after large (or small) targets, or after one value, given in the target's own units.

    Raises:
        InputError: a value that the transformed target cannot have.
    """
    if hit is None:
        return MeanEnergy()
    value = surrogate.scale.standardise(torch.tensor(hit, dtype=torch.float64))
    if not bool(torch.isfinite(value)):
        raise InputError(f"hit = {hit:g} is no value that a target with transform {surrogate.scale.transform} can have")
    return TargetEnergy(float(value))


def _some(frame: pd.DataFrame) -> pd.DataFrame | None:
    """A frame that has rows."""
    return frame if len(frame) else None
