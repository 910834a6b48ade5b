"""The rows of a library as the choice sees them: encoded once, with what may not be proposed and the groups of limits.

A chunk that was encoded stays, packed, as long as all of them take no more than `KEPT_BYTES` bytes. Chunks beyond are
read and encoded again where they are needed: nothing grows with the library.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError
from ...progress import track
from ...screening import Encoder, Table
from ...screening.library import Library
from ...screening.packing import Packing, pack
from ...specs import Limits
from .exclusion import Judge, Rules, row_hashes
from .limits import group_codes

KEPT_BYTES = 1 << 29


@dataclass(frozen=True, eq=False)
class EncodedChunk:
    """Some rows of a library that follow each other.

    Attributes:
        first: number of the first row in the library.
        rows: n x bytes uint8, packed.
        packing: of the rows.
        eligible: which of them may be proposed, n booleans.
        groups: codes of their groups in each limited column, n x g.
        counts: how many may not be proposed for what reason.
    """

    first: int
    rows: Tensor
    packing: Packing
    eligible: Tensor
    groups: Tensor
    counts: dict[str, int]

    @property
    def size(self) -> int:
        """Bytes, about."""
        return self.rows.numel() + self.eligible.numel() + 8 * self.groups.numel()

    def X(self, places: Tensor) -> Tensor:
        """Some of the rows, k x d."""
        return self.packing.unpack(self.rows[places])


class EncodedLibrary:
    """A library with an encoder, the rules of what may be proposed and the limits of a batch."""

    def __init__(self, library: Library, encoder: Encoder, rules: Rules, limits: Limits) -> None:
        self.library, self.encoder = library.bounded(encoder.width), encoder
        self.rules, self.limits = rules, limits
        self.packing, self._judge = Packing.of(encoder), Judge(rules, encoder)
        self._kept: dict[int, EncodedChunk] = {}
        self._size = 0

    def __len__(self) -> int:
        return len(self.library)

    @property
    def source(self) -> str:
        """The library's name."""
        return self.library.source

    @property
    def count(self) -> int:
        """Number of chunks."""
        return self.library.count

    def chunks(self, wanted: Sequence[int] | None = None) -> Iterator[tuple[int, EncodedChunk]]:
        """Some chunks in order; those that are not kept are read, one at a time.

        Raises:
            InputError: a cell is not usable.
        """
        numbers = range(self.count) if wanted is None else wanted
        missing = self.library.chunks([chunk for chunk in numbers if chunk not in self._kept])
        for chunk in numbers:
            yield chunk, self._kept[chunk] if chunk in self._kept else self._encoded(*next(missing))

    def rows(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Some rows encoded, and the codes of their groups: k -> k x d, k x g."""
        X = torch.empty(len(numbers), self.encoder.width, dtype=torch.float64)
        groups = torch.empty(len(numbers), len(self.limits.columns), dtype=torch.long)
        there = torch.zeros(len(numbers), dtype=torch.bool)
        for chunk in self._kept.values():
            here = (numbers >= chunk.first) & (numbers < chunk.first + len(chunk.rows))
            places = numbers[here] - chunk.first
            X[here], groups[here] = chunk.X(places), chunk.groups[places]
            there |= here
        if not bool(there.all()):
            table = self.library.take(numbers[~there].numpy())
            X[~there], groups[~there] = self.encoder.encode(table), group_codes(table, self.limits)
        return X, groups

    def take(self, numbers: Tensor) -> Table:
        """Some rows as the library has them."""
        return self.library.take(numbers.numpy())

    def check(self, q: int) -> None:
        """Encode all rows, and refuse what a choice would refuse; limits are not looked at.

        Keeps 8 bytes for each row that may be proposed, while it lasts.

        Raises:
            InputError: a row of the library is not usable, or fewer rows than q can be proposed.
        """
        hashes, counts = [np.empty(0, dtype=np.uint64)], Counter[str]()
        for _, chunk in track(self.chunks(), "checking the library", total=self.count):
            counts.update(chunk.counts)
            hashes.append(row_hashes(chunk.rows[chunk.eligible].numpy()))
        self.check_lists(counts)
        every = np.concatenate(hashes)
        available = len(every) if self.rules.allow_repeats else len(np.unique(every))
        if available < q:
            raise self.too_few(q, available, dict(counts, repeated=counts["repeated"] + len(every) - available))

    def check_lists(self, counts: Mapping[str, int]) -> None:
        """Refuse lists of excluded rows of which the library has none.

        Args:
            counts: how many of its rows may not be proposed for what reason.
        """
        self.rules.check_lists(counts, self.source)

    def too_few(self, q: int, available: int, counts: dict[str, int], limited: bool = False) -> InputError:
        """What to say where fewer rows than q can be proposed."""
        if limited:
            return InputError(
                f"{self.source}: q = {q}, but only {available} rows can be chosen under the limits; "
                "lower q, loosen the limits, or give a larger library"
            )
        why = [f"{counts.get('measured_already', 0)} measured already"]
        why += [f"{counts[name]} {name}" for name in ("pending", "excluded") if name in counts]
        why += [f"{counts['repeated']} repeat an earlier row"]
        return InputError(
            f"{self.source}: q = {q}, but only {available} of its {len(self)} rows can be proposed "
            f"({', '.join(why)}); lower q, or give a larger library"
        )

    def _encoded(self, number: int, table: Table) -> EncodedChunk:
        places = table.before + np.arange(1, len(table) + 1)
        packed = pack(self.encoder, table, places)
        rows = torch.from_numpy(packed)
        groups = group_codes(table, self.limits)
        eligible, counts = self._judge.judge(table, packed, groups.numpy())
        chunk = EncodedChunk(self.library.first_row(number), rows, self.packing, eligible, groups, counts)
        if self._size + chunk.size <= KEPT_BYTES:
            self._kept[number] = chunk
            self._size += chunk.size
        return chunk
