"""Opening what the user names: CSV, TSV and Parquet files, folders of Parquet files, or a DataFrame."""

from __future__ import annotations

import csv
import gzip
import io
import lzma
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from beebo_scale.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

Ranges = Sequence[tuple[int, int]]  # rows from, up to but without; in order and apart
DELIMITERS = {".csv": ",", ".tsv": "\t"}
BATCH = 65_536  # rows of a Parquet file decoded at once
BUFFER = 1 << 20  # bytes of each Parquet column read at once, however large its row group
BLOCK = 1 << 22  # bytes of a CSV file parsed at once
SUFFIXES = (".csv", ".csv.gz", ".csv.xz", ".tsv", ".tsv.gz", ".tsv.xz", ".parquet")


@dataclass(frozen=True)
class Source:
    """A readable table: its columns are known, its cells are loaded on demand.

    Attributes:
        name: what messages call it.
        columns: the names in its header, in order.
        typed: whether the cells have types (Parquet, DataFrame) or are all text (CSV).
        load: returns the named columns as a frame with a RangeIndex, rows in file order.
        stream: yields the named columns of some ranges of rows, one frame for each range, the file never whole in
            memory; None instead of ranges yields all rows, in pieces as they come.
        rows: number of rows, None where only reading them tells.
        types: column -> 'number', 'whole number', 'text' or another word for its type; empty where all is text.
    """

    name: str
    columns: tuple[str, ...]
    typed: bool
    load: Callable[[Sequence[str]], pd.DataFrame]
    stream: Callable[[Sequence[str], Ranges | None], Iterator[pd.DataFrame]]
    rows: int | None = None
    types: Mapping[str, str] = field(default_factory=dict)

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


def open_parts(source: str | os.PathLike[str] | pd.DataFrame) -> list[Source]:
    """Look at the headers of a file, a frame, or all Parquet files of a folder, by name.

    Raises:
        InputError: as in `open_source`; a folder without Parquet files, or with files of different columns.
    """
    if not isinstance(source, (str, os.PathLike)) or not Path(source).is_dir():
        return [open_source(source)]
    folder = Path(source)
    paths = sorted(p for p in folder.iterdir() if p.name.lower().endswith(".parquet") and not p.name.startswith("."))
    if not paths:
        raise InputError(f"{source} is a folder without Parquet files; give a file, or a folder that holds some")
    parts = [open_source(path) for path in paths]
    for part in parts[1:]:
        missing = [column for column in parts[0].columns if column not in part.columns]
        other = missing or [column for column in part.columns if column not in parts[0].columns]
        if other:
            has = "lacks the column" if missing else "has the column"
            but = "has" if missing else "lacks"
            raise InputError(
                f"{part.name} {has} {other[0]!r}, which {parts[0].name} {but}; give all files of a folder one header"
            )
    return parts


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
        fields = [f for f in file.schema_arrow if not f.name.startswith("__index_level_")]
        rows = file.metadata.num_rows

    def load(wanted: Sequence[str]) -> pd.DataFrame:
        with _reading(name), pq.ParquetFile(path) as file:
            # "a" also brings in "a.b", hence the selection
            return _typed_frame(file.read(columns=list(wanted)).select(list(wanted)))

    def stream(wanted: Sequence[str], ranges: Ranges | None) -> Iterator[pd.DataFrame]:
        with _reading(name), pq.ParquetFile(path, buffer_size=BUFFER) as file:
            yield from map(_typed_frame, _cut(_decoded(file, list(wanted), ranges), ranges))

    types = {f.name: _type_word(f.type) for f in fields}
    return Source(name, tuple(types), typed=True, load=load, stream=stream, rows=rows, types=types)


def _typed_frame(cells: Any) -> pd.DataFrame:
    """An Arrow table as a frame; whole numbers stay whole beside missing ones."""
    frame: pd.DataFrame = cells.to_pandas(integer_object_nulls=True, ignore_metadata=True)
    return frame


