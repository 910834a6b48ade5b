"""Opening what the user names: CSV, TSV and Parquet files, or a DataFrame."""

from __future__ import annotations

import csv
import gzip
import io
import lzma
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from beebo_scale.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

DELIMITERS = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (".csv", ".csv.gz", ".csv.xz", ".tsv", ".tsv.gz", ".tsv.xz", ".parquet")


@dataclass(frozen=True)
class Source:
    """A readable table: its columns are known, its cells are loaded on demand.

    Attributes:
        name: what messages call it.
        columns: the names in its header, in order.
        typed: whether the cells have types (Parquet, DataFrame) or are all text (CSV).
        load: returns the named columns as a frame with a RangeIndex, rows in file order.
    """

    name: str
    columns: tuple[str, ...]
    typed: bool
    load: Callable[[Sequence[str]], pd.DataFrame]

    def require(self, column: object, role: str) -> str:
        """Return the column's name if the source has it.

        Raises:
            InputError: the source has no such column.
        """
        if isinstance(column, str) and column in self.columns:
            return column
        has = listing(self.columns)
        if len(self.columns) == 1 and any(mark in has for mark in (";", "\\t", ",", "|")):
            has += " (is another character between its columns?)"
        raise InputError(
            f"{self.name} has no {role} column {column!r}{did_you_mean(column, self.columns)}; its columns are {has}"
        )


def listing(names: Iterable[object], limit: int = 8) -> str:
    """Quote the first names of a list, and count the others."""
    names = list(names)
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(repr(name) for name in names[:limit]) + more


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return ' (did you mean ...?)' for the known name nearest to a wrong one, or nothing."""
    folded: dict[str, str] = {}
    for candidate in known:
        folded.setdefault(candidate.strip().casefold(), candidate)
    near = get_close_matches(str(name).strip().casefold(), folded, n=1)
    return f" (did you mean {folded[near[0]]!r}?)" if near else ""


def open_source(source: str | os.PathLike[str] | pd.DataFrame) -> Source:
    """Look at a file's or a frame's header; no cell is read yet.

    Raises:
        InputError: the file is missing, empty, damaged or of an unknown type, or a header name is repeated.
    """
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        name = str(source)
        suffix = _suffix(path, name)
        _check_file(path, name)
        opened = _parquet(path, name) if suffix == ".parquet" else _delimited(path, name, suffix)
    else:
        opened = _frame(source)
    # Nameless columns may repeat: spreadsheets leave them behind, and nobody can ask for them by name.
    repeated = [column for column, count in Counter(opened.columns).items() if count > 1 and column]
    if repeated:
        places = [i + 1 for i, column in enumerate(opened.columns) if column == repeated[0]]
        raise InputError(
            f"{opened.name}: the header names {repeated[0]!r} more than once "
            f"(columns {', '.join(map(str, places))}); rename or remove one"
        )
    return opened


def _suffix(path: Path, name: str) -> str:
    for suffix in sorted(SUFFIXES, key=len, reverse=True):
        if path.name.lower().endswith(suffix):
            return suffix
    raise InputError(f"{name}: unknown file type; give one of {', '.join(SUFFIXES)}")


def _check_file(path: Path, name: str) -> None:
    if path.is_dir():
        raise InputError(f"{name} is a folder; give one file")
    if not path.exists():
        try:
            beside = [entry.name for entry in path.parent.iterdir()]
        except OSError:
            raise InputError(f"{name}: the folder {str(path.parent)!r} cannot be opened; check the path") from None
        raise InputError(f"{name}: no such file{did_you_mean(path.name, beside) or '; check the path'}")
    if path.stat().st_size == 0:
        raise InputError(f"{name} is empty (0 bytes); write it again")


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Turn what goes wrong inside a file into one line about the file."""
    import pyarrow as pa

    try:
        yield
    except UnicodeDecodeError:
        raise InputError(f"{name} is not UTF-8 text; save it as UTF-8") from None
    except (OSError, EOFError, zlib.error, lzma.LZMAError, csv.Error, pa.ArrowException) as error:
        why = " ".join(str(error).split())
        if "invalid UTF8" in why:
            raise InputError(f"{name} is not UTF-8 text; save it as UTF-8") from None
        raise InputError(f"{name} cannot be read ({why}); is it complete and of the type its name says?") from None


