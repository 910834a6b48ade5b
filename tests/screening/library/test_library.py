import lzma

import numpy as np
import pandas as pd
import pytest

from beebo_scale.errors import InputError
from beebo_scale.screening import Encoder, read_library, read_table
from beebo_scale.screening.files import delimited, parquet
from beebo_scale.screening.library import library as module
from beebo_scale.screening.library import open_library
from tests.screening.test_table import refuse, save

KINDS = {"a": "continuous", "base": "categorical", "variant": "dna"}
ROWS = 101


def frame(rows=ROWS):
    draw = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "id": [f"c{i}" for i in range(rows)],
            "unused": draw.random(rows),
            "a": draw.random(rows),
            "base": draw.choice(["NA", "None", "K2CO3"], rows),
            "variant": ["".join(row) for row in draw.choice(list("ACGT"), (rows, 4))],
            "scaffold": draw.integers(0, 9, rows),
        }
    )


def sources(folder):
    """The same rows in every form."""
    whole = frame()
    whole.to_parquet(folder / "groups.parquet", index=False, row_group_size=13)
    whole.to_parquet(folder / "one_group.parquet", index=False)
    whole.to_csv(folder / "plain.csv", index=False)
    whole.to_csv(folder / "packed.csv.gz", index=False)
    with lzma.open(folder / "packed.tsv.xz", "wt") as file:
        whole.to_csv(file, index=False, sep="\t")
    parts = folder / "parts"
    parts.mkdir()
    for i, (start, stop) in enumerate([(0, 40), (40, 41), (41, ROWS)]):
        whole.iloc[start:stop].to_parquet(parts / f"part-{i}.parquet", index=False)
    (parts / "notes.txt").write_text("not a part")
    names = ["groups.parquet", "one_group.parquet", "plain.csv", "packed.csv.gz", "packed.tsv.xz", "parts"]
    return [folder / name for name in names] + [whole]


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(parquet, "BATCH", 8)
    monkeypatch.setattr(delimited, "BYTES_AT_ONCE", 500)


@pytest.mark.slow
@pytest.mark.parametrize("chunk_rows", [7, 40, 1000])
def test_every_source_gives_the_same_rows(tmp_path, small_blocks, chunk_rows):
    expected = read_library(frame(), KINDS, id="id").frame
    for source in sources(tmp_path):
        library = open_library(source, KINDS, "id", ["scaffold"], chunk_rows=chunk_rows)
        assert library.source == ("table" if isinstance(source, pd.DataFrame) else str(source))
        assert len(library) == ROWS
        numbers, tables = zip(*library.chunks(), strict=True)
        assert list(numbers) == list(range(library.count))
        assert [library.first_row(chunk) for chunk in numbers] == np.cumsum([0, *map(len, tables)])[:-1].tolist()
        assert max(map(len, tables)) <= chunk_rows
        together = pd.concat([table.frame for table in tables], ignore_index=True)
        assert list(together) == ["id", "a", "base", "variant", "scaffold"]
        pd.testing.assert_frame_equal(together[list(expected)], expected, check_dtype=False)
        assert together["scaffold"].tolist() == frame()["scaffold"].astype(str).tolist()
        rows = np.array([100, 3, 40, 3, 41, 0, 39])
        taken = library.take(rows)
        pd.testing.assert_frame_equal(taken.frame, together.iloc[rows].reset_index(drop=True))


@pytest.mark.slow
def test_some_chunks_only(tmp_path, small_blocks):
    for source in sources(tmp_path):
        library = open_library(source, KINDS, "id", (), chunk_rows=9)
        every = dict(library.chunks())
        for wanted in ([], [0], [library.count - 1], list(range(1, library.count, 3)), [2, 3, 8]):
            some = list(library.chunks(wanted))
            assert [chunk for chunk, _ in some] == wanted
            for chunk, table in some:
                pd.testing.assert_frame_equal(table.frame, every[chunk].frame)
                assert table.before == every[chunk].before


def test_only_row_groups_that_matter_are_decoded(tmp_path, monkeypatch):
    frame().to_parquet(tmp_path / "groups.parquet", index=False, row_group_size=10)
    library = open_library(tmp_path / "groups.parquet", KINDS, None, (), chunk_rows=10)
    decoded = []
    true_decoded = parquet._decoded

    def note(*arguments):
        for first, batch in true_decoded(*arguments):
            decoded.append(first)
            yield first, batch

    monkeypatch.setattr(parquet, "_decoded", note)
    library.take([35, 71])
    assert decoded == [30, 70]


