import gzip
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from beebo_scale.errors import InputError
from beebo_scale.screening import Table, read_library, read_table


def save(folder, text, name="screen.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def refuse(read, *parts):
    """Run `read`; its error must be one line that holds all parts."""
    with pytest.raises(InputError) as caught:
        read()
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message, message
    return message


def mixed_frame():
    return pd.DataFrame(
        {
            "name": ["a", "b", "c", "d"],
            "temp": [20.0, 30.5, 0.1 + 0.2, 1e-7],
            "base": ["None", "NA", "K2CO3", "nan"],
            "variant": ["VDGV", "ADGV", "CDGV", "vdga"],
            "primer": ["ACGT", "acgt", "TTTT", "GGGG"],
            "yield": [1.0, np.nan, 3.25, 1 / 3],
            "var": [0.1, 0.2, 0.3, 0.4],
        }
    )


KINDS = {"temp": None, "base": None, "variant": "protein", "primer": "dna"}


def read_mixed(source):
    return read_table(source, "yield", features=KINDS, id="name", noise_variance="var")


# --- what is read ----------------------------------------------------------------------------------------


def test_frame_is_read_checked_and_ordered():
    table = read_mixed(mixed_frame())
    assert isinstance(table, Table)
    assert list(table.frame) == ["name", "temp", "base", "variant", "primer"]
    assert table.kinds == {"temp": "continuous", "base": "categorical", "variant": "protein", "primer": "dna"}
    assert table.features == list(table.kinds)
    assert (table.source, table.target, table.id) == ("table", "yield", "name")
    assert table.dropped == 1
    assert len(table) == 3
    assert table.frame.index.equals(pd.RangeIndex(3))
    assert table.frame["name"].tolist() == ["a", "c", "d"]
    assert table.frame["variant"].tolist() == ["VDGV", "CDGV", "VDGA"]
    np.testing.assert_array_equal(table.y, [1.0, 3.25, 1 / 3])
    np.testing.assert_array_equal(table.noise_variance, [0.1, 0.3, 0.4])
    assert table.y.dtype == table.noise_variance.dtype == np.float64


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".csv.xz", ".tsv", ".tsv.gz", ".parquet", ".CSV"])
def test_every_file_type_gives_the_same_table(tmp_path, suffix):
    path = tmp_path / f"screen{suffix}"
    if suffix == ".parquet":
        mixed_frame().to_parquet(path)
    else:
        mixed_frame().to_csv(path, index=False, sep="\t" if "tsv" in suffix else ",")
    table, expected = read_mixed(path), read_mixed(mixed_frame())
    assert table.source == str(path)
    assert table.kinds == expected.kinds
    assert table.dropped == 1
    pd.testing.assert_frame_equal(table.frame, expected.frame, check_dtype=False, check_exact=True)
    np.testing.assert_array_equal(table.y, expected.y)
    np.testing.assert_array_equal(table.noise_variance, expected.noise_variance)


def test_reading_leaves_the_frame_alone():
    frame = mixed_frame()
    read_mixed(frame)
    pd.testing.assert_frame_equal(frame, mixed_frame())


def test_words_for_nothing_are_levels_and_ids_stay_as_written(tmp_path):
    path = save(tmp_path, "id,additive,y\n007,None,1\n08,NA,2\n1e3,nan,NaN\n9,null,None\n10,None,3.5\n")
    table = read_table(path, "y", features={"additive": "categorical"}, id="id")
    assert table.frame["id"].tolist() == ["007", "08", "10"]
    assert table.frame["additive"].tolist() == ["None", "NA", "None"]
    assert table.dropped == 2


def test_features_default_to_all_other_columns_and_kinds_are_inferred(tmp_path):
    path = save(tmp_path, "id,a,b,y,v\nx,1,1.5,1,1\ny,2,,,1\nz,3,+2.5,2,1\n")
    table = read_table(path, "y", id="id", noise_variance="v")
    assert table.kinds == {"a": "continuous", "b": "continuous"}
    assert table.frame["b"].tolist() == [1.5, 2.5]
    assert read_table(path, "y", features={"b"}).kinds == {"b": "continuous"}


