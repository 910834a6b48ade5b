"""Files as they come: odd ones that must be read rightly, and broken ones that must be refused by name of the place."""

from __future__ import annotations

import bz2
import datetime
import decimal
import gzip
import lzma
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

A, BASE, Y = [1.5, -2.5, 1000.0, 4.25], ["DMF", "THF", "DMF", "MeCN"], [1.0, 2.0, 3.0, 4.5]
PLAIN = "a,base,y\n1.5,DMF,1\n-2.5,THF,2\n1000,DMF,3\n4.25,MeCN,4.5\n"
FRAME = {"a": A, "base": BASE, "y": Y}

Make = Callable[[Path], None]


@dataclass(frozen=True)
class Odd:
    """A file that must be read.

    Attributes:
        file: its name.
        make: writes it.
        sheet: asked for, of a workbook.
        features: as in `read_table`.
        expected: column -> values of the measured rows.
        y: their target.
    """

    file: str
    make: Make
    sheet: str = ""
    features: object = None
    expected: dict[str, list] = field(default_factory=lambda: {"a": A, "base": BASE})
    y: list[float] = field(default_factory=lambda: Y)


@dataclass(frozen=True)
class Broken:
    """A file that must be refused.

    Attributes:
        file: its name.
        make: writes it.
        words: of the message, beside the file's name.
        sheet: asked for, of a workbook.
        features: as in `read_table`.
        in_target: whether what is broken is the target alone, which a library does not have.
    """

    file: str
    make: Make
    words: tuple[str, ...]
    sheet: str = ""
    features: object = None
    in_target: bool = False


def raw(content: str | bytes, encoding: str = "utf-8") -> Make:
    return lambda path: path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding)) and None


def table(**columns: list) -> Make:
    """A CSV file of text cells."""
    return lambda path: pd.DataFrame(columns).to_csv(path, index=False)


def parquet(**columns: object) -> Make:
    return lambda path: pq.write_table(pa.table(columns), path)


def workbook(*sheets: tuple[str, list[list]], change: Callable | None = None) -> Make:
    """An Excel file; `change` gets the first sheet before it is saved."""

    def make(path: Path) -> None:
        import openpyxl

        book = openpyxl.Workbook()
        book.remove(book.active)
        for title, rows in sheets:
            sheet = book.create_sheet(title)
            for row in rows:
                sheet.append(row)
        if change is not None:
            change(book.worksheets[0])
        book.save(path)

    return make


def computed(make: Make, values: dict[str, str]) -> Make:
    """The same workbook with the values of its formulas, as a spreadsheet program leaves them there."""

    def remake(path: Path) -> None:
        make(path)
        with zipfile.ZipFile(path) as book:
            parts = {name: book.read(name) for name in book.namelist()}
        name = "xl/worksheets/sheet1.xml"
        text = parts[name].decode()
        for formula, value in values.items():
            for empty in ("<v></v>", "<v />", "<v/>"):
                text = text.replace(f"<f>{formula}</f>{empty}", f"<f>{formula}</f><v>{value}</v>")
        parts[name] = text.encode()
        with zipfile.ZipFile(path, "w") as book:
            for part, content in parts.items():
                book.writestr(part, content)

    return remake


def shortened(make: Make, part: float) -> Make:
    """The first part of a file."""

    def remake(path: Path) -> None:
        make(path)
        content = path.read_bytes()
        path.write_bytes(content[: int(part * len(content))])

    return remake


def packed(pack: Callable[[bytes], bytes], content: str = PLAIN) -> Make:
    return lambda path: path.write_bytes(pack(content.encode())) and None


SHEET = [["a", "base", "y"], *([a, base, y] for a, base, y in zip(A, BASE, Y, strict=True))]
LONG = "a,base,y\n" + "".join(f"{i * 7919 % 10007},B{i * 31 % 97},{i}\n" for i in range(20_000))
MANY = 100_000

