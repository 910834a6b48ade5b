"""Experiments that a file names, by id or by their features: those that are running, and those that must not be run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Union

import torch
from torch import Tensor

from ..errors import InputError
from ..screening import Encoder, read_library
from ..screening.columns import Place, check_scalars, missing_text
from ..screening.files import Source, listing, open_source
from ..screening.library import Library

if TYPE_CHECKING:
    import pandas as pd

Named = Union[str, os.PathLike[str], "pd.DataFrame"]


def read_pending(named: Named, encoder: Encoder, library: Library | None = None) -> Tensor:
    """Rows that are being measured, encoded, n x d: by their features if the file has them, else by the library's ids.

    Args:
        named: a file or frame.
        encoder: of the surrogate's features.
        library: where ids are looked up.

    Raises:
        InputError: the file has neither, or an id that the library does not have.
    """
    file = open_source(named)
    if set(encoder.kinds) <= set(file.columns):
        return encoder.encode(read_library(named, encoder.kinds))
    ids = _ids(file, None if library is None else library.id, encoder)
    assert library is not None  # or there would be no id
    found = library.locate(ids)
    unknown = [name for name in dict.fromkeys(ids) if name not in found]
    if unknown:
        raise InputError(
            f"{file.name}: {library.source} has no row with the id {listing(unknown, 3)}; correct the id, or give the "
            "feature columns of what is running"
        )
    rows = sorted({found[name] for name in ids})
    return encoder.encode(library.take(rows)) if rows else torch.empty(0, encoder.width, dtype=torch.float64)


def read_excluded(named: Named, encoder: Encoder, id: str | None = None) -> tuple[Tensor | None, frozenset[str]]:
    """What must not be proposed: by the library's ids if the file has them, else by features, encoded, n x d.

    An id that the library does not have is no error: a black list is longer than a library.

    Args:
        named: a file or frame.
        encoder: of the surrogate's features.
        id: name of the library's id column.

    Raises:
        InputError: the file has neither.
    """
    file = open_source(named)
    if id is not None and id in file.columns:
        return None, frozenset(_ids(file, id, encoder))
    if set(encoder.kinds) <= set(file.columns):
        return encoder.encode(read_library(named, encoder.kinds)), frozenset()
    return None, frozenset(_ids(file, id, encoder))  # says what is missing


def _ids(file: Source, id: str | None, encoder: Encoder) -> list[str]:
    """The ids in a file, as text."""
    if id is None or id not in file.columns:
        what = "an id column that is named for the library" if id is None else f"the id column {id!r}"
        raise InputError(
            f"{file.name} needs {what}, or all feature columns ({listing(encoder.kinds)}); "
            f"its columns are {listing(file.columns)}"
        )
    cells = file.load([id])[id]
    place = Place(file.name, id, cells.index.to_numpy() + 1)
    check_scalars(cells, place)
    if missing_text(cells).any():
        raise place.error("(id) is empty", missing_text(cells), "give every row an id, or leave the row out")
    return [str(cell) for cell in cells]
