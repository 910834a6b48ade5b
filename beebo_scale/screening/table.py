"""Reading and checking measured tables and candidate libraries."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..specs import Columns, keywords_of
from .column_uses import IGNORED, Use, infer, left_aside, table_of, uses_of
from .columns import (
    COLUMN_KINDS,
    check_ids,
    check_scalars,
    convert,
    feature_numbers,
)
from .content.notes import told_of_limits, told_of_small_letters
from .files.opening import Source, did_you_mean, listing, open_parts, open_source
from .invalid import Fault, all_invalid, find_faults
from .measured.labels import labels_alike, labels_of_dates
from .measured.rows import below_a_gap, check_points, summary_rows
from .measured.target import batch_labels, check_learnable, noise_of, targets_of
from .measured.unneeded import unneeded
from .places import CellError, Place, shown

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
        units: column -> what stands around its numbers, or what was said of them; none for numbers alone.
        notes: what a user should know of how the source was read, a line each.
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
    units: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def features(self) -> list[str]:
        """Names of the feature columns, in order."""
        return list(self.kinds)

    def describe(self) -> str:
        """Column, use (a kind, a role, or ignored) and why, then the notes; one line each, to print."""
        return "\n".join([table_of(self.uses), *(f"note: {note}" for note in self.notes)])

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


def read_columns(
    source: str | os.PathLike[str] | pd.DataFrame | Source, columns: Columns, offered: Collection[str] | None = None
) -> Table:
    """`read_table` with what the columns are as one value.

    Args:
        source: as in `read_table`, or what is open already.
        columns: what the columns are.
        offered: columns of the candidates; others that nobody named are no features.
    """
    file, targets = open_source(source, columns.named), columns.targets
    used, wanted = find_columns(file, columns)
    raw = file.load(list(dict.fromkeys([*used.values(), *wanted])))
    check_points(file, raw)
    y, faults, own = targets_of(file, raw, columns)
    units = columns.known_units | own
    rows = np.flatnonzero(~np.isnan(y.reshape(len(y), -1)).all(axis=1))
    numbers = file.numbers(rows)
    dropped = len(raw) - len(set(numbers.tolist()) | {fault.row for fault in faults})
    whole, raw, y = raw, raw.iloc[rows].reset_index(drop=True), y[rows]
    aside = unneeded(raw, wanted, offered) if columns.features is None else {}
    named = columns.features is not None
    uses = uses_of(file, raw, wanted, used, numbers, named, units, aside, columns.drop_invalid)
    kinds = {use.column: use.use for use in uses if use.use in COLUMN_KINDS}
    if not kinds:
        raise InputError(f"{file.name}: no feature column; name some with their kinds ({left_aside(uses)})")
    if columns.drop_invalid:
        bad, more = find_faults(raw, kinds, file.name, numbers, {})
        faults = sorted([*faults, *more], key=lambda fault: fault.row)
        raw, y, numbers = raw[~bad].reset_index(drop=True), y[~bad], numbers[~bad]
        if not len(raw):
            raise all_invalid(file.name, faults)
        for name, values in zip(targets, y.reshape(len(y), -1).T, strict=True):
            check_learnable(file.name, values[~np.isnan(values)], name)
    variance, batch, id = columns.noise_variance, columns.batch, columns.id
    noise = None if variance is None else noise_of(raw[variance], Place(file.name, variance, numbers))
    try:
        frame, kinds, own = feature_frame(file, raw, kinds, id, numbers, columns.known_units)
    except CellError as error:
        raise summary_rows(file, error, numbers) from None
    units = {name: unit for name, unit in (units | own).items() if unit}
    if id is not None:
        _check_ids(frame[id], Place(file.name, id, numbers))
    return Table(
        frame,
        kinds,
        id,
        file.name,
        target=columns.goal,
        y=y,
        noise_variance=noise,
        dropped=dropped,
        before=file.before,
        uses=uses,
        invalid=tuple(faults),
        weights=columns.weights,
        aims=columns.aims,
        limits=columns.limits,
        batch=None if batch is None else batch_labels(raw[batch], Place(file.name, batch, numbers)),
        batch_column=batch,
        numbers=numbers,
        units=units,
        notes=(
            *file.notes,
            *below_a_gap(file, whole, numbers - 1 - file.before),
            *told_of_limits(file, uses, numbers - 1 - file.before, columns.goal),
            *told_of_small_letters(raw, kinds),
            *labels_alike(frame, kinds),
            *labels_of_dates(frame, kinds, file.name, numbers),
        ),
    )


def read_measured(source: str | os.PathLike[str] | pd.DataFrame | Source, columns: Columns, library: object) -> Table:
    """Measured rows of candidates whose ids the library has: these rows need none, and an id is no feature.

    Args:
        source: as in `read_table`, or what is open already.
        columns: what the columns are.
        library: the candidates; of a file, columns that it lacks are no features unless they are named.
    """
    file, offered, id = open_source(source, columns.named), None, columns.id
    if isinstance(library, (str, os.PathLike)):
        offered = open_parts(library, [*file.columns, *columns.named])[0].columns
    there = columns.features is None and id in file.columns
    table = read_columns(file, columns if there else replace(columns, id=None), offered)
    if id is None or there:
        return table
    shown = [
        replace(use, use="id", why="named") if use.column == id and use.use == IGNORED else use for use in table.uses
    ]
    if id not in file.columns:
        shown.append(Use(id, "id", "of the library; measured rows need none"))
    return replace(table, uses=tuple(shown))


def find_columns(file: Source, columns: Columns) -> tuple[dict[str, str], dict[str, str | None]]:
    """Role -> column of those that are no features, and possible features -> kind.

    Raises:
        InputError: the file has no such column, or one is named twice.
    """
    roles = {"target": columns.targets[0], "id": columns.id, "noise variance": columns.noise_variance}
    roles |= {"batch": columns.batch}
    roles |= {f"target {i}": name for i, name in enumerate(columns.targets[1:], start=2)}
    used = {role: file.require(name, role) for role, name in roles.items() if name is not None}
    for name in columns.known_units:
        file.require(name, "unit")
    return used, wanted_kinds(file, columns.features, used)


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
    file = open_source(source, [*([] if id is None else [id]), *kinds])
    used = {} if id is None else {"id": file.require(id, "id")}
    wanted = wanted_kinds(file, kinds, used)
    raw = file.load(list(dict.fromkeys([*used.values(), *wanted])))
    if not len(raw):
        raise InputError(f"{file.name} has a header but no rows; a library needs at least one candidate")
    numbers, faults = file.numbers(len(raw)), list[Fault]()
    if drop_invalid:
        bad, faults = find_faults(raw, {n: str(k) for n, k in wanted.items()}, file.name, numbers, {})
        raw, numbers = raw[~bad].reset_index(drop=True), numbers[~bad]
        if not len(raw):
            raise all_invalid(file.name, faults)
    frame, found, units = feature_frame(file, raw, wanted, id, numbers)
    if id is not None:
        _check_ids(frame[id], Place(file.name, id, numbers))
    return Table(frame, found, id, file.name, before=file.before, invalid=tuple(faults), units=units, notes=file.notes)


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


def feature_frame(
    file: Source,
    raw: pd.DataFrame,
    wanted: Mapping[str, str | None],
    id: str | None,
    numbers: np.ndarray,
    units: Mapping[str, str] | None = None,
) -> tuple[pd.DataFrame, dict[str, str], dict[str, str]]:
    """Convert the features and put the id first.

    Args:
        file: where they come from.
        raw: n rows of it.
        wanted: feature -> kind, None where it is to be inferred.
        id: column of the id.
        numbers: n row numbers in the file.
        units: of columns of numbers, where they are known; their cells may have no other.

    Returns:
        The frame, the kinds, and the units that stand in cells or are known.
    """
    import pandas as pd

    kinds: dict[str, str] = {}
    found: dict[str, str] = {}
    columns: dict[str, pd.Series] = {}
    if id is not None:
        columns[id] = raw[id]
    for name, kind in wanted.items():
        place = Place(file.name, name, numbers)
        check_scalars(raw[name], place)
        kinds[name] = kind or infer(raw[name], file.typed, place).use
        if kinds[name] != "continuous":
            columns[name] = convert(raw[name], kinds[name], place)
            continue
        known = (units or {}).get(name)
        read = feature_numbers(raw[name], place, known)
        columns[name] = pd.Series(read.values, index=raw.index)
        if known or read.unit:
            found[name] = known or read.unit
    return pd.DataFrame(columns), kinds, found


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
