"""Small files that unpack to more than any machine holds: one line, soon and in little memory."""

import gzip
import io
import json
import lzma
import resource
import time
import zipfile
from itertools import pairwise

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from openpyxl.styles import Font

from beebo_scale import InputError, archives, read_library, read_table
from beebo_scale.screening.files import delimited, limits


def workbook(path, change=lambda sheet: None, rows=10):
    book = openpyxl.Workbook()
    book.active.append(["a", "y"])
    for i in range(rows):
        book.active.append([i / 10, i])
    change(book.active)
    book.save(path)
    return path


def rewritten(path, change):
    """The same workbook with another text of its sheet."""
    with zipfile.ZipFile(path) as book:
        parts = {name: book.read(name) for name in book.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as book:
        for name, content in parts.items():
            book.writestr(name, change(content) if name.endswith("sheet1.xml") else content)
    return path


def refused(path, *words):
    with pytest.raises(InputError) as caught:
        read_table(path, "y")
    assert "\n" not in str(caught.value)
    for word in (path.name, *words):
        assert word in str(caught.value)


def test_a_cell_with_a_format_at_the_far_end_counts_for_nothing(tmp_path):
    def change(sheet):
        sheet["XFD1048576"].font = Font(bold=True)
        sheet["A1048576"] = " "

    path, start, before = workbook(tmp_path / "x.xlsx", change), time.process_time(), resource.getrusage(0).ru_maxrss
    assert read_table(path, "y").y.tolist() == list(range(10))
    assert time.process_time() - start < 5  # 33 s once
    assert resource.getrusage(0).ru_maxrss - before < 300_000  # kB; 2.8 GB once


def test_a_value_at_the_far_end_is_named(tmp_path):
    path = workbook(tmp_path / "x.xlsx", lambda sheet: sheet.cell(2**20, 2**14, 1))
    refused(path, "the cell XFD1048576 stands far away from the others; empty it")


def test_areas_that_stand_for_all_cells_are_refused_before_they_are_filled(tmp_path):
    path = workbook(tmp_path / "x.xlsx", lambda sheet: sheet.merge_cells("D20:E21"))
    refused(rewritten(path, lambda text: text.replace(b"D20:E21", b"A20:XFD1048576")), "more cells than the memory")


@pytest.mark.slow
def test_a_workbook_that_unpacks_to_more_than_tables_do_is_refused(tmp_path):
    cells = b"<row>" + b"<c/>" * 36_000_000 + b"</row></sheetData>"
    path = rewritten(workbook(tmp_path / "x.xlsx"), lambda text: text.replace(b"</sheetData>", cells))
    refused(path, "unpacks to more than", "unpack it first")


def test_entities_of_entities_are_refused(tmp_path):
    names = "abcdefgh"
    entities = "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in pairwise(names))
    head = f'<!DOCTYPE x [<!ENTITY a "{"x" * 1000}">{entities}]>'.encode()
    path = rewritten(workbook(tmp_path / "x.xlsx"), lambda text: head + text.replace(b"<v>0.1</v>", b"<v>&h;</v>"))
    refused(path, "cannot be read")


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_packed_files_that_unpack_to_more_than_tables_do_are_refused(tmp_path, monkeypatch, pack):
    monkeypatch.setattr(limits, "UNPACKED", 1 << 20)
    path = tmp_path / "x.csv"
    path.write_bytes(pack(b"a,y\n" + b"0,0\n" * (1 << 19)))
    refused(path, "unpacks to more than", "unpack it first")
    with pytest.raises(InputError, match="unpack it first"):
        read_library(path, {"a": "continuous"})
    path.write_bytes(b"a,y\n" + b"0,0\n1,1\n" * (1 << 18))  # the way out
    assert len(read_library(path, {"a": "continuous"}).frame) == 1 << 19


@pytest.mark.slow
def test_what_packs_as_tables_do_may_be_large(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "UNPACKED", 1 << 20)
    rows = "".join(f"{x:.6f},{i % 7}\n" for i, x in enumerate(np.random.default_rng(0).random(200_000)))
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(b"a,y\n" + rows.encode(), 1))
    assert len(read_table(tmp_path / "x.csv.gz", "y").y) == 200_000


def test_a_line_without_an_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "LONGEST_LINE", 1 << 20)
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(b"0" * (3 << 20)))
    refused(tmp_path / "x.csv.gz", "more than 1 MB in line 1")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_cells_that_the_memory_cannot_hold_are_refused(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(limits, "half_of_free", lambda: 1_000_000)
    path = tmp_path / f"x{suffix}"
    if suffix == ".csv":
        path.write_text("a,y\n" + "1,2\n" * 100_000)
    else:
        pq.write_table(pa.table({"a": [0.0] * 100_000, "y": pa.nulls(100_000)}), path)
    refused(path, "too much for the memory", "leave out rows")


@pytest.mark.slow
def test_a_model_that_unpacks_to_more_than_it_is_is_refused(tmp_path):
    archives.save(tmp_path / "x.ckpt", {"a": np.zeros(1_000_000).tolist()})
    with zipfile.ZipFile(tmp_path / "x.ckpt") as model, zipfile.ZipFile(tmp_path / "y.ckpt", "w", 8) as packed:
        for name in model.namelist():
            packed.writestr(name, model.read(name))
    with pytest.raises(InputError, match=r"y\.ckpt.*unpacks to more than it is"):
        archives.load(tmp_path / "y.ckpt", "{path}: no ({why})")


class Payload:
    """Runs when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_no_file_of_ours_runs_code(tmp_path):
    """Models, checkpoints, chunks and encoded rows are read by `archives.load`, parts of predictions by numpy."""
    import torch

    for i, content in enumerate(
        [Payload(tmp_path / "ran"), {"a": Payload(tmp_path / "ran")}, [Payload(tmp_path / "ran")]]
    ):
        torch.save(content, tmp_path / f"{i}.ckpt")
        with pytest.raises(InputError, match="more than numbers and text"):
            archives.load(tmp_path / f"{i}.ckpt", "{path}: no ({why})")
        assert archives.names_of(tmp_path / f"{i}.ckpt") == []
    np.save(tmp_path / "part.npy", np.array([Payload(tmp_path / "ran")]), allow_pickle=True)
    with pytest.raises(ValueError, match="allow_pickle"):
        np.load(tmp_path / "part.npy")
    assert not (tmp_path / "ran").exists()


def test_every_reader_of_tensors_is_the_one_that_is_safe():
    """No other place unpickles."""
    from pathlib import Path

    import beebo_scale

    root = Path(beebo_scale.__file__).parent
    words = ("torch.load(", "pickle.load", "allow_pickle", "joblib", "read_pickle", "yaml.load(", "unsafe_load")
    found = {p.name for p in root.rglob("*.py") if any(word in p.read_text(encoding="utf-8") for word in words)}
    assert found == {"archives.py"}
    assert "weights_only=False" not in (root / "archives.py").read_text(encoding="utf-8")


def test_json_in_json_in_json_is_damage(tmp_path):
    from beebo_scale.campaign.folder import Folder
    from beebo_scale.campaign.seal import Seal

    (tmp_path / "seal.json").write_text("[" * 200_000)
    with pytest.raises(RecursionError):
        json.load(io.StringIO("[" * 200_000))
    with pytest.raises(InputError, match=r"seal\.json is damaged"):
        Seal.read(Folder(tmp_path))
