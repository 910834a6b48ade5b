"""A product library as the choice sees it: its blocks encoded, what may not be proposed, and the groups of limits."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import product as combinations

import numpy as np
import torch
from torch import Tensor

from ....errors import InputError
from ....screening import CategoricalColumn, Encoder, Table
from ....screening.packing import Packing
from ....screening.products import ProductLibrary
from ....screening.same import SameRows, as_bytes, number_columns
from ....specs import Limits
from ..exclusion import Rules
from ..limits import group_codes

UNKNOWN = "--at-most {0!r} is no list; with --choices name one of {1}"


class EncodedProduct:
    """A product library with an encoder, the rules of what may be proposed and the limits of a batch."""

    def __init__(self, library: ProductLibrary, encoder: Encoder, rules: Rules, limits: Limits) -> None:
        self.library, self.encoder, self.rules, self.limits = library, encoder, rules, limits
        unknown = [name for name in limits.at_most if name not in library.kinds]
        if unknown:
            raise InputError(UNKNOWN.format(unknown[0], ", ".join(library.kinds)))
        if limits.min_distance is not None:
            raise InputError("--min-distance is for a written library; with --choices limit by --at-most COLUMN:COUNT")
        import pandas as pd

        self.lists = []  # B_j x d_j
        for own, column in zip(library.lists, encoder.columns, strict=True):
            table = Table(pd.DataFrame({own.name: own.values}), {own.name: own.kind}, None, own.source)
            self.lists.append(Encoder((column,)).encode(table))
        every = [group_codes(_labels(library, j), Limits({name: 1})) for j, name in enumerate(library.kinds)]
        self._codes = [every[list(library.kinds).index(name)].squeeze(-1) for name in limits.at_most]

    def __len__(self) -> int:
        return len(self.library)

    @property
    def source(self) -> str:
        """The library's name."""
        return self.library.source

    @cached_property
    def coded(self) -> Encoder:
        """Of rows of block codes, which are compared by equality only."""
        return Encoder(tuple(CategoricalColumn(own.name, ()) for own in self.library.lists))

    def rows(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Some rows encoded, and the codes of their groups: k -> k x d, k x g."""
        index = torch.from_numpy(self.library.index(numbers.cpu().numpy()))
        X = torch.cat([own[at] for own, at in zip(self.lists, index.unbind(-1), strict=True)], dim=-1)
        return X, self.groups(index)

    def groups(self, index: Tensor) -> Tensor:
        """Codes of the groups of some rows, k x J -> k x g."""
        names = list(self.library.kinds)
        codes = [own[index[:, names.index(n)]] for own, n in zip(self._codes, self.limits.at_most, strict=True)]
        return torch.stack(codes, dim=-1) if codes else torch.empty(len(index), 0, dtype=torch.long)

    def take(self, numbers: Tensor) -> Table:
        """Some rows as the library has them."""
        return self.library.take(numbers.numpy())

    @cached_property
    def barred(self) -> dict[str, np.ndarray]:
        """Why -> rows that may not be proposed, by number and rising, but for those with an incompatible pair."""
        sets = {"pending": self.rules.pending, "excluded": self.rules.excluded}
        found = {name: self._found(X) for name, X in sets.items() if X is not None}
        if not self.rules.allow_repeats and self.rules.measured is not None:
            found["measured_already"] = self._found(self.rules.measured)
        if self.rules.excluded_ids:
            named = self.library.find(sorted(self.rules.excluded_ids))
            found["excluded"] = np.concatenate([found.get("excluded", named[:0]), named[named >= 0]])
        return {name: np.unique(rows) for name, rows in found.items()}

    @cached_property
    def all_barred(self) -> Tensor:
        """All of these, rising."""
        return torch.from_numpy(np.unique(np.concatenate([np.empty(0, dtype=np.int64), *self.barred.values()])))

    def eligible(self, numbers: Tensor) -> Tensor:
        """Which rows may be proposed, k booleans."""
        place = torch.searchsorted(self.all_barred, numbers).clamp_max(max(0, len(self.all_barred) - 1))
        good = self.all_barred[place] != numbers if len(self.all_barred) else torch.ones(len(numbers), dtype=torch.bool)
        if not self.library.allowed:
            return good
        return good & torch.from_numpy(self.library.may_be(self.library.index(numbers.numpy())))

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many rows may not be proposed for what reason."""
        barred = {name: len(rows) for name, rows in self.barred.items()}
        return {"measured_already": 0, **barred, "incompatible": len(self) - self.library.allowed_count, "repeated": 0}

    @property
    def available(self) -> int:
        """Rows that may be proposed; blocks that are encoded alike count as different ones."""
        rows = self.all_barred.numpy()
        return self.library.allowed_count - int(self.library.may_be(self.library.index(rows)).sum())

    def check(self, q: int) -> None:
        """Refuse what a choice would refuse; limits are not looked at.

        Raises:
            InputError: fewer rows than q can be proposed.
        """
        self.check_lists(self.counts)
        if self.available < q:
            raise self.too_few(q, self.available, self.counts)

    def check_lists(self, counts: Mapping[str, int]) -> None:
        """Refuse lists of excluded rows of which the library has none."""
        self.rules.check_lists(counts, self.source)

    def too_few(self, q: int, available: int, counts: Mapping[str, int], limited: bool = False) -> InputError:
        """What to say where fewer rows than q can be proposed."""
        if limited:
            return InputError(
                f"{self.source}: q = {q}, but only {available} rows can be chosen under the limits; "
                "lower q, loosen the limits, or give longer lists"
            )
        names = {"measured_already": "measured already", "incompatible": "incompatible"}
        why = [f"{count:,} {names.get(name, name)}" for name, count in counts.items() if name != "repeated"]
        return InputError(
            f"{self.source}: q = {q}, but only {available:,} of its {len(self):,} rows can be proposed "
            f"({', '.join(why)}); lower q, or give longer lists"
        )

    def _found(self, X: Tensor) -> np.ndarray:
        """Numbers of all rows that are encoded as some rows are (n x d, or packed), in no order."""
        packing = Packing.of(self.encoder)
        X = X if X.is_floating_point() else packing.unpack(X)
        places = [np.split(*_spelled(own, X[:, cut], column)) for own, cut, column in self._columns()]
        blocks = []
        for own, known in places:
            keys: dict[bytes, list[int]] = {}
            for i, row in enumerate(own):
                keys.setdefault(row.tobytes(), []).append(i)
            blocks.append([keys.get(row.tobytes(), []) for row in known])
        rows = [index for own in zip(*blocks, strict=True) for index in combinations(*own)]
        return self.library.rows(np.array(rows, dtype=np.int64).reshape(-1, len(self.lists)))

    def _columns(self) -> list[tuple[Tensor, slice, object]]:
        return list(zip(self.lists, self.encoder.slices().values(), self.encoder.columns, strict=True))


def _spelled(own: Tensor, X: Tensor, column: object) -> tuple[np.ndarray, list[int]]:
    """Blocks and known rows as bytes, numbers that differ by rounding alike; where the known rows begin."""
    rows = as_bytes(torch.cat([own, X.to(own)]).numpy())
    return SameRows.of(rows, number_columns([column])).spelled(rows), [len(own)]


def _labels(library: ProductLibrary, j: int) -> Table:
    """The blocks of a list, as a table."""
    import pandas as pd

    own = library.lists[j]
    return Table(pd.DataFrame({own.name: own.values}), {own.name: own.kind}, None, own.source)