def _type_word(kind: Any) -> str:
    """What a column holds, however it is stored."""
    import pyarrow.types as at

    if at.is_dictionary(kind):
        return _type_word(kind.value_type)
    if at.is_string(kind) or at.is_large_string(kind) or at.is_string_view(kind):
        return "text"
    if at.is_integer(kind):
        return "whole number"
    return "number" if at.is_floating(kind) or at.is_decimal(kind) else str(kind)


def _decoded(file: Any, wanted: list[str], ranges: Ranges | None) -> Iterator[tuple[int, Any]]:
    """The row groups of a Parquet file that hold rows of the ranges, in small batches: first row and cells."""
    start = 0
    for group in range(file.metadata.num_row_groups):
        stop = start + file.metadata.row_group(group).num_rows
        if ranges is None or any(a < stop and start < b for a, b in ranges):
            row = start
            for batch in file.iter_batches(BATCH, row_groups=[group], columns=wanted):
                yield row, batch.select(wanted)
                row += batch.num_rows
        start = stop


def _cut(batches: Iterable[tuple[int, Any]], ranges: Ranges | None) -> Iterator[Any]:
    """One Arrow table for each range, out of batches in order with the numbers of their first rows."""
    import pyarrow as pa

    if ranges is None:
        yield from (pa.Table.from_batches([batch]) for _, batch in batches)
        return
    left, held = list(reversed(ranges)), []
    for first, batch in batches:
        while left and left[-1][0] < first + batch.num_rows:
            start, stop = left[-1]
            a = max(start, first)
            held.append(batch.slice(a - first, min(stop - a, batch.num_rows)))
            if stop > first + batch.num_rows:
                break
            yield pa.Table.from_batches(held)
            held = []
            left.pop()
        if not left:
            return


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

    # The last column shows whether a quote was left open, whoever asked for it.
    last = header[-1:] if header.count(header[-1]) == 1 else []

    def batches(wanted: Sequence[str]) -> Iterator[Any]:
        batch = None
        for batch in _read_delimited(path, name, delimiter, list(dict.fromkeys([*wanted, *last]))):
            yield batch
        if last and batch is not None and len(batch) and batch[last[0]][-1].as_py().endswith(("\n", "\r")):
            raise InputError(f"{name}: a quotation mark in column {last[0]!r} is never closed; remove or close it")

    def load(wanted: Sequence[str]) -> pd.DataFrame:
        import pyarrow as pa

        held = [batch.select(list(wanted)) for batch in batches(wanted)]
        schema = pa.schema([(column, pa.string()) for column in wanted])
        frame: pd.DataFrame = pa.Table.from_batches(held, schema).to_pandas()
        return frame

    def stream(wanted: Sequence[str], ranges: Ranges | None) -> Iterator[pd.DataFrame]:
        numbered = _numbered(batch.select(list(wanted)) for batch in batches(wanted))
        yield from (cells.to_pandas() for cells in _cut(numbered, ranges))

    return Source(name, tuple(header), typed=False, load=load, stream=stream)


def _numbered(batches: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    """Batches with the numbers of their first rows."""
    row = 0
    for batch in batches:
        yield row, batch
        row += batch.num_rows


def _read_delimited(path: Path, name: str, delimiter: str, wanted: list[str]) -> Iterator[Any]:
    """Read columns as text, in batches; pyarrow, unlike pandas, refuses rows that are too long or too short."""
    import pyarrow as pa
    import pyarrow.csv

    ragged: list[Any] = []

    def note(row: Any) -> str:
        ragged.append(row)
        return "error"

    try:
        with _reading(name), _open_bytes(path) as raw:
            yield from pyarrow.csv.open_csv(
                raw,
                # one thread, or the number of a bad row is not known
                read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=BLOCK),
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
    if ragged:
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

    def stream(wanted: Sequence[str], ranges: Ranges | None) -> Iterator[pd.DataFrame]:
        for start, stop in [(0, len(frame))] if ranges is None else ranges:
            yield frame[list(wanted)].iloc[start:stop].reset_index(drop=True)

    return Source(
        name="table",
        columns=tuple(frame.columns),
        typed=True,
        load=lambda wanted: frame[list(wanted)].reset_index(drop=True),
        stream=stream,
        rows=len(frame),
    )
