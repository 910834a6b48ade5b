"""Plate maps: which row of a batch goes into which well, and where controls are."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...drawing import save
from ...errors import InputError
from ..batch import atomic_write, beside, write_text
from ..files.opening import listing
from ..places import rows_text, shown
from .wells import SHAPES, parse_well, well_name

if TYPE_CHECKING:
    import pandas as pd

MAP_COLUMNS = ("plate", "well", "role")  # columns of a plate map beside those of the batch
SAMPLE = "sample"


@dataclass(frozen=True)
class Layout:
    """How plates are filled.

    Attributes:
        plate: wells of a plate: 6, 12, 24, 48, 96, 384 or 1536.
        controls: well -> role, such as {"A01": "negative"}, the same on every plate; or wells, whose role is then
            "control". A block of wells is written A01-H01.
        shuffle: deal the rows out to the wells by chance; otherwise they go row by row (A01, A02, ...), best first.
        seed: of the chance.
        scattered: role -> how many more wells of each plate have it, by chance and in other wells on each plate.
        edge: how many outer rows and columns stay free, but for controls that `controls` puts there.
        name: of the plates, which are then called NAME-P1, NAME-P2, ...; otherwise P1, P2, ...

    Raises:
        InputError: another plate, a control in an unknown well or twice, or no well left for samples.
    """

    plate: int = 96
    controls: Mapping[str, str] | Iterable[str] = field(default_factory=dict)
    shuffle: bool = False
    seed: int = 0
    scattered: Mapping[str, int] = field(default_factory=dict)
    edge: int = 0
    name: str = ""

    def __post_init__(self) -> None:
        if self.plate not in SHAPES:
            raise InputError(f"plate = {self.plate}: plates have {', '.join(map(str, SHAPES))} wells")
        given = self.controls if isinstance(self.controls, Mapping) else dict.fromkeys(self.controls, "control")
        object.__setattr__(self, "controls", _expanded(given, self.plate))
        if SAMPLE in self.scattered:
            raise InputError(f"controls: {SAMPLE!r} is the role of all other wells; name another")
        if self.edge < 0:
            raise InputError(f"edge = {self.edge}: the number of outer rows and columns that stay free is 0 or more")
        left = len(self._inner) - sum(self.scattered.values())
        if left <= 0:
            what = "are controls" if not self.edge else f"are controls or among the outer {self.edge} rows and columns"
            raise InputError(f"all {self.plate} wells {what}; leave some for samples")

    @property
    def roles(self) -> dict[str, str]:
        """Control wells that are the same on every plate, one by one, with their roles."""
        assert isinstance(self.controls, dict)
        return self.controls

    @property
    def wells(self) -> list[str]:
        """All wells, row by row."""
        rows, columns = SHAPES[self.plate]
        return [well_name(row, column) for row in range(rows) for column in range(columns)]

    @property
    def _inner(self) -> list[str]:
        """Wells that samples and scattered controls may have, row by row."""
        (rows, columns), edge = SHAPES[self.plate], self.edge
        cells = [(row, column) for row in range(edge, rows - edge) for column in range(edge, columns - edge)]
        return [well for well in (well_name(*cell) for cell in cells) if well not in self.roles]

    def of_plate(self, number: int) -> tuple[dict[str, str], list[str]]:
        """Control wells with their roles, and the wells of the samples row by row, of a plate (from 1)."""
        roles = [role for role, count in self.scattered.items() for _ in range(count)]
        inner = self._inner
        drawn = np.random.default_rng([self.seed, number]).choice(len(inner), len(roles), replace=False)
        scattered = {inner[i]: role for i, role in zip(drawn.tolist(), roles, strict=True)}
        return self.roles | scattered, [well for well in inner if well not in scattered]

    def plate_name(self, number: int) -> str:
        """R2-P1: of a plate (from 1)."""
        return f"{self.name}-P{number}" if self.name else f"P{number}"

    @classmethod
    def of(cls, plate: int, controls: Iterable[str] = (), **others: Any) -> Layout:
        """From words such as `A01:negative`, `H12`, `A12-H12:positive` or `8:negative`, which scatters eight."""
        pairs = [text.partition(":") for text in controls]
        doubled = [well for i, (well, _, _) in enumerate(pairs) if well in [other for other, _, _ in pairs[:i]]]
        if doubled and not doubled[0].isdecimal():
            raise InputError(f"controls: {doubled[0]!r} is given twice; give every well one role")
        scattered: dict[str, int] = {}
        for count, _, role in pairs:
            if count.isdecimal():
                scattered[role or "control"] = scattered.get(role or "control", 0) + int(count)
        fixed = {well: role or "control" for well, _, role in pairs if not well.isdecimal()}
        return cls(plate, fixed, scattered=scattered, **others)


def _expanded(controls: Mapping[str, str], plate: int) -> dict[str, str]:
    """Well -> role with blocks of wells written out, in the order of the wells."""
    roles: dict[tuple[int, int], str] = {}
    for text, role in controls.items():
        if role == SAMPLE:
            raise InputError(f"controls: the role of {text!r} is {SAMPLE!r}, which all other wells have; name another")
        for cell in _block(text, plate):
            if cell in roles:
                raise InputError(f"controls: well {well_name(*cell)} is given twice; give every well one role")
            roles[cell] = role
    return {well_name(*cell): roles[cell] for cell in sorted(roles)}


def _block(text: str, plate: int) -> list[tuple[int, int]]:
    """The wells of 'A01' or 'A01-H01'."""
    rows, columns = SHAPES[plate]
    ends = [parse_well(end) for end in text.split("-")]
    if len(ends) > 2 or any(end is None or end[0] >= rows or end[1] >= columns for end in ends):
        last = well_name(rows - 1, columns - 1)
        raise InputError(
            f"controls: {text!r} is no well of a plate of {plate}; they run from A01 to {last}, a block is A01-{last}"
        )
    (top, left), (bottom, right) = ends[0] or (0, 0), ends[-1] or (0, 0)
    if top > bottom or left > right:
        raise InputError(f"controls: {text!r} runs backwards; write the upper left well first")
    return [(row, column) for row in range(top, bottom + 1) for column in range(left, right + 1)]


def plate_map(
    batch: pd.DataFrame,
    plate: int = 96,
    controls: Mapping[str, str] | Iterable[str] = (),
    shuffle: bool = False,
    seed: int = 0,
) -> pd.DataFrame:
    """Put every row of a batch into a well of its own, on as many plates as it takes.

    Args:
        batch: such as `Batch.frame`, best first.
        plate: wells of a plate, see `Layout`.
        controls: see `Layout`; every plate has them all.
        shuffle: see `Layout`. Row and column effects then hit good and bad candidates alike.
        seed: of the shuffling; the same seed gives the same map.

    Returns:
        Columns plate (P1, P2, ...), well, role ("sample", or that of the control), then those of the batch, empty for
        controls; plate by plate, row by row.

    Raises:
        InputError: an unusable layout, or a batch with a column plate, well or role.
    """
    return filled_map(batch, Layout(plate, controls, shuffle, seed))


def filled_map(batch: pd.DataFrame, layout: Layout) -> pd.DataFrame:
    """`plate_map` with a layout."""
    import pandas as pd

    check_map_columns(batch.columns)
    order = np.arange(len(batch))
    if layout.shuffle:
        order = np.random.default_rng(layout.seed).permutation(len(batch))
    samples, controls = _wells_of(layout, len(batch))
    table = batch.iloc[order].reset_index(drop=True)
    for i, name in enumerate(MAP_COLUMNS):
        table.insert(i, name, [SAMPLE if name == "role" else cells[i] for cells in samples])
    frame = pd.DataFrame(controls, columns=list(MAP_COLUMNS))
    everything = table if frame.empty else frame.merge(table, how="outer", on=list(MAP_COLUMNS))
    plate_of = {layout.plate_name(i + 1): i for i in range(len(samples) + 1)}
    place_of = {well: i for i, well in enumerate(layout.wells)}
    key = [(plate_of[name], place_of[well]) for name, well in zip(everything["plate"], everything["well"], strict=True)]
    ordered = everything.iloc[sorted(range(len(key)), key=key.__getitem__)].reset_index(drop=True)
    if "rank" in ordered:
        ordered["rank"] = ordered["rank"].astype("Int64")  # whole numbers, although controls have none
    return ordered


def _wells_of(layout: Layout, count: int) -> tuple[list[tuple[str, str]], list[tuple[str, str, str]]]:
    """Plate and well of `count` samples, and plate, well and role of the controls beside them."""
    samples: list[tuple[str, str]] = []
    controls: list[tuple[str, str, str]] = []
    number = 0
    while len(samples) < count or not number:
        number += 1
        name, (roles, free) = layout.plate_name(number), layout.of_plate(number)
        samples += [(name, well) for well in free[: count - len(samples)]]
        controls += [(name, well, role) for well, role in roles.items()]
    return samples, controls


def check_map_columns(columns: Iterable[str]) -> None:
    """Refuse a batch whose columns have the names that a plate map adds."""
    taken = [name for name in MAP_COLUMNS if name in set(columns)]
    if taken:
        raise InputError(f"column {taken[0]!r} has the name of a column that a plate map adds; rename it in all files")


def plate_paths(batch: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Plate map and picture beside a batch: next.csv -> next.plate.csv, next.plate.png."""
    return beside(batch, ".plate.csv"), beside(batch, ".plate.png")


