"""CSV and TSV files, read whole or in pieces."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import lzma
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from ...errors import InputError
from .headers import HEAD, Head, look
from .limits import LONGEST_LINE, check_unpacked, held
from .source import Ranges, Source, cut, reading

if TYPE_CHECKING:
    import pandas as pd

DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}  # by name; a header that has none of these may have another one
OTHERS = (";", "\t", "|", ",")
SEPARATOR = re.compile(r"sep=(.?)")  # a first line that spreadsheets obey
BYTES_AT_ONCE = 1 << 22  # bytes parsed at once
GZIP, XZ = b"\x1f\x8b", b"\xfd7zXZ\x00"
UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class _Text(io.RawIOBase):
    """The bytes of a text file, as UTF-8; counts lines and refuses what is no text.

    Args:
        raw: the bytes, decompressed.
        name: of the file.
        encoding: "utf-8" or "utf-16", of the bytes.
        packed: bytes of the file if it is a packed one.
    """

    def __init__(self, raw: IO[bytes], name: str, encoding: str, packed: int | None = None) -> None:
        super().__init__()
        self._raw, self._name, self._encoding, self.lines = raw, name, encoding, 0
        self._packed, self._read, self._line = packed, 0, 0  # bytes read, and of them in the last line
        self._decoder = codecs.getincrementaldecoder(encoding)()

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer as far as there is something to read.

        Raises:
            InputError: bytes that are not UTF-8 text, or a line or a file that no table has; the message names the
                line.
        """
        data = b""
        while not data:
            data = self._raw.read(len(buffer) // 2)  # UTF-8 may take half as much again as UTF-16
            try:
                text = self._decoder.decode(data, final=not data)
            except UnicodeDecodeError as error:
                raise self._no_text(error) from None
            if not data:
                return 0
            if self._encoding != "utf-8":
                data = text.encode()
        if b"\0" in data:
            line = self.lines + data[: data.index(b"\0")].count(b"\n") + 1
            raise InputError(f"{self._name} holds a NUL byte in line {line}; it is no text file, or is damaged")
        self._check_size(data)
        self.lines += data.count(b"\n")
        buffer[: len(data)] = data
        return len(data)

    def _check_size(self, data: bytes) -> None:
        end = max(data.rfind(b"\n"), data.rfind(b"\r"))
        self._read, self._line = self._read + len(data), len(data) - 1 - end + (self._line if end < 0 else 0)
        if self._packed is not None:
            check_unpacked(self._name, self._packed, self._read)
        if self._line > LONGEST_LINE:
            line = self.lines + data.count(b"\n") + 1
            raise InputError(f"{self._name} has more than {LONGEST_LINE >> 20} MB in line {line}; that is no table")

    def _no_text(self, error: UnicodeDecodeError) -> InputError:
        line = self.lines + error.object[: error.start].count(b"\n") + 1
        if self._encoding != "utf-8":
            return InputError(f"{self._name} is not whole UTF-16 text (see line {line}); save it as UTF-8")
        byte = f"0x{error.object[error.start]:02X}"
        return InputError(f"{self._name} is not UTF-8 text (byte {byte} in line {line}); save it as UTF-8")


@contextmanager
def opened_text(path: Path, name: str) -> Iterator[_Text]:
    """The text of a file, whatever it is packed with and whatever its name says about that."""
    with reading(name), path.open("rb") as file:
        head = file.read(len(XZ))
        file.seek(0)
        packed: IO[bytes] = file
        if head.startswith(GZIP):
            packed = cast(IO[bytes], gzip.GzipFile(fileobj=file))
        elif head == XZ:
            packed = lzma.LZMAFile(file)  # noqa: SIM115, closed with the file
        buffered = io.BufferedReader(cast(Any, packed))
        size = None if packed is file else os.fstat(file.fileno()).st_size
        yield _Text(buffered, name, "utf-16" if buffered.peek(2)[:2] in UTF16 else "utf-8", size)


def open_delimited(path: Path, name: str, suffix: str, wanted: Collection[str] = ()) -> Source:
    """Look at the header of a file; its name ends in `suffix`, and `wanted` are names that the header should have.

    Raises:
        InputError: no header, or the file cannot be read.
    """
    head, delimiter = _header(path, name, DELIMITERS[suffix[:4]], wanted)
    header = list(head.names)

    # The last column shows whether a quote was left open, whoever asked for it.
    last = header[-1:] if header.count(header[-1]) == 1 else []

    def batches(wanted: Sequence[str]) -> Iterator[Any]:
        batch, rows = None, 0
        with opened_text(path, name) as text:
            for batch in _read_delimited(text, name, head, delimiter, list(dict.fromkeys([*wanted, *last]))):
                rows += batch.num_rows
                yield batch
        if last and batch is not None and len(batch) and batch[last[0]][-1].as_py().endswith(("\n", "\r")):
            raise InputError(f"{name}: a quotation mark in column {last[0]!r} is never closed; remove or close it")
        if text.lines > rows + head.line:
            _check_quotes(path, name, delimiter, head.row)

    def load(wanted: Sequence[str]) -> pd.DataFrame:
        import pyarrow as pa

        kept = list(held((batch.select(list(wanted)) for batch in batches(wanted)), name))
        schema = pa.schema([(column, pa.string()) for column in wanted])
        frame: pd.DataFrame = pa.Table.from_batches(kept, schema).to_pandas()
        return frame

    def stream(wanted: Sequence[str], ranges: Ranges | None) -> Iterator[pd.DataFrame]:
        numbered = _numbered(batch.select(list(wanted)) for batch in batches(wanted))
        yield from (cells.to_pandas() for cells in cut(numbered, ranges))

    return Source(name, head.names, typed=False, load=load, stream=stream).without(head.remarks, head.notes)


def _header(path: Path, name: str, usual: str, wanted: Collection[str]) -> tuple[Head, str]:
    """Where the names of the columns stand, and what stands between them.

    Raises:
        InputError: no row holds anything.
    """
    found: dict[str, Head] = {}
    for delimiter in dict.fromkeys((usual, *OTHERS)):
        rows = _first_rows(path, name, delimiter)
        said = SEPARATOR.fullmatch(delimiter.join(rows[0][1])) if rows else None
        if said:
            if said[1] and said[1] != delimiter:
                continue
            rows = rows[1:]
        if not rows:
            raise InputError(f"{name} has no header and no rows; write it again")
        found[delimiter] = head = look(rows, wanted)
        if said or (delimiter == usual and len(head.names) > 1 and head.has == len(set(wanted))):
            return head, delimiter
    best = max(found, key=lambda delimiter: found[delimiter].has)  # of equally good ones the first
    if not found[best].has:
        several = [delimiter for delimiter, head in found.items() if len(head.names) > 1]
        best = usual if usual in several or len(several) != 1 else several[0]
    return found[best], best


def _first_rows(path: Path, name: str, delimiter: str) -> list[tuple[int, list[str]]]:
    """The first rows that hold something, each with the number of its last line."""
    rows: list[tuple[int, list[str]]] = []
    with opened_text(path, name) as raw, io.TextIOWrapper(io.BufferedReader(raw), "utf-8-sig", newline="") as text:
        reader = csv.reader(text, delimiter=delimiter)
        try:
            rows.extend(islice(((reader.line_num, row) for row in reader if row), HEAD))
        except csv.Error:  # below the first row it is said where the rows are read
            if not rows:
                raise
    return rows


def _check_quotes(path: Path, name: str, delimiter: str, above: int) -> None:
    """Refuse text after a closing quotation mark and name the row: there a quote was left open and took in rows."""
    read = -above  # with the header, so that this is the number of the next row
    with opened_text(path, name) as raw, io.TextIOWrapper(io.BufferedReader(raw), "utf-8-sig", newline="") as text:
        try:
            for cells in csv.reader(text, delimiter=delimiter, strict=True):
                read += bool(cells)
        except csv.Error as error:
            raise InputError(
                f"{name}: row {read} has a quotation mark that is not closed in its cell ({error}); close or remove it"
            ) from None


def _numbered(batches: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    """Batches with the numbers of their first rows."""
    row = 0
    for batch in batches:
        yield row, batch
        row += batch.num_rows


def _read_delimited(text: _Text, name: str, head: Head, delimiter: str, wanted: list[str]) -> Iterator[Any]:
    """Read columns as text, in batches; pyarrow, unlike pandas, refuses rows that are too long or too short."""
    import pyarrow as pa
    import pyarrow.csv

    if not head.below:
        return
    ragged: list[Any] = []

    def note(row: Any) -> str:
        ragged.append(row)
        return "error"

    try:
        with reading(name):
            yield from pyarrow.csv.open_csv(
                text,
                # one thread, or the number of a bad row is not known
                read_options=pyarrow.csv.ReadOptions(
                    use_threads=False, block_size=BYTES_AT_ONCE, column_names=list(head.names), skip_rows=head.line
                ),
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
        way = "is its first line a comment? remove it"
        if not head.names[0].startswith("#"):
            way = f"quote cells that hold {delimiter!r}, or repair the row"
        if "\n" in row.text:
            way = "is a quotation mark in it left open? close or remove it"
        raise InputError(
            f"{name}: row {row.number - head.line} has {row.actual_columns} cells, but the header has "
            f"{row.expected_columns}; {way}"
        )