def test_typed_columns_are_inferred_by_type():
    frame = pd.DataFrame(
        {
            "n": [1, 2],
            "flag": [True, False],
            "text": ["1", "2"],
            "cat": pd.Categorical([5, 6]),
            "big": pd.array([1, 2], dtype="Int64"),
            "y": [0.0, 1.0],
        }
    )
    kinds = read_table(frame, "y").kinds
    assert kinds == {
        "n": "continuous",
        "flag": "categorical",
        "text": "categorical",
        "cat": "continuous",
        "big": "continuous",
    }


def test_whole_numbers_are_the_same_level_in_every_file(tmp_path):
    csv = save(tmp_path, "plate,y\n1,1\n2,2\n,\n")
    parquet = tmp_path / "screen.parquet"
    pd.DataFrame({"plate": pd.array([1, 2, None], dtype="Int64"), "y": [1.0, 2.0, None]}).to_parquet(parquet)
    mixed = pd.DataFrame({"plate": [1, "2"], "y": [1, 2]}, dtype=object)
    for source in (csv, parquet, mixed):
        assert read_table(source, "y", features={"plate": "categorical"}).frame["plate"].tolist() == ["1", "2"]


def test_the_id_may_be_a_feature_and_stands_once():
    table = read_table(mixed_frame(), "yield", features={"temp": "continuous", "variant": "protein"}, id="variant")
    assert list(table.frame) == ["variant", "temp"]
    assert table.features == ["temp", "variant"]


def test_spreadsheet_marks_are_no_part_of_the_header(tmp_path):
    path = tmp_path / "excel.csv"
    path.write_bytes(b'\xef\xbb\xbfa,"y"\r\n 1 ,1\r\n"2",2\r\n')
    assert read_table(path, "y").frame["a"].tolist() == [1.0, 2.0]


def test_quoted_cells_may_hold_separators_and_line_breaks(tmp_path):
    path = save(tmp_path, 'y,a\n1,"b, c"\n2,"d\ne"\n')
    assert read_table(path, "y").frame["a"].tolist() == ["b, c", "d\ne"]


def test_take_keeps_order_and_everything_else():
    table = read_mixed(mixed_frame())
    taken = table.take(np.array([2, 0]))
    assert taken.frame["name"].tolist() == ["d", "a"]
    assert taken.frame.index.equals(pd.RangeIndex(2))
    np.testing.assert_array_equal(taken.y, table.y[[2, 0]])
    np.testing.assert_array_equal(taken.noise_variance, table.noise_variance[[2, 0]])
    assert (taken.kinds, taken.dropped) == (table.kinds, table.dropped)
    library = read_library(mixed_frame(), {"temp": "continuous"}).take(np.array([1]))
    assert library.y is None


def test_parquet_index_is_not_a_feature_and_dotted_names_work(tmp_path):
    path = tmp_path / "dots.parquet"
    pd.DataFrame({"a": [1, 2], "a.b": [3, 4], "y": [1, 2]}, index=[5, 9]).to_parquet(path)
    assert list(read_table(path, "y").frame) == ["a", "a.b"]
    assert list(read_table(path, "y", features=["a"]).frame) == ["a"]


def test_library_keeps_only_id_and_features(tmp_path):
    path = tmp_path / "library.parquet"
    mixed_frame().to_parquet(path)
    library = read_library(path, {"variant": "protein", "base": "categorical"}, id="name")
    assert list(library.frame) == ["name", "variant", "base"]
    assert library.kinds == {"variant": "protein", "base": "categorical"}
    assert library.y is None
    assert library.noise_variance is None
    assert library.target is None
    assert len(library) == 4
    assert len(read_library(mixed_frame().head(1), {"temp": "continuous"})) == 1


@pytest.mark.process
def test_importing_the_package_is_light():
    heavy = "[name for name in ('pandas', 'pyarrow') if name in sys.modules]"
    code = f"import sys, beebo_scale.screening, beebo_scale.datasets; print({heavy})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


