"""Which rows of a library may be proposed at all."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from ...screening import Table

MIX = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9)  # odd numbers that spread the bits of a product


@dataclass(frozen=True, eq=False)
class Rules:
    """What must not be proposed; all rows are encoded ones, on the CPU.

    Attributes:
        measured: n x d, may come again only if repeats are allowed.
        pending: n x d, are being measured and never proposed.
        excluded: n x d, never proposed.
        excluded_ids: never proposed, compared as text.
        allow_repeats: whether a measured row may come again, and one input twice.
    """

    measured: Tensor | None = None
    pending: Tensor | None = None
    excluded: Tensor | None = None
    excluded_ids: frozenset[str] = frozenset()
    allow_repeats: bool = False

    @cached_property
    def _sets(self) -> dict[str, RowSet]:
        rows = {"measured_already": self.measured, "pending": self.pending, "excluded": self.excluded}
        return {name: RowSet(X.numpy()) for name, X in rows.items() if X is not None}

    def taken(self) -> Tensor:
        """All rows that must not come (again), n x d, one of the sets at least not None."""
        return torch.cat([X for X in (self.measured, self.pending, self.excluded) if X is not None])

    def judge(self, table: Table, X: Tensor, groups: Tensor) -> tuple[Tensor, dict[str, int]]:
        """Which rows may be proposed, p booleans, and how many are of each kind that may not.

        A row that repeats an earlier one may still be the only one with room under the limits: it is barred only where
        their groups are the same, too.

        Args:
            table: p rows.
            X: the same encoded, p x d.
            groups: codes of their groups, p x g.
        """
        found = {name: rows.holds(X.numpy()) for name, rows in self._sets.items()}
        if self.excluded_ids and table.id is not None:
            named = table.frame[table.id].astype(str).isin(self.excluded_ids).to_numpy()
            found["excluded"] = found.get("excluded", False) | named
        known = np.zeros(len(X), dtype=bool)
        barred = np.zeros(len(X), dtype=bool)
        for name, rows in found.items():
            known |= rows
            if not (name == "measured_already" and self.allow_repeats):
                barred |= rows
        found["repeated"] = np.zeros(len(X), dtype=bool)
        found["repeated"][~known] = repeats(X.numpy()[~known], groups.numpy()[~known])
        if not self.allow_repeats:
            barred |= found["repeated"]
        return torch.from_numpy(~barred), {name: int(rows.sum()) for name, rows in found.items()}


class RowSet:
    """Rows (n x d) that others are looked up among, by a hash of 8 bytes; hits are compared number by number."""

    def __init__(self, rows: np.ndarray, seed: int = 0) -> None:
        hashes, first = np.unique(row_hashes(rows, seed), return_index=True)
        self.rows, self.seed, self.hashes, self.first = rows, seed, hashes, first

    def holds(self, X: np.ndarray) -> np.ndarray:
        """Which of the rows of X (p x d) are in the set: p booleans."""
        if not len(self.rows):
            return np.zeros(len(X), dtype=bool)
        hashes = row_hashes(X, self.seed)
        place = np.searchsorted(self.hashes, hashes).clip(max=len(self.hashes) - 1)
        hit = self.hashes[place] == hashes
        found = hit.copy()
        found[hit] = (X[hit] == self.rows[self.first[place[hit]]]).all(-1)
        chance = hit & ~found  # another row has this hash; try again with other hashes
        if chance.any():
            found[chance] = RowSet(self.rows, self.seed + 1).holds(X[chance])
        return found


def repeats(X: np.ndarray, groups: np.ndarray | None = None) -> np.ndarray:
    """Which rows of X (p x d) repeat an earlier one, and its groups (p x g whole numbers) if given: p booleans."""
    if groups is not None and groups.size:
        labels = [np.unique(codes, return_inverse=True)[1] for codes in groups.T]
        X = np.column_stack([X, *labels])
    return originals(X) < np.arange(len(X))


def originals(X: np.ndarray, seed: int = 0) -> np.ndarray:
    """The first row that is equal to each row of X (p x d), itself where none was earlier: p row numbers."""
    _, first, inverse = np.unique(row_hashes(X, seed), return_index=True, return_inverse=True)
    leader = first[inverse]  # the first row with the same hash
    later = np.flatnonzero(leader < np.arange(len(X)))
    chance = later[(X[later] != X[leader[later]]).any(-1)]
    if len(chance):
        leader[chance] = chance[originals(X[chance], seed + 1)]
    return leader


def row_hashes(X: np.ndarray, seed: int = 0) -> np.ndarray:
    """Hashes of rows, p x d -> p unsigned numbers of 8 bytes; equal rows have equal hashes."""
    bits = (X + 0.0).view(np.uint64)  # -0 becomes 0, to which it is equal
    hashes = np.full(len(X), seed, dtype=np.uint64)
    for column in bits.T:
        hashes ^= column ^ (column >> np.uint64(29))
        hashes *= np.uint64(MIX[0])
        hashes ^= hashes >> np.uint64(32)
        hashes *= np.uint64(MIX[1])
    return hashes


def known(X: Tensor, measured: Tensor) -> tuple[Tensor, Tensor]:
    """Which rows of X (p x d) are among the measured (n x d), and which repeat an earlier row of X: p booleans each."""
    rows = np.ascontiguousarray(X.detach().cpu().double().numpy())
    old = RowSet(np.ascontiguousarray(measured.detach().cpu().double().numpy())).holds(rows)
    return torch.from_numpy(old).to(X.device), torch.from_numpy(repeats(rows)).to(X.device)
