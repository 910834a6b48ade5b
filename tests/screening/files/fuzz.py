"""Tables by chance, written in the ways of people, programs and broken disks, with what they should be read as."""

from __future__ import annotations

import gzip
import io
import lzma
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

KINDS = {"a": "continuous", "base": "categorical"}
MISSING = ("", "NA", "n/a", "NaN", "-", "None", "#N/A", "NULL")
LABELS = ("DMF", "THF", "MeCN", "2-MeTHF", "Ü", "a b", "NA", "1,4-dioxane", 'the "best"', "x;y", "line\nbreak", "e|f")
SEPARATORS = (",", ";", "\t", "|")
PACKED = ("snappy", "zstd", "none")
EXTRAS = {  # columns that nobody asks for
    "date": lambda rng, n: [f"2024-0{1 + k % 9}-1{k % 9}" for k in range(n)],
    "flag": lambda rng, n: [("TRUE", "false")[k] for k in rng.integers(0, 2, n)],
    "mixed": lambda rng, n: [("1.5", "high", "", "3 mM")[k] for k in rng.integers(0, 4, n)],
    "dose": lambda rng, n: [f"{k} mM" for k in rng.integers(1, 9, n)],
    "": lambda rng, n: [""] * n,
}


@dataclass
class Fuzzed:
    """A file.

    Attributes:
        path: of the file.
        a, base, y: the columns as they should be read; y has NaN where nothing was measured.
        recipe: how it was written.
        whole: whether its content says without doubt what it holds; else it may be refused, or read in part.
    """

    path: Path
    a: np.ndarray
    base: list[str]
    y: np.ndarray
    recipe: dict[str, Any] = field(default_factory=dict)
    whole: bool = True


