"""Each file of tests/cases/cells and tests/cases/excel is read as it was meant, or refused by the name of the cell."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from beebo_scale.screening.measured.rows import FEW
from beebo_scale.screening.table import read_measured
from beebo_scale.specs import Columns
from tests.screening.test_table import refuse

CASES = Path(__file__).parents[2] / "cases"
CODES = CASES / "excel" / "library_codes.xlsx"
LIBRARY, UNITS = CASES / "excel" / "library.xlsx", CASES / "excel" / "library_units.xlsx"
ABC = {"x": [1.0, 2.0, 3.0], "s": ["A", "B", "A"]}
Y = [10.0, 11.0, 12.0]


@dataclass(frozen=True)
class Case:
    """What is right of a file.

    Attributes:
        columns: columns of features -> their cells; the first rows suffice.
        y: the targets, or the first of them.
        rows: how many measured rows there are; None for as many as in `y`.
        told: words of the notes, or of the refusal.
        refused: whether the file is refused.
        target: name of the target.
        library: what is chosen from.
        drop: whether rows that cannot be read are left out ...
        left_out: ... and which numbers they have.
        features: named ones.
    """

    columns: dict = field(default_factory=lambda: ABC)
    y: list = field(default_factory=lambda: Y)
    rows: int | None = None
    told: tuple = ()
    refused: bool = False
    target: str = "y"
    library: Path | None = None
    drop: bool = False
    left_out: tuple = ()
    features: dict | None = None


def refused(*words, **given):
    return Case(told=words, refused=True, **given)


def sheet(*told, library=LIBRARY, target="Yield", y=(19.4, 29.1, 40.7), rows=40, **given):
    units = library is UNITS
    names = ("Solvent", "Temperature / °C" if units else "Temperature", "Base [equiv]" if units else "Base")
    cells = (["MeCN", "DMF", "MeCN"], [40.0, 25.0, 80.0], [1.1, 1.1, 1.1])
    return Case(dict(zip(names, cells, strict=True)), list(y), rows, told, target=target, library=library, **given)


SMILES = "PUBCHEM_EXT_DATASOURCE_SMILES"
PUBCHEM = {"target": "Inhibition", "library": CASES / "cells" / "pubchem" / "library.csv"}
PUBCHEM |= {"features": {SMILES: "smiles"}}
CELLS = {
    "bool.csv": Case({**ABC, "stirred": ["TRUE", "FALSE", "TRUE"]}),
    "bool2.csv": Case({**ABC, "stirred": ["yes", "no", "Yes"]}, told=("'stirred'", "'Yes' (1), 'yes' (1)")),
    "case.csv": Case(
        {"solvent": ["DMF", "dmf", "DMF", "DMSO"], "x": [1.0, 2.0, 3.0, 4.0]},
        [10.0, 11.0, 12.0, 9.0],
        told=("'solvent'", "capitals or blanks", "'DMF' (2), 'dmf' (1)"),
    ),
    "comment.csv": Case(told=("header is line 2", "'# exported by Gen5'")),
    "cr.csv": Case(),
    "eu_mixed.csv": Case({"x": [1234.0, 2345.0, 3456.0], "s": ["A", "B", "A"]}, [10.5, 11.0, 12.125]),
    "eu_three.csv": Case({"x": [0.125, 1.25, 3.375], "s": ["A", "B", "A"]}, [10.5, 11.0, 12.125]),
    "eu_three_y.csv": refused("'y'", "'1,234' in rows 1, 2, 3", "comma"),
    "euro_pts.csv": refused("'x'", "'1.234'", "between thousands", "'y' has decimal commas", "rows 1, 2, 3"),
    "latin1.csv": refused("not UTF-8", "0xB5 in line 1", "save it as UTF-8"),
    "meta.csv": Case(told=("header is line 5", "'User: XY'", "'Test ID: 12'")),
    "quotedhdr.csv": Case(),
    "semi_total.csv": refused("'x'", "'Total'", "row 4", "(--drop-invalid)"),
    "trailing_rows.csv": Case(),
    "trailing_sep.csv": Case(),
    "uppertarget.csv": refused("no target column 'y'", "did you mean 'Y'?"),
    "utf16.txt": Case(),
    "utf16b.csv": Case(),
    "word.csv": refused("'y' is text ('7.1a' in row 2)", "leave unit and percent sign out"),
    "eu_thousand.csv": refused(
        "'x' looks like numbers but holds '1.234,5' (in rows 1, 2, 3)", "write it without comma"
    ),
    "pubchem/AID_1234_datatable_all.csv": refused(SMILES, "is empty in rows 34, 35", "(--drop-invalid)", **PUBCHEM),
}
LEFT_OUT = {
    "semi_total.csv": Case(drop=True, left_out=(4,)),
    "pubchem/AID_1234_datatable_all.csv": Case(
        {SMILES: ["O=C(CCC1CCOC1)N1C[C@H]2CCC[C@@]2(c2nc(-c3ccccc3)no2)C1"]},
        [6.89, 30.0],
        rows=118,
        told=("rows 1 to 3 below the header are left aside", "'RESULT_TYPE'"),
        drop=True,
        left_out=(34, 35),
        **PUBCHEM,
    ),
}
EXCEL = {
    "dates_as_labels.xlsx": Case(
        refused=True,
        told=("'Ligand code'", "cell B2 holds the date 2024-01-02", "19 more", "format Text"),
        target="Yield",
        library=CODES,
    ),
    "failed_words.xlsx": Case(
        refused=True,
        told=("'Yield'", "'failed' in rows 4, 6, 7 and 1 more", "4 of 40", "'n.d.', 'OVER'", "(--drop-invalid)"),
        target="Yield",
        library=LIBRARY,
    ),
    "hidden_rows.xlsx": sheet("15 rows are hidden", "rows 4 to 18"),
    "percent.xlsx": sheet("'Yield' is shown in percent", "E2 is 0.194", y=(0.194, 0.291, 0.407)),
    "summary_rows.xlsx": Case(
        refused=True,
        told=("'Solvent' is empty in rows 42, 43", "'Mean', 'SD'", "(--drop-invalid)"),
        target="Yield",
        library=LIBRARY,
    ),
    "title_merged.xlsx": sheet("header is row 3", "'HTE plate 12 - Buchwald'", library=UNITS, target="Yield (%)"),
    "title_rows.xlsx": sheet("header is row 4", "'Operator:'", library=UNITS, target="Yield (%)"),
    "units_row.xlsx": sheet("row 1 below the header is left aside", "'°C', 'equiv', '%'"),
}
LEFT_OUT_OF_SHEETS = {
    "failed_words.xlsx": sheet(drop=True, rows=36, left_out=(4, 6, 7, 10)),
    "summary_rows.xlsx": sheet(drop=True, left_out=(42, 43)),
}
ALL = [("cells", name, case) for cases in (CELLS, LEFT_OUT) for name, case in cases.items()]
ALL += [("excel", name, case) for cases in (EXCEL, LEFT_OUT_OF_SHEETS) for name, case in cases.items()]


def read(folder, name, case):
    columns = Columns(case.target, case.features, drop_invalid=case.drop)
    return read_measured(CASES / folder / name, columns, case.library)


@pytest.mark.parametrize(("folder", "name", "case"), ALL, ids=[f"{n}{' dropped' * c.drop}" for _, n, c in ALL])
def test_cases(folder, name, case):
    if case.refused:
        refuse(lambda: read(folder, name, case), name, *case.told)
        return
    table = read(folder, name, case)
    assert list(table.kinds) == list(case.columns)
    for column, cells in case.columns.items():
        assert table.frame[column].tolist()[: len(cells)] == cells, column
    assert table.y.tolist()[: len(case.y)] == case.y
    assert len(table) == (case.rows or len(case.y))
    assert tuple(fault.row for fault in table.invalid) == case.left_out
    notes = "\n".join(table.notes)
    assert all(word in notes for word in case.told), notes
    assert all(note in table.describe() for note in table.notes)
    if not case.told:
        assert not [note for note in table.notes if "left aside" in note or "below" in note]


@pytest.mark.parametrize("name", ["eu_nbsp.csv", "eu_space.csv", "swiss.csv"])
def test_numbers_with_marks_between_thousands_are_no_labels(name):
    assert read("cells", name, Case()).frame["x"].tolist() == [1234.5, 2345.6, 3456.7]


def test_every_file_has_a_case():
    files = {path.relative_to(CASES).as_posix() for part in ("cells", "excel") for path in (CASES / part).rglob("*.*")}
    others = {"eu_nbsp.csv", "eu_space.csv", "swiss.csv", "pubchem/library.csv"}
    tested = {f"{folder}/{name}" for folder, name, _ in ALL} | {f"cells/{name}" for name in others}
    assert files - {f"excel/{path.name}" for path in (LIBRARY, UNITS, CODES)} == tested
    assert FEW > 2
