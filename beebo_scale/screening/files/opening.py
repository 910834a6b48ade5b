"""Opening what the user names: CSV, TSV, Excel and Parquet files, folders of Parquet files, or a DataFrame."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import InputError
from . import excel
from .delimited import open_delimited
from .parquet import open_parquet
from .source import Ranges, Source, did_you_mean, reading
from .source import listing as listing

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".csv", ".csv.gz", ".csv.xz", ".tsv", ".tsv.gz", ".tsv.xz", ".txt", ".parquet", *excel.EXCEL_SUFFIXES)
SIGNS = {  # first bytes -> what the file is, and the suffix that it should have
    b"PAR1": ("a Parquet file", ".parquet"),
    b"PK\x03\x04": ("a zip archive, as Excel files are", ".xlsx"),
    b"\xd0\xcf\x11\xe0": ("an Excel file of the old kind", ".xlsx, once it is saved as such"),
    b"BZh": ("packed by bzip2", ".csv.gz, once it is packed by gzip"),
    b"\x28\xb5\x2f\xfd": ("packed by zstd", ".csv.gz, once it is packed by gzip"),
}


def open_parts(source: str | os.PathLike[str] | pd.DataFrame, wanted: Collection[str] = ()) -> list[Source]:
    """Look at the headers of a file, a frame, or all Parquet files of a folder, by name; see `open_source`.

    Raises:
        InputError: as in `open_source`; a folder without Parquet files, or with files of different columns.
    """
    if not isinstance(source, (str, os.PathLike)) or not Path(source).is_dir():
        return [open_source(source, wanted)]
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


def open_source(source: str | os.PathLike[str] | pd.DataFrame | Source, wanted: Collection[str] = ()) -> Source:
    """Look at a file's or a frame's header; no cell is read yet. What is open already is taken as it is.

    Args:
        source: what to open.
        wanted: names of columns by which the header of a text file or sheet is found below its first row.

    Raises:
        InputError: the file is missing, empty, damaged or of an unknown type, or a header name is repeated.
    """
    if isinstance(source, Source):
        return source
    opened = _open_file(source, wanted) if isinstance(source, (str, os.PathLike)) else _frame(source)
    # Nameless columns may repeat: spreadsheets leave them behind, and nobody can ask for them by name.
    repeated = [column for column, count in Counter(opened.columns).items() if count > 1 and column]
    if repeated:
        places = [i + 1 for i, column in enumerate(opened.columns) if column == repeated[0]]
        raise InputError(
            f"{opened.name}: the header names {repeated[0]!r} more than once "
            f"(columns {', '.join(map(str, places))}); rename or remove one"
        )
    return opened


def split_sheet(source: str | os.PathLike[str]) -> tuple[Path, str | None]:
    """The path of a file, and the sheet that is asked for behind '#' if it is a workbook."""
    match = excel.SHEET_NAME.fullmatch(os.fspath(source))
    if match and not Path(source).exists():
        return Path(match["file"]), match["sheet"]
    return Path(source), None


def _open_file(source: str | os.PathLike[str], wanted: Collection[str]) -> Source:
    path, sheet = split_sheet(source)
    name = str(source) if sheet is None else str(path)
    suffix = _suffix(path, name)
    _check_file(path, name)
    _check_sign(path, name, suffix)
    if suffix == ".parquet":
        return open_parquet(path, name)
    if suffix in excel.EXCEL_SUFFIXES:
        return excel.open_excel(path, name, sheet, wanted)
    return open_delimited(path, name, suffix, wanted)


def _check_sign(path: Path, name: str, suffix: str) -> None:
    """Refuse a file whose content is of another type than its name says; gzip and xz are recognised by content."""
    with reading(name), path.open("rb") as file:
        head = file.read(4)
    for sign, (what, right) in SIGNS.items():
        if head.startswith(sign) and suffix not in (right, ".xlsm" if right == ".xlsx" else right):
            raise InputError(f"{name} is {what}, not what its name says; give it a name that ends in {right}")


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
            yield frame.iloc[start:stop][list(wanted)].reset_index(drop=True)

    return Source(
        name="table",
        columns=tuple(frame.columns),
        typed=True,
        load=lambda wanted: frame[list(wanted)].reset_index(drop=True),
        stream=stream,
        rows=len(frame),
    )
