"""A landscape: a file in which every row is measured, so that any choice of rows can be looked up."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from .. import datasets
from ..errors import InputError
from ..screening import Encoder, Table
from ..screening.invalid import Fault
from ..screening.packing import Packing, pack
from ..screening.table import read_columns
from ..specs import Columns
from .world import Candidates, FiniteWorld, Points, Yardstick, best_rows

if TYPE_CHECKING:
    import pandas as pd

GB1 = "gb1"  # the landscape that comes with the package
ROW = "row"


@dataclass(frozen=True, eq=False)
class Landscape(FiniteWorld):
    """Distinct inputs with their values; repeated measurements of one input are averaged.

    Attributes:
        rows: n rows; its id column holds the number of each row in the file, from 1 (of repeats, the first).
        maximize: False if small values are good.
        top: number of best rows whose recall counts.
        dropped: rows of the file without a target.
        repeats: rows that repeat an earlier input.
        invalid: rows of the file that cannot be read.
        notes: what a user should know of how the file was read, a line each.
    """

    rows: Table
    maximize: bool = True
    top: int = 1
    dropped: int = 0
    repeats: int = 0
    invalid: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()
    _packed: dict[Encoder, torch.Tensor] = field(default_factory=dict, repr=False)  # of the last encoder

    @classmethod
    def read(
        cls,
        source: str | os.PathLike[str] | pd.DataFrame,
        target: str | None = None,
        features: Mapping[str, str | None] | Iterable[str] | None = None,
        *,
        minimize: bool = False,
        noise_variance: str | None = None,
        drop_invalid: bool = False,
        top: int | None = None,
    ) -> Landscape:
        """Read a landscape; rows without a target are dropped and counted.

        Args:
            source: CSV, TSV (also .gz, .xz) or Parquet file, DataFrame, or "gb1", which comes with the package.
            target: column to improve; not needed for "gb1".
            features: column -> kind, or names; None takes every other column.
            minimize: small targets are good.
            noise_variance: column with the known variance of each target.
            drop_invalid: leave out rows that cannot be read, instead of refusing the file.
            top: number of best rows whose recall counts; None takes one in a hundred.

        Raises:
            InputError: the file, a column or a cell is not usable, or `top` is not below the number of rows.
        """
        name = source
        if isinstance(source, str) and source == GB1:
            target, features = target or "fitness", features or {"variant": "protein"}
            source = datasets.gb1()
        if target is None:
            raise InputError(f"{name}: name the target, the column to improve")
        read = read_columns(source, Columns(target, features, noise_variance=noise_variance, drop_invalid=drop_invalid))
        numbers = read.numbers
        assert numbers is not None
        read = replace(read, source=read.source if name is source else str(name))
        pack(Encoder.from_table(read), read, numbers)  # cells that cannot be encoded are named by their rows here
        table = distinct(read, numbers)
        top = best_rows(top, len(table), table.source)
        return cls(table, not minimize, top, read.dropped, len(read) - len(table), read.invalid, read.notes)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def _y(self) -> NDArray[np.float64]:
        assert self.rows.y is not None
        return self.rows.y

    @property
    def _numbers(self) -> NDArray[np.int64]:
        return self.rows.frame[self.rows.id].to_numpy()

    @property
    def title(self) -> str:
        """Name of the file, target, number of rows."""
        aim = "" if self.maximize else ", minimised"
        return f"{Path(self.rows.source).name}, {self.rows.target}{aim}, {len(self):,} rows"

    def identity(self) -> dict[str, Any]:
        """Name, columns, direction and a hash of all cells."""
        import pandas as pd

        digest = hashlib.sha256(pd.util.hash_pandas_object(self.rows.frame).to_numpy().tobytes())
        for values in (self._y, self.rows.noise_variance):
            digest.update(b"" if values is None else values.tobytes())
        columns = {"target": self.rows.target, "features": dict(self.rows.kinds)}
        return {
            "landscape": Path(self.rows.source).name,
            **columns,
            "maximize": self.maximize,
            "content": digest.hexdigest(),
        }

    def check(self, count: int) -> None:
        """Refuse to measure more rows than there are."""
        if count > len(self):
            raise InputError(
                f"{self.rows.source}: {count} rows would be measured, but it has {len(self)} distinct inputs; "
                "lower start, q or rounds"
            )

    def truth(self, points: Points) -> NDArray[np.float64]:
        """The value in the file."""
        return self._y[points]

    def table(self, points: Points, values: NDArray[np.float64]) -> Table:
        """The rows, in the order given."""
        return self.rows.take(points)

    def candidates(self, encoder: Encoder, taken: Points, seed: int, count: int) -> Candidates:
        """All rows that are not taken, shuffled."""
        if encoder not in self._packed:
            self._packed.clear()
            self._packed[encoder] = torch.from_numpy(pack(encoder, self.rows, self._numbers))
        open_rows = self._open(taken, seed)
        return Candidates(open_rows, self._packed[encoder][torch.from_numpy(open_rows)], Packing.of(encoder))

    def offer(self, taken: Points, seed: int) -> dict[str, Any]:
        """A library of the same rows in the same order; inputs that look alike to a surrogate are still two rows."""
        return {"library": self.rows.take(self._open(taken, seed)), "allow_repeats": True}

    def chosen(self, frame: pd.DataFrame) -> Points:
        """The rows of a batch."""
        return np.searchsorted(self._numbers, frame[self.rows.id].to_numpy())

    def written(self, points: Points, values: NDArray[np.float64]) -> pd.DataFrame:
        """Number of the row in the file, features, value."""
        frame = self.rows.frame.iloc[points].reset_index(drop=True)
        return frame.assign(**{str(self.rows.target): values})

    def parsed(self, frame: pd.DataFrame) -> tuple[Points, NDArray[np.float64]]:
        """Inverse of `written`."""
        points = np.searchsorted(self._numbers, frame.iloc[:, 0].to_numpy(dtype=np.int64))
        return points, self._y[points]

    def yardstick(self, start: Points) -> Yardstick:
        """Best-so-far from the worst (0) to the best row (1), the value of the last of the top rows, all values."""
        ranked = np.sort(self._y)[:: -1 if self.maximize else 1]
        return Yardstick(
            best=float(ranked[0]),
            floor=float(ranked[-1]),
            typical=float(self._y.mean()),
            top=self.top,
            threshold=float(ranked[self.top - 1]),
            ranked=ranked,
        )


def distinct(table: Table, numbers: NDArray[np.int64]) -> Table:
    """Each distinct input once, by first appearance, with the mean of its values and the number of its first row."""
    assert table.y is not None
    group = table.frame.groupby(table.features, sort=False).ngroup().to_numpy()
    _, first, count = np.unique(group, return_index=True, return_counts=True)
    id = ROW
    while id in table.kinds or id == table.target or id in table.weights:
        id += "_"
    frame = table.frame[table.features].iloc[first].reset_index(drop=True)
    frame.insert(0, id, numbers[first])
    columns = [np.bincount(group, y) / count for y in table.y.reshape(len(table), -1).T]
    y = columns[0] if table.y.ndim == 1 else np.stack(columns, axis=-1)
    noise = None
    if table.noise_variance is not None:
        noise = np.bincount(group, table.noise_variance) / count**2  # of a mean of independent measurements
    return Table(frame, table.kinds, id, table.source, table.target, y, noise, weights=table.weights, aims=table.aims)
