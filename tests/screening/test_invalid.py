import numpy as np
import pandas as pd
import pytest

from beebo_scale.screening import Batch, Table, read_library, read_table
from beebo_scale.screening.invalid import Fault
from beebo_scale.screening.library import open_library
from tests.screening.test_table import refuse

KINDS = {"a": "continuous", "variant": "protein"}


def frame(rows=60):
    rng = np.random.default_rng(1)
    letters = rng.choice(list("ACDEFG"), (rows, 3))
    return pd.DataFrame(
        {
            "id": [f"r{i}" for i in range(rows)],
            "a": [str(x) for x in rng.random(rows)],
            "variant": ["".join(row) for row in letters],
            "y": rng.random(rows).round(3),
        }
    )


def spoilt(rows=60):
    """A frame with six bad rows, and the same without them."""
    bad = frame(rows)
    bad.loc[0, "variant"] = "ACDE"  # the first row: its length is not the right one
    bad.loc[7, "variant"] = "AXC"
    bad.loc[8, "a"] = "hot"
    bad.loc[30, ["a", "variant"]] = ["", "XX"]  # listed once
    bad.loc[31, "a"] = "inf"
    bad.loc[rows - 1, "variant"] = " "
    return bad, frame(rows).drop(index=[0, 7, 8, 30, 31, rows - 1]).reset_index(drop=True)


ROWS = [1, 8, 9, 31, 32, 60]


@pytest.mark.parametrize("name", ["m.csv", "m.parquet"])
def test_invalid_measured_rows_are_left_out_and_listed(tmp_path, name):
    bad, good = spoilt()
    bad.loc[5, "y"] = good.loc[4, "y"] = np.nan  # the same row; without a target it is no matter of validity
    path = tmp_path / name
    bad.to_csv(path, index=False) if name == "m.csv" else bad.to_parquet(path)
    refuse(lambda: read_table(path, "y", features=KINDS), "'a' is", "(--drop-invalid)" if name == "m" else "row")
    table = read_table(path, "y", features=KINDS, id="id", drop_invalid=True)
    expected = read_table(good, "y", features=KINDS, id="id")
    pd.testing.assert_frame_equal(table.frame, expected.frame, check_dtype=False)
    np.testing.assert_array_equal(table.y, expected.y)
    assert table.dropped == 1
    assert [fault.row for fault in table.invalid] == ROWS
    assert table.invalid[0] == Fault(str(path), 1, "variant", "ACDE", "has not 3 letters")
    assert [(f.column, f.cell) for f in table.invalid[1:4]] == [("variant", "AXC"), ("a", "hot"), ("a", "")]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["l.csv", "l.parquet", "l.xlsx", "folder", "frame", "table"])
@pytest.mark.parametrize("chunk_rows", [7, 1000])
def test_a_library_is_as_if_it_never_had_the_invalid_rows(tmp_path, name, chunk_rows):
    bad, good = spoilt()
    source = tmp_path / name
    if name == "folder":
        source.mkdir()
        bad[:30].to_parquet(source / "0.parquet", row_group_size=11)
        bad[30:32].to_parquet(source / "1.parquet")  # nothing of it is left
        bad[32:].to_parquet(source / "2.parquet")
    elif name in ("frame", "table"):
        source = bad
    else:
        write = {"csv": bad.to_csv, "parquet": bad.to_parquet, "xlsx": bad.to_excel}[name.rpartition(".")[2]]
        write(source, index=False)
    if name == "table":
        source = Table(bad, KINDS, "id", "table")
    library = open_library(
        source, KINDS, "id", ["y"] if name != "table" else [], chunk_rows=chunk_rows, lengths={"variant": 3}
    )
    expected = open_library(good, KINDS, "id", ["y"] if name != "table" else [], chunk_rows=chunk_rows)
    assert len(library) == len(expected) == 54
    together = pd.concat([table.frame for _, table in library.chunks()], ignore_index=True)
    whole = pd.concat([table.frame for _, table in expected.chunks()], ignore_index=True)
    assert together["id"].tolist() == whole["id"].tolist()
    np.testing.assert_array_equal(together["a"].astype(float), whole["a"])
    for chunk, table in library.chunks():
        start = library.first_row(chunk)
        assert table.frame["id"].tolist() == good["id"].tolist()[start : start + len(table)]
    rows = np.random.default_rng(0).permutation(54)
    assert library.take(rows).frame["id"].tolist() == good["id"].iloc[rows].tolist()
    ids = [good["id"][3], good["id"][53], "r7"]  # the last was left out
    named = {key: row.frame["id"].tolist() for key, row in library.named(ids).items()}
    assert named == {key: [key] for key in ids[:2]}
    assert len(library.invalid) == 6
    if name not in ("table", "folder"):
        assert [fault.row for fault in library.invalid] == ROWS
        assert library.place(0)[1] == 2
        assert library.place(53)[1] == 59
    if name == "folder":
        assert library.place(27) == (str(source / "2.parquet"), 1)


def test_nothing_left(tmp_path):
    frame(5).assign(variant="XXX").to_csv(tmp_path / "x.csv", index=False)
    words = ["x.csv: no row is left, all 5 are invalid", "'variant' has a letter", "'XXX' in row 1"]
    refuse(lambda: read_table(tmp_path / "x.csv", "y", features=KINDS, drop_invalid=True), *words)
    refuse(lambda: read_library(tmp_path / "x.csv", KINDS, drop_invalid=True), *words)
    refuse(lambda: open_library(tmp_path / "x.csv", KINDS, lengths={}), *words)


def test_ids_of_rows_left_out_do_not_count(tmp_path):
    bad, _ = spoilt()
    bad.loc[7, "id"] = "r9"  # the id of a good row
    bad.to_csv(tmp_path / "x.csv", index=False)
    assert len(open_library(tmp_path / "x.csv", KINDS, "id", lengths={"variant": 3})) == 54


def test_molecules(tmp_path):
    pytest.importorskip("rdkit")
    cells = ["CCO", "C1CC", "c1ccccc1", "", "nonsense", "CCN"]
    table = read_library(pd.DataFrame({"s": cells}), {"s": "smiles"}, drop_invalid=True)
    assert table.frame["s"].tolist() == ["CCO", "c1ccccc1", "CCN"]
    assert [(f.row, f.why) for f in table.invalid] == [(2, "is no molecule"), (4, "is empty"), (5, "is no molecule")]


def test_the_list_stands_beside_the_batch(tmp_path):
    faults = (Fault("x.csv", 3, "s", 'a, "b"', "is no molecule"),)
    Batch(frame(2), {}, faults).write(tmp_path / "next.csv.gz")
    listed = pd.read_csv(tmp_path / "next.dropped.csv")
    assert listed.to_dict("records") == [
        {"file": "x.csv", "row": 3, "column": "s", "cell": 'a, "b"', "why": "is no molecule"}
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["next.csv.gz", "next.dropped.csv", "next.run.json"]
