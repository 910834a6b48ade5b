"""What comes off a plate, as results: the round's own map filled in, wells without names, or grids of a reader."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError
from ..screening.columns import check_numbers, missing_text
from ..screening.files.opening import Source, listing, open_source
from ..screening.places import Place
from ..screening.plates.grid import Grid, read_grids
from ..screening.plates.layout import MAP_COLUMNS, SAMPLE, plate_paths
from ..screening.plates.normalise import b_score, percent_of_control, robust_z
from ..screening.plates.wells import well_name, well_of
from .folder import Folder
from .settings import Settings
from .state import identity

if TYPE_CHECKING:
    import pandas as pd

    Listing = str | os.PathLike[str] | pd.DataFrame | Source

PLATE, WELL, ROLE = MAP_COLUMNS


@dataclass(frozen=True, eq=False)
class Readings:
    """Results ready to be recognised.

    Attributes:
        source: a table with the id column or all features, targets, and the columns beside them; samples only, with
            the numbers that their rows have in the file.
        controls: role -> wells that were left out.
        notes: what was guessed or done, one line each.
    """

    source: Source
    controls: Counter[str] = field(default_factory=Counter)
    notes: tuple[str, ...] = ()


def read_results(source: Listing, folder: Folder, settings: Settings, normalise: str | None = None) -> Readings:
    """A file of results in any of its forms.

    Args:
        source: a table with the id or all features; one with wells (and plates, if there are several) of a map of this
            campaign, with roles or without; or grids of 8 x 12 or another plate, each under the name of its plate.
        folder: of the campaign, for its plate maps.
        settings: of the campaign.
        normalise: one of `NORMALISE`: what becomes of the values, plate by plate; None takes them as they are.

    Raises:
        InputError: the file cannot be read, a well or plate is in no map, or a plate lacks what normalising takes.
    """
    frame, name, notes = _of_grids(source, folder, settings)
    if frame is None:
        file = open_source(source, settings.columns.named)
        columns = {part: _column(file, part) for part in MAP_COLUMNS}
        named = _is_named(file, settings)
        if columns[WELL] is None or (named and columns[ROLE] is None):
            if normalise is not None:
                raise InputError(
                    f"{file.name}: --normalise {normalise} takes wells and roles, as in a filled-in plate map; it has "
                    f"no column {'role' if columns[WELL] else 'well'!r}"
                )
            return Readings(file)
        frame, notes, name = _of_table(file, columns, settings, named), list(file.notes), file.name
        if not named:
            frame = _joined(frame, plate_maps(folder), settings, name)
    return _samples(frame, name, settings, normalise, notes)


def _column(file: Source, part: str) -> str | None:
    """The column of a part of the map, whatever its case."""
    return next((name for name in file.columns if name.strip().casefold() == part), None)


def _is_named(file: Source, settings: Settings) -> bool:
    """Whether rows say by themselves which experiments they are."""
    columns = settings.columns
    return columns.id in file.columns or all(name in file.columns for name in columns.features)


def _of_table(file: Source, columns: Mapping[str, str | None], settings: Settings, named: bool) -> pd.DataFrame:
    """Plate, well, role, row, targets, columns beside them, and what names an experiment if the file has that."""
    wanted = [*settings.columns.targets, *settings.columns.beside, *(identity(settings) if named else [])]
    present = [name for name in dict.fromkeys(wanted) if name in file.columns]
    if not any(name in present for name in settings.columns.targets):
        file.require(settings.columns.targets[0], "result")
    parts = {part: column for part, column in columns.items() if column is not None and column not in present}
    raw = file.load([*present, *parts.values()])
    frame = raw[present].copy()
    for part, column in columns.items():
        if column is not None:
            cells = raw[column]
            frame[f"_{part}"] = np.where(missing_text(cells), "", cells.astype(object).astype(str))
    if "_role" in frame:
        frame["_role"] = [role.strip() or SAMPLE for role in frame["_role"]]
    frame["_row"] = file.numbers(len(frame))
    place = Place(file.name, str(columns[WELL]), frame["_row"].to_numpy())
    frame["_well"] = [
        well_name(*well_of(text, replace(place, rows=place.rows[i : i + 1]))) for i, text in enumerate(frame["_well"])
    ]
    return frame


def _of_grids(source: Listing, folder: Folder, settings: Settings) -> tuple[pd.DataFrame | None, str, list[str]]:
    """The wells of all grids of a file, with what the maps know of them; None if it has none."""
    import pandas as pd

    found = read_grids(source) if isinstance(source, (str, os.PathLike)) else []
    if not found:
        return None, "", []
    name = str(source)
    if settings.columns.several:
        raise InputError(
            f"{name} holds grids of one value, the campaign has {listing(settings.columns.targets)}; write a table "
            "with the columns plate, well and the target"
        )
    maps = plate_maps(folder)
    plates, notes = _plates_of(found, list(dict.fromkeys(maps[PLATE])), name)
    target = settings.columns.targets[0]
    parts = []
    for grid, plate in zip(found, plates, strict=True):
        wells = pd.DataFrame({"_plate": plate, "_well": list(grid.values), target: list(grid.values.values())})
        parts.append(wells.assign(_row=grid.row))
    frame = pd.concat(parts, ignore_index=True)
    _check_cells(frame, target, name)
    return _joined(frame, maps, settings, name), name, notes


def _check_cells(frame: pd.DataFrame, target: str, name: str) -> None:
    """Refuse a well that is no number, by its plate and name."""
    try:
        check_numbers(frame[target], Place(name, target, np.arange(len(frame))), "")
    except InputError as error:
        bad = np.asarray(getattr(error, "bad", np.ones(len(frame), dtype=bool)))
        first = frame.loc[bad].iloc[0]
        raise InputError(
            f"{name}: well {first['_well']} of plate {first['_plate']} holds {first[target]!r}, which is no number; "
            "correct the cell, or empty it if the experiment failed"
        ) from None


def _plates_of(found: Sequence[Grid], known: Sequence[str], name: str) -> tuple[list[str], list[str]]:
    """The plate of each grid: its title, or the only one that there is."""
    named = [next((plate for title in grid.titles for plate in known if _names(title, plate)), None) for grid in found]
    if len(found) == 1 and named == [None] and len(known) == 1:
        return [known[0]], [f"{name}: the grid bears no plate's name and was taken for {known[0]}, the only plate"]
    for grid, plate in zip(found, named, strict=True):
        if plate is None:
            above = f" (above it stands {grid.titles[0]!r})" if grid.titles else ""
            raise InputError(
                f"{name}: the grid in row {grid.row} names none of the plates {listing(known)}{above}; write the "
                "plate's name above it"
            )
    plates = [str(plate) for plate in named]
    twice = [plate for plate, count in Counter(plates).items() if count > 1]
    if twice:
        raise InputError(f"{name} has two grids of plate {twice[0]!r}; give each its own name")
    return plates, []


def _names(title: str, plate: str) -> bool:
    """Whether a cell such as 'Plate: R2-P1' names a plate."""
    return plate.casefold() in title.replace(":", " ").replace("=", " ").casefold().split()


def plate_maps(folder: Folder) -> pd.DataFrame:
    """All plate maps of a campaign, one under the other, cells as text.

    Raises:
        InputError: it has none.
    """
    import pandas as pd

    frames = []
    for number in folder.rounds():
        path = plate_paths(folder.batch(number))[0]
        if path.exists():
            file = open_source(path)
            frames.append(file.load(list(file.columns)).assign(_round=number))
    if not frames:
        raise InputError(
            f"{folder.path} has no plate map to find wells in; make one with campaign suggest --round N --plate, or "
            "give results by id"
        )
    return pd.concat(frames, ignore_index=True)


def _joined(frame: pd.DataFrame, maps: pd.DataFrame, settings: Settings, name: str) -> pd.DataFrame:
    """Wells with what the maps say that is in them; empty ones that no map knows are left out."""
    wanted = identity(settings)
    plates = list(dict.fromkeys(maps[PLATE]))
    if "_plate" not in frame:
        if len(plates) > 1:
            raise InputError(f"{name} has wells but no column 'plate', and the plates are {listing(plates)}; add it")
        frame = frame.assign(_plate=plates[0])
    key = {(plate, well): i for i, (plate, well) in enumerate(zip(maps[PLATE], maps[WELL], strict=True))}
    found = np.array([key.get(cell, -1) for cell in zip(frame["_plate"], frame["_well"], strict=True)])
    values = ~np.column_stack([missing_text(frame[t]) for t in settings.columns.targets if t in frame]).all(axis=1)
    lost = np.flatnonzero((found < 0) & values)
    if len(lost):
        plate, well = frame[["_plate", "_well"]].iloc[lost[0]]
        where = (
            f"nothing in well {well} of plate {plate}"
            if plate in plates
            else f"no plate {plate!r}, but {listing(plates)}"
        )
        raise InputError(f"{name} has {len(lost)} values in wells that no map knows: the maps have {where}")
    frame, found = frame[found >= 0].copy(), found[found >= 0]
    rounds = maps.groupby(PLATE)["_round"].unique()
    for plate in dict.fromkeys(frame["_plate"]):
        if len(rounds[plate]) > 1:
            raise InputError(
                f"{name}: plate {plate!r} is in the maps of rounds {', '.join(map(str, rounds[plate]))}; give results "
                "of it by id"
            )
    for column in (*wanted, ROLE):
        frame["_role" if column == ROLE else column] = maps[column].to_numpy()[found]
    return frame


def _samples(
    frame: pd.DataFrame, name: str, settings: Settings, normalise: str | None, notes: Sequence[str]
) -> Readings:
    """The samples, normalised; controls are counted."""
    batch = settings.columns.batch
    if batch is not None and batch not in frame and "_plate" in frame:
        frame[batch] = frame["_plate"]
    if normalise is not None:
        for target in (t for t in settings.columns.targets if t in frame):
            frame[target] = _normalised(frame, target, name, normalise)
        notes = (*notes, f"values are {normalise} of each plate now; results recorded before must be, too")
    samples = frame["_role"].eq(SAMPLE).to_numpy()
    controls = Counter(frame["_role"][~samples].tolist())
    kept = frame[samples]
    table = kept[[column for column in kept if not str(column).startswith("_")]].reset_index(drop=True)
    source = replace(open_source(table), name=name, own_numbers=kept["_row"].to_numpy())
    return Readings(source, controls, tuple(notes))


def _normalised(frame: pd.DataFrame, target: str, name: str, normalise: str) -> np.ndarray:
    """The values of a target as text, plate by plate; empty where they were."""
    y = check_numbers(frame[target], Place(name, target, frame["_row"].to_numpy()), "give a number, or empty the cell")
    measured = np.isfinite(y)
    wells = frame.assign(**{target: y, "_plate": frame.get("_plate", "P1")})[measured].reset_index(drop=True)
    result = np.full(len(y), "", dtype=object)
    try:
        if normalise == "percent-of-control":
            zero = "negative" if wells["_role"].eq("negative").any() else None
            new = percent_of_control(wells, target, "_plate", "_role", zero=zero)
        elif normalise == "robust-z":
            new = robust_z(wells, target, "_plate", "_role", SAMPLE)
        else:
            samples = wells["_role"].eq(SAMPLE).to_numpy()
            new = np.full(len(wells), np.nan)
            new[samples] = b_score(wells[samples].reset_index(drop=True), target, "_plate", "_well")
    except InputError as error:
        raise InputError(str(error).replace("table:", f"{name}:", 1).replace("'_role'", "'role'")) from None
    result[measured] = [repr(value) for value in new.tolist()]
    return result
