"""Rows that users name in a file of their own: experiments that are running, candidates that must not be proposed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError
from ...screening import Encoder, read_library
from ...screening.columns import missing_text
from ...screening.files.opening import listing, open_source
from ...screening.library import Library
from ...screening.places import Place, rows_text, shown

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Listed:
    """Rows by what they are, by their ids, or by both.

    Attributes:
        source: name of the file.
        X: n x d encoded rows; n is 0 where the file has ids only.
        ids: as text, in the order of the file; none where the file has no id column.
    """

    source: str
    X: Tensor
    ids: tuple[str, ...]


def read_listed(source: str | os.PathLike[str] | pd.DataFrame, encoder: Encoder, id: str | None = None) -> Listed:
    """Read a file (CSV, TSV, Parquet) or frame that has the id column, all feature columns, or both.

    Args:
        source: as in `read_library`.
        encoder: of the features.
        id: name of the id column; a feature may serve as one.

    Raises:
        InputError: neither is there, or a cell is not usable.
    """
    file = open_source(source)
    kinds = encoder.kinds
    lacking = [name for name in kinds if name not in file.columns]
    named = id is not None and id in file.columns
    if lacking and not named:
        way = "give all feature columns" if id is None else f"give the id column {id!r}, or all feature columns"
        raise InputError(f"{file.name} has no column {lacking[0]!r}; {way} ({listing(kinds)})")
    ids: tuple[str, ...] = ()
    if named:
        assert id is not None
        cells = file.load([id])[id]
        missing = missing_text(cells)
        if missing.any():
            raise Place(file.name, id, np.arange(1, len(cells) + 1)).error("is empty", missing, "give every row an id")
        ids = tuple(cells.astype(str))
    empty = torch.empty(0, encoder.width, dtype=torch.float64)
    whole = not lacking and (not named or len(ids) > 0)
    return Listed(file.name, encoder.encode(read_library(source, kinds)) if whole else empty, ids)


def rows_of(listed: Listed, encoder: Encoder, library: Library | None) -> Tensor:
    """The listed rows encoded, n x d; those that are known by their ids only are looked up in the library.

    Raises:
        InputError: ids that the library does not have, or there is no library to look them up in.
    """
    if len(listed.X) or not listed.ids:
        return listed.X
    if library is None or library.id is None:
        raise InputError(f"{listed.source} has ids only, and no library with an id column; give the feature columns")
    found = library.locate(listed.ids)
    unknown = np.array([id not in found for id in listed.ids])
    if unknown.any():
        first = shown(listed.ids[int(np.argmax(unknown))])
        where = rows_text(np.flatnonzero(unknown) + 1)
        raise InputError(
            f"{listed.source}: {library.source} has no id {first} ({where}); "
            "correct the ids, or give the feature columns of these rows"
        )
    return encoder.encode(library.take([found[id] for id in listed.ids]))