# --- files that cannot be read ---------------------------------------------------------------------------


def test_unknown_suffix(tmp_path):
    refuse(lambda: read_table(tmp_path / "screen.doc", "y"), "screen.doc", ".csv.gz", ".parquet", ".xlsx")


def test_missing_file_names_its_neighbour(tmp_path):
    save(tmp_path, "a,y\n1,1\n2,2\n")
    refuse(lambda: read_table(tmp_path / "scren.csv", "y"), "scren.csv", "no such file", "'screen.csv'")
    refuse(lambda: read_table(tmp_path / "qqq.csv", "y"), "qqq.csv", "no such file; check the path")
    refuse(lambda: read_table(tmp_path / "no" / "screen.csv", "y"), "screen.csv", "folder")


def test_folder(tmp_path):
    (tmp_path / "dir.csv").mkdir()
    refuse(lambda: read_table(tmp_path / "dir.csv", "y"), "dir.csv is a folder")


@pytest.mark.parametrize("name", ["empty.csv", "empty.parquet", "empty.csv.gz"])
def test_zero_bytes(tmp_path, name):
    path = save(tmp_path, "", name)
    refuse(lambda: read_table(path, "y"), name, "0 bytes")


def test_no_header_and_header_only(tmp_path):
    blank = save(tmp_path, "\n\n", "blank.csv")
    refuse(lambda: read_table(blank, "y"), "blank.csv", "no header")
    header = save(tmp_path, "a,y\n", "header.csv")
    refuse(lambda: read_table(header, "y"), "header.csv", "no rows")
    refuse(lambda: read_library(header, {"a": "continuous"}), "header.csv", "no rows")
    refuse(lambda: read_table(pd.DataFrame({"a": [], "y": []}), "y"), "table", "no rows")


def test_not_utf8(tmp_path):
    path = tmp_path / "latin.csv"
    path.write_bytes("a,y\né,1\nb,2\n".encode("latin-1"))
    refuse(lambda: read_table(path, "y"), "latin.csv is not UTF-8 text (byte 0xE9 in line 2)", "UTF-8")


def test_damaged_files(tmp_path):
    whole = gzip.compress("".join(["a,y\n", *(f"{i * 7919 % 10007},{i}\n" for i in range(50_000))]).encode())
    for name, content in {
        "cut.csv.gz": whole[: len(whole) // 2],
        "text.parquet": b"a,y\n1,1\n2,2\n",
    }.items():
        (tmp_path / name).write_bytes(content)
        refuse(lambda name=name: read_table(tmp_path / name, "y"), name, "cannot be read")
    path = tmp_path / "cut.parquet"
    mixed_frame().to_parquet(path)
    content = path.read_bytes()
    path.write_bytes(content[:50] + b"\0" * 200 + content[250:])
    refuse(lambda: read_mixed(path), "cut.parquet", "cannot be read")


@pytest.mark.parametrize(("row", "cells"), [("3", "1"), ("3,4,5", "3")])
def test_ragged_rows(tmp_path, row, cells):
    path = save(tmp_path, f"a,y\n1,1\n{row}\n2,2\n")
    refuse(lambda: read_table(path, "y"), "screen.csv", "row 2", f"{cells} cells", "has 2")


def test_open_quote(tmp_path):
    path = save(tmp_path, 'a,y,note\n1,1,ok\n2,2,"half\n3,3,ok\n4,4,ok\n')
    refuse(lambda: read_table(path, "y", features=["a"]), "screen.csv", "'note'", "never closed")


def test_repeated_header(tmp_path):
    path = save(tmp_path, "a,y,a\n1,1,1\n2,2,2\n")
    refuse(lambda: read_table(path, "y"), "screen.csv", "'a'", "columns 1, 3")
    frame = pd.DataFrame([[1, 2, 3]], columns=["a", "y", "a"])
    refuse(lambda: read_table(frame, "y"), "table", "'a'")


def test_nameless_column(tmp_path):
    path = save(tmp_path, ",a,y\n0,1,1\n1,2,2\n")
    table = read_table(path, "y")
    assert table.features == ["a"]
    assert [use.why for use in table.uses if not use.column] == ["has no name"]
    assert read_table(path, "y", features=["a"]).features == ["a"]


def test_sources_of_the_wrong_type():
    refuse(lambda: read_table([1, 2], "y"), "list", "DataFrame")
    refuse(lambda: read_table(pd.DataFrame([[1, 2]]), "y"), "column name 0", "astype(str)")


# --- columns that are not there --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kwargs", "role"),
    [
        ({"target": "yeild"}, "target"),
        ({"target": "yield", "features": ["Yield "]}, "feature"),
        ({"target": "yield", "id": "yeild"}, "id"),
        ({"target": "yield", "noise_variance": "YIELD"}, "noise variance"),
    ],
)
def test_unknown_columns_name_the_nearest(kwargs, role):
    refuse(
        lambda: read_table(mixed_frame(), **kwargs), f"table has no {role} column", "(did you mean 'yield'?)", "'temp'"
    )