ODD: dict[str, Odd] = {
    "byte order mark": Odd("x.csv", raw(PLAIN, "utf-8-sig")),
    "utf-16": Odd("x.csv", raw(PLAIN, "utf-16")),
    "utf-16 big endian, tabs": Odd("x.tsv", raw(b"\xfe\xff" + PLAIN.replace(",", "\t").encode("utf-16-be"))),
    "a comment at the top": Odd("x.csv", raw("# made by hand\n" + PLAIN)),
    "a separator line": Odd("x.csv", raw("sep=;\n" + PLAIN.replace(",", ";"))),
    "a separator line of commas": Odd("x.tsv", raw("sep=,\n" + PLAIN)),
    "a comment with a quotation mark": Odd("x.csv", raw('# 5" plate, "half\n\n' + PLAIN)),
    "blanks in the header": Odd("x.csv", raw(PLAIN.replace("a,base,y", ' a ,base\u00a0,"y "'))),
    "semicolons": Odd("x.csv", raw(PLAIN.replace(",", ";"))),
    "semicolons and decimal commas": Odd("x.csv", raw(PLAIN.replace(",", ";").replace(".", ","))),
    "tabs in a csv file": Odd("x.csv", raw(PLAIN.replace(",", "\t"))),
    "bars": Odd("x.csv", raw(PLAIN.replace(",", "|"))),
    "commas in a tsv file": Odd("x.tsv", raw(PLAIN)),
    "quoted decimal commas": Odd("x.csv", table(a=["1,5", "-2,5", "1000", "4,25"], base=BASE, y=Y)),
    "decimal commas of three digits": Odd(
        "x.csv",
        table(a=["1,234", "0,500", "7"], base=BASE[:3], y=Y[:3]),
        expected={"a": [1.234, 0.5, 7.0], "base": BASE[:3]},
        y=Y[:3],
    ),
    "thousands": Odd(
        "x.csv",
        table(a=["1,234", "1,234,567.5", "0.5"], base=BASE[:3], y=["1,000.5", "2", "3"]),
        expected={"a": [1234.0, 1234567.5, 0.5], "base": BASE[:3]},
        y=[1000.5, 2.0, 3.0],
    ),
    "carriage returns and line feeds": Odd("x.csv", raw(PLAIN.replace("\n", "\r\n"))),
    "carriage returns": Odd("x.csv", raw(PLAIN.replace("\n", "\r"))),
    "mixed line ends": Odd("x.csv", raw(PLAIN.replace("\n", "\r\n", 2))),
    "no line end at the end": Odd("x.csv", raw(PLAIN.rstrip())),
    "blank lines": Odd("x.csv", raw("\n\n" + PLAIN.replace("\n-", "\n\n\n-") + "\n\n")),
    "trailing blanks": Odd("x.csv", raw(PLAIN.replace("DMF", " DMF  ").replace("-2.5", " -2.5 "))),
    "blanks that do not break": Odd("x.csv", raw(PLAIN.replace("DMF,3", "\u00a0DMF\u00a0,\u00a03"))),
    "blanks of no width": Odd("x.csv", raw(PLAIN.replace("DMF,3", "DMF\u200b,3"))),
    "minus as typographers write it": Odd("x.csv", raw(PLAIN.replace("-", "\u2212"))),
    "full-width digits": Odd("x.csv", raw(PLAIN.replace("1000", "\uff11\uff10\uff10\uff10"))),
    "powers of ten": Odd("x.csv", raw(PLAIN.replace("1000", "1E+3").replace("1.5", "15e-1"))),
    "spellings of nothing": Odd(
        "x.csv",
        table(a=[1, 2, 3, 4, 5, 6, 7, 8], base=["x"] * 8, y=["1", "NA", "n/a", "-", "#N/A", "NULL", "NaN", "8.5"]),
        expected={"a": [1.0, 8.0], "base": ["x", "x"]},
        y=[1.0, 8.5],
    ),
    "words for nothing as labels": Odd(
        "x.csv",
        table(base=["NA", "None", "null"], y=[1, 2, 3]),
        expected={"base": ["NA", "None", "null"]},
        y=[1.0, 2.0, 3.0],
    ),
    "a quoted line end": Odd(
        "x.csv",
        raw('a,base,y\n1,"two\nlines",1\n2,"a, b",2\n'),
        expected={"a": [1.0, 2.0], "base": ["two\nlines", "a, b"]},
        y=[1.0, 2.0],
    ),
    "notes of several lines": Odd(
        "x.csv",
        raw(
            PLAIN.replace("y\n", "y,note\n")
            .replace(",1\n", ',1,"first, try\nsecond, third\n"\n')
            .replace(",2\n", ",2,\n")
            .replace(",3\n", ",3,ok\n")
            .replace("4.5\n", "4.5,\n")
        ),
        features=["a", "base"],
    ),
    "quotation marks in cells": Odd(
        "x.csv",
        raw('base,y\n5" pipe,1\n"5"" tube",2\n'),
        expected={"base": ['5" pipe', '5" tube']},
        y=[1.0, 2.0],
    ),
    "gzip by another name": Odd("x.csv", packed(gzip.compress)),
    "xz by another name": Odd("x.csv.gz", packed(lzma.compress)),
    "text named gz": Odd("x.csv.gz", raw(PLAIN)),
    "gzip in two pieces": Odd("x.csv.gz", raw(gzip.compress(PLAIN[:30].encode()) + gzip.compress(PLAIN[30:].encode()))),
    "a column without a name": Odd("x.csv", lambda path: pd.DataFrame(FRAME).to_csv(path)),
    "columns without names or cells at the end": Odd("x.csv", raw(PLAIN.replace("\n", ",,\n"))),
    "dates, plates and names": Odd(
        "x.csv",
        table(
            date=["2024-01-02", "2024-01-03", "2024-01-03", "2024-02-03"],
            read_at=["03.01.2024 12:30"] * 4,
            Plate_ID=["P1", "P2", "P2", "P2"],
            Well=["A01", "A02", "B01", "H12"],
            empty=[""] * 4,
            **FRAME,
        ),
    ),
    "truth values as labels": Odd(
        "x.csv",
        table(base=["True", "FALSE", "True"], y=[1, 2, 3]),
        expected={"base": ["True", "FALSE", "True"]},
        y=[1.0, 2.0, 3.0],
    ),
    "very many columns": Odd(
        "x.csv",
        raw(
            "a,base,y,"
            + ",".join(f"x{i}" for i in range(MANY))
            + "\n"
            + "".join(f"{a},{base},{y}," + "0," * (MANY - 1) + "0\n" for a, base, y in zip(A, BASE, Y, strict=True))
        ),
        features={"a": "continuous", "base": None},
    ),
    "large whole numbers as names": Odd(
        "x.csv",
        table(base=["99999999999999999999", "99999999999999999998"], y=[1, 2]),
        features={"base": "categorical"},
        expected={"base": ["99999999999999999999", "99999999999999999998"]},
        y=[1.0, 2.0],
    ),
    "dictionaries": Odd(
        "x.parquet", parquet(a=A, base=pa.array(BASE).dictionary_encode(), y=pa.array(Y).dictionary_encode())
    ),
    "decimals": Odd(
        "x.parquet",
        parquet(
            a=pa.array([decimal.Decimal(str(a)) for a in A], pa.decimal128(12, 4)),
            base=pa.array(BASE, pa.large_string()),
            y=pa.array(Y, pa.float32()),
        ),
    ),
    "times": Odd(
        "x.parquet",
        parquet(
            at=pa.array([datetime.datetime(2024, 1, i + 1) for i in range(4)]),
            on=pa.array([datetime.date(2024, 1, i + 1) for i in range(4)]),
            **FRAME,
        ),
    ),
    "whole numbers and nothing": Odd(
        "x.parquet",
        parquet(a=pa.array([1, 2, 3, 4], pa.uint8()), base=BASE, y=pa.array([1, None, 3, 4])),
        expected={"a": [1.0, 3.0, 4.0], "base": ["DMF", "DMF", "MeCN"]},
        y=[1.0, 3.0, 4.0],
    ),
    "truth values as target": Odd(
        "x.parquet",
        parquet(a=A, base=BASE, y=[True, False, None, True]),
        expected={"a": [1.5, -2.5, 4.25], "base": ["DMF", "THF", "MeCN"]},
        y=[1.0, 0.0, 1.0],
    ),
    "an excel sheet": Odd("x.xlsx", workbook(("Data", SHEET), ("Notes", [["nothing"]]))),
    "an excel sheet by name": Odd("x.xlsx", workbook(("Notes", [["no"]]), ("Plate 1", SHEET)), sheet="Plate 1"),
    "excel: numbers as text": Odd(
        "x.xlsx", workbook(("Data", [SHEET[0], *([str(a), base, str(y)] for a, base, y in SHEET[1:])]))
    ),
    "excel: some numbers as text": Odd(
        "x.xlsx", workbook(("Data", [SHEET[0], [" 1.5 ", "DMF", 1], *SHEET[2:4], [4.25, "MeCN\u00a0", "4.5"]]))
    ),
    "excel: formulas": Odd(
        "x.xlsx",
        computed(
            workbook(("Data", [*SHEET[:4], ["=17/4", "MeCN", "=SUM(C2:C3)+1.5"]])),
            {"17/4": "4.25", "SUM(C2:C3)+1.5": "4.5"},
        ),
    ),
    "excel: dates": Odd(
        "x.xlsx", workbook(("Data", [["day", *SHEET[0]], *([datetime.date(2024, 1, 5), *row] for row in SHEET[1:])]))
    ),
    "excel: empty rows and columns around": Odd(
        "x.xlsx", workbook(("Data", [[], *SHEET, [], [None, " "]]), change=lambda sheet: sheet.cell(3, 9, " "))
    ),
    "excel: a merged title above": Odd(
        "x.xlsx",
        workbook(("Data", [[None] * 3, *SHEET]), change=lambda sheet: sheet.merge_cells("A1:C1")),
    ),
    "excel: #N/A is nothing": Odd(
        "x.xlsx",
        workbook(("Data", [*SHEET, [9, "DMF", "#N/A"]])),
    ),
}

