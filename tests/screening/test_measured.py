"""Targets with words, columns that nobody needs, labels in two spellings."""

import numpy as np
import pandas as pd
import pytest

from beebo_scale.screening import read_table
from beebo_scale.screening.measured.labels import labels_near
from beebo_scale.screening.measured.unneeded import unneeded
from beebo_scale.screening.places import reworded
from beebo_scale.screening.table import read_measured
from beebo_scale.specs import Columns
from tests.screening.test_table import refuse

WORDS = ["PENDING", "n.d.", "OVER", "failed", "#DIV/0!", "ND", "<LOD"]


def screen(tmp_path, name="x.csv", **columns):
    pd.DataFrame(columns).to_csv(tmp_path / name, index=False)
    return tmp_path / name


def test_no_list_says_which_words_stand_for_a_failure(tmp_path):
    y = [str(i) for i in range(1, 21)]
    for word in [*WORDS, "xyzzy"]:
        path = screen(tmp_path, x=range(20), y=[*y[:4], word, *y[5:]])
        refuse(lambda path=path: read_table(path, "y"), f"{word!r} in row 5", "1 of 20", "empty", "(--drop-invalid)")
        table = read_table(path, "y", features=["x"], drop_invalid=True)
        assert table.numbers.tolist() == [1, 2, 3, 4, *range(6, 21)]
        (fault,) = table.invalid
        assert (fault.row, fault.column, fault.cell) == (5, "y", word)


@pytest.mark.parametrize("cell", [">100", "12 nM", "1,234"])
def test_what_says_more_than_a_word_is_refused_in_any_case(tmp_path, cell):
    path = screen(tmp_path, x=range(4), y=["1", "2", cell, "3"])
    refuse(lambda: read_table(path, "y", features=["x"], drop_invalid=True), f"{cell!r} in row 3")


def test_a_column_of_words_is_no_target(tmp_path):
    path = screen(tmp_path, x=range(4), y=["low", "high", "low", "1"])
    for drop in (False, True):
        refuse(lambda drop=drop: read_table(path, "y", features=["x"], drop_invalid=drop), "give a numeric column")


def test_of_several_targets_a_row_stays_for_the_others(tmp_path):
    path = screen(tmp_path, x=range(4), a=["1", "ND", "3", "4"], b=["1", "2", "3", "5"])
    table = read_table(path, {"a": 1.0, "b": 1.0}, features=["x"], drop_invalid=True)
    np.testing.assert_array_equal(table.y[:, 0], [1, np.nan, 3, 4])
    assert [fault.row for fault in table.invalid] == [2]


def test_partly_empty_columns_that_nobody_needs():
    name = ["DMF", "THF", "MeCN"] * 4
    raw = pd.DataFrame(
        {
            "solvent_1_name": name,
            "solvent_1_cas": [{"DMF": "68-12-2", "THF": "", "MeCN": "75-05-8"}[each] for each in name],
            "BATCH_NO": ["", *["B1"] * 11],
            "additive": ["x"] * 3 + [""] * 9,
            "temp": ["", *map(str, range(11))],
        }
    )
    aside = unneeded(raw, raw.columns)
    assert list(aside) == ["solvent_1_cas", "BATCH_NO", "additive"]
    assert "'solvent_1_name' tells as much" in aside["solvent_1_cas"]
    assert "empty in 1 of 12 rows" in aside["BATCH_NO"]


def test_a_partly_empty_column_that_matters_refuses_the_file(tmp_path):
    path = screen(tmp_path, temp=["", *range(11)], y=range(12))
    refuse(lambda: read_table(path, "y"), "'temp' is empty in row 1")


def test_columns_that_the_library_lacks_are_no_features(tmp_path):
    path = screen(tmp_path, temp=range(20, 80, 5), purity=[0.5, 0.9] * 6, y=range(12))
    library = screen(tmp_path, "library.csv", temp=[20, 30])
    table = read_measured(path, Columns("y", id="name"), library)
    assert list(table.kinds) == ["temp"]
    assert [(use.column, use.use) for use in table.uses] == [
        ("y", "target"),
        ("temp", "continuous"),
        ("purity", "ignored"),
        ("name", "id"),
    ]
    library = screen(tmp_path, "library.csv", temp=[20, 30], Purity_=[1, 1])  # perhaps the same, so it stays one
    assert list(read_measured(path, Columns("y"), library).kinds) == ["temp", "purity"]


def test_rows_below_an_empty_one_are_said(tmp_path):
    path = screen(tmp_path, x=[1, 2, 3, "", 2], y=[5, 6, 7, "", 6])
    assert ["in row 5" in note for note in read_table(path, "y").notes] == [True]


def test_labels_in_two_spellings_and_labels_that_became_dates(tmp_path):
    path = screen(tmp_path, s=["DMF", "d mf", "THF", "2-Jan"] * 3, y=range(12))
    (alike, dates) = read_table(path, "y").notes
    assert "'DMF' (3), 'd mf' (3)" in alike
    assert "'2-Jan' in rows 4, 8, 12" in dates
    frame = pd.DataFrame({"s": ["dmf", "THF", "new"]})
    assert labels_near(frame, {"s": ("DMF", "THF")}) == [
        "column 's': 'dmf' was never measured, 'DMF' was; write them alike in both files if they are one"
    ]


def test_a_way_out_is_named_where_there_is_one():
    text = "column 'a' is empty in row 1; fill the cell or leave the row out (--drop-invalid)"
    assert reworded(text) == "column 'a' is empty in row 1; fill the cell"
    assert reworded(text, "--data.drop_invalid true").endswith("leave the row out (--data.drop_invalid true)")
