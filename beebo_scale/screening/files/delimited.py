"""CSV and TSV files, read whole or in pieces."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import lzma
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from ...errors import InputError
from .limits import LONGEST_LINE, check_unpacked, held
from .source import Ranges, Source, cut, reading

if TYPE_CHECKING:
    import pandas as pd

DELIMITERS = {".csv": ",", ".tsv": "\t"}  # by name; a header that has none of these may have another one
OTHERS = (";", "\t", "|", ",")
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
def _opened(path: Path, name: str) -> Iterator[_Text]:
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


def open_delimited(path: Path, name: str, suffix: str) -> Source:
    """Look at the header of a file; its name ends in `suffix`.

    Raises:
        InputError: no header, or the file cannot be read.
    """
    header, delimiter = _header(path, name, DELIMITERS[suffix[:4]])

    # The last column shows whether a quote was left open, whoever asked for it.
    last = header[-1:] if header.count(header[-1]) == 1 else []

    def batches(wanted: Sequence[str]) -> Iterator[Any]:
        batch, rows = None, 0
        with _opened(path, name) as text:
            for batch in _read_delimited(text, name, header, delimiter, list(dict.fromkeys([*wanted, *last]))):
                rows += batch.num_rows
                yield batch
        if last and batch is not None and len(batch) and batch[last[0]][-1].as_py().endswith(("\n", "\r")):
            raise InputError(f"{name}: a quotation mark in column {last[0]!r} is never closed; remove or close it")
        if text.lines > rows + 1:
            _check_quotes(path, name, delimiter)

    def load(wanted: Sequence[str]) -> pd.DataFrame:
        import pyarrow as pa

        kept = list(held((batch.select(list(wanted)) for batch in batches(wanted)), name))
        schema = pa.schema([(column, pa.string()) for column in wanted])
        frame: pd.DataFrame = pa.Table.from_batches(kept, schema).to_pandas()
        return frame

    def stream(wanted: Sequence[str], ranges: Ranges | None) -> Iterator[pd.DataFrame]:
        numbered = _numbered(batch.select(list(wanted)) for batch in batches(wanted))
        yield from (cells.to_pandas() for cells in cut(numbered, ranges))

    return Source(name, tuple(header), typed=False, load=load, stream=stream)


def _header(path: Path, name: str, usual: str) -> tuple[list[str], str]:
    """The names in the first line, and what stands between them; a file without a first line is refused."""
    found = {}
    for delimiter in (usual, *(other for other in OTHERS if other != usual)):
        with _opened(path, name) as raw, io.TextIOWrapper(io.BufferedReader(raw), "utf-8-sig", newline="") as text:
            row = next((row for row in csv.reader(text, delimiter=delimiter) if row), None)
        if row is None:
            raise InputError(f"{name} has no header and no rows; write it again")
        found[delimiter] = row
        if len(row) > 1 and delimiter == usual:
            break
    if found[usual][0].startswith("sep=") and len(found[usual]) < 3:
        raise InputError(f"{name}: its first line {''.join(found[usual])!r} is no header; remove the line")
    others = [delimiter for delimiter, row in found.items() if len(row) > 1]
    delimiter = others[0] if len(others) == 1 else usual
    return found[delimiter], delimiter


def _check_quotes(path: Path, name: str, delimiter: str) -> None:
    """Refuse text after a closing quotation mark and name the row: there a quote was left open and took in rows."""
    read = 0  # with the header, so that this is the number of the next row
    with _opened(path, name) as raw, io.TextIOWrapper(io.BufferedReader(raw), "utf-8-sig", newline="") as text:
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


def _read_delimited(text: _Text, name: str, header: list[str], delimiter: str, wanted: list[str]) -> Iterator[Any]:
    """Read columns as text, in batches; pyarrow, unlike pandas, refuses rows that are too long or too short."""
    import pyarrow as pa
    import pyarrow.csv

    ragged: list[Any] = []

    def note(row: Any) -> str:
        ragged.append(row)
        return "error"

    try:
        with reading(name):
            yield from pyarrow.csv.open_csv(
                text,
                # one thread, or the number of a bad row is not known
                read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=BYTES_AT_ONCE),
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
        if not header[0].startswith("#"):
            way = f"quote cells that hold {delimiter!r}, or repair the row"
        if "\n" in row.text:
            way = "is a quotation mark in it left open? close or remove it"
        raise InputError(
            f"{name}: row {row.number - 1} has {row.actual_columns} cells, but the header has "
            f"{row.expected_columns}; {way}"
        )
