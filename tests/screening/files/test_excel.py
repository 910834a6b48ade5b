import sys

import pandas as pd
import pytest

from beebo_scale.proposal.provenance import input_hashes
from beebo_scale.screening import read_library, read_table
from beebo_scale.screening.files.opening import split_sheet
from tests.screening.test_table import refuse

FRAME = pd.DataFrame({"a": [1, 2, 3], "plate": [1, 2, 2], "y": [1.0, None, 2.5]})


def test_without_openpyxl_one_line_says_what_to_install(tmp_path, monkeypatch):
    FRAME.to_excel(tmp_path / "x.xlsx", index=False)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    refuse(lambda: read_table(tmp_path / "x.xlsx", "y"), "x.xlsx", "pip install 'beebo-scale[excel]'")


def test_whole_numbers_are_the_same_labels_as_in_other_files(tmp_path):
    for name, write in {"x.xlsx": FRAME.to_excel, "x.csv": FRAME.to_csv}.items():
        write(tmp_path / name, index=False)
        assert read_library(tmp_path / name, {"plate": "categorical"}).frame["plate"].tolist() == ["1", "2", "2"]


def test_a_file_may_have_the_sign_of_a_sheet_in_its_name(tmp_path):
    path = tmp_path / "x.xlsx#1.csv"
    FRAME.to_csv(path, index=False)
    assert len(read_table(path, "y")) == 2
    assert split_sheet("x#2.csv") == (split_sheet("x#2.csv")[0], None)
    assert [str(split_sheet("a/b.XLSX#Plate #1")[0]), split_sheet("a/b.XLSX#Plate #1")[1]] == ["a/b.XLSX", "Plate #1"]


def test_sources_name_the_sheet_and_hashes_find_the_file(tmp_path):
    FRAME.to_excel(tmp_path / "x.xlsx", index=False, sheet_name="Plate 1")
    source = f"{tmp_path / 'x.xlsx'}#Plate 1"
    assert read_table(tmp_path / "x.xlsx", "y").source == read_table(source, "y").source == source
    assert input_hashes(source)[source] == input_hashes(str(tmp_path / "x.xlsx"))[str(tmp_path / "x.xlsx")]


@pytest.mark.parametrize("sheet", ["plate 1", "Sheet1"])
def test_unknown_sheets(tmp_path, sheet):
    FRAME.to_excel(tmp_path / "x.xlsx", index=False, sheet_name="Plate 1")
    refuse(lambda: read_table(f"{tmp_path / 'x.xlsx'}#{sheet}", "y"), f"no sheet '{sheet}'", "its sheets are 'Plate 1'")
