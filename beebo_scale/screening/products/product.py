"""A library that is a product of lists: its rows have numbers and ids, and are made when they are asked for.

Row (i_1, ..., i_J) has the number i_1 B_2 ... B_J + ... + i_J: the last list runs fastest, as in a library that nested
loops would write. Nothing here is of the size of the product.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import InputError
from ...specs import Columns, Lists
from ..files.opening import Source, open_source
from ..files.source import Ranges
from ..invalid import Fault
from ..measured.target import target_of
from ..places import Place
from ..table import Table
from .lists import BETWEEN, BlockList, read_list
from .pairs import Allowed, read_pairs
from .sites import Sites, sites_of

if TYPE_CHECKING:
    pass

MOST = 2**63 - 1  # rows that a whole number of 64 bits can count
ID = "product"  # column of the ids of a batch, where the lists have ids and nobody names the column


@dataclass(frozen=True, eq=False)
class ProductLibrary:
    """All combinations of one block of each list.

    Attributes:
        lists: in the order of the features.
        allowed: pairs that may be; all others may.
        id: column of the products' ids, None without.
        sites: the sequence that some lists are positions of.
        files: that were read.
    """

    lists: tuple[BlockList, ...]
    allowed: tuple[Allowed, ...] = ()
    id: str | None = None
    sites: tuple[Sites, ...] = ()
    files: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    invalid: tuple[Fault, ...] = ()
    near: tuple[str, ...] = ()
    source = "the product of the lists"

    def __post_init__(self) -> None:
        names = [own.name for own in self.lists]
        twice = [name for i, name in enumerate(names) if name in names[:i]]
        if twice:
            raise InputError(f"choices names the list {twice[0]!r} twice; name it once")
        if len(names) < 2:
            raise InputError("choices has one list; give two or more, or the file as --library")
        if math.prod(map(len, self.lists)) > MOST:
            raise InputError(
                f"{self.words} products are more than 2^63, which no row number can tell apart; shorten a list"
            )

    def __len__(self) -> int:
        return math.prod(self.sizes)

    @property
    def sizes(self) -> list[int]:
        """Blocks of each list."""
        return [len(own) for own in self.lists]

    @property
    def kinds(self) -> dict[str, str]:
        """Feature -> kind, in order."""
        return {own.name: own.kind for own in self.lists}

    @property
    def words(self) -> str:
        """130 acid x 62 amine."""
        return " x ".join(f"{len(own):,} {own.name}" for own in self.lists)

    @cached_property
    def allowed_count(self) -> int:
        """Products of which no pair is incompatible."""
        import torch

        if not self.allowed:
            return len(self)
        touched = sorted({j for pair in self.allowed for j in pair.lists})
        letters = {j: chr(ord("a") + i) for i, j in enumerate(touched)}
        equation = ",".join("".join(letters[j] for j in pair.lists) for pair in self.allowed)
        count = torch.einsum(f"{equation}->", *[torch.from_numpy(p.table.astype(np.float64)) for p in self.allowed])
        return round(float(count)) * math.prod(len(own) for j, own in enumerate(self.lists) if j not in touched)

    def describe(self) -> str:
        """How many products there are, in a line."""
        barred = len(self) - self.allowed_count
        out = f", {barred:,} of them left out as incompatible" if barred else ""
        return f"{self.words}: {len(self):,} products{out}"

    def index(self, rows: np.ndarray) -> np.ndarray:
        """Numbers of the blocks of some rows, n -> n x J."""
        return np.stack(np.unravel_index(np.asarray(rows, dtype=np.int64), self.sizes), axis=-1)

    def rows(self, index: np.ndarray) -> np.ndarray:
        """Row numbers from the numbers of blocks, n x J -> n."""
        found: np.ndarray = np.ravel_multi_index(tuple(np.asarray(index, dtype=np.int64).T), self.sizes)
        return found

    def may_be(self, index: np.ndarray) -> np.ndarray:
        """Which rows have no incompatible pair, n x J -> n booleans."""
        good = np.ones(len(index), dtype=bool)
        for pair in self.allowed:
            good &= pair.table[tuple(index[:, j] for j in pair.lists)]
        return good

    def take(self, rows: Sequence[int] | np.ndarray) -> Table:
        """Some rows by number: their id, whole sequences, and the blocks."""
        import pandas as pd

        index = self.index(np.asarray(rows))
        columns: dict[str, Any] = {}
        if self.id is not None:
            columns[self.id] = self.ids(index)
        for sites in self.sites:
            if sites.name not in columns:
                columns[sites.name] = sites.sequences(self._letters(sites, index))
        for own, at in zip(self.lists, index.T, strict=True):
            columns[own.name] = own.values[at]
        return Table(pd.DataFrame(columns), self.kinds, self.id, self.source)

    def _letters(self, sites: Sites, index: np.ndarray) -> np.ndarray:
        at = [self.lists.index(own) for own in sites.lists]
        return np.stack([self.lists[j].values[index[:, j]] for j in at], axis=-1)

    def ids(self, index: np.ndarray) -> np.ndarray:
        """Ids of some rows, n x J -> n: those of their blocks, or mutations, joined."""
        parts, done = [], set[str]()
        of = {own.name: sites for sites in self.sites for own in sites.lists}
        for own, at in zip(self.lists, index.T, strict=True):
            sites = of.get(own.name)
            if sites is None:
                parts.append(own.ids[at].astype(object))
            elif sites.name not in done:
                done.add(sites.name)
                letters = self._letters(sites, index)
                parts.append(sites.sequences(letters) if self.id == sites.name else sites.mutations(letters))
        found = parts[0]
        for part in parts[1:]:
            found = found + BETWEEN + part
        return np.asarray(found, dtype=object)

    def find(self, ids: Sequence[str]) -> np.ndarray:
        """Rows by their ids, n -> n, -1 where there is none."""
        import pandas as pd

        of = {own.name: sites for sites in self.sites for own in sites.lists}
        heads = [own for own in self.lists if own.name not in of or of[own.name].lists[0] is own]
        split = [str(id).split(BETWEEN) for id in ids]
        whole = [parts if len(parts) == len(heads) else [""] * len(heads) for parts in split]
        index = []
        for own, cells in zip(heads, zip(*whole, strict=True), strict=False):
            sites = of.get(own.name)
            if sites is None:
                index.append(own.find(pd.Series(cells, dtype=object)))
                continue
            letters = [sites.read(cell)[0] or " " * len(sites.lists) for cell in cells]
            for i, site in enumerate(sites.lists):
                index.append(site.find(pd.Series([x[i] for x in letters], dtype=object)))
        blocks = np.stack(index, axis=-1) if index else np.full((len(split), len(self.lists)), -1)
        there = (blocks >= 0).all(axis=-1)
        found = np.full(len(split), -1, dtype=np.int64)
        found[there] = self.rows(blocks[there])
        return found

    def named(self, ids: Collection[str]) -> dict[str, Table]:
        """The rows of some ids, one each; ids that it does not have are left out."""
        names, rows = np.array(list(ids), dtype=object), self.find(list(ids))
        table = self.take(rows[rows >= 0])
        return {name: table.take(np.array([i])) for i, name in enumerate(names[rows >= 0])}

    def spells(self, file: Source) -> bool:
        """Whether a file names the blocks of all lists."""
        sites = {own.name for each in self.sites for own in each.lists if own.name not in file.columns}
        names = [own.name for own in self.lists if own.name not in sites] + [s.name for s in self.sites if sites]
        return all(name in file.columns for name in names)

    def measured(self, source: Any, columns: Columns | None = None) -> Source:
        """A file of the user's with its blocks, named by id or by content, spelled as the lists spell them.

        Args:
            source: a file, a frame or an open file.
            columns: of measured rows; those without a target may hold anything. None are rows of candidates.

        Raises:
            InputError: a list has no column, or a cell is no block of its list.
        """
        file = open_source(source)
        needed = [own.name for own in self.lists]
        for sites in self.sites:
            if not all(own.name in file.columns for own in sites.lists):
                file.require(sites.name, "sequence")
                needed = [name for name in needed if name not in {own.name for own in sites.lists}]
        for name in needed:
            file.require(name, "feature")
        return self._spelled(file, columns)

    def _spelled(self, file: Source, columns: Columns | None) -> Source:
        raw = file.load(list(file.columns)).copy()
        numbers = file.numbers(len(raw))
        use = np.ones(len(raw), dtype=bool)
        if columns is not None and columns.targets:
            targets = [file.require(name, "target") for name in columns.targets]
            found = [
                target_of(raw[n], Place(file.name, n, file.numbers(len(raw))), columns.drop_invalid) for n in targets
            ]
            missing = np.stack([np.isnan(one.values) for one in found])
            use = np.asarray(~missing.all(axis=0))
        rows = np.flatnonzero(use)
        some = raw.iloc[rows].reset_index(drop=True)
        of = {own.name: sites for sites in self.sites for own in sites.lists}
        for sites in self.sites:
            if sites.name in file.columns and sites.lists[0].name not in file.columns:
                letters = sites.letters(some[sites.name], Place(file.name, sites.name, numbers[rows]))
                for own, column in zip(sites.lists, letters.T, strict=True):
                    raw[own.name] = _filled(len(raw), rows, column, None)
        for own in self.lists:
            if own.name not in of:
                at = own.look_up(some[own.name], Place(file.name, own.name, numbers[rows]))
                raw[own.name] = _filled(len(raw), rows, own.values[at], own.values[0])

        def stream(wanted: Sequence[str], ranges: Ranges | None) -> Any:
            for start, stop in [(0, len(raw))] if ranges is None else ranges:
                yield raw.iloc[start:stop][list(wanted)].reset_index(drop=True)

        every = tuple(dict.fromkeys([*file.columns, *self.kinds]))
        return replace(
            file, columns=every, load=lambda wanted: raw[list(wanted)].reset_index(drop=True), stream=stream,
            rows=len(raw),
        )  # fmt: skip

    def columns_of(self, columns: Columns) -> Columns:
        """What the columns of measured rows are: each list is a feature, and there are no others.

        Raises:
            InputError: a feature without a list.
        """
        given = columns.features
        names = [] if given is None else list(given)
        sites = {own.name for own in self.sites}
        unknown = [name for name in names if name not in self.kinds and name not in sites]
        if unknown:
            raise InputError(f"feature {unknown[0]!r} has no list; name its blocks by --choices {unknown[0]}:...")
        id = columns.id if columns.id not in sites else None
        return replace(columns, features=dict(self.kinds), id=id)


def _filled(n: int, rows: np.ndarray, values: np.ndarray, other: Any) -> np.ndarray:
    """A column with values in some rows; the others have no target and are left out."""
    column = np.full(n, "A" if other is None else other, dtype=object)
    column[rows] = values
    return column


def open_product(lists: Lists, kinds: Mapping[str, Any] | None = None, id: str | None = None) -> ProductLibrary:
    """Open the lists of a choice.

    Args:
        lists: as in `Choice`.
        kinds: feature -> kind, where known.
        id: column of the ids of the products; None takes ID where a list has ids, else none.

    Raises:
        InputError: a list, a table of pairs or an expression that cannot be used.
    """
    given, incompatible, folder = _written(lists)
    kinds = kinds if isinstance(kinds, Mapping) else {}
    found, every = list[BlockList](), list[Sites]()
    for name, value in given.items():
        sites = sites_of(name, value)
        if sites is not None:
            every.append(sites)
            found += sites.lists
        else:
            found.append(read_list(str(name), value, kinds.get(name), folder))
    allowed = [read_pairs(pairs, found, folder) for pairs in incompatible]
    ids = any(own.named for own in found) or bool(every)
    return ProductLibrary(
        tuple(found),
        tuple(allowed),
        id or (ID if ids and ID not in {own.name for own in found} else None),
        tuple(every),
        tuple(lists.files.values()),
    )


def _written(lists: Lists) -> tuple[Mapping[str, Any], Sequence[Any], Path | None]:
    """Lists and pairs, those of a YAML file with the folder that their paths count from."""
    if not isinstance(lists.choices, str):
        return lists.choices, lists.incompatible, None
    import yaml  # type: ignore[import-untyped]

    path = Path(lists.choices)
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); check the path") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise InputError(f"{path} is no YAML; write lines such as 'acid: acids.csv' or 'temp: [20, 40]'") from None
    if not isinstance(content, dict) or not content:
        raise InputError(f"{path} names no lists; write lines such as 'acid: acids.csv' or 'temp: [20, 40]'")
    given = content.get("choices", {k: v for k, v in content.items() if k != "incompatible"})
    pairs = content.get("incompatible") or []
    pairs = [pairs] if isinstance(pairs, str) else list(pairs)
    return given, [*pairs, *lists.incompatible], path.parent
