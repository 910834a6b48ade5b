"""One experiment written in several ways is one experiment, for every command (tests/cases/matching)."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from beebo_scale.campaign import Campaign
from beebo_scale.cli.main import main

CASES = Path(__file__).parents[1] / "cases" / "matching"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def suggest(capsys, *arguments, code=0):
    assert main(["suggest", *arguments, "--temperature=0", "--iterations=20", "--out=o.csv"]) == code
    captured = capsys.readouterr()
    return (pd.read_csv("o.csv"), captured.out) if code == 0 else (None, captured.err)


def test_a_float32_library_names_no_measured_excluded_or_pending_row(capsys):
    lists = [f"--{name}={CASES / 'f32_ex.csv'}" for name in ("exclude", "pending")]
    where = [f"--measured={CASES / 'f32_m.csv'}", "--target=y", f"--library={CASES / 'f32_l.parquet'}"]
    batch, _ = suggest(capsys, *where, *lists, "-q=3")
    assert (batch["x"] > 0.5).all()
    assert json.loads(Path("o.run.json").read_text())["library"]["measured_already"] == 20


def test_dust_is_no_other_value(capsys):
    where = [f"--measured={CASES / 'dust_m.csv'}", "--target=y", f"--library={CASES / 'dust_l.csv'}"]
    batch, _ = suggest(capsys, *where, "-q=2")
    assert sorted(batch["x"]) == pytest.approx([0.7, 0.8])


CONDITIONS = [f"--measured={CASES / 'meas.csv'}", "--target=yield", "--id=id", f"--library={CASES / 'lib.csv'}"]


@pytest.mark.parametrize("name", ["exclude", "pending"])
def test_ids_that_name_nobody_are_an_error(capsys, name):
    arguments = [*CONDITIONS, "--features", "temp", "solvent", "-q=2", f"--{name}={CASES / 'black.csv'}"]
    _, error = suggest(capsys, *arguments, code=2)
    what = "excluded" if name == "exclude" else name
    assert f"2 of 2 {what} ids are in no row of" in error
    assert "c12 (did you mean C12?), c08 (did you mean C08?)" in error


def test_some_unknown_ids_are_counted_and_blanks_do_not_matter(capsys):
    Path("some.csv").write_text("id\n C12 \nC08\u00a0\nc01\n", encoding="utf-8")
    arguments = [*CONDITIONS, "--features", "temp", "solvent", "-q=18", "--exclude=some.csv"]
    _, error = suggest(capsys, *arguments, code=2)  # 20 rows less two, less what was measured
    assert "2 excluded" in error
    batch, out = suggest(capsys, *arguments[:-2], "-q=4", "--exclude=some.csv")
    assert "note: some.csv: 1 of 3 excluded ids are in no row of" in out
    assert not {"C12", "C08"} & set(batch["id"])


def test_whole_numbers_are_ids_however_they_are_written(capsys):
    library = pd.read_csv(CASES / "lib.csv").assign(ID=np.arange(100, 120) + 82 * (np.arange(20) == 12))
    library.drop(columns="id").to_csv("whole.csv", index=False)
    library["ID"].iloc[[10, 12]].astype(float).to_csv("float.csv", index=False)
    where = [f"--measured={CASES / 'meas.csv'}", "--target=yield", "--features", "temp", "solvent", "--id=ID"]
    batch, _ = suggest(capsys, *where, "--library=whole.csv", "-q=4", "--exclude=float.csv")
    assert not {110, 194} & set(batch["ID"])


@pytest.mark.slow
def test_results_with_nine_digits_are_those_that_were_proposed(capsys):
    measured = pd.read_csv(CASES / "box_measured.csv")
    measured.to_csv("m.csv", index=False)
    bounds = ["--bounds", "a:0.1:0.8", "b:0.1:0.8", "c:0.1:0.8", "t:20:700"]
    start = [*bounds, "-q=6", "--iterations=20", "--restarts=2"]
    assert main(["campaign", "init", "c", "--measured=m.csv", "--target=y", *start]) == 0
    assert main(["campaign", "suggest", "c"]) == 0
    rows = pd.read_csv(Campaign.open("c").folder.batch(1))
    results = rows[["a", "b", "c", "t"]].map(lambda x: float(f"{x:.9g}")).astype(np.float32).assign(y=np.arange(6.0))
    results.to_csv("r.csv", index=False)
    capsys.readouterr()
    assert main(["campaign", "record", "c", "--results=r.csv"]) == 0, capsys.readouterr().err


def test_excluded_rows_that_are_in_no_library_are_an_error(capsys):
    Path("other.csv").write_text("x\n7.5\n", encoding="utf-8")
    where = [f"--measured={CASES / 'dust_m.csv'}", "--target=y", f"--library={CASES / 'dust_l.csv'}", "-q=2"]
    _, error = suggest(capsys, *where, "--exclude=other.csv", code=2)
    assert "other.csv: none of its 1 rows is in" in error
