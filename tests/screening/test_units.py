"""The unit of a column goes from the measured cells to libraries, results, models and campaigns."""

import numpy as np
import pandas as pd
import pytest

from beebo_scale.proposal.library.unseen import told_of_library
from beebo_scale.screening import Encoder, read_library, read_table
from beebo_scale.screening.library import open_library
from beebo_scale.screening.packing import pack
from tests.screening.content.test_recognised import CASES
from tests.screening.test_table import refuse


def written(tmp_path, name, loading, **columns):
    path = tmp_path / name
    pd.DataFrame({"loading": loading, **columns}).to_csv(path, index=False)
    return path


def test_the_case_is_read_with_its_unit():
    table = read_table(CASES / "units.csv", "yield")
    assert table.kinds == {"temp": "continuous", "loading": "continuous"}
    assert table.units == {"loading": "mol%"}
    assert sorted(set(table.frame["loading"])) == [1, 2, 5, 10]
    assert "holds numbers in 'mol%'" in table.describe()
    library = read_library(CASES / "units_lib.csv", table.kinds)
    assert sorted(set(library.frame["loading"])) == [1, 3, 5, 7, 10]
    X = Encoder.from_table(table).encode(library)
    np.testing.assert_allclose(X[:5, 1], (np.array([1, 3, 5, 7, 10]) - 1) / 9)


@pytest.mark.parametrize(
    ("case", "target", "column", "values"),
    [
        ("columns/thousand.csv", "y", "rpm", [1100.5 + 100 * i for i in range(8)]),
        ("cells/eu_nbsp.csv", "y", "x", [1234.5, 2345.6, 3456.7]),
        ("cells/eu_space.csv", "y", "x", [1234.5, 2345.6, 3456.7]),
        ("cells/swiss.csv", "y", "x", [1234.5, 2345.6, 3456.7]),
        ("cells/eu_three.csv", "y", "x", [0.125, 1.25, 3.375]),
    ],
)
def test_thousands_are_numbers(case, target, column, values):
    table = read_table(CASES.parent / case, target, features=[column])
    assert table.kinds == {column: "continuous"}
    assert table.frame[column].tolist() == values


def test_points_between_thousands_are_refused():
    refuse(lambda: read_table(CASES.parent / "cells" / "eu_thousand.csv", "y"), "'x' looks like numbers", "comma")


def test_a_target_has_a_unit_too(tmp_path):
    path = written(tmp_path, "m.csv", [1, 2, 3.5], y=["5 mg", "", "7.5 mg"])
    table = read_table(path, "y")
    assert (table.y.tolist(), table.dropped, table.units) == ([5, 7.5], 1, {"y": "mg"})
    assert "named, in 'mg'" in table.describe()
    refuse(
        lambda: read_table(written(tmp_path, "n.csv", [1, 2, 3], y=["5 mg", "6 mg", "1 g"]), "y"),
        "column 'y' is text ('1 g' in row 3); the column is in 'mg'",
    )
    refuse(lambda: read_table(written(tmp_path, "o.csv", [1, 2], y=["5 ± 1", "6 ± 1"]), "y"), "no single number")


def encoder_of(tmp_path, loading, **columns):
    table = read_table(written(tmp_path, "m.csv", loading, y=range(len(loading))), "y", **columns)
    return Encoder.from_table(table)


def test_a_library_must_be_in_the_same_unit(tmp_path):
    encoder = encoder_of(tmp_path, ["1 mol%", "2 mol%", "5 mol%"])
    assert Encoder.from_dict(encoder.to_dict()) == encoder  # as a model keeps it
    other = written(tmp_path, "wt.csv", ["1 wt%", "3 wt%"])
    for read in (lambda: encoder.encode(read_library(other, encoder.kinds)), lambda: told_of_library(other, encoder)):
        refuse(read, "column 'loading' is in 'wt%'", "its measurements are in 'mol%'")
    (_, chunk), *_ = open_library(other, encoder.kinds).chunks()
    refuse(lambda: pack(encoder, chunk, np.array([1, 2])), "is in 'wt%'")
    mixed = written(tmp_path, "mixed.csv", ["1 mol%", "3 wt%", "4 mol%"])
    refuse(lambda: read_library(mixed, encoder.kinds), "'3 wt%' in row 2")


def test_numbers_alone_are_taken_in_the_measured_unit_and_it_is_said(tmp_path):
    encoder = encoder_of(tmp_path, ["1 mol%", "2 mol%", "5 mol%"])
    bare = written(tmp_path, "bare.csv", [1, 3])
    np.testing.assert_allclose(encoder.encode(read_library(bare, encoder.kinds))[:, 0], [0, 0.5])
    (note,) = told_of_library(bare, encoder)
    assert "'loading' holds numbers alone, which are taken in 'mol%'" in note
    assert told_of_library(written(tmp_path, "same.csv", ["1 mol %", "9 mol%"]), encoder) == ()


def test_a_unit_that_the_measurements_lack_is_refused_unless_it_is_said(tmp_path):
    library = written(tmp_path, "l.csv", ["1 mol%", "3 mol%"])
    bare = encoder_of(tmp_path, [1, 2, 5])
    refuse(lambda: bare.encode(read_library(library, bare.kinds)), "numbers without a unit", "--units loading:mol%")
    said = encoder_of(tmp_path, [1, 2, 5], units={"loading": "mol %"})
    np.testing.assert_allclose(said.encode(read_library(library, said.kinds))[:, 0], [0, 0.5])
    refuse(lambda: encoder_of(tmp_path, ["1 g", "2 g"], units={"loading": "mg"}), "the column is in 'mg'")
    refuse(lambda: encoder_of(tmp_path, [1, 2], units={"loadin": "mg"}), "no unit column 'loadin'", "did you mean")