BROKEN: dict[str, Broken] = {
    "very many columns, none named": Broken(
        "x.csv",
        raw(",".join([*(f"x{i}" for i in range(MANY)), "y"]) + "\n" + "0," * MANY + "1\n"),
        ("has 100,000 columns", "name some"),
        in_target=True,
    ),
    "latin-1": Broken("x.csv", raw(PLAIN.replace("THF", "Äther"), "latin-1"), ("not UTF-8", "0xC4 in line 3")),
    "latin-1 in the header": Broken("x.csv", raw(PLAIN.replace("base", "b\u00e9"), "latin-1"), ("not UTF-8", "line 1")),
    "utf-16 without mark": Broken("x.csv", raw(PLAIN, "utf-16-le"), ("NUL byte in line 1",)),
    "half an utf-16 file": Broken("x.csv", raw(PLAIN.encode("utf-16")[:-3]), ("not whole UTF-16", "line 5")),
    "a NUL byte": Broken("x.csv", raw(PLAIN.replace("THF", "T\0F")), ("NUL byte in line 3",)),
    "nothing": Broken("x.csv", raw(""), ("is empty (0 bytes)",)),
    "blank lines only": Broken("x.csv", raw("\n\r\n\n"), ("no header and no rows",)),
    "a header only": Broken("x.csv", raw("a,base,y\n"), ("has a header but no rows",)),
    "a packed nothing": Broken("x.csv.gz", packed(gzip.compress, ""), ("no header and no rows",)),
    "a long row": Broken("x.csv", raw(PLAIN.replace("THF", "THF,0")), ("row 2 has 4 cells", "header has 3")),
    "a short row": Broken("x.csv", raw(PLAIN.replace("THF,", "")), ("row 2 has 2 cells", "header has 3")),
    "decimal commas between commas": Broken("x.csv", raw(PLAIN.replace("4.25", "4,25")), ("row 4 has 4 cells",)),
    "a comment below": Broken("x.csv", raw(PLAIN.replace("1000", "# from here\n1000")), ("row 3 has 1 cells",)),
    "another separator": Broken("x.csv", raw(PLAIN.replace(",", ":")), ("is another character between its columns?",)),
    "a quote left open": Broken("x.csv", raw(PLAIN.replace("THF", '"THF')), ("quotation mark", "row 2")),
    "a quote left open at the end": Broken("x.csv", raw(PLAIN.replace("MeCN,", 'MeCN,"')), ("'y'", "never closed")),
    "a quote that swallows rows": Broken(
        "x.csv",
        raw('note,a,y\nok,1,1\n"half,2,2\nok,3,3\n"full",4,4\nok,5,5\n'),
        ("row 2 has a quotation mark that is not closed",),
        features=["a"],
    ),
    "a header twice": Broken("x.csv", raw(PLAIN.replace("base", "a")), ("names 'a' more than once", "columns 1, 2")),
    "units": Broken("x.csv", table(a=["12 nM", "3.5 nM", "1 µM"], y=[1, 2, 3]), ("'a'", "'1 µM'", "row 3", "unit")),
    "a unit in one cell": Broken("x.csv", raw(PLAIN.replace("1000", "1000 mg")), ("'a'", "'1000 mg'", "row 3", "unit")),
    "percent signs": Broken(
        "x.csv", raw(PLAIN.replace(",4.5", ",4.5%")), ("'y'", "'4.5%' in row 4", "percent"), in_target=True
    ),
    "below a limit": Broken(
        "x.csv", raw(PLAIN.replace(",2\n", ",<0.5\n")), ("'y'", "'<0.5' in row 2", "limit"), in_target=True
    ),
    "above a limit": Broken("x.csv", raw(PLAIN.replace("1000", ">100")), ("'a'", "'>100'", "row 3", "limit")),
    "a comma that may be either": Broken(
        "x.csv", table(a=["1,234", "2,500", "7"], y=[1, 2, 3]), ("'a'", "'1,234'", "rows 1, 2", "comma")
    ),
    "points between thousands": Broken(
        "x.csv", table(a=["1.234,5", "2.500", "7"], y=[1, 2, 3]), ("'a'", "'1.234,5'", "row 1", "comma")
    ),
    "D for E": Broken(
        "x.csv", raw(PLAIN.replace(",4.5", ",4.5D0")), ("'y' is text ('4.5D0' in row 4)",), in_target=True
    ),
    "an underscore": Broken("x.csv", raw(PLAIN.replace(",4.5", ",1_000")), ("'1_000' in row 4",), in_target=True),
    "an infinite target": Broken(
        "x.csv", raw(PLAIN.replace(",4.5", ",inf")), ("'y' is infinite in row 4",), in_target=True
    ),
    "an infinite feature": Broken("x.csv", raw(PLAIN.replace("1000", "1e999")), ("'a' is infinite in row 3",)),
    "whole numbers too long": Broken(
        "x.csv",
        table(a=["9007199254740993", "9007199254740992"], y=[1, 2]),
        ("'a'", "2^53", "rows 1, 2", "categorical"),
    ),
    "whole numbers too long, typed": Broken(
        "x.parquet", parquet(a=[2**53 + 1, 2**53 + 2], y=[1, 2]), ("'a'", "2^53", "rows 1, 2")
    ),
    "truth as target": Broken(
        "x.csv", raw(PLAIN.replace(",3\n", ",True\n")), ("'y' is text ('True' in row 3)",), in_target=True
    ),
    "dates as target": Broken(
        "x.csv",
        table(a=[1, 2], y=["2024-01-02", "2024-01-03"]),
        ("'y' is text", "'2024-01-02' in rows 1, 2"),
        in_target=True,
    ),
    "numbers and words": Broken("x.csv", raw(PLAIN.replace("1000", "hot")), ("'a'", "'hot'", "row 3")),
    "an empty label": Broken("x.csv", raw(PLAIN.replace("THF", " ")), ("'base' is empty in row 2",)),
    "an empty number": Broken("x.csv", raw(PLAIN.replace("1000", "n/a")), ("'a' is empty in row 3",)),
    "no target at all": Broken(
        "x.csv", table(a=[1, 2], y=["-", "NA"]), ("'y' is empty in all 2 rows",), in_target=True
    ),
    "half a gzip file": Broken("x.csv.gz", shortened(packed(gzip.compress, LONG), 0.5), ("cannot be read", "complete")),
    "half an xz file": Broken("x.csv.xz", shortened(packed(lzma.compress, LONG), 0.5), ("cannot be read", "complete")),
    "bzip2": Broken("x.csv", packed(bz2.compress), ("packed by bzip2",)),
    "a folder": Broken("x.csv", lambda path: path.mkdir(), ("is a folder",)),
    "parquet by another name": Broken("x.csv", parquet(**FRAME), ("is a Parquet file", ".parquet")),
    "text named parquet": Broken("x.parquet", raw(PLAIN), ("cannot be read", "of the type its name says")),
    "half a parquet file": Broken("x.parquet", shortened(parquet(**FRAME), 0.7), ("cannot be read", "complete")),
    "lists": Broken(
        "x.parquet", parquet(a=[[1.0], [2.0, 3.0]], y=[1.0, 2.0]), ("'a' holds several values per cell in rows 1, 2",)
    ),
    "structures": Broken(
        "x.parquet", parquet(a=[{"k": 1}, {"k": 2}], y=[1.0, 2.0]), ("'a' holds several values per cell in rows 1, 2",)
    ),
    "bytes": Broken("x.parquet", parquet(a=[b"DMF", b"THF"], y=[1.0, 2.0]), ("'a' holds bytes", "rows 1, 2")),
    "a column twice in parquet": Broken(
        "x.parquet",
        lambda path: pq.write_table(
            pa.Table.from_arrays([pa.array(A), pa.array(A), pa.array(Y)], ["a", "a", "y"]), path
        ),
        ("names 'a' more than once",),
    ),
    "excel by another name": Broken("x.csv", workbook(("Data", SHEET)), ("zip archive", "Excel", ".xlsx")),
    "excel of the old kind": Broken(
        "x.xlsx", raw(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)), ("old kind", ".xlsx")
    ),
    "text named excel": Broken("x.xlsx", raw(PLAIN), ("cannot be read",)),
    "half a workbook": Broken("x.xlsx", shortened(workbook(("Data", SHEET)), 0.7), ("cannot be read",)),
    "no such sheet": Broken(
        "x.xlsx", workbook(("Data", SHEET)), ("no sheet 'Dara'", "did you mean 'Data'"), sheet="Dara"
    ),
    "an empty sheet": Broken("x.xlsx", workbook(("Data", [])), ("#Data is an empty sheet",)),
    "excel: merged header": Broken(
        "x.xlsx",
        workbook(("Data", SHEET), change=lambda sheet: sheet.merge_cells("A1:B1")),
        ("#Data", "A1:B1 of the header are merged"),
    ),
    "excel: merged cells": Broken(
        "x.xlsx",
        workbook(("Data", SHEET), change=lambda sheet: sheet.merge_cells("C3:C4")),
        ("#Data", "C3:C4 are merged"),
    ),
    "excel: an error": Broken(
        "x.xlsx",
        workbook(("Data", [*SHEET, ["#DIV/0!", "DMF", 7]])),
        ("#Data", "A6 holds the error #DIV/0!", "'a'", "(--drop-invalid)"),
    ),
    "excel: a formula never computed": Broken(
        "x.xlsx",
        workbook(("Data", [*SHEET, ["=1+1", "DMF", 7]])),
        ("#Data", "A6 holds a formula that was never computed"),
    ),
    "excel: a date as target": Broken(
        "x.xlsx",
        workbook(("Data", [*SHEET, [1, "DMF", datetime.date(2024, 1, 1)]])),
        ("#Data", "'y'", "C6 holds the date 2024-01-01"),
        in_target=True,
    ),
    "excel: a hole": Broken(
        "x.xlsx", workbook(("Data", [*SHEET, [None, "DMF", 7]])), ("#Data", "'a' is empty in row 5 below the header")
    ),
}
