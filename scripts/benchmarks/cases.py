"""What becomes of every file of tests/cases, and of hostile ones, as the table of docs/files.md.

    python scripts/benchmarks/cases.py                    # print the table
    python scripts/benchmarks/cases.py --write            # put it into docs/files.md
    python scripts/benchmarks/cases.py --save-before FILE # outcomes of the package that is imported, as column before

The column "before" is that of commit c33e7b6, kept in results/cases_before.json.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from beebo_scale import InputError, read_table
from beebo_scale.cli.main import main as run

ROOT = Path(__file__).parents[2]
BEFORE, PAGE = Path(__file__).parent / "results" / "cases_before.json", ROOT / "docs" / "files.md"
BEGIN, END = "<!-- cases: begin -->", "<!-- cases: end -->"
LONGEST = 190  # letters of an outcome
SUGGESTIONS = {  # group -> words of the row -> options; {} is the group's folder
    "matching": {
        "a float32 library, float64 measurements, exclusion and pending lists": "--measured {}/f32_m.csv --target y"
        " --library {}/f32_l.parquet --exclude {}/f32_ex.csv --pending {}/f32_ex.csv -q 3 --temperature 0",
        "0.1 * 3 beside 0.3": "--measured {}/dust_m.csv --target y --library {}/dust_l.csv -q 2 --temperature 0",
        "ids of an exclusion list in other capitals": "--measured {}/meas.csv --target yield --id id --features temp"
        " solvent --library {}/lib.csv -q 2 --exclude {}/black.csv",
    },
    "columns": {
        "a counter `entry`": "--measured {}/counter_measured.csv --target yield --library {}/counter_library.csv -q 2",
        "a published reaction set with `entry`": "--measured {}/arylation_measured.csv.gz --target yield --library"
        " {}/arylation_library.csv.gz -q 4",
        "names of variants of which none was measured": "--measured {}/variants.csv --target activity --library"
        " {}/variants_library.csv -q 5",
        "SMILES of which one is repeated": "--measured {}/molecules_one_repeated.csv.gz --target score --library"
        " {}/molecules_library.csv.gz -q 3",
        "`1 mol%`": "--measured {}/units.csv --target yield --library {}/units_lib.csv -q 2",
        "`1 100,5`": "--measured {}/thousand.csv --target y --library {}/thousand_lib.csv -q 2",
        "a control (`Sterile`) in row 1 of sequences": "--measured {}/control_first.csv --target y --features"
        " Variant:protein --library {}/control_first.csv -q 2",
        "limits in a column of relations": "--measured {}/censored_export.csv.gz --target Standard~Value"
        " --features Smiles:smiles --library"
        " {}/censored_library.csv.gz -q 2",
        "names of mutations": "--measured {}/single.csv --target DMS_score --features mutant --library {}/lib.csv -q 2",
        "names of several mutations": "--measured {}/multi.csv --target DMS_score --features mutant --library"
        " {}/lib.csv -q 2",
        "stop letters, insertions and deletions": "--measured {}/dms.csv --target fitness --features sequence:protein"
        " --library {}/dms.csv -q 2",
    },
    "numerics": {
        "targets up to 1.8e308": "--measured {}/dblmax.csv --target y --library {}/lib.csv -q 2",
        "targets of 1e160": "--measured {}/y160.csv --target y --library {}/lib.csv -q 2",
    },
    "constraints": {
        "fixed values that meet a constraint": "--measured {}/fixed.csv --target y --bounds a:0.1 b:0.2 c:0:1"
        " --constraint a+b<=0.3 -q 2",
        "a value fixed at its limit": "--measured {}/fixed2.csv --target y --bounds a:52 b:0:300 --constraint a<=52"
        " -q 2",
    },
}
TARGETS = {
    "uppertarget.csv": "Y",
    "AID_1234_datatable_all.csv": "PUBCHEM_ACTIVITY_SCORE",
    "title_merged.xlsx": "Yield (%)",
    "title_rows.xlsx": "Yield (%)",
    "excel": "Yield",
}
HOSTILE = (  # words, before, now; tests/hostile holds them
    ("`.xlsx` of 6 kB with a format at XFD1048576", "33 s and 2.8 GB", "read; empty cells count for nothing"),
    ("`.xlsx`: a value there", "as above", "`the cell XFD1048576 stands far away from the others; empty it`"),
    ("`.xlsx`: one merged area of all cells", "no limit", "`holds more cells than the memory that is free`"),
    ("`.xlsx` of 240 kB with 60 million cells", "no limit", "`unpacks to more than 457 MB, as no table does`"),
    ("`.xlsx`: entities of entities", "traceback", "`cannot be read (limit on input amplification ...)`"),
    ("`.csv.gz` of 3 MB that unpacks to 3 GB", "no limit", "`unpacks to more than 298 MB ... unpack it first`"),
    ("`.csv.gz` of 3 MB, one line of 3 GB", "no limit", "`has more than 16 MB in line 1; that is no table`"),
    (
        "`.parquet` of 12 MB, 1.5 billion equal rows, as measurements",
        "no limit",
        "`too much for the memory that is free`",
    ),
    ("a model that was packed again", "no limit", "`it unpacks to more than it is`"),
    ("a model with code in it", "did not run", "does not run: `it holds more than numbers and text`"),
    ("YAML whose aliases stand for 10^8 entries, or for themselves", "killed after 40 s", "one line, at once"),
    ("lists in lists in lists, in YAML or JSON", "no limit", "one line"),
    ("`--bounds s:nan`, `s:nan:1` of labels, `s:0:1e160`", "traceback", "one line"),
    ("`$x$`, `$\\frac{$` in names of columns, controls, files", "no figure", "drawn as written"),
    ("paths that are no UTF-8", "traceback", "read and written; printed with `\\udcff` for the byte"),
    ("`--help > /dev/full`", "exit code 0", "one line, exit code 2"),
    ("`--help | true`", "exit code 0", "ends without a word, exit code 141"),
)


def outcomes(cases: Path) -> Iterator[tuple[str, str, str]]:
    """Group, words of the row and what becomes of it."""
    for group, rows in SUGGESTIONS.items():
        for words, options in rows.items():
            filled = options.replace("{}", str(cases / group)).split()
            yield group, words, suggested([option.replace("~", " ") for option in filled])
    yield "matching", "results of a box with nine digits", nine_digits(cases / "matching")
    yield "plates", "a plate map of ours, filled in, with controls", filled_map(cases / "plates", control=False)
    yield "plates", "results with an id that nobody proposed", filled_map(cases / "plates", control=True)
    for path in sorted([*(cases / "cells").rglob("*.*"), *(cases / "excel").glob("*.xlsx")]):
        if "library" not in path.name:
            target = TARGETS.get(path.name) or TARGETS.get(path.parent.name, "y")
            yield "cells and workbooks", f"`{path.name}`", reading(path, target)


def quietly(arguments: list[str]) -> tuple[int, str, str]:
    """Exit code, output and errors of a command."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            code = run(arguments)
        except Exception as error:
            return 1, "", f"traceback: {type(error).__name__}"
    return code, out.getvalue(), errors.getvalue()


