"""`beebo-scale propose`: what comes out, what is recorded, what is refused."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import beebo_scale as bs
from beebo_scale.cli.main import main
from beebo_scale.proposal.jobs.run_folder import open_run


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A surrogate of three columns, one of them a label, and a library with scaffolds."""
    folder = tmp_path_factory.mktemp("propose")
    draw = np.random.default_rng(0)
    measured = pd.DataFrame({"a": draw.random(60), "b": draw.random(60) * 10, "acid": draw.choice(["HCl", "HBr"], 60)})
    measured["y"] = measured["a"] + 0.1 * measured["b"] + (measured["acid"] == "HBr")
    bs.fit(bs.read_table(measured, target="y"), iterations=20).save(folder / "model.ckpt")
    library = pd.DataFrame({"name": [f"c{i}" for i in range(300)], "a": draw.random(300), "b": draw.random(300) * 10})
    library["acid"] = draw.choice(["HCl", "HBr"], 300)
    library["scaffold"] = draw.integers(0, 40, 300)
    library.to_csv(folder / "library.csv", index=False)
    return folder


@pytest.fixture(autouse=True)
def folder(prepared, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("model.ckpt", "library.csv"):
        (tmp_path / name).symlink_to(prepared / name)
    return tmp_path


LIBRARY = ["--library=library.csv", "--id=name", "--q=12"]
BOX = ["--bounds", "a:0:1", "b:0:10", "acid:HCl|HBr", "--q=4", "--restarts=2", "--steps=15"]


def propose(*arguments, out="next.csv"):
    assert main(["propose", "--surrogate=model.ckpt", *arguments, f"--out={out}"]) == 0
    return pd.read_csv(out)


def run_file(name="next.run.json"):
    return json.loads(Path(name).read_text())


def refused(capsys, *arguments):
    assert main(["propose", "--surrogate=model.ckpt", *arguments]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    return lines[0]


def test_a_library(folder, capsys):
    frame = propose(*LIBRARY)
    assert list(frame) == ["rank", "name", "a", "b", "acid", "mean", "std", "noiseless_mean", "noiseless_std", "gain"]
    assert capsys.readouterr().out.splitlines()[-1] == "next.csv: 12 rows to measure next"
    run = run_file()
    assert run["certificate"]["certified"]
    assert run["job"] == {"workers": 1, "threads": 1, "device": "cpu"}
    assert {"model.ckpt", "library.csv"} <= run["inputs"].keys()
    assert run["configuration"]["surrogate"] == "model.ckpt"
    batch = bs.propose(bs.load_surrogate("model.ckpt"), 12, library="library.csv", id="name")
    assert batch.frame["name"].tolist() == frame["name"].tolist()


@pytest.mark.slow
def test_a_box(folder):
    frame = propose(*BOX)
    assert set(frame["acid"]) <= {"HCl", "HBr"}
    assert frame["a"].between(0, 1).all()
    assert frame["b"].between(0, 10).all()


def test_a_run_folder_alone(folder):
    assert main(["propose", "--surrogate=model.ckpt", *LIBRARY, "--run-dir=run"]) == 0
    first = Path("run/batch.csv").read_bytes()
    assert main(["propose", "--surrogate=model.ckpt", *LIBRARY, "--run-dir=run"]) == 0
    assert Path("run/batch.csv").read_bytes() == first
    assert sorted(path.name for path in Path("run").iterdir()) == [
        "batch.csv",
        "batch.run.json",
        "chunks",
        "job.json",
        "lock",
    ]


@pytest.mark.slow
def test_rules_of_a_box(folder):
    frame = propose(
        *BOX, "--integer=b", "--constraint", "2*a + 0.1*b <= 1.5", "b >= 3", "--shared=acid", out="rules.csv"
    )
    assert (frame["b"] == frame["b"].round()).all()
    assert (2 * frame["a"] + 0.1 * frame["b"] <= 1.5 + 1e-9).all()
    assert (frame["b"] >= 3).all()
    assert frame["acid"].nunique() == 1


def test_a_fixed_column(folder):
    frame = propose("--bounds", "a:0.25", "b:0:10", "acid:HBr", "--q=3", "--restarts=1", "--steps=5")
    assert (frame["a"] == 0.25).all()
    assert (frame["acid"] == "HBr").all()


def test_limits_in_a_library(folder):
    frame = propose(*LIBRARY, "--at-most=scaffold:1")
    scaffolds = pd.read_csv("library.csv").set_index("name")["scaffold"]
    assert scaffolds[frame["name"]].is_unique
    run = run_file()
    assert run["configuration"]["limits"]["at_most"] == {"scaffold": 1}
    assert "under the limits" in run["certificate"]["guarantee"]


def test_pending_and_excluded(folder):
    first = propose(*LIBRARY)
    first[["name"]].iloc[:5].to_csv("running.csv", index=False)
    first[["name"]].iloc[5:8].to_csv("black.csv", index=False)
    second = propose(*LIBRARY, "--pending=running.csv", "--exclude=black.csv", out="second.csv")
    assert not set(first["name"].iloc[:8]) & set(second["name"])
    assert {"running.csv", "black.csv"} <= run_file("second.run.json")["inputs"].keys()


def test_softmax_energy(folder):
    frame = propose(*LIBRARY, "--energy=softmax")
    assert frame["name"].is_unique
    assert run_file()["configuration"]["energy"]["name"] == "SoftmaxEnergy"


def test_plates(folder, capsys):
    frame = propose(*LIBRARY, "--plate=96", "--controls", "A01:negative", "H12:positive", "--shuffle")
    assert "next.plate.csv" in capsys.readouterr().out
    wells = pd.read_csv("next.plate.csv")
    assert set(wells["name"].dropna()) == set(frame["name"])
    assert wells["well"].is_unique
    assert Path("next.plate.png").read_bytes().startswith(b"\x89PNG")


def test_configuration_file(folder):
    Path("job.yaml").write_text(
        "surrogate: model.ckpt\nlibrary: library.csv\nq: 7\nid: name\nat_most:\n  scaffold: 2\n"
    )
    assert main(["propose", "--config=job.yaml", "--out=next.csv", "--q=5"]) == 0
    assert len(pd.read_csv("next.csv")) == 5


BAD = {
    "nothing to write to": (LIBRARY, "give --out FILE, or --run-dir FOLDER"),
    "library and box": ([*LIBRARY, *BOX, "--out=n.csv"], "give either a library or bounds"),
    "rules without a box": ([*LIBRARY, "--integer=b", "--out=n.csv"], "--integer goes with --bounds only"),
    "limits without a library": ([*BOX, "--at-most=acid:2", "--out=n.csv"], "--at-most goes with --library only"),
    "a count that is none": ([*LIBRARY, "--at-most=scaffold:few", "--out=n.csv"], "write COLUMN:COUNT"),
    "overwriting the model": ([*LIBRARY, "--out=model.ckpt"], "model.ckpt is also --surrogate"),
    "no such pending file": ([*LIBRARY, "--pending=no.csv", "--out=n.csv"], "no.csv: no such file"),
    "no workers": ([*LIBRARY, "--out=n.csv", "--workers=0"], "--workers 0: give 1 or more"),
    "two workers": ([*LIBRARY, "--out=n.csv", "--workers=2"], "2 workers asked for, but 1 was started"),
    "a run folder that is a file": ([*LIBRARY, "--run-dir=library.csv"], "library.csv cannot be used as a run folder"),
    "an impossible constraint": ([*BOX, "--constraint", "a >= 2", "--out=n.csv"], "constraint"),
    "low above high": (["--bounds", "a:1:0", "b:0:1", "acid:HCl", "--out=n.csv"], "column 'a'"),
    "a group column that is not there": ([*LIBRARY, "--at-most=plate:2", "--out=n.csv"], "'plate'"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BAD)
def test_bad_input(folder, capsys, name):
    arguments, words = BAD[name]
    assert words in refused(capsys, *arguments)
    assert not Path("n.csv").exists()


def test_a_run_folder_in_use(folder, capsys):
    with open_run("run", {}):
        assert "run is in use by another job" in refused(capsys, *LIBRARY, "--run-dir=run")


def test_unknown_ids_are_named(folder, capsys):
    pd.DataFrame({"name": ["c1", "c9999"]}).to_csv("running.csv", index=False)
    assert "c9999" in refused(capsys, *LIBRARY, "--pending=running.csv", "--out=n.csv")
