"""Batches, several targets and robust fits from the command line."""

import importlib
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from beebo_scale.campaign import Campaign
from beebo_scale.cli.main import main
from beebo_scale.surrogates.data.target import Prediction


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A screen over four plates with two assays, and a library without plates."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X, plate = rng.uniform(size=(40, 2)), rng.integers(4, size=40)
    y = np.sin(5 * X[:, 0]) + X[:, 1] + np.array([-1.0, 0.0, 1.0, 0.5])[plate] + 0.1 * rng.standard_normal(40)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "plate": plate, "y": y, "z": 10 - 3 * y})
    frame.loc[::3, "z"] = np.nan
    frame.to_csv("screen.csv", index=False)
    pd.DataFrame(rng.uniform(size=(50, 2)), columns=["a", "b"]).to_csv("library.csv", index=False)


FILES = ["--measured=screen.csv", "--features=a,b", "--library=library.csv", "-q", "5"]


def suggest(*arguments):
    assert main(["suggest", *FILES, *arguments, "--out=next.csv"]) == 0
    return pd.read_csv("next.csv"), json.loads(Path("next.run.json").read_text())


@pytest.mark.slow
def test_plates(capsys):
    frame, run = suggest("--target=y", "--batch=plate")
    assert list(frame) == ["rank", "a", "b", "mean", "std", "noiseless_mean", "noiseless_std", "gain"]
    assert run["surrogate"]["batch"]["levels"] == 4
    assert run["surrogate"]["batch"]["variance"] > 0.1
    assert "plate" in capsys.readouterr().out


@pytest.mark.slow
def test_two_targets_and_propose():
    frame, run = suggest("--target=y:0.7,z:-0.3", "--batch=plate", "--save-model=model.ckpt")
    assert list(frame) == [
        "rank",
        "a",
        "b",
        "mean",
        "std",
        "noiseless_mean",
        "noiseless_std",
        "gain",
        *(f"{what} of {name}" for name in "yz" for what in Prediction.names()),
    ]
    assert run["surrogate"]["target"] == "0.7 y - 0.3 z"
    assert frame["mean"].iloc[0] > 0
    assert main(["propose", "--surrogate=model.ckpt", "--library=library.csv", "-q", "5", "--out=again.csv"]) == 0
    pd.testing.assert_frame_equal(pd.read_csv("again.csv"), frame)


@pytest.mark.slow
def test_robust(monkeypatch):
    monkeypatch.setattr(importlib.import_module("beebo_scale.surrogates.fit"), "STEPS", 40)
    _, run = suggest("--target=y", "--robust")
    assert run["surrogate"]["kind"] == "svgp"
    assert run["surrogate"]["likelihood"] == "student-t"


@pytest.mark.slow
def test_campaign_with_plates():
    files = ["--measured=screen.csv", "--target=y", "--features=a,b", "--library=library.csv", "-q", "4"]
    assert main(["campaign", "init", "c", *files, "--batch=plate"]) == 0
    assert main(["campaign", "suggest", "c"]) == 0
    rows = pd.read_csv(Campaign.open("c").folder.batch(1))[["a", "b"]]
    rows.assign(y=1.5, plate="new").to_csv("results.csv", index=False)
    assert main(["campaign", "record", "c", "--results=results.csv"]) == 0
    campaign = Campaign.open("c")
    assert campaign.state().measured["plate"].tolist()[-4:] == ["new"] * 4
    suggestion = campaign.suggest()
    assert not suggestion.notes
    assert suggestion.batch.run["surrogate"]["batch"]["levels"] == 5


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--target=y", "--batch=plates"], "no batch column 'plates'"),
        (["--target=y:1,y:2"], "names a column twice"),
        (["--target=y:1,z:0"], "'z' has the weight 0"),
        (["--target=y", "--robust", "--kind=exact"], "a robust fit is one by svgp"),
        (["--target=y", "--robust", "--noise-variance=a"], "a robust fit learns the noise"),
    ],
)
def test_refused(arguments, expected, capsys):
    assert main(["suggest", *FILES, *arguments, "--out=next.csv"]) == 2
    assert expected in capsys.readouterr().err