def test_tables_and_libraries_are_taken_as_they_are():
    table = read_library(frame(), KINDS, id="id")
    library = open_library(table, KINDS, chunk_rows=30)
    assert [len(chunk) for _, chunk in library.chunks()] == [30, 30, 30, 11]
    pd.testing.assert_frame_equal(library.take([5, 2]).frame, table.take(np.array([5, 2])).frame)
    assert open_library(library, {}) is library
    refuse(lambda: open_library(table, KINDS, labels=["scaffold"]), "table", "read without the column 'scaffold'")


def test_ids_are_found_as_text(tmp_path):
    whole = frame().assign(id=np.arange(ROWS) * 3)
    whole.to_parquet(tmp_path / "library.parquet", index=False)
    library = open_library(tmp_path / "library.parquet", KINDS, "id", (), chunk_rows=20)
    sought = open_library(tmp_path / "library.parquet", KINDS, "id", sought=["300", "0", "1", "63"])
    for opened in (library, sought):
        found = opened.named(["300", "0", "1", "63"])
        assert {name: row.frame["id"].tolist() for name, row in found.items()} == {"300": [300], "0": [0], "63": [63]}
        for name, row in found.items():
            pd.testing.assert_frame_equal(row.frame, library.take([int(name) // 3]).frame)
    with pytest.raises(ValueError, match="without an id"):
        open_library(tmp_path / "library.parquet", KINDS).named(["1"])


def test_chunks_are_cut_to_the_width_of_the_encoding():
    library = open_library(frame(), KINDS, chunk_rows=65_536)
    assert library.bounded(10).chunk_rows == 65_536
    assert library.bounded(2048).chunk_rows == 4096
    assert library.bounded(10**9).chunk_rows == 1024


# --- folders ---------------------------------------------------------------------------------------------


def parts(folder, *frames):
    path = folder / "parts"
    path.mkdir()
    for i, part in enumerate(frames):
        part.to_parquet(path / f"{i}.parquet", index=False)
    return path


def test_how_files_store_a_column_does_not_matter(tmp_path):
    one = pd.DataFrame({"n": np.arange(5, dtype=np.int32), "x": [0.0, 1.0, 2.0, 3.0, 4.0], "base": list("abcde")})
    other = one.astype({"n": np.int64, "x": np.float32, "base": "category"})[["base", "x", "n"]]
    third = one.astype({"x": np.int16})
    path = parts(tmp_path, one, other, third)
    library = open_library(path, {"x": "continuous", "base": "categorical", "n": "categorical"})
    library_frame = pd.concat([table.frame for _, table in library.chunks()], ignore_index=True)
    assert library_frame["x"].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0] * 3
    assert library_frame["base"].tolist() == list("abcde") * 3
    assert library_frame["n"].tolist() == list("01234") * 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f.drop(columns="base"), ["1.parquet lacks the column 'base'", "0.parquet has"]),
        (lambda f: f.drop(columns="unused"), ["1.parquet lacks the column 'unused'"]),
        (lambda f: f.assign(new=1), ["1.parquet has the column 'new'", "0.parquet lacks"]),
        (lambda f: f.assign(a="x"), ["1.parquet: column 'a' holds text, but number in", "0.parquet"]),
        (lambda f: f.assign(base=1), ["1.parquet: column 'base' holds whole number, but text in"]),
        (lambda f: f.assign(id=range(len(f))), ["1.parquet: column 'id' holds whole number, but text"]),
        (lambda f: f.assign(a=f["a"].where(f.index != 3)), ["1.parquet: column 'a' is empty in row 4;"]),
        (lambda f: f.assign(variant="ACGTA"), ["1.parquet: column 'variant'", "in rows 1, 2, 3 and 98 more"]),
    ],
)
def test_files_of_a_folder_go_together(tmp_path, change, words):
    measured = Encoder.from_table(read_table(frame().assign(y=np.arange(ROWS)), "y", features=KINDS))
    other = change(frame().assign(id=[f"d{i}" for i in range(ROWS)]))
    path = parts(tmp_path, frame(), other)
    refuse(
        lambda: [measured.encode(table) for _, table in open_library(path, KINDS, "id", (), chunk_rows=1000).chunks()],
        *words,
    )


def test_a_folder_without_parts(tmp_path):
    save(tmp_path, "a\n1\n", "x.csv")
    refuse(lambda: open_library(tmp_path, KINDS), str(tmp_path), "a folder without Parquet files")


