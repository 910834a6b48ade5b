"""A landscape over a product of lists: a table with a score for every product, by the ids or contents of its blocks."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InputError
from ..screening import Encoder, Table
from ..screening.measured.target import target_of
from ..screening.places import Place
from ..screening.products import ProductLibrary, open_product
from ..specs import Columns, Lists
from .world import UNPACKED_AT_ONCE, FiniteWorld, Points, Yardstick, best_rows

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class BlockCandidates:
    """`Candidates` that are products: rows of blocks, put together where they are needed.

    Attributes:
        points: n row numbers.
        index: n x J numbers of blocks.
        lists: blocks of each list encoded, B_j x d_j.
    """

    points: Points
    index: Tensor
    lists: tuple[Tensor, ...]

    def __len__(self) -> int:
        return len(self.points)

    def take(self, some: Tensor) -> BlockCandidates:
        """Some of them, in the order given."""
        return replace(self, points=self.points[some.numpy()], index=self.index[some])

    @property
    def X(self) -> Tensor:
        """All of them, n x d."""
        return torch.cat([own[at] for own, at in zip(self.lists, self.index.unbind(-1), strict=True)], dim=-1)

    def map(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        """A function of encoded points (p x d -> p ...) of all of them, chunk by chunk."""
        with torch.no_grad():
            parts = self.index.split(UNPACKED_AT_ONCE)
            return torch.cat([function(replace(self, index=part).X) for part in parts])


@dataclass(frozen=True, eq=False)
class ProductLandscape(FiniteWorld):
    """Every product of some lists with its value.

    Attributes:
        product: the lists.
        lists: as a choice takes them.
        target: name of the value.
        values: of all products, in the order of their row numbers.
        source: name of the table.
        maximize: False if small values are good.
        top: number of best products whose recall counts.
    """

    product: ProductLibrary
    lists: Lists
    target: str
    values: NDArray[np.float64]
    source: str
    maximize: bool = True
    top: int = 1
    _encoded: dict[Encoder, tuple[Tensor, ...]] = field(default_factory=dict, repr=False)  # of the last encoder

    @classmethod
    def read(
        cls,
        source: str | os.PathLike[str] | pd.DataFrame,
        target: str,
        choices: Lists | Mapping[str, Any] | str,
        *,
        kinds: Mapping[str, str] | None = None,
        minimize: bool = False,
        top: int | None = None,
    ) -> ProductLandscape:
        """Read the scores of all products.

        Args:
            source: a table with a column for each list and the target.
            target: column to improve.
            choices: the lists, as in `Choice`.
            kinds: feature -> kind where a list does not say it.
            minimize: small targets are good.
            top: number of best products whose recall counts; None takes one in a hundred.

        Raises:
            InputError: the lists or the table are not usable, or products are missing or there twice.
        """
        lists = choices if isinstance(choices, Lists) else Lists(choices)
        product = open_product(lists, kinds)
        file = product.measured(source, Columns(target))
        raw = file.load([own.name for own in product.lists] + [target])
        y = target_of(raw[target], Place(file.name, target, file.numbers(len(raw)))).values
        raw, y = raw[~np.isnan(y)].reset_index(drop=True), y[~np.isnan(y)]
        rows = product.rows(np.stack([own.find(raw[own.name]) for own in product.lists], axis=-1))
        if len(np.unique(rows)) < len(rows) or len(rows) < product.allowed_count:
            what = (
                "has products twice"
                if len(np.unique(rows)) < len(rows)
                else (f"has {len(rows):,} of {product.allowed_count:,} products")
            )
            raise InputError(f"{file.name} {what}; give every product of the lists once")
        if product.allowed:
            raise InputError("a landscape over lists is whole; leave the incompatible pairs out")
        top = best_rows(top, len(rows), file.name)
        values = np.empty(len(rows))
        values[rows] = y
        return cls(product, lists, target, values, file.name, not minimize, top)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def title(self) -> str:
        """Name of the table, target, number of products."""
        aim = "" if self.maximize else ", minimised"
        return f"{Path(self.source).name}, {self.target}{aim}, {self.product.words}"

    def identity(self) -> dict[str, Any]:
        """Name, lists, direction and a hash of all values."""
        digest = hashlib.sha256(self.values.tobytes())
        for own in self.product.lists:
            digest.update(repr((own.name, own.kind, own.values.tolist())).encode())
        return {
            "landscape": Path(self.source).name,
            "target": self.target,
            "features": dict(self.product.kinds),
            "maximize": self.maximize,
            "content": digest.hexdigest(),
        }

    def check(self, count: int) -> None:
        """Refuse to measure more products than there are."""
        if count > len(self):
            raise InputError(f"{self.source}: {count} rows would be measured of {len(self)}; lower start, q or rounds")

    def truth(self, points: Points) -> NDArray[np.float64]:
        """The value in the table."""
        return self.values[points]

    def table(self, points: Points, values: NDArray[np.float64]) -> Table:
        """The products, in the order given."""
        table = self.product.take(points)
        frame = table.frame[list(table.kinds)]
        return Table(frame, table.kinds, None, self.source, self.target, np.asarray(values, dtype=np.float64))

    def candidates(self, encoder: Encoder, taken: Points, seed: int, count: int) -> BlockCandidates:
        """All products that are not taken, shuffled."""
        if encoder not in self._encoded:
            import pandas as pd

            self._encoded.clear()
            self._encoded[encoder] = tuple(
                Encoder((column,)).encode(Table(pd.DataFrame({o.name: o.values}), {o.name: o.kind}, None, o.source))
                for o, column in zip(self.product.lists, encoder.columns, strict=True)
            )
        rows = self._open(taken, seed)
        return BlockCandidates(rows, torch.from_numpy(self.product.index(rows)), self._encoded[encoder])

    def offer(self, taken: Points, seed: int) -> dict[str, Any]:
        """The lists, without what is taken; products that look alike to a surrogate are still two."""
        import pandas as pd

        ids = self.product.ids(self.product.index(taken))
        return {
            "choices": self.lists,
            "exclude": pd.DataFrame({self.product.id or "product": ids}),
            "allow_repeats": True,
            "id": self.product.id or "product",
        }

    def chosen(self, frame: pd.DataFrame) -> Points:
        """The products of a batch."""
        return self.product.find(frame[self.product.id or "product"].tolist())

    def written(self, points: Points, values: NDArray[np.float64]) -> pd.DataFrame:
        """Row number, ids of the blocks, value."""
        import pandas as pd

        index = self.product.index(points)
        blocks = {own.name: own.ids[at] for own, at in zip(self.product.lists, index.T, strict=True)}
        return pd.DataFrame({"row": points, **blocks, self.target: values})

    def parsed(self, frame: pd.DataFrame) -> tuple[Points, NDArray[np.float64]]:
        """Inverse of `written`."""
        points = frame["row"].to_numpy(dtype=np.int64)
        return points, self.values[points]

    def yardstick(self, start: Points) -> Yardstick:
        """Best-so-far from the worst (0) to the best product (1), the value of the last of the top ones, all values."""
        ranked = np.sort(self.values)[:: -1 if self.maximize else 1]
        return Yardstick(
            best=float(ranked[0]),
            floor=float(ranked[-1]),
            typical=float(self.values.mean()),
            top=self.top,
            threshold=float(ranked[self.top - 1]),
            ranked=ranked,
        )
