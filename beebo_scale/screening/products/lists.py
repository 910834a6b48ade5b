"""One list of a product library: its blocks, what they are called, and which block a cell means."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import InputError
from ...specs import is_list_file
from ..column_uses import infer
from ..columns import COLUMN_KINDS, check_ids, convert
from ..files.numerals import numbers
from ..files.opening import Source, did_you_mean, listing, open_source
from ..places import Place, rows_text, shown
from ..same import id_texts

if TYPE_CHECKING:
    import pandas as pd

CONTENT = ("smiles", "sequence", "content", "value")  # columns that hold blocks, where none has the list's own name
IDS = ("id", "name", "code")
BETWEEN = "|"  # the ids of the blocks of a product
ENTRIES = ("file", "content", "id", "kind")  # of a list that is written as a mapping


@dataclass(frozen=True, eq=False)
class BlockList:
    """The blocks of one feature.

    Attributes:
        name: of the feature.
        kind: one of COLUMN_KINDS.
        source: file, or the list's name.
        values: B blocks in the form of their kind: float64 or texts.
        ids: B texts; those of a list without ids are the blocks themselves, or their numbers where these are long.
        named: whether the list has ids of its own.
        columns: all columns of the file, B rows.
    """

    name: str
    kind: str
    source: str
    values: np.ndarray
    ids: np.ndarray
    named: bool
    columns: pd.DataFrame

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def _by_id(self) -> dict[str, int]:
        return {id: i for i, id in enumerate(self.ids.tolist())}

    @cached_property
    def _by_content(self) -> dict[Any, int]:
        return {value: i for i, value in enumerate(self.values.tolist())}

    def find(self, cells: pd.Series) -> np.ndarray:
        """The block that each cell means, by id or by content: n numbers, -1 where it is none."""
        import pandas as pd

        places, different = pd.factorize(cells.astype(object), use_na_sentinel=False)
        return self._found(pd.Series(different, dtype=object))[places]

    def _found(self, cells: pd.Series) -> np.ndarray:
        """`find` for different cells."""
        texts = id_texts(cells)
        found = np.array([self._by_id.get(text, -1) for text in texts], dtype=np.int64)
        left = np.flatnonzero(found < 0)
        if not len(left):
            return found
        if self.kind == "continuous":
            found[left] = [self._by_content.get(v, -1) for v in numbers(cells.iloc[left]).values.tolist()]
            return found
        content = [text.upper() if self.kind in ("protein", "dna") else text for text in texts[left]]
        found[left] = [self._by_content.get(text, -1) for text in content]
        if self.kind == "smiles" and (found < 0).any():
            left = np.flatnonzero(found < 0)
            found[left] = [self._canonical.get(_canonical(text), -1) for text in texts[left]]
        return found

    @cached_property
    def _canonical(self) -> dict[str | None, int]:
        known = {_canonical(text): i for i, text in reversed(list(enumerate(self.values.tolist())))}
        known.pop(None, None)
        return known

    def look_up(self, cells: pd.Series, place: Place) -> np.ndarray:
        """`find`, and a refusal of cells that are no block.

        Raises:
            InputError: the first of them.
        """
        found = self.find(cells)
        if (found < 0).any():
            first = str(cells.iloc[int(np.argmax(found < 0))])
            near = did_you_mean(first, self.ids.tolist()) if len(first) < 40 else ""
            raise place.error(
                f"holds {shown(first)}{near}, no id and no block of {self.source},",
                found < 0,
                "add the block to the list, or correct or leave out the row",
            )
        return found


def read_list(name: str, given: Any, kind: str | None, folder: Path | None = None) -> BlockList:
    """A list as people write it.

    Args:
        name: of the feature.
        given: a file, a few values ('20|40|60' or a list), or a mapping with ENTRIES.
        kind: of the feature, None to infer it.
        folder: where the paths count from; None is the working directory.

    Raises:
        InputError: an empty list, a block named twice, or cells that are not usable.
    """
    entries = dict(given) if isinstance(given, Mapping) else {}
    unknown = [key for key in entries if key not in ENTRIES]
    if unknown or (entries and "file" not in entries):
        raise InputError(
            f"choices {name!r}: a list that is written as a mapping has the entries {', '.join(ENTRIES)}, of which "
            f"file must be there{', not ' + repr(unknown[0]) if unknown else ''}"
        )
    kind, path = entries.get("kind") or kind, entries.get("file", given)
    if kind is not None and kind not in COLUMN_KINDS:
        raise InputError(f"choices {name!r}: unknown kind {kind!r}; kinds are {', '.join(COLUMN_KINDS)}")
    if isinstance(path, str) and is_list_file(path):
        return _of_file(name, open_source(path if folder is None else str(folder / path)), kind, entries)
    if hasattr(path, "columns"):
        return _of_file(name, open_source(path), kind, entries)
    values = path.split("|") if isinstance(path, str) else list(path) if isinstance(path, Sequence) else [path]
    return _of_values(name, [v.strip() if isinstance(v, str) else v for v in values], kind)


def _of_values(name: str, values: Sequence[Any], kind: str | None) -> BlockList:
    import pandas as pd

    values = [value for value in values if value not in ("", None)]
    source = f"choices {name!r}"
    if not values:
        raise InputError(f"{source} is an empty list; give at least one block")
    cells = pd.Series(values, dtype=object).astype(str)
    return _checked(name, source, cells, kind or infer(cells, False, _place(source, name, cells)).use, None, None)


def _of_file(name: str, file: Source, kind: str | None, entries: Mapping[str, Any]) -> BlockList:
    content, id = _content(name, file, entries), _id(name, file, entries)
    if id == content:
        id = None
    raw = file.load(list(file.columns))
    if not len(raw):
        raise InputError(f"{file.name} has a header but no rows; a list needs at least one block")
    if kind is None:
        smiles = content.strip().casefold() == "smiles"
        kind = "smiles" if smiles else infer(raw[content], file.typed, _place(file.name, content, raw)).use
    return _checked(name, file.name, raw[content], kind, None if id is None else raw[id], raw)


def _content(name: str, file: Source, entries: Mapping[str, Any]) -> str:
    """The column that holds the blocks."""
    if entries.get("content") is not None:
        return file.require(entries["content"], "content")
    folded = {column.strip().casefold(): column for column in reversed(file.columns)}
    known = next((folded[word] for word in (name.casefold(), *CONTENT) if word in folded), None)
    if known is None and len(file.columns) == 1:
        known = file.columns[0]
    if known is None:
        raise InputError(
            f"{file.name}: which column holds the blocks of {name!r}? call it {name!r} or one of {', '.join(CONTENT)}, "
            f"or write {name}: {{file: ..., content: ...}}; its columns are {listing(file.columns)}"
        )
    return known


def _id(name: str, file: Source, entries: Mapping[str, Any]) -> str | None:
    """The column that names the blocks."""
    if entries.get("id") is not None:
        return file.require(entries["id"], "id")
    folded = {column.strip().casefold(): column for column in reversed(file.columns)}
    return next((folded[word] for word in (*IDS, f"{name.casefold()}_id") if word in folded), None)


def _place(source: str, column: str, cells: Any) -> Place:
    return Place(source, column, np.arange(1, len(cells) + 1))


def _checked(
    name: str, source: str, cells: pd.Series, kind: str, ids: pd.Series | None, columns: pd.DataFrame | None
) -> BlockList:
    """The list with every block and every id there once."""
    import pandas as pd

    place = _place(source, str(cells.name or name), cells)
    values = convert(cells, kind, place)
    _refuse_repeats(values, source, "block")
    if ids is not None:
        check_ids(ids, _place(source, str(ids.name), ids), "give every block an id")
        names = id_texts(ids)
        _refuse_repeats(pd.Series(names, dtype=object), source, "id")
        odd = [i for i, id in enumerate(names) if BETWEEN in id]
        if odd:
            raise InputError(
                f"{source}: the id {names[odd[0]]!r} holds {BETWEEN!r}, which stands between the ids of a "
                f"product ({rows_text(np.array(odd) + 1)}); rename it"
            )
    elif kind in ("continuous", "categorical", "protein", "dna"):
        names = id_texts(values)
    else:
        names = np.array([f"{name}{i}" for i in range(1, len(values) + 1)], dtype=object)
    frame = pd.DataFrame(index=range(len(values))) if columns is None else columns.reset_index(drop=True)
    return BlockList(name, kind, source, values.to_numpy(), names, ids is not None, frame)


def _refuse_repeats(values: pd.Series, source: str, what: str) -> None:
    again = values.duplicated().to_numpy()
    if again.any():
        value = values[again].iloc[0]
        rows = np.flatnonzero((values == value).to_numpy()) + 1
        text = shown(value) if isinstance(value, str) else f"{value:g}"
        raise InputError(f"{source}: the {what} {text} is there twice ({rows_text(rows)}); name it once")


def _canonical(text: str) -> str | None:
    """A molecule in RDKit's own spelling, None where it cannot be read."""
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        molecule = Chem.MolFromSmiles(text)
    return None if molecule is None else str(Chem.MolToSmiles(molecule))


MUTATION = re.compile(r"^([A-Za-z])(\d+)([A-Za-z])$")
