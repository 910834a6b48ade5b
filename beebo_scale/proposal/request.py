"""What is asked for, whatever it is chosen from, and what must not be proposed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING

from torch import Tensor

from ..acquisition import check_temperature
from ..errors import InputError
from ..screening import Encoder
from ..screening.library import Library
from .library.exclusion import Rules
from .library.named_rows import read_listed, rows_of

if TYPE_CHECKING:
    import pandas as pd

    Listing = str | os.PathLike[str] | pd.DataFrame  # rows by features or by ids, see `read_listed`

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


def check_names(encoder: Encoder, *others: str | None) -> None:
    """Refuse features, and other columns of a batch, that have the name of one that a batch adds."""
    taken = [name for name in ADDED if name in others or name in encoder.kinds]
    if taken:
        raise InputError(f"column {taken[0]!r} has the name of a column that a batch adds; rename it in all files")


def rules_of(
    encoder: Encoder,
    measured: Tensor,
    request: Request,
    pending: Listing | None,
    exclude: Listing | None,
    library: Library | None,
) -> Rules:
    """What must not be proposed; `measured` are encoded rows."""
    id = None if library is None else library.id
    excluded = None if exclude is None else read_listed(exclude, encoder, id)
    return Rules(
        measured=measured,
        pending=None if pending is None else rows_of(read_listed(pending, encoder, id), encoder, library),
        excluded=None if excluded is None else excluded.X,
        excluded_ids=frozenset() if excluded is None else frozenset(excluded.ids),
        allow_repeats=request.allow_repeats,
    )