def fuzzed(folder: Path, seed: int) -> Fuzzed:
    """The file of a seed."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 30))
    a = np.round(rng.normal(0, 10.0 ** rng.integers(-2, 7), n), int(rng.integers(0, 5)))
    base = [LABELS[k] for k in rng.integers(0, int(rng.integers(2, len(LABELS) + 1)), n)]
    y = np.where(rng.random(n) < 0.1 * rng.integers(0, 3), np.nan, np.round(rng.normal(0, 5, n), 2))
    y[:2] = 1.25, 2.5  # there is something to learn
    file = Fuzzed(folder / f"f{seed}", a, base, y)
    write = [_text, _text, _text, _parquet, _excel][int(rng.integers(0, 5))]
    write(file, rng)
    if rng.random() < 0.25:
        _damage(file, rng)
    return file


def _text(file: Fuzzed, rng: np.random.Generator) -> None:
    n, sep = len(file.a), SEPARATORS[rng.integers(0, 4)]
    comma = sep != "," and rng.random() < 0.3
    grouped = not comma and rng.random() < 0.2
    columns: dict[str, list[str]] = {
        "a": [f"{x:,.2f}" if grouped else repr(float(x)) for x in file.a],
        "base": file.base,
        "y": [MISSING[rng.integers(0, len(MISSING))] if np.isnan(x) else repr(float(x)) for x in file.y],
    }
    if grouped:
        file.a = np.array([float(text.replace(",", "")) for text in columns["a"]])
    if comma:
        columns |= {name: [cell.replace(".", ",") for cell in columns[name]] for name in ("a", "y")}
    if rng.random() < 0.3:
        columns["a"] = [f" {cell} " for cell in columns["a"]]
    for name in rng.permutation(list(EXTRAS))[: rng.integers(0, 3)]:
        columns[str(name)] = EXTRAS[str(name)](rng, n)
    order = rng.permutation(list(columns))
    always = rng.random() < 0.3
    rows = [list(order), *([columns[str(name)][i] for name in order] for i in range(n))]
    lines = [sep.join(_quoted(str(cell), sep, always) for cell in row) for row in rows]
    end = ("\n", "\r\n", "\r")[rng.integers(0, 3)]
    lines = _disturbed(file, rng, lines, sep)
    text = end.join(lines) + (end if rng.random() < 0.8 else "")
    encoding = ("utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1")[rng.integers(0, 5)]
    data = text.encode(encoding)
    file.whole &= encoding != "latin-1" or text.isascii()
    pack, ending = [(bytes, ""), (bytes, ""), (gzip.compress, ".gz"), (lzma.compress, ".xz")][rng.integers(0, 4)]
    file.recipe |= {"sep": sep, "comma": comma, "grouped": grouped, "always": always, "end": end, "encoding": encoding}
    file.path = file.path.with_name(f"{file.path.name}{('.csv', '.tsv')[rng.integers(0, 2)]}{ending}")
    file.path.write_bytes(pack(data))


def _quoted(cell: str, sep: str, always: bool) -> str:
    odd = always or any(mark in cell for mark in (sep, '"', "\n", "\r"))
    return '"' + cell.replace('"', '""') + '"' if odd else cell


def _disturbed(file: Fuzzed, rng: np.random.Generator, lines: list[str], sep: str) -> list[str]:
    """Blank rows, which count for nothing, or what makes a file doubtful."""
    what = ("", "", "", "", "blank", "blanks", "ragged", "short", "twice", "nul", "quote")[rng.integers(0, 11)]
    i = int(rng.integers(1, len(lines)))
    file.recipe["what"] = what
    file.whole &= what in ("", "blank", "blanks")
    if what in ("blank", "blanks"):
        return [*lines[:i], *[""] * (1 + 2 * (what == "blanks")), *lines[i:]]
    if what == "twice":
        return [f"{lines[0]}{sep}a", *(f"{line}{sep}7" for line in lines[1:])]
    changed = {"ragged": lines[i] + sep + "1", "short": lines[i].rpartition(sep)[0], "nul": lines[i] + "\0"}
    changed["quote"] = '"' + lines[i]
    return [*lines[:i], changed.get(what, lines[i]), *lines[i + 1 :]]


def _frame(file: Fuzzed, rng: np.random.Generator) -> pd.DataFrame:
    frame = pd.DataFrame({"a": file.a, "base": file.base, "y": file.y})
    for name in rng.permutation([name for name in EXTRAS if name])[: rng.integers(0, 3)]:
        frame[str(name)] = EXTRAS[str(name)](rng, len(frame))
    return frame[rng.permutation(frame.columns)]


def _parquet(file: Fuzzed, rng: np.random.Generator) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    cells = pa.Table.from_pandas(_frame(file, rng), preserve_index=False)
    kind = ("double", "float", "text")[rng.integers(0, 3)]
    if kind == "float":
        file.a = file.a.astype(np.float32).astype(np.float64)
    if kind != "double":
        place = cells.schema.get_field_index("a")
        cells = cells.set_column(place, "a", cells["a"].cast(pa.float32() if kind == "float" else pa.string()))
    if rng.random() < 0.5:
        place = cells.schema.get_field_index("base")
        cells = cells.set_column(place, "base", cells["base"].dictionary_encode())
    file.recipe |= {"parquet": kind}
    file.path = file.path.with_name(f"{file.path.name}.parquet")
    pq.write_table(cells, file.path, row_group_size=int(rng.integers(1, 40)), compression=PACKED[rng.integers(0, 3)])


def _excel(file: Fuzzed, rng: np.random.Generator) -> None:
    import openpyxl

    frame, book = _frame(file, rng), openpyxl.Workbook()
    as_text = rng.random() < 0.3
    sheet: Any = book.active
    sheet.append(list(frame.columns))
    for row in frame.itertuples(index=False):
        cells = [None if isinstance(cell, float) and np.isnan(cell) else cell for cell in row]
        sheet.append([repr(cell) if as_text and isinstance(cell, float) else cell for cell in cells])
    if rng.random() < 0.5:
        sheet["XFD1048576"].font = openpyxl.styles.Font(bold=True)  # a cell with a format and nothing in it
    file.recipe |= {"excel": as_text}
    file.path = file.path.with_name(f"{file.path.name}.xlsx")
    buffer = io.BytesIO()
    book.save(buffer)
    file.path.write_bytes(buffer.getvalue())


def _damage(file: Fuzzed, rng: np.random.Generator) -> None:
    """Cut the file, turn bytes of it, or let it hold others."""
    data = bytearray(file.path.read_bytes())
    what = ("cut", "flip", "flips", "zeros", "noise")[rng.integers(0, 5)]
    if what == "cut":
        data = data[: int(rng.integers(0, len(data)))]
    for _ in range({"flip": 1, "flips": 20}.get(what, 0)):
        data[int(rng.integers(0, len(data)))] ^= 1 << int(rng.integers(0, 8))
    if what in ("zeros", "noise"):
        start = int(rng.integers(0, len(data)))
        size = min(len(data) - start, 60)
        data[start : start + size] = bytes(size) if what == "zeros" else rng.bytes(size)
    file.path.write_bytes(bytes(data))
    file.whole = False
    file.recipe["damage"] = what
