import numpy as np
import pandas as pd
import pytest

from beebo_scale.cli.main import main
from beebo_scale.screening import read_table
from beebo_scale.screening.library import open_library

from ..test_table import refuse
from .odd_files import BROKEN, ODD


def made(odd, folder):
    odd.make(folder / odd.file)
    return str(folder / odd.file) + (f"#{odd.sheet}" if odd.sheet else "")


def check(frame, expected):
    assert list(frame) == list(expected)
    for column, values in expected.items():
        assert frame[column].tolist() == values, column


@pytest.mark.slow
@pytest.mark.parametrize("name", ODD)
def test_odd_files_are_read_rightly(tmp_path, name):
    odd = ODD[name]
    source = made(odd, tmp_path)
    table = read_table(source, "y", features=odd.features)
    check(table.frame, odd.expected)
    np.testing.assert_array_equal(table.y, odd.y)

    library = open_library(source, table.kinds, chunk_rows=3)
    frame = pd.concat([chunk.frame for _, chunk in library.chunks()], ignore_index=True)
    assert len(frame) == len(library) == len(table) + table.dropped
    if not table.dropped:
        check(frame, odd.expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused_by_name_of_the_place(tmp_path, name):
    broken = BROKEN[name]
    source = made(broken, tmp_path)
    words = (str(tmp_path / broken.file), *broken.words)

    refuse(lambda: read_table(source, "y", features=broken.features), *words)
    if not broken.in_target:
        refuse(lambda: read_library_of(source, broken), *words)


def read_library_of(source, broken):
    """All chunks; kinds as they would be inferred from a file in order."""
    names = broken.features or (["a", "base"] if "DMF" in str(broken.words) or "base" in str(broken.words) else ["a"])
    kinds = {column: "continuous" if column == "a" else "categorical" for column in names}
    return list(open_library(source, kinds).chunks())


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_the_command_line_refuses_them_in_one_line(tmp_path, monkeypatch, capsys, name):
    broken = BROKEN[name]
    source = made(broken, tmp_path)
    monkeypatch.chdir(tmp_path)
    command = ["suggest", f"--measured={source}", "--target=y", f"--library={source}", "-q=1", "--out=next.csv"]
    if broken.features:
        command += ["--features", *broken.features]
    assert main(command) == 2
    (line,) = capsys.readouterr().err.splitlines()
    for word in (str(tmp_path / broken.file), *broken.words):
        assert word in line, line
    assert not (tmp_path / "next.csv").exists()