def test_header_with_blanks_is_stripped_unless_asked_for(tmp_path):
    path = save(tmp_path, "a, y\n1,1\n2,2\n")
    assert read_table(path, "y").target == "y"
    assert read_table(path, " y").target == " y"


def test_wrong_separator_is_hinted(tmp_path):
    path = save(tmp_path, "a:y\n1:1\n")
    refuse(lambda: read_table(path, "y"), "'a:y'", "another character")


def test_library_without_a_feature(tmp_path):
    path = save(tmp_path, "Temp,base\n1,a\n", "library.csv")
    refuse(
        lambda: read_library(path, {"temp": "continuous"}),
        "library.csv has no feature column 'temp' (did you mean 'Temp'?)",
    )
    refuse(lambda: read_library(path, {"Temp": "continuous"}, id="name"), "library.csv has no id column 'name'")


def test_roles_and_kinds_that_clash():
    frame = mixed_frame()
    refuse(lambda: read_table(frame, "yield", features=["temp", "yield"]), "'yield'", "target and a feature")
    refuse(lambda: read_table(frame, "yield", features=["var"], noise_variance="var"), "'var'", "noise variance")
    refuse(lambda: read_table(frame, "yield", features=["temp"], id="yield"), "two roles", "'yield'")
    refuse(lambda: read_table(frame, "yield", features=["temp", "temp"]), "'temp'", "twice")
    refuse(lambda: read_table(frame, "yield", features="temp"), "features", "'temp'", "list")
    refuse(lambda: read_table(frame, "yield", features={}), "no feature column")
    refuse(lambda: read_table(frame[["yield"]], "yield"), "no feature column")
    refuse(
        lambda: read_table(frame, "yield", features={"variant": "proteins"}),
        "'variant'",
        "'proteins'",
        "did you mean 'protein'",
        "continuous, categorical, protein, dna",
    )


# --- cells -----------------------------------------------------------------------------------------------


def test_text_target(tmp_path):
    path = save(tmp_path, "a,y\n1,1\n2,abc\n3,abc\n4,n.d.\n")
    refuse(lambda: read_table(path, "y"), "screen.csv", "'y' is text ('abc' in rows 2, 3, 4)", "numeric column")
    frame = pd.DataFrame({"a": [1, 2, 3], "y": [1, 2, "1_000"]})
    refuse(lambda: read_table(frame, "y"), "table", "'1_000' in row 3")
    frame["y"] = pd.date_range("2024-01-01", periods=3)
    refuse(lambda: read_table(frame, "y"), "'y' is not numeric")


def test_odd_targets(tmp_path):
    def read(*cells):
        return lambda: read_table(save(tmp_path, "\n".join(["a,y", *(f"1,{c}" for c in cells)]) + "\n"), "y")

    refuse(read("1", "inf", "2"), "screen.csv", "'y' is infinite in row 2")
    refuse(read("", "NaN", "None"), "screen.csv", "'y' is empty in all 3 rows")
    refuse(read("", "5", ""), "screen.csv", "'y'", "only one row")
    refuse(read("5", "5.0", ""), "screen.csv", "'y' is 5", "nothing to learn")