def write_plates(batch: pd.DataFrame, out: str | os.PathLike[str], layout: Layout) -> list[Path]:
    """Write the plate map of a batch beside it, and its picture if matplotlib is installed.

    Args:
        batch: such as `Batch.frame`.
        out: where the batch is or will be written.
        layout: how the plates are filled.

    Returns:
        The files written.

    Raises:
        InputError: as in `plate_map`, or a file cannot be written.
    """
    frame = filled_map(batch, layout)
    table, picture = plate_paths(out)
    write_text(table, frame)
    try:
        import matplotlib as matplotlib
    except ImportError:
        return [table]
    draw_plate(frame, picture, plate=layout.plate)
    return [table, picture]


def draw_plate(
    frame: pd.DataFrame, path: str | os.PathLike[str], value: str = "mean", plate: int | None = None
) -> None:
    """Draw a plate map: one panel for each plate, wells coloured by a column, controls marked.

    Args:
        frame: from `plate_map`.
        path: of the picture; .png, .pdf or .svg.
        value: numeric column that colours the wells.
        plate: wells of a plate; None takes the smallest one that has all the wells of the map.

    Raises:
        InputError: no such column, no well to draw, no matplotlib, or the path cannot be written.
    """
    missing = [name for name in (*MAP_COLUMNS, value) if name not in frame]
    if missing or frame.empty:
        what = f"has no column {missing[0]!r}" if missing else "is empty"
        raise InputError(f"the plate map {what}; draw what plate_map returns")
    cells = [parse_well(str(well)) for well in frame["well"]]
    bad = np.array([cell is None for cell in cells])
    if bad.any():
        first = frame["well"].iloc[int(bad.argmax())]
        raise InputError(f"the plate map has no well {shown(first)} {rows_text(np.flatnonzero(bad) + 1)}")
    try:
        from .picture import picture
    except ImportError as error:
        raise InputError("pictures need matplotlib; install it with: pip install 'beebo-scale[plot]'") from error
    places = np.array(cells, dtype=int)
    fitting = [shape for size, shape in SHAPES.items() if plate in (None, size) and (places < shape).all()]
    if not fitting:
        raise InputError(f"the plate map does not fit on plates of {plate} wells; plates have {listing(SHAPES)}")
    figure: Any = picture(frame, places, value, fitting[0])
    # the time of drawing is no part of the picture
    metadata = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    suffix = Path(path).suffix.lower()
    if suffix not in metadata:
        raise InputError(f"{path}: a picture is written as {', '.join(metadata)}; give a name such as next.plate.png")
    atomic_write(Path(path), lambda temporary: save(figure, temporary, dpi=150, metadata=metadata[suffix]))
