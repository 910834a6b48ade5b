"""Which rows of a library may be proposed at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError
from ...screening import Encoder, Table
from ...screening.packing import Packing
from ...screening.same import SameRows, as_bytes, id_texts, number_columns

MIX = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9)  # odd numbers that spread the bits of a product


@dataclass(frozen=True, eq=False)
class Rules:
    """What must not be proposed; rows are encoded ones on the CPU, as float64 (n x d) or packed (n x bytes uint8).

    Attributes:
        measured: may come again only if repeats are allowed.
        pending: n x d float64, are being measured and never proposed.
        excluded: never proposed.
        excluded_ids: never proposed, in the spelling of `id_texts`.
        lists: files that name excluded rows by their features -> how many.
        allow_repeats: whether a measured row may come again, and one input twice.
    """

    measured: Tensor | None = None
    pending: Tensor | None = None
    excluded: Tensor | None = None
    excluded_ids: frozenset[str] = frozenset()
    lists: Mapping[str, int] = field(default_factory=dict)
    allow_repeats: bool = False

    def taken(self) -> Tensor:
        """All float64 rows that must not come (again), n x d, one of the sets at least not None."""
        return torch.cat([X for X in (self.measured, self.pending, self.excluded) if X is not None])

    def check_lists(self, counts: Mapping[str, int], source: str) -> None:
        """Refuse lists of excluded rows of which a library has none.

        Args:
            counts: how many rows of the library may not be proposed for what reason.
            source: its name.

        Raises:
            InputError: it has none of them.
        """
        if self.lists and not counts.get("excluded"):
            names = ", ".join(f"{name}: none of its {rows} rows" for name, rows in self.lists.items())
            raise InputError(f"{names} is in {source}; correct them, or leave the list out")


class Judge:
    """Rules with the encoder of the rows that they are asked about."""

    def __init__(self, rules: Rules, encoder: Encoder) -> None:
        self.rules, packing = rules, Packing.of(encoder)
        self.columns = number_columns(encoder.columns, packing.offsets())
        rows = {"measured_already": rules.measured, "pending": rules.pending, "excluded": rules.excluded}
        packed = {name: packing.packed(X) for name, X in rows.items() if X is not None}
        self._sets = {name: RowSet(own, SameRows.of(own, self.columns)) for name, own in packed.items()}

    def judge(self, table: Table, rows: np.ndarray, groups: np.ndarray) -> tuple[Tensor, dict[str, int]]:
        """Which rows may be proposed, p booleans, and how many are of each kind that may not.

        A row that repeats an earlier one may still be the only one with room under the limits: it is barred only where
        their groups are the same, too.

        Args:
            table: p rows.
            rows: the same packed, p x bytes.
            groups: codes of their groups, p x g.
        """
        found = {name: known.holds(rows) for name, known in self._sets.items()}
        if self.rules.excluded_ids and table.id is not None:
            named = np.isin(id_texts(table.frame[table.id]), list(self.rules.excluded_ids))
            found["excluded"] = found.get("excluded", False) | named
        known = np.zeros(len(rows), dtype=bool)
        barred = np.zeros(len(rows), dtype=bool)
        for name, hits in found.items():
            known |= hits
            if not (name == "measured_already" and self.rules.allow_repeats):
                barred |= hits
        found["repeated"] = np.zeros(len(rows), dtype=bool)
        rest = rows[~known]
        found["repeated"][~known] = repeats(SameRows.of(rest, self.columns).spelled(rest), groups[~known])
        if not self.rules.allow_repeats:
            barred |= found["repeated"]
        return torch.from_numpy(~barred), {name: int(hits.sum()) for name, hits in found.items()}


class RowSet:
    """Rows (n x bytes) that others are looked up among, by a hash of 8 bytes; hits are compared byte by byte."""

    def __init__(self, rows: np.ndarray, same: SameRows | None = None, seed: int = 0) -> None:
        self.same, self.seed = same, seed
        self.rows = rows if same is None else same.spelled(rows)
        self.hashes, self.first = np.unique(row_hashes(self.rows, seed), return_index=True)

    def holds(self, rows: np.ndarray) -> np.ndarray:
        """Which of the rows (p x bytes) are in the set: p booleans."""
        if not len(self.rows):
            return np.zeros(len(rows), dtype=bool)
        rows = rows if self.same is None else self.same.spelled(rows)
        hashes = row_hashes(rows, self.seed)
        place = np.searchsorted(self.hashes, hashes).clip(max=len(self.hashes) - 1)
        hit = self.hashes[place] == hashes
        found = hit.copy()
        found[hit] = (rows[hit] == self.rows[self.first[place[hit]]]).all(-1)
        chance = hit & ~found  # another row has this hash; try again with other hashes
        if chance.any():
            found[chance] = RowSet(self.rows, seed=self.seed + 1).holds(rows[chance])
        return found


def repeats(rows: np.ndarray, groups: np.ndarray | None = None) -> np.ndarray:
    """Which rows (p x bytes) repeat an earlier one, and its groups (p x g whole numbers) if given: p booleans."""
    if groups is not None and groups.size:
        labels = [np.unique(codes, return_inverse=True)[1] for codes in groups.T]
        rows = np.concatenate([rows, as_bytes(np.column_stack(labels))], axis=1)
    return originals(rows) < np.arange(len(rows))


def originals(rows: np.ndarray, seed: int = 0) -> np.ndarray:
    """The first row that is equal to each of the rows (p x bytes), itself where none was earlier: p row numbers."""
    _, first, inverse = np.unique(row_hashes(rows, seed), return_index=True, return_inverse=True)
    leader = first[inverse]  # the first row with the same hash
    later = np.flatnonzero(leader < np.arange(len(rows)))
    chance = later[(rows[later] != rows[leader[later]]).any(-1)]
    if len(chance):
        leader[chance] = chance[originals(rows[chance], seed + 1)]
    return leader


def repeated_in_group(original: Tensor, groups: Tensor) -> Tensor:
    """Which rows repeat an earlier one with the same groups: p booleans on the CPU.

    Args:
        original: p, the first row with the same input.
        groups: p x g codes.
    """
    return torch.from_numpy(repeats(as_bytes(original.double().unsqueeze(-1).numpy()), groups.numpy()))


def original_inputs(X: Tensor, encoder: Encoder) -> Tensor:
    """The first of the encoded rows (p x d) that is the same experiment as each of them: p row numbers on the CPU."""
    rows = as_bytes(X.detach().cpu().double().numpy())
    return torch.from_numpy(originals(SameRows.of(rows, number_columns(encoder.columns)).spelled(rows)))


def row_hashes(rows: np.ndarray, seed: int = 0) -> np.ndarray:
    """Hashes of rows, p x bytes uint8 -> p unsigned numbers of 8 bytes; equal rows have equal hashes."""
    spare = -rows.shape[1] % 8
    words = np.pad(rows, ((0, 0), (0, spare))) if spare else np.ascontiguousarray(rows)
    hashes = np.full(len(rows), seed, dtype=np.uint64)
    for column in words.view(np.uint64).T:
        hashes ^= column ^ (column >> np.uint64(29))
        hashes *= np.uint64(MIX[0])
        hashes ^= hashes >> np.uint64(32)
        hashes *= np.uint64(MIX[1])
    return hashes


def known(X: Tensor, measured: Tensor) -> tuple[Tensor, Tensor]:
    """Which rows of X (p x d) are among the measured (n x d), and which repeat an earlier row of X: p booleans each."""
    rows = as_bytes(X.detach().cpu().double().numpy())
    old = RowSet(as_bytes(measured.detach().cpu().double().numpy())).holds(rows)
    return torch.from_numpy(old).to(X.device), torch.from_numpy(repeats(rows)).to(X.device)
