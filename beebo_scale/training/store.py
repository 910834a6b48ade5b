"""A screening file, encoded once: packed rows in a file that every process maps, and what belongs to them.

The text of the file is never whole in memory: the target (and a split column) is read first, then the features piece
by piece, once to learn ranges and levels from the training rows and once to encode. A relaunch finds the rows there.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from .. import archives
from ..errors import InputError
from ..screening import EncodedTable, Table, atomic_write
from ..screening.column_uses import NAMED, Use
from ..screening.encoding import CategoricalColumn, Column, ContinuousColumn, Encoder
from ..screening.files.opening import Source, open_source, split_sheet
from ..screening.fingerprints import scaffolds
from ..screening.invalid import Fault, faults_of
from ..screening.measured.target import batch_labels, noise_of, target_of
from ..screening.packing import Packing, pack
from ..screening.places import Place
from ..screening.same import SameRows, number_columns
from ..screening.table import feature_frame, wanted_kinds
from ..specs import Columns
from ..specs.fitting import HELD_OUT
from ..surrogates.data.choose_transform import automatic_transform, choose_transform
from ..surrogates.data.observations import PackedObservations, merge_packed
from ..surrogates.data.observe import batch_codes, target_scale
from ..surrogates.data.target import TargetScale, check_transform
from ..surrogates.data.tasks_and_batches import Design
from ..surrogates.surrogate import FILE_KEY
from .columns import decided, make_cache, valid_rows
from .splits import TRAIN, Split, given_parts, grouped_parts, random_parts

FORMAT = 4  # 1 knew no batches, 2 had the columns one by one, 3 no sum of the packed rows
CHOOSING = 3000  # training rows that choose a transform
DAMAGED = "{path} is damaged ({why}); delete it, and it will be made again"
DATA_KEY = "beebo_scale_data"  # where a checkpoint keeps the identity of the rows that it was trained on


@dataclass(frozen=True)
class Screen:
    """Which columns of which file.

    Attributes:
        file: CSV, TSV (also .gz, .xz) or Parquet.
        target: column to learn.
        columns: what all columns are; rows that are left out are listed beside the encoded ones.
        transform: of the target, see `TargetScale`, or "held-out".
        split: of the rows.
        robust: for a fit in which outliers count little: the scale of the target is one by medians, and no replicates
            are merged.
    """

    file: str
    target: str
    columns: Columns
    transform: str
    split: Split
    robust: bool = False

    @property
    def digest(self) -> str:
        """Changes with the file or with anything said about it."""
        path = split_sheet(self.file)[0]
        seen = os.stat(path) if path.exists() else None
        state = None if seen is None else [seen.st_size, seen.st_mtime_ns]
        text = json.dumps([FORMAT, os.path.abspath(self.file), state, asdict(self)])
        return sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Store:
    """The encoded rows of a screen.

    Attributes:
        source: name of the file.
        target: name of the measured column.
        encoder: learned from the training rows.
        scale: of the target, learned from the training rows.
        rows: N x bytes uint8 packed inputs, mapped from a file.
        y: N targets, own units.
        noise: N known variances in squared standardised units, or None.
        part: N int8, see `splits`.
        identity: of the training rows' content.
        design: what a row says beside its features.
        batch: N numbers of the rows' batches, NONE where unknown; None without.
        robust: see `Screen`.
    """

    source: str
    target: str
    encoder: Encoder
    scale: TargetScale
    rows: Tensor
    y: Tensor
    noise: Tensor | None
    part: Tensor
    identity: str
    design: Design
    batch: Tensor | None = None
    robust: bool = False

    @functools.cached_property
    def packing(self) -> Packing:
        """Of the rows."""
        return Packing.of(self.encoder)

    def members(self, part: int) -> Tensor:
        """Rows of a part, in order of the file."""
        return (self.part == part).nonzero().squeeze(-1)

    def training(self) -> PackedObservations:
        """The training rows, standardised, replicates merged unless one of them may be an outlier."""
        rows = self.members(TRAIN)
        noise = None if self.noise is None else self.noise[rows]
        own, packing, y = self.rows[rows].numpy(), self.packing, self.scale.standardise(self.y[rows])
        packed = torch.from_numpy(
            SameRows.of(own, number_columns(self.encoder.columns, packing.offsets())).spelled(own)
        )
        if self.batch is not None:
            packed = torch.cat([packed, self.batch[rows].unsqueeze(-1).view(torch.uint8)], dim=-1)
            packing = Packing((*packing.parts, ("numbers", 1)))
        if self.robust:
            return PackedObservations(packed, packing, y, None, torch.ones_like(y), torch.zeros_like(y))
        return merge_packed(packed, packing, y, noise)


def encode(screen: Screen, folder: Path) -> None:
    """Encode the screen into the folder unless that was done before.

    Raises:
        InputError: anything about the file or the split that the user can put right.
    """
    screen.split.check()
    meta, packed = _paths(screen, folder)
    if meta.exists() and packed.exists():
        return
    columns = screen.columns
    split = [screen.split.column] if screen.split.column else []
    source = open_source(screen.file, [*replace(columns, target=screen.target).named, *split])
    roles = {
        "target": screen.target,
        "id": columns.id,
        "noise variance": columns.noise_variance,
        "batch": columns.batch,
    }
    if screen.split.by in ("group", "column"):
        roles["split"] = screen.split.column
    used = {role: source.require(name, role) for role, name in roles.items() if name is not None}
    wanted = wanted_kinds(source, _features(screen, source, used), used)
    y, noise, measured, unit, faults = _measured(source, screen)
    known = columns.known_units | ({screen.target: unit} if unit else {})
    wanted = decided(source, wanted, used, measured, replace(columns, units=known))
    if screen.columns.drop_invalid:
        valid = valid_rows(source, wanted, measured, meta.with_suffix(".dropped.csv"), faults)
        y, noise, measured = y[valid], None if noise is None else noise[valid], measured[valid]
    part = _parts(screen.split, source, wanted, measured)
    labels = _batches(screen, source, measured)
    batch, levels = batch_codes(labels)
    if screen.transform in ("auto", HELD_OUT) and not screen.robust:
        transform = _chosen(screen, source, wanted, measured, y, part, noise is not None)
        screen = replace(screen, transform=transform)
    scale = _scale(screen, y, part, noise is not None)
    units = screen.columns.known_units
    encoder, sha = _learn(source, wanted, measured, part, columns), sha256()

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            for table, numbers, _ in _pieces(source, {**encoder.kinds}, measured, units):
                data = pack(encoder, table, numbers).tobytes()
                sha.update(data)
                file.write(data)

    make_cache(folder)
    atomic_write(packed, write)
    sha.update(b"" if labels is None else json.dumps(labels.tolist()).encode())
    sha.update(part.tobytes() + y.tobytes() + json.dumps([encoder.to_dict(), scale.to_dict()]).encode())
    content = {
        "source": source.name,
        "target": screen.target,
        "encoder": encoder.to_dict(),
        "scale": scale.to_dict(),
        "y": torch.tensor(y),  # copied: pandas may hand out arrays that nobody may write to
        "noise": None if noise is None else scale.standardise_variance(torch.tensor(noise)),
        "part": torch.from_numpy(part),
        "identity": sha.hexdigest()[:16],
        "design": Design(encoder.width, batch=screen.columns.batch, levels=levels).to_dict(),
        "batch": batch,
        "robust": screen.robust,
        "sum": archives.file_sum(packed),
    }
    archives.save(meta, content)


def load(screen: Screen, folder: Path) -> Store:
    """Map what `encode` wrote."""
    return _load(*_paths(screen, folder))


def find(folder: Path, identity: str | None) -> Store | None:
    """The store of that identity in a folder, if it is there."""
    for packed in sorted(folder.glob("*.rows")):
        meta = packed.with_suffix(".pt")
        if meta.exists() and archives.load(meta, DAMAGED)["identity"] == identity:
            return _load(meta, packed)
    return None


def load_checkpoint(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a checkpoint of a fit, or a file of `Surrogate.save`, holds.

    Raises:
        InputError: a damaged file, or one of another kind.
    """
    refusal = "{path}: not a readable checkpoint ({why}); give a file that beebo-scale fit wrote"
    content = archives.load(path, refusal)
    if not isinstance(content, dict) or FILE_KEY not in content:
        raise InputError(refusal.format(path=path, why="it holds no surrogate"))
    return content


