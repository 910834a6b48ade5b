"""What cells mean, for every command (tests/cases/columns): the right value, or one line."""

import json
from pathlib import Path

import pandas as pd
import pytest

from beebo_scale.cli.main import main

CASES = Path(__file__).parents[1] / "cases" / "columns"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def suggest(capsys, measured, library, target, *more, code=0):
    files = [f"--measured={CASES / measured}", f"--library={CASES / library}", f"--target={target}"]
    assert main(["suggest", *files, *more, "--iterations=20", "--out=o.csv"]) == code
    captured = capsys.readouterr()
    if code:
        assert captured.err.count("\n") == 1
        return captured.err
    return captured.out


def test_mutations_are_refused(capsys):
    error = suggest(capsys, "variants.csv", "variants_library.csv", "activity", "-q=5", code=2)
    assert "column 'Variant' holds mutations" in error
    assert not Path("o.csv").exists()


@pytest.mark.slow
def test_who_insists_on_labels_is_told_that_nothing_is_known_of_them(capsys):
    options = ["-q=5", "--features=Variant:categorical", "--save-model=m.ckpt"]
    told = suggest(capsys, "variants.csv", "variants_library.csv", "activity", *options)
    assert "0 of 50 labels of column 'Variant' were measured" in told
    assert "may be proposed have the same prediction" in told
    assert len(json.loads(Path("o.run.json").read_text())["notes"]) == 2
    library = str(CASES / "variants_library.csv")
    assert main(["propose", "--surrogate=m.ckpt", f"--library={library}", "-q=2", "--out=p.csv"]) == 0
    assert "may be proposed have the same prediction" in capsys.readouterr().out
    assert main(["predict", "--ckpt_path=m.ckpt", f"--data.file={library}", "--out=q.csv"]) == 0
    assert f"note: all 50 rows of {library} have the same prediction" in capsys.readouterr().out


def test_loadings_are_numbers_in_their_unit(capsys):
    told = suggest(capsys, "units.csv", "units_lib.csv", "yield", "-q=10", "--save-model=m.ckpt")
    assert "holds numbers in 'mol%'" in told
    mean = pd.read_csv("o.csv").groupby(["temp", "loading"])["mean"].first().unstack()
    assert (mean[7] > mean[3] + 1).all()  # the yield rises by 1 with each mol%
    pd.DataFrame({"temp": [30], "loading": ["3 wt%"]}).to_csv("other.csv", index=False)
    assert main(["propose", "--surrogate=m.ckpt", "--library=other.csv", "-q=1", "--out=p.csv"]) == 2
    assert "other.csv: column 'loading' is in 'wt%', but its measurements are in 'mol%'" in capsys.readouterr().err
    pd.DataFrame({"temp": [30], "loading": [3]}).to_csv("bare.csv", index=False)
    assert main(["propose", "--surrogate=m.ckpt", "--library=bare.csv", "-q=1", "--out=p.csv"]) == 0
    assert "'loading' holds numbers alone, which are taken in 'mol%'" in capsys.readouterr().out


def test_the_row_that_differs_is_named(capsys):
    options = ["--features=Variant:protein", "-q=1"]
    error = suggest(capsys, "control_first.csv", "control_first.csv", "y", *options, code=2)
    assert "sequences of 5 letters, but has one of 7 in row 1" in error


@pytest.mark.slow
def test_molecules_are_molecules(capsys):
    told = suggest(capsys, "molecules_one_repeated.csv.gz", "molecules_library.csv.gz", "score", "-q=3", "--minimize")
    assert "smiles  smiles  holds molecules" in told
    assert pd.read_csv("o.csv")["mean"].nunique() == 3


@pytest.mark.slow
def test_limits_are_said(capsys):
    options = ["--features=Smiles:smiles", "--minimize", "-q=3"]
    told = suggest(capsys, "censored_export.csv.gz", "censored_library.csv.gz", "Standard Value", *options)
    assert "note: 32 of 120 values of 'Standard Value' bear '>' in column 'Standard Relation'" in told
