"""Pick lists: which stock well goes into which well of a plate map, in the forms that liquid handlers read."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...errors import InputError
from ..batch import beside, write_text
from ..columns import check_ids, check_numbers
from ..files.opening import Source, listing, open_source
from ..places import Place, rows_text
from ..same import id_texts
from .wells import parse_well, well_name, well_of

if TYPE_CHECKING:
    import pandas as pd

ROUNDING = 1e-9  # of a volume
ECHO_DROP, ECHO_MOST = 2.5, 10_000.0  # nanolitres: an Echo moves whole drops, up to 10 microlitres into a well


@dataclass(frozen=True)
class StockWell:
    """A well that something is taken from.

    Attributes:
        plate: its name.
        well: row and column, from 0.
        volume: microlitres that can be taken; infinite where the table does not say.
    """

    plate: str
    well: tuple[int, int]
    volume: float


@dataclass(frozen=True)
class Transfer:
    """One line of a pick list: from a stock well to a well of a plate, in microlitres."""

    source: StockWell
    plate: str
    well: tuple[int, int]
    volume: float


@dataclass(frozen=True, eq=False)
class Stock:
    """Where the experiments of a library, and controls, are kept.

    Attributes:
        name: of the table.
        id: the column of ids in the batch.
        wells: id, or role of a control -> its stock wells, in the order in which they are used up.
        limited: whether the table says how much there is.
    """

    name: str
    id: str
    wells: dict[str, tuple[StockWell, ...]]
    limited: bool

    @classmethod
    def read(cls, table: str | os.PathLike[str] | pd.DataFrame, id: str) -> Stock:
        """Read a table with the columns id (or the library's own name of it), source_plate, source_well.

        A column `volume` says how many microlitres can be taken from each well. One id may have several wells. Rows
        whose id is the role of a control (negative, positive) are for these.

        Raises:
            InputError: a column is missing, a cell is empty or no well, a volume is no number, or a well comes twice.
        """
        file = open_source(table)
        own = id if id in file.columns else file.require("id", f"stock ({id!r} or 'id')")
        names = [own, *(file.require(name, "stock") for name in ("source_plate", "source_well"))]
        limited = "volume" in file.columns
        cells = file.load([*names, *(["volume"] if limited else [])])
        if cells.empty:
            raise InputError(f"{file.name} has a header but no rows; there is no stock to take from")
        places = {name: Place(file.name, name, np.arange(1, len(cells) + 1)) for name in names + ["volume"] * limited}
        for name in names:
            check_ids(cells[name], places[name], "fill it in for every stock well")
        texts = [list(id_texts(cells[name])) for name in names]
        volumes = _volumes(cells["volume"], places["volume"]) if limited else np.full(len(cells), np.inf)
        wells: dict[str, list[StockWell]] = {}
        for i, (key, plate, well) in enumerate(zip(*texts, strict=True)):
            cell = well_of(well, Place(file.name, "source_well", np.array([i + 1])))
            wells.setdefault(key, []).append(StockWell(plate, cell, float(volumes[i])))
        _check_once(file, list(zip(texts[1], (well.casefold() for well in texts[2]), strict=True)))
        return cls(file.name, id, {key: tuple(found) for key, found in wells.items()}, limited)

    @property
    def notes(self) -> list[str]:
        """What a user should know."""
        if self.limited:
            return []
        return [f"{self.name} has no column volume: whether the stock wells hold enough was not checked"]


@dataclass(frozen=True)
class PickForm:
    """How a machine wants its pick list.

    Attributes:
        columns: of source plate, source well, plate, well and volume.
        unit: of the volume, in microlitres.
        padded: A01 instead of A1.
        check: refuses a volume (in microlitres) that the machine cannot move.
    """

    columns: tuple[str, str, str, str, str]
    unit: float
    padded: bool
    check: Callable[[float], None]

    def table(self, transfers: list[Transfer]) -> pd.DataFrame:
        """The pick list."""
        import pandas as pd

        rows = [
            (t.source.plate, self._well(t.source.well), t.plate, self._well(t.well), round(t.volume / self.unit, 6))
            for t in transfers
        ]
        return pd.DataFrame(rows, columns=list(self.columns))

    def _well(self, cell: tuple[int, int]) -> str:
        name = well_name(*cell)
        return name if self.padded else f"{name[:-2]}{cell[1] + 1}"


def _any_volume(volume: float) -> None:
    """Pipettes move any volume."""


def _echo_volume(volume: float) -> None:
    drops = 1000 * volume / ECHO_DROP
    if abs(drops - round(drops)) > 1e-6 or 1000 * volume > ECHO_MOST:
        raise InputError(
            f"volume {volume:g}: an Echo moves multiples of {ECHO_DROP:g} nl, at most {ECHO_MOST / 1000:g} microlitres "
            f"into a well; the nearest is {min(max(round(drops), 1) * ECHO_DROP, ECHO_MOST) / 1000:g}"
        )


FORMS = {
    "echo": PickForm(
        ("Source Plate Name", "Source Well", "Destination Plate Name", "Destination Well", "Transfer Volume"),
        0.001,
        False,
        _echo_volume,
    ),
    "opentrons": PickForm(
        ("source plate", "source well", "destination plate", "destination well", "volume"), 1.0, False, _any_volume
    ),
    "hamilton": PickForm(
        ("SourceLabware", "SourcePosition", "TargetLabware", "TargetPosition", "Volume"), 1.0, True, _any_volume
    ),
}


@dataclass(frozen=True, eq=False)
class Picks:
    """What is written as a pick list.

    Attributes:
        stock: where things are kept.
        volume: microlitres of each into its well.
        form: of the machine, a key of FORMS.

    Raises:
        InputError: an unknown form, or a volume that is not above 0 or that the machine cannot move.
    """

    stock: Stock
    volume: float
    form: str = "echo"

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise InputError(f"picks = {self.form!r}: the forms of pick lists are {listing(FORMS)}")
        if not 0 < self.volume < np.inf:
            raise InputError(f"volume = {self.volume:g}: give the microlitres that go into each well, above 0")
        FORMS[self.form].check(self.volume)

    def of(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The pick list of a plate map; wells of a control get their role's stock, if there is any.

        Raises:
            InputError: experiments without stock, or with less than they need.
        """
        names = np.where(frame["role"].eq("sample"), id_texts(frame[self.stock.id]), frame["role"].astype(str))
        samples = frame["role"].eq("sample").to_numpy()
        unknown = list(dict.fromkeys(name for name in names[samples].tolist() if name not in self.stock.wells))
        if unknown:
            raise InputError(
                f"no pick list: {len(unknown)} of {int(samples.sum())} experiments have no row in {self.stock.name}: "
                f"{listing(unknown)}; add them, or leave them out with --exclude"
            )
        left = {well: well.volume for wells in self.stock.wells.values() for well in wells}
        transfers: list[Transfer] = []
        short: Counter[str] = Counter()
        for name, plate, well in zip(names.tolist(), frame["plate"], frame["well"], strict=True):
            wells = self.stock.wells.get(name, ())
            source = next((each for each in wells if left[each] >= self.volume * (1 - ROUNDING)), None)
            if source is not None:
                left[source] -= self.volume
                cell = parse_well(str(well))
                assert cell is not None
                transfers.append(Transfer(source, str(plate), cell, self.volume))
            elif wells:
                short[name] += 1
        if short:
            name, count = short.most_common(1)[0]
            there = sum(well.volume for well in self.stock.wells[name])
            need = int((names == name).sum()) * self.volume
            raise InputError(
                f"no pick list: {self.stock.name} has too little of {listing(short)}: of {name!r} {need:g} microlitres "
                f"are needed, {there:g} are there, and {count} transfers find no well that holds enough; fill up, or "
                "take a smaller --volume"
            )
        return FORMS[self.form].table(transfers)


def picks_path(batch: str | os.PathLike[str]) -> Path:
    """The pick list beside a batch: next.csv -> next.picks.csv."""
    return beside(batch, ".picks.csv")


def write_picks(plate_map: pd.DataFrame, out: str | os.PathLike[str], picks: Picks) -> Path:
    """Write the pick list of a plate map beside a batch that is written already, and return its path.

    Raises:
        InputError: as in `Picks.of`, or the file cannot be written.
    """
    try:
        table = picks.of(plate_map)
    except InputError as error:
        raise InputError(f"{error} ({out} and its plate map are written)") from None
    write_text(picks_path(out), table)
    return picks_path(out)


def _volumes(cells: pd.Series, place: Place) -> np.ndarray:
    volumes = check_numbers(cells, place, "give microlitres")
    bad = ~(np.isfinite(volumes) & (volumes >= 0))
    if bad.any():
        raise place.error("is empty, infinite or below 0", bad, "give the microlitres that can be taken")
    return volumes


def _check_once(file: Source, wells: list[tuple[str, str]]) -> None:
    seen: dict[tuple[str, str], int] = {}
    for i, well in enumerate(wells):
        if well in seen:
            raise InputError(
                f"{file.name}: well {well[1].upper()} of plate {well[0]!r} comes twice, "
                f"{rows_text(np.array([seen[well] + 1, i + 1]))}; a well holds one thing"
            )
        seen[well] = i