def _load(meta: Path, packed: Path) -> Store:
    content = archives.load(meta, DAMAGED)
    if archives.file_sum(packed) != content.pop("sum"):
        raise InputError(DAMAGED.format(path=packed, why="its sum is wrong"))
    encoder, scale = Encoder.from_dict(content.pop("encoder")), TargetScale(**content.pop("scale"))
    design = Design.from_dict(content.pop("design"))
    shape = (len(content["y"]), Packing.of(encoder).size)
    rows = torch.from_numpy(np.memmap(packed, dtype=np.uint8, mode="c", shape=shape))
    return Store(encoder=encoder, scale=scale, rows=rows, design=design, **content)


def _paths(screen: Screen, folder: Path) -> tuple[Path, Path]:
    return folder / f"{screen.digest}.pt", folder / f"{screen.digest}.rows"


def _features(screen: Screen, source: Source, used: dict[str, str]) -> Any:
    """The features asked for; where none are named, every column without another use, nor the split's."""
    if screen.columns.features is not None:
        return screen.columns.features
    taken = {*used.values(), screen.split.column}
    return [column for column in source.columns if column not in taken]


def _scale(screen: Screen, y: np.ndarray, part: np.ndarray, noise_known: bool) -> TargetScale:
    own, rest = y[part == TRAIN], y[part != TRAIN]
    transform = screen.transform
    if transform == "auto" and (rest < 0).any():
        transform = "none"  # a root could not be drawn of the held-out rows
    check_transform(torch.tensor(y), transform, noise_known)  # of any part
    if (own == own[0]).all():
        raise InputError(
            f"{screen.file}: column {screen.target!r} is {own[0]:g} in every training row, so there is nothing to "
            "learn; split otherwise"
        )
    return target_scale(torch.tensor(own), transform, noise_known, screen.robust)