# --- what is refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["library.parquet", "library.csv"])
def test_a_bad_cell_is_named_by_its_row_in_the_file(tmp_path, name, small_blocks):
    bad = frame()
    bad.loc[77, "a"] = np.inf
    bad.to_parquet(tmp_path / name, index=False) if "parquet" in name else bad.to_csv(tmp_path / name, index=False)
    library = open_library(tmp_path / name, KINDS, "id", (), chunk_rows=10)
    assert [len(table) for _, table in library.chunks(range(7))] == [10] * 7
    refuse(lambda: list(library.chunks()), f"{tmp_path / name}: column 'a' is infinite in row 78;")
    refuse(lambda: library.take([0, 77]), "in row 78;")
    assert len(library.take([0, 76, 78])) == 3


@pytest.mark.parametrize("cells", ["3", "3,x,4", '3,"x'])
def test_a_broken_row_far_down_a_csv_file(tmp_path, small_blocks, cells):
    text = "a,base\n" + "".join(f"{i},k\n" for i in range(500)) + cells + "\n" + "".join("1,k\n" for _ in range(9))
    words = ["never closed"] if '"' in cells else ["row 501 has", "the header has 2"]
    refuse(lambda: open_library(save(tmp_path, text), {"a": "continuous", "base": "categorical"}), *words)


def test_missing_and_repeated_ids(tmp_path):
    whole = frame()
    path = save(tmp_path, whole.assign(id=whole["id"].where(whole.index != 50)).to_csv(index=False), "gap.csv")
    refuse(lambda: open_library(path, KINDS, "id"), "gap.csv: column 'id' (id) is empty in row 51;")
    whole.loc[[9, 90], "id"] = "c5"
    whole.loc[20, "id"] = "c19"
    words = "column 'id' (id) repeats 'c5' in rows 6, 10, 91; 'c19' in rows 20, 21; give every row its own id"
    path = save(tmp_path, whole.to_csv(index=False), "twice.csv")
    for source in (whole, path):
        refuse(lambda source=source: open_library(source, KINDS, "id", (), chunk_rows=10), words)
    folder = parts(tmp_path, frame(), frame().iloc[3:4])
    refuse(lambda: open_library(folder, KINDS, "id"), f"repeats 'c3' in row 4 of {folder / '0.parquet'}, row 1 of")
    assert len(open_library(whole, KINDS)) == ROWS


def test_ids_with_the_same_hash_are_no_error(monkeypatch):
    monkeypatch.setattr(pd.util, "hash_array", lambda values, **options: np.arange(len(values), dtype=np.uint64) // 5)
    assert len(open_library(frame(), KINDS, "id")) == ROWS
    monkeypatch.setattr(module, "IDS_TOGETHER", 2)
    whole = frame()
    whole.loc[58, "id"] = "c57"
    refuse(lambda: open_library(whole, KINDS, "id"), "repeats 'c57' in rows 58, 59;")


@pytest.mark.parametrize("name", ["library.parquet", "library.csv", None])
def test_no_rows(tmp_path, name):
    empty = frame().iloc[:0]
    if name is not None:
        path = tmp_path / name
        empty.to_parquet(path, index=False) if "parquet" in name else empty.to_csv(path, index=False)
    refuse(lambda: open_library(empty if name is None else path, KINDS, "id"), "has a header but no rows")


def test_wrong_columns():
    refuse(lambda: open_library(frame(), {"b": "continuous"}), "no feature column 'b'")
    refuse(lambda: open_library(frame(), KINDS, "name"), "no id column 'name'")
    refuse(
        lambda: open_library(frame(), KINDS, None, ["scafold"]), "no group column 'scafold' (did you mean 'scaffold'?)"
    )
    with pytest.raises(InputError, match="no such file"):
        open_library("nowhere.parquet", KINDS)


@pytest.mark.slow
def test_memory_is_bounded_even_if_the_file_is_one_row_group(tmp_path, monkeypatch):
    """Peak of what Arrow holds while streaming a file of 32 MB."""
    import pyarrow as pa

    monkeypatch.setattr(parquet, "BATCH", 4096)
    monkeypatch.setattr(parquet, "BUFFER", 1 << 16)
    wide = pd.DataFrame(np.random.default_rng(0).random((200_000, 20)), columns=[f"x{i}" for i in range(20)])
    small_pages = {"row_group_size": len(wide), "data_page_size": 1 << 15, "use_dictionary": False}
    wide.to_parquet(tmp_path / "wide.parquet", index=False, **small_pages)
    del wide
    library = open_library(
        tmp_path / "wide.parquet", {f"x{i}": "continuous" for i in range(20)}, None, (), chunk_rows=10_000
    )
    pool = pa.proxy_memory_pool(pa.default_memory_pool())
    old = pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        rows = sum(len(table) for _, table in library.chunks())
    finally:
        pa.set_memory_pool(old)
    assert rows == 200_000
    assert 0 < pool.max_memory() < 12e6
