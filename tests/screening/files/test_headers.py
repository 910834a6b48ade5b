import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beebo_scale.screening import read_library, read_table
from beebo_scale.screening.files.headers import count_remarks, header_row
from beebo_scale.screening.files.opening import open_source
from beebo_scale.screening.library import open_library
from tests.screening.test_table import refuse

NUMBERS = [["1", "A", "10"], ["2", "B", "11"], ["3", "A", "12"]]


@pytest.mark.parametrize(
    ("rows", "wanted", "row"),
    [
        ([["a", "y"], ["1", "2"]], ["z"], 0),  # nobody has the name: the first row, so that the message shows it
        ([["", ""], ["a", "y"]], [], 1),
        ([["Yield"], ["x", "Yield"], ["1", "2"]], ["Yield"], 1),  # a title of the same name
        ([["Run of:", "y"], ["a", "y"], ["1", "2"]], ["a", "y"], 1),  # the row with most of the names
        ([["a", "what", "value"], ["b", "yield", "3"]], ["yield"], 0),  # a row with numbers is none
        ([["A", " Y\u00a0"], ["1", "2"]], ["y"], 0),
        ([["Lab 7"], ["A", "Y"], ["1", "2"]], ["y"], 1),  # in other capitals: then it is said what is meant
    ],
)
def test_header_rows(rows, wanted, row):
    assert header_row(rows, wanted)[0] == row


@pytest.mark.parametrize(
    ("above", "count"),
    [
        ([["", "", "%"]], 1),
        ([["mM", "", "%"]], 1),
        ([["float", "string", "float"], ["mM", "", "%"]], 2),
        ([["4", "A", "failed"]], 0),  # an experiment without a result
        ([["", "A", "failed"]], 0),
        ([["-", "", "ND"]], 1),
        ([["hot", "A", "failed"]], 0),  # its label comes again
        ([["", "", ""]], 0),
    ],
)
def test_rows_of_units(above, count):
    assert count_remarks(above + NUMBERS) == count


def test_a_list_of_ids_loses_none():
    assert count_remarks([["WT"], ["2"], ["3"], ["4"]]) == 0
    assert count_remarks([["WT", ""], ["2", ""], ["3", "again"], ["4", ""]]) == 0


@given(st.lists(st.tuples(st.sampled_from("ABC"), st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=12))
def test_a_row_with_a_number_in_a_column_of_numbers_is_never_left_aside(rows):
    assert count_remarks([[label, str(x), str(y)] for label, x, y in rows]) == 0


def test_rows_keep_their_numbers_below_a_header_further_down(tmp_path):
    """Rows of units are counted, so that a message names the row that a reader of the file counts to."""
    path = tmp_path / "x.csv"
    path.write_text("Plate 7\n\nx,s,y\nmM,,%\n1,A,10\n2,B,11\nhot,A,12\n4,C,13\n5,C,14\n")
    refuse(lambda: read_table(path, "y", features={"x": "continuous"}), "'hot' in row 4")
    table = read_table(path, "y", features={"x": "continuous", "s": "categorical"}, drop_invalid=True)
    assert table.frame["x"].tolist() == [1.0, 2.0, 4.0, 5.0]
    assert table.numbers.tolist() == [2, 3, 5, 6]
    assert [fault.row for fault in table.invalid] == [4]
    assert [("header is line 3" in note, "row 1 below" in note) for note in table.notes] == [
        (True, False),
        (False, True),
    ]


def test_pieces_of_a_library_below_a_row_of_units(tmp_path):
    path = tmp_path / "x.csv"
    x = np.arange(20.0)
    pd.DataFrame({"n": [f"c{i}" for i in range(20)], "x": x, "z": x}).to_csv(path, index=False)
    lines = path.read_text().splitlines()
    path.write_text("\n".join(["made by hand", lines[0], ",mM,K", *lines[1:]]))
    library = open_library(path, {"x": "continuous"}, "n", chunk_rows=6)
    assert len(library) == 20
    assert library.take([19, 0, 7]).frame["n"].tolist() == ["c19", "c0", "c7"]
    assert library.place(0) == (str(path), 2)
    assert [len(chunk) for _, chunk in library.chunks()] == [6, 6, 6, 2]
    assert len(library.notes) == 2
    frame = read_library(path, {"x": "continuous"}, id="n").frame
    assert frame["x"].tolist() == x.tolist()
    assert list(open_source(path, ["x"]).columns) == ["n", "x", "z"]