def _parquet(path: Path, name: str) -> Source:
    import pyarrow.parquet as pq

    with _reading(name), pq.ParquetFile(path) as file:
        # pandas stores a nameless index under such names; it is bookkeeping, not data
        columns = tuple(c for c in file.schema_arrow.names if not c.startswith("__index_level_"))

    def load(wanted: Sequence[str]) -> pd.DataFrame:
        with _reading(name), pq.ParquetFile(path) as file:
            # "a" also brings in "a.b", hence the selection; whole numbers stay whole beside missing ones
            cells = file.read(columns=list(wanted)).select(list(wanted))
            frame: pd.DataFrame = cells.to_pandas(integer_object_nulls=True, ignore_metadata=True)
        return frame

    return Source(name, columns, typed=True, load=load)


def _open_bytes(path: Path) -> IO[bytes]:
    if path.suffix.lower() == ".gz":
        return cast(IO[bytes], gzip.open(path))
    if path.suffix.lower() == ".xz":
        return lzma.open(path)
    return path.open("rb")


def _delimited(path: Path, name: str, suffix: str) -> Source:
    delimiter = DELIMITERS[suffix[:4]]
    with _reading(name), _open_bytes(path) as raw, io.TextIOWrapper(raw, "utf-8-sig", newline="") as text:
        header = next((row for row in csv.reader(text, delimiter=delimiter) if row), None)
    if header is None:
        raise InputError(f"{name} has no header and no rows; write it again")

    def load(wanted: Sequence[str]) -> pd.DataFrame:
        # The last column shows whether a quote was left open, whoever asked for it.
        last = header[-1:] if header.count(header[-1]) == 1 else []
        cells = _read_delimited(path, name, delimiter, list(dict.fromkeys([*wanted, *last])))
        if last and len(cells) and cells[last[0]][-1].as_py().endswith(("\n", "\r")):
            raise InputError(f"{name}: a quotation mark in column {last[0]!r} is never closed; remove or close it")
        frame: pd.DataFrame = cells.select(list(wanted)).to_pandas()
        return frame

    return Source(name, tuple(header), typed=False, load=load)


def _read_delimited(path: Path, name: str, delimiter: str, wanted: list[str]) -> Any:
    """Read columns as text; pyarrow, unlike pandas, refuses rows that are too long or too short."""
    import pyarrow as pa
    import pyarrow.csv

    ragged: list[Any] = []

    def note(row: Any) -> str:
        ragged.append(row)
        return "error"

    try:
        with _reading(name), _open_bytes(path) as raw:
            return pyarrow.csv.read_csv(
                raw,
                # one thread, or the number of a bad row is not known
                read_options=pyarrow.csv.ReadOptions(use_threads=False),
                parse_options=pyarrow.csv.ParseOptions(
                    delimiter=delimiter, newlines_in_values=True, invalid_row_handler=note
                ),
                convert_options=pyarrow.csv.ConvertOptions(
                    include_columns=wanted,
                    column_types={column: pa.string() for column in wanted},
                    strings_can_be_null=False,
                ),
            )
    except InputError:
        if not ragged:
            raise
    row = ragged[0]
    raise InputError(
        f"{name}: row {row.number - 1} has {row.actual_columns} cells, but the header has "
        f"{row.expected_columns}; quote cells that hold {delimiter!r}, or repair the row"
    )


def _frame(source: object) -> Source:
    import pandas as pd

    if not isinstance(source, pd.DataFrame):
        raise InputError(f"the table is a {type(source).__name__}; give a file's path or a pandas DataFrame")
    frame = source
    odd = [column for column in frame.columns if not isinstance(column, str)]
    if odd:
        raise InputError(
            f"table: the column name {odd[0]!r} is not text; use frame.columns = frame.columns.astype(str)"
        )
    return Source(
        name="table",
        columns=tuple(frame.columns),
        typed=True,
        load=lambda wanted: frame[list(wanted)].reset_index(drop=True),
    )