def suggested(options: list[str]) -> str:
    """The batch of `suggest`, or why there is none."""
    code, out, errors = quietly(["suggest", *options, "--out=o.csv"])
    if code:
        return refused(errors)
    batch = pd.read_csv("o.csv")
    own = [name for name in batch if name not in ("rank", "std", "noiseless_mean", "noiseless_std", "gain")]
    rows = "; ".join(", ".join(shown(cell) for cell in row) for row in batch[own].head(3).to_numpy(dtype=object))
    notes = " ".join(line for line in out.splitlines() if line.startswith("note:"))
    return short(f"{', '.join(own)}: {rows}" + (f"; {notes}" if notes else ""))


def reading(path: Path, target: str) -> str:
    """The first row as it is read, or why it is not."""
    try:
        table = read_table(path, target)
    except InputError as error:
        return refused(str(error))
    except Exception as error:
        return f"traceback: {type(error).__name__}"
    cells = [f"{name} = {shown(table.frame[name].iloc[0])} ({kind})" for name, kind in table.kinds.items()]
    said = "".join(f"; `{note.replace(f'{path.parent}/', '')}`" for note in getattr(table, "notes", ())[:1])
    return short(f"{len(table.y)} rows; {', '.join(cells)}, {target} = {shown(table.y[0])}") + said


