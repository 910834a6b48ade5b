import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from beebo_scale.screening import read_table
from beebo_scale.screening.column_uses import DATE, reason_to_ignore
from beebo_scale.screening.places import Place
from tests.screening.test_table import refuse

CASES = Path(__file__).parents[1] / "cases" / "columns"


@pytest.mark.parametrize(
    "text",
    [
        *("2024-01-31", "2024/1/3", "31.01.2024", "1/31/24", "3-Jan-2024", "3 March 24", "12:30:05"),
        *("2024-01-31T12:30:00Z", "2024-01-31 12:30:00.5+01:00", "1/3/2024 2:15 PM"),
    ],
)
def test_dates(text):
    assert DATE.match(text)


@pytest.mark.parametrize("text", ["2024", "1.5", "1-2", "2024-01/31", "12", "DMF", "1/2/3/4", "A01", "2-MeTHF"])
def test_no_dates(text):
    assert not DATE.match(text)


def reason(name, cells):
    return reason_to_ignore(pd.Series(cells), Place("x.csv", name, range(1, len(cells) + 1)))


@pytest.mark.parametrize("name", ["plate", "Plate ID", "plateNo", "assay_plate", "Well", "well_position", "Barcode"])
def test_places_on_a_plate_are_no_features(name):
    assert reason(name, ["P1", "P2"]) == "names a place on a plate"


@pytest.mark.parametrize("name", ["date", "Run_Date", "timestamp", "measuredAtDate"])
def test_dates_by_name_are_no_features(name):
    assert reason(name, ["20240131", "20240201"]) == "is called a date"


@pytest.mark.parametrize("name", ["template", "candidate", "plate temp", "update", "dwell time", "base"])
def test_other_names_are(name):
    assert reason(name, ["x", "y"]) is None


def test_cells_tell_too():
    assert reason("run", ["2024-01-31", None, "2024-02-01"]) == "holds dates or times"
    assert reason("run", [datetime.date(2024, 1, 1)]) == "holds dates or times"
    assert reason("run", [None, " "]) == "is empty"
    assert "another text in each row" in reason("name", [f"n{i}" for i in range(20)])
    assert reason("name", ["n1", *(f"n{i}" for i in range(20))]) is None
    assert reason("number", [str(i) for i in range(20)]) is None


def test_what_is_ignored_may_be_named():
    frame = pd.DataFrame({"plate": ["P1", "P2"], "date": ["2024-01-31", "2024-02-01"], "a": [1, 2], "y": [1, 2]})
    table = read_table(frame, "y")
    assert table.kinds == {"a": "continuous"}
    assert [line.split()[:2] for line in table.describe().splitlines()] == [
        ["y", "target"],
        ["a", "continuous"],
        ["plate", "ignored"],
        ["date", "ignored"],
    ]
    named = read_table(frame, "y", features={"plate": None, "date": "categorical"})
    assert named.kinds == {"plate": "categorical", "date": "categorical"}
    assert "a" in [use.column for use in named.uses if use.use == "ignored"]
    refuse(lambda: read_table(frame.drop(columns="a"), "y"), "no feature column", "'plate' names a place on a plate")


def test_a_long_list_is_cut():
    frame = pd.DataFrame({f"x{i}": [1, 2] for i in range(100)}).assign(y=[1, 2])
    assert read_table(frame, "y").describe().splitlines()[-1] == "  and 71 more columns"


@pytest.mark.parametrize(
    ("name", "cells", "why"),
    [
        ("entry", [0, 1, 2, 3], "called an id"),
        ("Unnamed: 0", [4, 1, 3], "called an id"),
        ("PUBCHEM_CID", ["2244", "702", "5793"], "called an id"),
        ("rxn_id", [17, 90, 3], "called an id"),
        ("No.", [1.0, 2.0, 3.0], "called an id"),
        ("Compound ID", ["12", "7"], "called an id"),
        ("order", [5, 3, 4, 6, 7, 8, 2, 1], "counts the rows, 1 to 8"),
        ("made", [20240102, 20240103, 20240103], "dates as whole numbers"),
        ("started", [1.7e9, 1.7e9 + 60, 1.7e9 + 120], "times in seconds"),
    ],
)
def test_whole_numbers_that_count_or_name_rows_are_left_aside(name, cells, why):
    frame = pd.DataFrame({name: cells, "temp": range(20, 20 + 5 * len(cells), 5), "y": np.arange(len(cells)) ** 2})
    table = read_table(frame, "y")
    assert table.features == ["temp"]
    assert why in next(use.why for use in table.uses if use.column == name)
    assert read_table(frame, "y", features=[name]).features == [name]


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("temp", [20, 25, 30, 35, 40, 45, 50, 55]),
        ("hours", [1, 2, 3, 4]),
        ("refractive index", [1.33, 1.36, 1.4]),
        ("carbon number", [4, 4, 6, 6]),
        ("entry", [1.5, 2.5, 3.5]),
    ],
)
def test_sweeps_stay_features(name, cells):
    frame = pd.DataFrame({name: cells, "other": ["a", "b"] * (len(cells) // 2) + ["a"] * (len(cells) % 2)})
    assert name in read_table(frame.assign(y=np.arange(len(cells)) ** 2), "y").features


def test_the_only_number_there_is_stays_a_feature():
    frame = pd.DataFrame({"run": np.arange(10), "y": np.arange(10) ** 2})
    assert read_table(frame, "y").features == ["run"]


def test_a_counter_beside_conditions_is_no_feature():
    assert read_table(CASES / "counter_measured.csv", "yield").features == ["temp", "solvent"]