def _chosen(
    screen: Screen,
    source: Source,
    wanted: dict[str, str | None],
    measured: np.ndarray,
    y: np.ndarray,
    part: np.ndarray,
    noise_known: bool,
) -> str:
    """The transform that predicts some of the training rows best from others; said."""
    if noise_known:
        return screen.transform if screen.transform == "auto" else "none"
    own = np.flatnonzero(part == TRAIN)
    some = np.sort(np.random.default_rng(screen.split.seed).permutation(own)[:CHOOSING])
    pieces = [table for table, _, _ in _pieces(source, wanted, measured[some], screen.columns.known_units)]
    frame = pd.concat([table.frame for table in pieces], ignore_index=True)
    table = Table(frame, pieces[0].kinds, None, source.name, target=screen.target, y=y[some], units=pieces[0].units)
    seed = screen.split.seed
    if screen.transform == "auto":
        try:
            transform = automatic_transform(EncodedTable.of(table), "botorch", seed, None)
        except InputError:
            return "auto"  # whoever encodes all rows will say it of all
        if transform in ("auto", "none"):
            return transform
    else:
        transform = choose_transform(table, seed=seed)
    try:
        check_transform(torch.tensor(y), transform)
    except InputError:
        transform = "none" if screen.transform == HELD_OUT else "auto"  # a held-out row cannot have it
    print(f"{source.name}: transform {transform!r} of {screen.target!r}, chosen on held-out training rows", flush=True)
    return transform


def _parts(split: Split, source: Source, wanted: dict[str, str | None], measured: np.ndarray) -> np.ndarray:
    """Part of each measured row; `measured` are their places (0-based) in the file."""
    if split.by == "random":
        return random_parts(len(measured), split)
    if split.by == "scaffold":
        molecules = [name for name, kind in wanted.items() if kind == "smiles"]
        if split.column is None and not molecules:
            raise InputError(f"{source.name}: a split by scaffold needs a feature of kind smiles; there is none")
        column = source.require(split.column or molecules[0], "split")
        values = source.load([column])[column].iloc[measured].astype(str)
        return grouped_parts(
            scaffolds(values, Place(source.name, column, source.numbers(measured))), split, "the scaffolds"
        )
    column = str(split.column)
    values = source.load([column])[column].iloc[measured]
    if split.by == "column":
        return given_parts(values.tolist(), source.name, column, source.numbers(measured))
    return grouped_parts(values.astype(str).to_numpy(dtype=object), split, f"the groups of column {column!r}")


