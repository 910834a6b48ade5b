"""Reading and checking measured tables and candidate libraries."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..specs import Columns, keywords_of
from .column_uses import Use, infer, left_aside, table_of, uses_of
from .columns import (
    COLUMN_KINDS,
    LARGEST,
    LEAST,
    check_ids,
    check_numbers,
    check_scalars,
    check_size,
    convert,
    missing_text,
)
from .files.opening import Source, did_you_mean, listing, open_source
from .invalid import Fault, all_invalid, find_faults
from .places import Place, shown

if TYPE_CHECKING:
    import pandas as pd

MOST_COLUMNS = 2000  # taken as features without being named


@dataclass(frozen=True, eq=False)
class Table:
    """Checked rows: measured ones with a target, or a library without.

    Attributes:
        frame: the id column (if any) first, then the features; RangeIndex, rows in file order.
        kinds: feature column -> kind, in order.
        id: name of the id column; it may also be a feature.
        source: the file's name as given, or 'table'.
        target: name of the target column, or of several with their weights; None for a library.
        y: n float64, the target in its own units, or n x t for several, NaN where one is missing; None for a library.
        noise_variance: n float64, the known variance of each target, in its squared units; None if unknown.
        dropped: number of rows left out because their target was missing.
        before: number of rows that stand before the first one in the source, for a piece of it.
        uses: what each column of the source is used for, and why.
        invalid: rows left out because a feature cannot be read (with drop_invalid).
        weights: target -> weight where there are several, in the order of y's columns; else empty.
        aims: target -> max or min, where the trade-off between them is looked for.
        limits: column -> the least and the most that an outcome may be, own units.
        batch: n texts, the batch (plate, day) in which each row was measured, empty where unknown; None without.
        batch_column: where these stand.
        numbers: n row numbers in the source, from 1; None for a library.
    """

    frame: pd.DataFrame
    kinds: dict[str, str]
    id: str | None
    source: str
    target: str | None = None
    y: np.ndarray | None = None
    noise_variance: np.ndarray | None = None
    dropped: int = 0
    before: int = 0
    uses: tuple[Use, ...] = ()
    invalid: tuple[Fault, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)
    aims: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    batch: np.ndarray | None = None
    batch_column: str | None = None
    numbers: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def features(self) -> list[str]:
        """Names of the feature columns, in order."""
        return list(self.kinds)

    def describe(self) -> str:
        """Column, use (a kind, a role, or ignored) and why, one line each, to print."""
        return table_of(self.uses)

    def take(self, rows: np.ndarray) -> Table:
        """Return the table of some rows (0-based, or n booleans), in that order."""
        return replace(
            self,
            frame=self.frame.iloc[rows].reset_index(drop=True),
            y=None if self.y is None else self.y[rows],
            noise_variance=None if self.noise_variance is None else self.noise_variance[rows],
            batch=None if self.batch is None else self.batch[rows],
            numbers=None if self.numbers is None else self.numbers[rows],
        )


@keywords_of(Columns)
def read_table(source: str | os.PathLike[str] | pd.DataFrame, target: str | Mapping[str, Any], **columns: Any) -> Table:
    """Read measurements; rows without a target are dropped and counted.

    Args:
        source: path of a CSV, TSV (also .gz, .xz), Excel ('file.xlsx', or 'file.xlsx#Sheet name') or Parquet file, or a
            DataFrame.
        target: column to learn, or several with the weight or direction of each, see `Columns`.
        columns: the other columns by what they are, see `Columns`.

    Raises:
        InputError: the file, a column or a cell is not usable.
    """
    return read_columns(source, Columns(target, **columns))


def read_columns(source: str | os.PathLike[str] | pd.DataFrame | Source, columns: Columns) -> Table:
    """`read_table` with what the columns are as one value."""
    file, id, targets = open_source(source), columns.id, columns.targets
    used, wanted = find_columns(file, columns)
    raw = file.load(list(dict.fromkeys([*used.values(), *wanted])))
    parsed = [target_of(file.name, raw[name], name) for name in targets]
    y = np.stack(parsed, axis=-1) if columns.several else parsed[0]
    rows = np.flatnonzero(~np.isnan(np.stack(parsed)).all(axis=0))
    dropped = len(raw) - len(rows)
    raw, y = raw.iloc[rows].reset_index(drop=True), y[rows]
    uses = uses_of(file, raw, wanted, used, rows + 1, named=columns.features is not None)
    kinds = {use.column: use.use for use in uses if use.use in COLUMN_KINDS}
    if not kinds:
        raise InputError(f"{file.name}: no feature column; name some with their kinds ({left_aside(uses)})")
    faults: list[Fault] = []
    if columns.drop_invalid:
        bad, faults = find_faults(raw, kinds, file.name, rows + 1, {})
        raw, y, rows = raw[~bad].reset_index(drop=True), y[~bad], rows[~bad]
        if not len(raw):
            raise all_invalid(file.name, faults)
        for name, values in zip(targets, y.reshape(len(y), -1).T, strict=True):
            _check_learnable(file.name, values[~np.isnan(values)], name)
    variance, batch = columns.noise_variance, columns.batch
    noise = None if variance is None else noise_of(raw[variance], Place(file.name, variance, rows + 1))
    frame, kinds = feature_frame(file, raw, kinds, id, rows + 1)
    if id is not None:
        _check_ids(frame[id], Place(file.name, id, rows + 1))
    return Table(
        frame,
        kinds,
        id,
        file.name,
        target=columns.goal,
        y=y,
        noise_variance=noise,
        dropped=dropped,
        uses=uses,
        invalid=tuple(faults),
        weights=columns.weights,
        aims=columns.aims,
        limits=columns.limits,
        batch=None if batch is None else batch_labels(raw[batch], Place(file.name, batch, rows + 1)),
        batch_column=batch,
        numbers=rows + 1,
    )


def find_columns(file: Source, columns: Columns) -> tuple[dict[str, str], dict[str, str | None]]:
    """Role -> column of those that are no features, and possible features -> kind.

    Raises:
        InputError: the file has no such column, or one is named twice.
    """
    roles = {"target": columns.targets[0], "id": columns.id, "noise variance": columns.noise_variance}
    roles |= {"batch": columns.batch}
    roles |= {f"target {i}": name for i, name in enumerate(columns.targets[1:], start=2)}
    used = {role: file.require(name, role) for role, name in roles.items() if name is not None}
    return used, wanted_kinds(file, columns.features, used)


def batch_labels(cells: pd.Series, place: Place) -> np.ndarray:
    """The batch of each row as n texts, empty where it is missing.

    Raises:
        InputError: all are missing.
    """
    check_scalars(cells, place)
    missing = missing_text(cells)
    if missing.all():
        raise place.error("(batch) is empty", missing, "name the column of plates, or leave batch out")
    text = cells.astype(object).astype(str).str.strip()
    return np.where(missing, "", text).astype(object)


def read_library(
    source: str | os.PathLike[str] | pd.DataFrame,
    kinds: Mapping[str, str],
    *,
    id: str | None = None,
    drop_invalid: bool = False,
) -> Table:
    """Read candidates: the id and feature columns of a file or frame, nothing else.

    Args:
        source: path of a CSV, TSV (also .gz, .xz), Excel or Parquet file, or a DataFrame.
        kinds: feature column -> kind, as in the measured table.
        id: column that names the rows; it may also be a feature.
        drop_invalid: leave out rows with a feature that cannot be read, instead of refusing the file.

    Raises:
        InputError: the file, a column or a cell is not usable.
    """
    file = open_source(source)
    used = {} if id is None else {"id": file.require(id, "id")}
    wanted = wanted_kinds(file, kinds, used)
    raw = file.load(list(dict.fromkeys([*used.values(), *wanted])))
    if not len(raw):
        raise InputError(f"{file.name} has a header but no rows; a library needs at least one candidate")
    numbers, faults = np.arange(1, len(raw) + 1), list[Fault]()
    if drop_invalid:
        bad, faults = find_faults(raw, {n: str(k) for n, k in wanted.items()}, file.name, numbers, {})
        raw, numbers = raw[~bad].reset_index(drop=True), numbers[~bad]
        if not len(raw):
            raise all_invalid(file.name, faults)
    frame, found = feature_frame(file, raw, wanted, id, numbers)
    if id is not None:
        _check_ids(frame[id], Place(file.name, id, numbers))
    return Table(frame, found, id, file.name, invalid=tuple(faults))


def wanted_kinds(
    file: Source, features: Mapping[str, str | None] | Iterable[str] | None, used: dict[str, str]
) -> dict[str, str | None]:
    """Resolve the three ways to name features into column -> kind, None where it is to be inferred."""
    names = list(used.values())
    if len(set(names)) < len(names):
        roles = ", ".join(f"{role} {name!r}" for role, name in used.items())
        raise InputError(f"{file.name}: one column cannot have two roles ({roles}); name different columns")
    wanted = dict(features) if isinstance(features, Mapping) else _listed(file, features, names)
    if not wanted:
        raise InputError(f"{file.name}: no feature column; its columns are {listing(file.columns)}")
    for name, kind in wanted.items():
        file.require(name, "feature")
        for role, column in used.items():
            if column == name and role not in ("id", "split"):
                raise InputError(
                    f"{file.name}: column {name!r} is the {role} and a feature; take it off one of the two"
                )
        if kind is not None and kind not in COLUMN_KINDS:
            raise InputError(
                f"{file.name}: column {name!r} has the unknown kind {kind!r}{did_you_mean(kind, COLUMN_KINDS)}; "
                f"kinds are {', '.join(COLUMN_KINDS)}"
            )
    return wanted


def _listed(file: Source, features: Iterable[str] | None, used: list[str]) -> dict[str, str | None]:
    """Take the listed features, or all columns that have no other use; their kinds are open."""
    if isinstance(features, str):
        raise InputError(f"features is the text {features!r}; give a dict of column: kind, or a list of columns")
    names = [column for column in file.columns if column not in used] if features is None else list(features)
    if features is None:
        names = [name for name in names if name]  # columns without a name may be many, and nobody can ask for them
        if len(names) > MOST_COLUMNS:
            raise InputError(f"{file.name} has {len(names):,} columns, too many to take all as features; name some")
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise InputError(f"{file.name}: the feature {repeated[0]!r} is listed twice; list it once")
    return dict.fromkeys(names)


def target_of(source: str, values: pd.Series, column: str) -> np.ndarray:
    """Return a whole target column as n float64, NaN where the target is missing.

    Raises:
        InputError: text, infinite, or nothing to learn from.
    """
    place = Place(source, column, np.arange(1, len(values) + 1))
    if not len(values):
        raise InputError(f"{source} has a header but no rows; give at least two measurements")
    check_scalars(values, place)
    y = check_numbers(values, place, "give a numeric column as the target")
    if np.isinf(y).any():
        raise place.error("is infinite", np.isinf(y), "correct the cell, or empty it to drop the row")
    check_size(y, place)
    measured = y[~np.isnan(y)]
    if (measured != 0).any() and np.abs(measured).max() < LEAST:
        tiny = np.nan_to_num(y) != 0
        what = f"is {y[np.argmax(tiny)]:g}, and all of it too small to compute with,"
        raise place.error(what, tiny, "give the column in a smaller unit")
    if not len(measured):
        raise InputError(f"{source}: column {column!r} is empty in all {len(y)} rows; name the measured column")
    _check_learnable(source, measured, column)
    return y


def _check_learnable(source: str, measured: np.ndarray, column: str) -> None:
    if len(measured) < 2:
        few = "only one row" if len(measured) else "no row that can be read"
        raise InputError(f"{source}: column {column!r} has a value in {few}; give at least two measurements")
    if (measured == measured[0]).all():
        raise InputError(
            f"{source}: column {column!r} is {measured[0]:g} in every measured row, so there is nothing to learn; "
            "name another column"
        )


def noise_of(values: pd.Series, place: Place) -> np.ndarray:
    """Return known variances as n float64.

    Raises:
        InputError: one is missing, not a number, or not above 0.
    """
    check_scalars(values, place)
    noise = check_numbers(values, place, "give a numeric column of variances")
    bad = ~((noise >= LEAST**2) & (noise <= LARGEST**2))
    if bad.any():
        first = noise[np.argmax(bad)]
        what = "empty" if np.isnan(first) else f"{first:g}"
        raise place.error(f"(noise variance) is {what}", bad, "give a finite variance above 0 for every target")
    return noise


def feature_frame(
    file: Source, raw: pd.DataFrame, wanted: Mapping[str, str | None], id: str | None, numbers: np.ndarray
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Convert the features and put the id first; `numbers` are the n row numbers in the file."""
    import pandas as pd

    kinds: dict[str, str] = {}
    columns: dict[str, pd.Series] = {}
    if id is not None:
        columns[id] = raw[id]
    for name, kind in wanted.items():
        place = Place(file.name, name, numbers)
        check_scalars(raw[name], place)
        kinds[name] = kind or infer(raw[name], file.typed, place).use
        columns[name] = convert(raw[name], kinds[name], place)
    return pd.DataFrame(columns), kinds


def _check_ids(ids: pd.Series, place: Place) -> None:
    check_ids(ids, place)
    again = ids.duplicated().to_numpy()
    if again.any():
        firsts = ids[again].drop_duplicates().iloc[:3]
        where = [f"{shown(value)} {place.where((ids == value).to_numpy())}" for value in firsts]
        raise InputError(
            f"{place.source}: column {place.column!r} (id) repeats {'; '.join(where)}; "
            "give every row its own id, or read the table without an id"
        )