def test_continuous_cells_count_only_where_the_target_is(tmp_path):
    path = save(tmp_path, "a,y\n1,1\n,\n3,2\n,4\n,5\n,6\n,7\n")
    refuse(lambda: read_table(path, "y"), "screen.csv", "'a' is empty in rows 4, 5, 6 and 1 more")
    path = save(tmp_path, "a,y\n1,1\n,\n3,2\n")
    assert read_table(path, "y").frame["a"].tolist() == [1.0, 3.0]
    path = save(tmp_path, "a,y\n1,1\n,\n-inf,2\n")
    refuse(lambda: read_table(path, "y"), "'a' is infinite in row 3")


def test_text_in_a_continuous_column(tmp_path):
    path = save(tmp_path, "a,y\n1,1\nhot,2\n")
    refuse(lambda: read_table(path, "y", features={"a": "continuous"}), "'a' is text ('hot' in row 2)", "categorical")


def test_empty_levels_and_several_values(tmp_path):
    path = save(tmp_path, "a,y\nx,1\n,2\n")
    refuse(lambda: read_table(path, "y"), "screen.csv", "'a' is empty in row 2")
    frame = pd.DataFrame({"a": ["x", None, ""], "y": [1, 2, 3]})
    refuse(lambda: read_table(frame, "y"), "table", "'a' is empty in rows 2, 3")
    frame["a"] = [[1, 2], [3], [4]]
    refuse(lambda: read_table(frame, "y"), "table", "'a' holds several values", "rows 1, 2, 3")


def test_sequences(tmp_path):
    def read(kind, *cells):
        text = "\n".join(["s,y", "AC,", *(f"{cell},{i}" for i, cell in enumerate(cells))]) + "\n"
        return lambda: read_table(save(tmp_path, text), "y", features={"s": kind})

    assert read("dna", "acg", "TTT")().frame["s"].tolist() == ["ACG", "TTT"]
    refuse(read("protein", "ACD", "ABD"), "screen.csv", "'s'", "'B' at position 2", "row 3", "ACDEFGHIKLMNPQRSTVWY")
    refuse(read("dna", "ACG", "ACU"), "'s'", "'U' at position 3", "row 3", "ACGT")
    refuse(read("dna", "ACG", "ACé"), "'É' at position 3", "row 3")
    refuse(read("dna", "ACG", "ACGT", "AC", "ACG"), "'s'", "3 letters", "one of 4", "rows 3, 4")
    refuse(read("dna", "ACG", ""), "'s' is empty in row 3")


def test_noise_variance(tmp_path):
    def read(cell):
        path = save(tmp_path, f"a,y,v\n1,1,1\n2,,-1\n3,3,{cell}\n")
        return lambda: read_table(path, "y", features=["a"], noise_variance="v")

    for cell, said in {"0": "is 0", "-2": "is -2", "inf": "is inf", "": "is empty"}.items():
        refuse(read(cell), "screen.csv", "'v'", said, "row 3")
    refuse(read("low"), "screen.csv", "'v' is text ('low' in row 3)")
    np.testing.assert_array_equal(read("2")().noise_variance, [1.0, 2.0])


def test_ids(tmp_path):
    path = save(tmp_path, "id,a,y\nx,1,1\ny,2,2\nx,3,3\nz,4,4\ny,5,5\n")
    refuse(lambda: read_table(path, "y", id="id"), "screen.csv", "'id'", "'x' in rows 1, 3; 'y' in rows 2, 5")
    path = save(tmp_path, "id,a,y\nx,1,1\n,2,2\n")
    refuse(lambda: read_table(path, "y", id="id"), "screen.csv", "'id'", "empty in row 2")
    frame = pd.DataFrame({"id": [1, 1], "a": [1, 2]})
    refuse(lambda: read_library(frame, {"a": "continuous"}, id="id"), "table", "'id'", "1 in rows 1, 2")