def _measured(source: Source, screen: Screen) -> tuple[np.ndarray, np.ndarray | None, np.ndarray, str, list[Fault]]:
    """Targets and variances of the measured rows, their places (0-based), the target's unit, and targets left out."""
    names = [name for name in (screen.target, screen.columns.noise_variance) if name is not None]
    cells = source.load(names)
    place = Place(source.name, screen.target, source.numbers(len(cells)))
    found = target_of(cells[screen.target], place, screen.columns.drop_invalid, screen.columns.unit(screen.target))
    y, bad = found.values, found.bad
    measured = np.flatnonzero(~np.isnan(y))
    faults = faults_of(cells[screen.target], bad, place)
    if screen.columns.noise_variance is None:
        return y[measured], None, measured, found.unit, faults
    place = Place(source.name, screen.columns.noise_variance, source.numbers(measured))
    noise = noise_of(cells[screen.columns.noise_variance].iloc[measured], place)
    return y[measured], noise, measured, found.unit, faults


def _batches(screen: Screen, source: Source, measured: np.ndarray) -> np.ndarray | None:
    """Batch of each measured row as text, None without."""
    if screen.columns.batch is None:
        return None
    cells = source.load([screen.columns.batch])[screen.columns.batch].iloc[measured].reset_index(drop=True)
    return batch_labels(cells, Place(source.name, screen.columns.batch, source.numbers(measured)))


def _pieces(
    source: Source, kinds: dict[str, str | None], measured: np.ndarray, units: Mapping[str, str]
) -> Iterator[tuple[Table, np.ndarray, slice]]:
    """The measured rows piece by piece, features checked: table, row numbers (1-based) and places among the measured.

    Kinds that are None are inferred from the first piece; units are those that were said.
    """
    start = 0
    for raw in source.stream(list(kinds), None):
        cut = slice(*np.searchsorted(measured, (start, start + len(raw))).tolist())
        rows = measured[cut]
        first, start = start, start + len(raw)
        if not len(rows):
            continue
        # Molecules are read when they are encoded; to check them here too would double the time.
        checks = {name: "categorical" if kind == "smiles" else kind for name, kind in kinds.items()}
        some = raw.iloc[rows - first].reset_index(drop=True)
        numbers = source.numbers(rows)
        frame, found, own = feature_frame(source, some, checks, None, numbers, units)
        kinds = {name: kind or found[name] for name, kind in kinds.items()}
        table = Table(frame, {name: str(kind) for name, kind in kinds.items()}, None, source.name, units=own)
        yield table, numbers, cut


def _learn(
    source: Source,
    kinds: dict[str, str | None],
    measured: np.ndarray,
    part: np.ndarray,
    columns: Columns,
) -> Encoder:
    """The encoder of the training rows."""
    learned: Encoder | None = None
    named = columns.features if isinstance(columns.features, Mapping) else {}
    uses = tuple(Use(name, kind, NAMED) for name, kind in named.items() if kind)
    for table, _, cut in _pieces(source, kinds, measured, columns.known_units):
        own = np.flatnonzero(part[cut] == TRAIN)
        if len(own):
            piece = Encoder.from_table(replace(table.take(own), uses=uses))
            both = piece.columns if learned is None else map(_joined, learned.columns, piece.columns)
            learned = Encoder(tuple(both))
            if all(column.kind == "smiles" for column in learned.columns):
                break  # fingerprints have nothing to learn
    assert learned is not None
    return learned


def _joined(a: Column, b: Column) -> Column:
    """How a feature is encoded that was seen in two pieces."""
    if isinstance(a, ContinuousColumn) and isinstance(b, ContinuousColumn):
        if a.unit != b.unit:
            raise InputError(f"column {a.name!r} is in {a.unit!r} and in {b.unit!r}; write all cells in one unit")
        return ContinuousColumn(a.name, min(a.low, b.low), max(a.high, b.high), unit=a.unit)
    if isinstance(a, CategoricalColumn) and isinstance(b, CategoricalColumn):
        return CategoricalColumn(a.name, tuple(sorted({*a.levels, *b.levels})), a.named)
    return a  # a sequence of another length is refused when it is encoded
