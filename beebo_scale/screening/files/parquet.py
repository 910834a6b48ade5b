"""Parquet files, read whole or in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .limits import held
from .source import Ranges, Source, cut, reading

if TYPE_CHECKING:
    import pandas as pd

BATCH = 65_536  # rows decoded at once
BUFFER = 1 << 20  # bytes of each column read at once, however large its row group


def open_parquet(path: Path, name: str) -> Source:
    """Look at the schema of a file.

    Raises:
        InputError: the file cannot be read.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with reading(name), path.open("rb") as raw, pq.ParquetFile(raw) as file:  # Arrow takes no path that is no text
        # pandas stores a nameless index under such names; it is bookkeeping, not data
        fields = [f for f in file.schema_arrow if not f.name.startswith("__index_level_")]
        rows = file.metadata.num_rows

    def load(wanted: Sequence[str]) -> pd.DataFrame:
        with reading(name), path.open("rb") as raw, pq.ParquetFile(raw) as file:
            # "a" also brings in "a.b", hence the selection
            batches = list(held(file.iter_batches(BATCH, columns=list(wanted)), name))
            cells = pa.Table.from_batches(batches) if batches else file.read(columns=list(wanted))
            return _typed_frame(cells.select(list(wanted)))

    def stream(wanted: Sequence[str], ranges: Ranges | None) -> Iterator[pd.DataFrame]:
        with reading(name), path.open("rb") as raw, pq.ParquetFile(raw, buffer_size=BUFFER) as file:
            yield from map(_typed_frame, cut(_decoded(file, list(wanted), ranges), ranges))

    types = {f.name: _type_word(f.type) for f in fields}
    return Source(name, tuple(f.name for f in fields), typed=True, load=load, stream=stream, rows=rows, types=types)


def _typed_frame(cells: Any) -> pd.DataFrame:
    """An Arrow table as a frame; whole numbers stay whole beside missing ones."""
    plain = cells.replace_schema_metadata(None)  # what pandas left there may be damaged, and is not needed
    frame: pd.DataFrame = plain.to_pandas(integer_object_nulls=True, ignore_metadata=True)
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
