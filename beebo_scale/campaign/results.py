"""A file of results: checked, and each row recognised by its id or its features."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError
from ..screening.columns import EMPTY, check_amounts, check_ids, check_numbers, check_scalars, check_size, missing_text
from ..screening.files.numerals import numbers
from ..screening.files.opening import Source, listing, open_source
from ..screening.invalid import Fault, all_invalid, faults_of, find_faults
from ..screening.measured.target import numbers_or_words
from ..screening.places import Place
from ..screening.same import id_texts
from ..specs import Columns
from .state import CampaignState, Key, keys

if TYPE_CHECKING:
    import pandas as pd

FAILED = "empty them if the experiments failed, or leave these rows out, which stay pending (--drop-invalid)"


@dataclass(frozen=True)
class Result:
    """One row of a file of results.

    Attributes:
        number: of the row in the file, from 1.
        match: what it is recognised by: its id alone, or its features in one spelling.
        key: its features in one spelling, None if the file does not have them.
        values: of the targets that have one; none at all, where the file has all targets, says that the experiment
            failed.
        cells: the columns of measured.csv that the file has, as text.
    """

    number: int
    match: Key
    key: Key | None
    values: dict[str, float]
    cells: dict[str, str]


@dataclass(frozen=True)
class ResultFile:
    """Checked results of one file.

    Attributes:
        source: name of the file.
        by_id: whether they are recognised by their ids.
        rows: the results.
        targets: columns of targets that the file has.
        invalid: rows that were left out because they cannot be read.
        notes: what a user should know of how the file was read, a line each.
        nameless: rows without an id that were skipped.
    """

    source: str
    by_id: bool
    rows: tuple[Result, ...]
    targets: tuple[str, ...] = ()
    invalid: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()
    nameless: int = 0

    @classmethod
    def read(
        cls,
        source: str | os.PathLike[str] | pd.DataFrame | Source,
        state: CampaignState,
        with_target: bool = True,
        drop_invalid: bool = False,
        skip_nameless: bool = False,
    ) -> ResultFile:
        """Read a file that has the id column or all features, and (unless it only names rows) a target or several.

        With `drop_invalid`, rows that cannot be read are left out; with `skip_nameless`, those without an id.

        Raises:
            InputError: a column is missing, or a cell is not usable.
        """
        columns = state.settings.columns
        file = open_source(source, columns.named)
        by_id, named = _named_by(file, columns)
        wanted = list(dict.fromkeys([*([columns.id] if by_id and columns.id else []), *named]))
        targets = _targets(file, columns) if with_target else ()
        beside = columns.beside if with_target else []
        wanted += [*targets, *(file.require(name, "result") for name in beside)]
        raw = file.load(wanted)
        if not len(raw):
            raise InputError(f"{file.name} has a header but no rows; there is nothing to record")
        raw, file, nameless = _named_rows(file, raw, str(columns.id) if by_id and skip_nameless else None)
        raw, numbers, faults = _readable(
            file, raw, columns, [str(columns.id)] if by_id else [], named, targets, drop_invalid
        )
        values = [_values(raw[name], Place(file.name, name, numbers), columns.unit(name) or "") for name in targets]
        if with_target and columns.noise_variance is not None:
            place = Place(file.name, columns.noise_variance, numbers)
            _check_noise(raw[columns.noise_variance], values[0], place)
        found = keys(raw, state, file.name, numbers) if named else None
        if by_id:
            check_ids(raw[columns.id], Place(file.name, str(columns.id), numbers), "give every result its id")
        ids = list(id_texts(raw[columns.id])) if by_id else None
        kinds = {name: "continuous" for name in [*targets, *beside]} | dict(columns.features)
        text = {name: _as_text(raw[name], kinds.get(name), columns.unit(name) or "") for name in wanted}
        rows = []
        for i in range(len(raw)):
            key = None if found is None else found[i]
            known = {name: float(y[i]) for name, y in zip(targets, values, strict=True) if not np.isnan(y[i])}
            match = key if ids is None else (ids[i],)
            assert match is not None
            rows.append(
                Result(int(numbers[i]), match, key, known, {name: str(cells[i]) for name, cells in text.items()})
            )
        return cls(file.name, by_id, tuple(rows), targets, tuple(faults), file.notes, nameless)


def _named_rows(file: Source, raw: pd.DataFrame, id: str | None) -> tuple[pd.DataFrame, Source, int]:
    """The rows that have an id, the file with their numbers, and how many have none; all where no column is given."""
    missing = np.zeros(len(raw), dtype=bool) if id is None else missing_text(raw[id])
    if not missing.any():
        return raw, file, 0
    kept = np.flatnonzero(~missing)
    return raw.iloc[kept].reset_index(drop=True), replace(file, own_numbers=file.numbers(kept)), int(missing.sum())


def _readable(
    file: Source,
    raw: pd.DataFrame,
    columns: Columns,
    ids: Sequence[str],
    features: Sequence[str],
    targets: Sequence[str],
    drop_invalid: bool,
) -> tuple[pd.DataFrame, np.ndarray, list[Fault]]:
    """The rows with their numbers, and those left out: words for results, no id, features that cannot be read."""
    numbers, faults = file.numbers(len(raw)), list[Fault]()
    places = {name: Place(file.name, name, numbers) for name in (*targets, *ids)}
    for name in targets:
        found = numbers_or_words(raw[name], places[name], drop_invalid, FAILED, columns.unit(name) or "")
        faults += faults_of(raw[name], found.bad, places[name])
    if not drop_invalid:
        return raw, numbers, faults
    for name in ids:
        faults += faults_of(raw[name], missing_text(raw[name]), places[name], EMPTY)
    faults += find_faults(raw, {name: str(columns.features[name]) for name in features}, file.name, numbers, {})[1]
    faults = list({fault.row: fault for fault in reversed(faults)}.values())
    kept = ~np.isin(numbers, [fault.row for fault in faults])
    if not kept.any():
        raise all_invalid(file.name, faults)
    faults.sort(key=lambda fault: fault.row)
    return raw[kept].reset_index(drop=True), numbers[kept], faults


def _targets(file: Source, columns: Columns) -> tuple[str, ...]:
    """The targets that a file has: one at least."""
    found = tuple(name for name in columns.targets if name in file.columns)
    return found or (file.require(columns.targets[0], "result"),)


def _as_text(cells: pd.Series, kind: str | None, unit: str) -> np.ndarray:
    """Cells as measured.csv keeps them: as they are, but numbers as one reads them without knowing their column."""
    text = np.where(missing_text(cells), "", cells.astype(object).astype(str))
    if kind == "continuous":
        for i, value in enumerate(numbers(cells, unit).values.tolist()):
            if not np.isnan(value) and not _reads_as(text[i], value):
                text[i] = repr(value)
    return text


def _reads_as(text: str, value: float) -> bool:
    try:
        return float(text) == value
    except ValueError:
        return False


def _named_by(file: Source, columns: Columns) -> tuple[bool, list[str]]:
    """Whether a file has ids, and its features if it has them all."""
    missing = [name for name in columns.features if name not in file.columns]
    by_id = columns.id is not None and columns.id in file.columns
    if columns.id in columns.features and not missing:
        by_id = False  # features have one spelling, names do not
    if missing and not by_id:
        ways = "" if columns.id is None else f"the id column {columns.id!r} or "
        raise InputError(
            f"{file.name} does not say which experiments these are: it lacks {ways}the feature {missing[0]!r}; its "
            f"columns are {listing(file.columns)}"
        )
    return by_id, [] if missing else list(columns.features)


def _values(cells: pd.Series, place: Place, unit: str) -> np.ndarray:
    check_scalars(cells, place)
    values = check_amounts(cells, place, "give a number, or empty the cell if the experiment failed", unit).values
    if np.isinf(values).any():
        raise place.error("is infinite", np.isinf(values), "correct the cell, or empty it if the experiment failed")
    check_size(values, place)
    return values


def _check_noise(cells: pd.Series, values: np.ndarray, place: Place) -> None:
    noise = check_numbers(cells, place, "give a variance")
    bad = ~(np.isfinite(noise) & (noise > 0)) & ~np.isnan(values)
    if bad.any():
        raise place.error("(noise variance) is empty or not above 0", bad, "give a variance for every result")
