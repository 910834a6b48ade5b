"""A landscape of several targets, in which the trade-off between them is looked for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import InputError
from ..fronts import hypervolume, nondominated, reference_point
from ..screening import Encoder, atomic_write
from ..screening.files.opening import open_source
from ..screening.packing import pack
from ..screening.plates.front import draw_front
from ..screening.table import read_columns
from ..specs import Columns
from .landscape import Landscape, distinct
from .world import Points, Yardstick

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class TradeoffLandscape(Landscape):
    """Distinct inputs with values of several targets; what counts is the hypervolume that the measured rows dominate.

    Attributes:
        reference: reference point, own units of the targets.
    """

    reference: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        source: str | os.PathLike[str] | pd.DataFrame,
        target: Mapping[str, str],
        features: Mapping[str, str | None] | Iterable[str] | None = None,
        reference: Mapping[str, float] | None = None,
    ) -> TradeoffLandscape:
        """Read a file in which every row has all targets; rows without one of them are left out and counted.

        Args:
            source: as in `Landscape.read`.
            target: column -> max or min.
            features: as in `Landscape.read`.
            reference: reference point; None is that of the whole file, see `fronts.reference_point`.

        Raises:
            InputError: the file, a column or a cell is not usable.
        """
        read = read_columns(open_source(source), Columns(target, features))
        assert read.y is not None
        assert read.numbers is not None
        whole = ~np.isnan(read.y).any(axis=1)
        if whole.sum() < 3:
            raise InputError(f"{read.source}: {int(whole.sum())} rows have all of {', '.join(target)}; give more")
        missing, read = int((~whole).sum()), read.take(whole)
        numbers = read.numbers
        assert numbers is not None
        pack(Encoder.from_table(read), read, numbers)
        table = distinct(read, numbers)
        found = cls(table, True, 1, read.dropped + missing, len(read) - len(table))
        signs = found.signs
        point = signs * reference_point(torch.tensor(signs * found._y)).numpy()
        given = dict(zip(target, point.tolist(), strict=True)) if not reference else dict(reference)
        if set(given) != set(target):
            raise InputError(f"--reference: give a value of each of {', '.join(target)}")
        found = replace(found, reference=given)
        if found.volume(np.arange(len(found))) == 0:
            raise InputError(f"{read.source}: no row is better than the reference point in all targets; give another")
        return found

    @property
    def signs(self) -> NDArray[np.float64]:
        """1 where large values are good, -1 where small ones are, t."""
        return np.array([1.0 if aim == "max" else -1.0 for aim in self.rows.aims.values()])

    def heights(self, points: Points) -> torch.Tensor:
        """Of rows above the reference, n x t."""
        point = np.array([self.reference[name] for name in self.rows.aims])
        return torch.tensor(self.signs * (self._y[points] - point))

    def volume(self, points: Points) -> float:
        """Hypervolume of some rows, in the product of the targets' units."""
        return hypervolume(self.heights(points))

    def identity(self) -> dict[str, Any]:
        """Also the reference point."""
        return super().identity() | {"reference": dict(self.reference)}

    def summed(self) -> Landscape:
        """The same rows with the sum of the standardised targets as what is to improve."""
        return replace(self, rows=replace(self.rows, aims={}))

    def offer(self, taken: Points, seed: int) -> dict[str, Any]:
        """Also the reference point."""
        return super().offer(taken, seed) | {"reference": dict(self.reference)}

    def written(self, points: Points, values: NDArray[np.float64]) -> pd.DataFrame:
        """Number of the row in the file, features, a column for each target."""
        frame = self.rows.frame.iloc[points].reset_index(drop=True)
        return frame.assign(**dict(zip(self.rows.weights, values.T, strict=True)))

    def yardstick(self, start: Points) -> Yardstick:
        """The share of the hypervolume, from 0 to 1, and how many rows are on the front."""
        front = int(nondominated(self.heights(np.arange(len(self)))).sum())
        return Yardstick(best=1.0, floor=0.0, typical=float("nan"), top=front)

    def judged(self, points: Sequence[Points]) -> pd.DataFrame:
        """One line for each round: share of the hypervolume and of the rows of the front that were found."""
        import pandas as pd

        every = np.arange(len(self))
        whole, front = self.volume(every), set(every[nondominated(self.heights(every)).numpy()].tolist())
        lines, measured = [], np.empty(0, dtype=int)
        for round, batch in enumerate(points):
            measured = np.concatenate([measured, batch])
            volume = self.volume(measured)
            found = len(front & set(measured.tolist())) / len(front)
            line = {"round": round, "measured": len(measured), "best": volume, "normalised": volume / whole}
            nothing = dict.fromkeys(("best_rank", "batch_mean", "relative_regret", "batch_rank"), np.nan)
            lines.append(line | {"recall": found} | nothing)
        return pd.DataFrame(lines)

    @property
    def meaning(self) -> list[str]:
        """What the figures of `judged` mean."""
        point = ", ".join(f"{name} {value:g}" for name, value in self.reference.items())
        return [
            f"best so far: hypervolume above the reference point ({point}), 1 is that of all rows",
            "share of the best found: of the rows on the front of all rows",
        ]

    def draw_last(self, points: Sequence[Points], path: Path) -> None:
        """Write a PNG file of the front before the last round and of what that round measured."""
        import pandas as pd

        names, before = list(self.rows.aims), np.concatenate(points[:-1])
        heights = self.heights(before)
        front = before[nondominated(heights).numpy() & (heights > 0).all(-1).numpy()]
        outcomes = {
            "aims": dict(self.rows.aims),
            "reference": dict(self.reference),
            "measured": self._y[before].tolist(),
            "front": [dict(zip(names, row, strict=True)) for row in self._y[front].tolist()],
        }
        last = self._y[points[-1]]
        means = {f"noiseless_mean of {name}": values for name, values in zip(names, last.T, strict=True)}
        frame = pd.DataFrame(means | {f"noiseless_std of {name}": np.zeros(len(last)) for name in names})
        atomic_write(path, lambda temporary: draw_front(frame, outcomes, temporary, "last batch, measured"))