def nine_digits(cases: Path) -> str:
    """Record results of a round that a spreadsheet rounded."""
    bounds = [
        "--bounds",
        "a:0.1:0.8",
        "b:0.1:0.8",
        "c:0.1:0.8",
        "t:20:700",
        "--constraint",
        "a+b+c<=1",
        "a+b+c>=1",
        "-q=6",
    ]
    start = [f"--measured={cases}/box_measured.csv", "--target=y", *bounds]
    code, _, errors = quietly(["campaign", "init", "n", *start])
    if not code:
        code, _, errors = quietly(["campaign", "suggest", "n"])
    if code:
        return refused(errors)
    rows = pd.read_csv("n/rounds/round-001.csv")[["a", "b", "c", "t"]].map(lambda x: float(f"{x:.9g}"))
    rows.assign(y=1.0 + rows.index).to_csv("r.csv", index=False)
    code, out, errors = quietly(["campaign", "record", "n", "--results=r.csv"])
    return refused(errors) if code else short(out.splitlines()[0])


def filled_map(cases: Path, control: bool) -> str:
    """Record a plate map with values in all wells, or with a row that was never proposed."""
    start = [f"--measured={cases}/screen.csv", "--target=yield", f"--library={cases}/library.csv", "--id=rxn", "-q=8"]
    quietly(["campaign", "init", f"p{control}", *start])
    code, _, errors = quietly(["campaign", "suggest", f"p{control}", "--plate=96", "--controls", "A01:negative"])
    if code:
        return refused(errors)
    plate = pd.read_csv(f"p{control}/rounds/round-001.plate.csv")
    plate["yield"] = 10.0 + plate.index
    if control:
        plate = pd.concat([plate[["rxn", "yield"]].dropna(), pd.DataFrame({"rxn": ["DMSO"], "yield": [0.2]})])
    plate.to_csv("filled.csv", index=False)
    code, out, errors = quietly(["campaign", "record", f"p{control}", "--results=filled.csv"])
    return refused(errors) if code else short(out.splitlines()[0])


def refused(errors: str) -> str:
    """The line of a refusal, without folders."""
    lines = errors.strip().splitlines() or [""]
    line = re.sub(r"/[^\s:#]*/", "", lines[-1].removeprefix("beebo-scale: "))
    return line if line.startswith("traceback") else f"refused: `{short(line)}`"


def shown(cell: object) -> str:
    text = f"{cell:.5g}" if isinstance(cell, float) else str(cell)
    return text if len(text) < 25 and "[" not in text else "..."  # in SMILES is what looks like a link


def short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def table(cases: Path, before: dict[str, str]) -> str:
    """The page's part."""
    groups: dict[str, list[str]] = {}
    for group, words, now in outcomes(cases):
        cells = (words, before.get(f"{group}: {words}", ""), now)
        groups.setdefault(group, []).append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    groups["hostile"] = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in HOSTILE]
    parts = []
    for group, rows in groups.items():
        parts += [
            f"**{group[0].upper()}{group[1:]}**",
            "",
            "| file or kind | before | now |",
            "|---|---|---|",
            *rows,
            "",
        ]
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=Path, default=ROOT / "tests" / "cases")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--save-before", type=Path)
    options = parser.parse_args()
    here, cases = Path.cwd(), options.cases.resolve()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.chdir(folder)
        if options.save_before:
            found = {f"{group}: {words}": outcome for group, words, outcome in outcomes(cases)}
            text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
            (here / options.save_before).write_text(text, encoding="utf-8")
        else:
            text = table(cases, json.loads(BEFORE.read_text(encoding="utf-8")))
        os.chdir(here)
    if options.write:
        page = PAGE.read_text(encoding="utf-8")
        before, rest = page.split(BEGIN)
        PAGE.write_text(before + BEGIN + "\n" + text + END + rest.split(END)[1], encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
