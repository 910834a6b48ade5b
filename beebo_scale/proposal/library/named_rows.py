"""Rows that users name in a file of their own: experiments that are running, candidates that must not be proposed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError
from ...screening import Encoder, Table
from ...screening.columns import missing_text
from ...screening.files.opening import Source, listing, open_source
from ...screening.library import Library
from ...screening.places import CellError, Place, reworded, rows_text
from ...screening.products import ProductLibrary
from ...screening.same import id_texts, told_unknown
from ...screening.table import feature_frame, wanted_kinds

if TYPE_CHECKING:
    import pandas as pd

    Listing = str | os.PathLike[str] | pd.DataFrame | Source  # rows by features or by ids, see `read_named`


@dataclass(frozen=True, eq=False)
class NamedRows:
    """Rows by what they are, by their ids, or by both.

    Attributes:
        source: name of the file.
        X: n x d encoded rows; n is 0 where the file has ids only.
        ids: in the spelling of `id_texts`, in the order of the file; none where the file has no id column.
        notes: what a user should know of how the file was read, a line each.
    """

    source: str
    X: Tensor
    ids: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def sought(self) -> tuple[str, ...]:
        """Ids of rows that nothing else is known of."""
        return () if len(self.X) else self.ids


def read_named(source: Listing, encoder: Encoder, id: str | None = None) -> NamedRows:
    """Read a file (CSV, TSV, Parquet) or frame that has the id column, all feature columns, or both; once.

    Args:
        source: as in `read_library`.
        encoder: of the features.
        id: name of the id column; a feature may serve as one.

    Raises:
        InputError: neither is there, or a cell is not usable.
    """
    kinds = encoder.kinds
    file = open_source(source, [*kinds, *([] if id is None else [id])])
    lacking = [name for name in kinds if name not in file.columns]
    named = id is not None and id in file.columns
    if lacking and not named:
        way = "give all feature columns" if id is None else f"give the id column {id!r}, or all feature columns"
        raise InputError(f"{file.name} has no column {lacking[0]!r}; {way} ({listing(kinds)})")
    wanted = {} if lacking else wanted_kinds(file, kinds, {})
    raw = file.load(list(dict.fromkeys([*([str(id)] if named else []), *wanted])))
    ids = _ids(raw[str(id)], Place(file.name, str(id), file.numbers(len(raw)))) if named else ()
    if lacking or (named and not ids):
        return NamedRows(file.name, torch.empty(0, encoder.width, dtype=torch.float64), ids, file.notes)
    if not len(raw):
        raise InputError(f"{file.name} has a header but no rows; a library needs at least one candidate")
    try:
        frame, found, units = feature_frame(file, raw, wanted, None, file.numbers(len(raw)))
    except CellError as error:  # no row of a list is left out
        raise InputError(reworded(str(error))) from None
    X = encoder.encode(Table(frame, found, None, file.name, before=file.before, units=units))
    return NamedRows(file.name, X, ids, file.notes)


def _ids(cells: pd.Series, place: Place) -> tuple[str, ...]:
    missing = missing_text(cells)
    if missing.any():
        raise place.error("is empty", missing, "give every row an id")
    return tuple(id_texts(cells))


def encoded_rows(named: NamedRows, encoder: Encoder, library: Library | ProductLibrary | None) -> Tensor:
    """The rows encoded, n x d; those that are known by their ids only are looked up in the library.

    Raises:
        InputError: ids that the library does not have, or there is no library to look them up in.
    """
    if not named.sought:
        return named.X
    if library is None or library.id is None:
        raise InputError(f"{named.source} has ids only, and no library with an id column; give the feature columns")
    found = library.named(named.ids)
    unknown = [i for i, id in enumerate(named.ids) if id not in found]
    if unknown:
        raise InputError(
            f"{named.source}: {_unknown(named, unknown, library, 'pending')} ({rows_text(np.array(unknown) + 1)}); "
            "correct the ids, or give the feature columns of these rows"
        )
    return torch.cat([encoder.encode(found[id]) for id in named.ids])


def excluded_ids(
    lists: Sequence[NamedRows], library: Library | ProductLibrary | None
) -> tuple[frozenset[str], tuple[str, ...]]:
    """Ids that must not be proposed, and what to say of those that are in no row of the library, a line a list.

    Raises:
        InputError: a list of ids of which the library has none.
    """
    notes = []
    for named in lists:
        if not named.sought or library is None or library.id is None:
            continue
        found = library.named(named.ids)
        unknown = [i for i, id in enumerate(named.ids) if id not in found]
        if unknown:
            told = f"{named.source}: {_unknown(named, unknown, library, 'excluded')}"
            if len(unknown) == len(named.ids):
                raise InputError(f"{told}; correct the ids, or leave the list out")
            notes.append(told)
    return frozenset(name for named in lists for name in named.ids), tuple(notes)


def _unknown(named: NamedRows, unknown: Sequence[int], library: Library | ProductLibrary, what: str) -> str:
    return told_unknown(what, f"row of {library.source}", named.ids, [named.ids[i] for i in unknown], library.near)
