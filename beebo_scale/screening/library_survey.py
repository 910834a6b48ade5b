"""One pass over a file of a library: how many rows, which ids, and which rows are left out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .columns import check_scalars, missing_text
from .files.source import Source
from .invalid import Fault, find_faults
from .places import Place
from .same import id_texts

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Survey:
    """What one pass over a file tells.

    Attributes:
        rows: how many there are, without those that are left out.
        hashes: of the ids of these rows; empty without ids.
        bad: rows left out, by number from 0, rising.
        faults: what is wrong with them.
        sought: rows whose ids are sought, by number from 0 among those kept, and their cells.
        near: ids that differ from those sought in capitals alone.
    """

    rows: int
    hashes: np.ndarray
    bad: np.ndarray
    faults: list[Fault]
    sought: tuple[np.ndarray, pd.DataFrame] | None = None
    near: tuple[str, ...] = ()


def survey(
    file: Source,
    kinds: Mapping[str, str],
    id: str | None,
    lengths: Mapping[str, int] | None,
    sought: frozenset[str] = frozenset(),
) -> Survey:
    """Count the rows of a file, and look at its ids and (if invalid rows are left out) at its features.

    Rows with one of the ids that are sought, in the spelling of `id_texts`, are kept with their cells.
    """
    import pandas as pd

    empty = np.empty(0, dtype=np.int64)
    if id is None and lengths is None and file.rows is not None:
        return Survey(file.rows, empty.view(np.uint64), empty, [])
    columns = dict.fromkeys([*([] if id is None else [id]), *(kinds if sought or lengths is not None else [])])
    rows, hashes, bad, faults = 0, [empty.view(np.uint64)], [empty], list[Fault]()
    places, cells, near = [empty], [], list[str]()
    for raw in file.stream(list(columns) or [file.columns[-1]], None):
        numbers = rows + np.arange(1, len(raw) + 1)
        rows += len(raw)
        if lengths is not None:
            wrong, found = find_faults(raw, kinds, file.name, numbers, lengths)
            bad.append(numbers[wrong] - 1)
            faults += found
            raw, numbers = raw[~wrong].reset_index(drop=True), numbers[~wrong]
        if id is not None:
            _check_given(raw[id], Place(file.name, id, numbers))
            hashes.append(pd.util.hash_array(_plain(raw[id]), categorize=False))
        if sought and id is not None:
            hits, alike = look_up(raw[id], sought)
            places.append(sum(map(len, hashes[:-1])) + hits)
            cells.append(raw.iloc[hits])
            near += alike
    left_out = np.concatenate(bad)
    named = (np.concatenate(places), pd.concat(cells, ignore_index=True)) if cells else None
    return Survey(rows - len(left_out), np.concatenate(hashes), left_out, faults, named, tuple(near))


def look_up(ids: pd.Series, sought: Collection[str]) -> tuple[np.ndarray, list[str]]:
    """Which rows have one of the ids that are sought, by number from 0, and ids that differ in capitals alone."""
    import pandas as pd

    names, wanted = pd.Series(id_texts(ids), dtype=object), frozenset(sought)
    there = names.isin(wanted)
    alike = names.str.casefold().isin({name.casefold() for name in wanted}) & ~there
    return np.flatnonzero(there.to_numpy()), names[alike].tolist()


def _check_given(ids: pd.Series, place: Place) -> None:
    """Refuse rows without an id.

    Raises:
        InputError: an id is missing, or no single value.
    """
    check_scalars(ids, place)
    missing = missing_text(ids)
    if missing.any():
        raise place.error("(id) is empty", missing, "give every row an id")


def _plain(values: pd.Series) -> np.ndarray:
    """Values as an array that hashes the same in whatever type a file holds them."""
    if values.dtype.kind in "iu":
        return values.to_numpy(dtype=np.int64 if values.dtype.kind == "i" else np.uint64).astype(np.uint64)
    return values.astype(object).to_numpy()
