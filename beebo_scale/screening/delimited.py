"""CSV and TSV files, read whole or in pieces."""

from __future__ import annotations

import csv
import gzip
import io
import lzma
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from beebo_scale.errors import InputError

from .source import Ranges, Source, cut, reading

if TYPE_CHECKING:
    import pandas as pd

DELIMITERS = {".csv": ",", ".tsv": "\t"}
BLOCK = 1 << 22  # bytes parsed at once


def _open_bytes(path: Path) -> IO[bytes]:
    if path.suffix.lower() == ".gz":
        return cast(IO[bytes], gzip.open(path))
    if path.suffix.lower() == ".xz":
        return lzma.open(path)
    return path.open("rb")


def open_delimited(path: Path, name: str, suffix: str) -> Source:
    """Look at the header of a file; its name ends in `suffix`.

    Raises:
        InputError: no header, or the file cannot be read.
    """
    delimiter = DELIMITERS[suffix[:4]]
    with reading(name), _open_bytes(path) as raw, io.TextIOWrapper(raw, "utf-8-sig", newline="") as text:
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
        yield from (cells.to_pandas() for cells in cut(numbered, ranges))

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
        with reading(name), _open_bytes(path) as raw:
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
