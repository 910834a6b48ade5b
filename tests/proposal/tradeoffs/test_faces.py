"""Targets with directions and limits through the command line, campaigns and files; bad input as one line."""

import json

import pandas as pd
import pytest
import yaml

import beebo_scale as bs
from beebo_scale.campaign import Campaign
from beebo_scale.campaign.settings import Settings
from beebo_scale.cli.main import main
from beebo_scale.errors import InputError
from beebo_scale.report.page import _batch
from beebo_scale.report.run import ProposedBatch
from beebo_scale.simulation.tradeoffs import TradeoffLandscape
from beebo_scale.specs import Choice, Columns
from tests.proposal.tradeoffs.test_library import FEATURES, LIBRARY, frame_of
from tests.screening.test_table import refuse


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame_of(24).to_csv("runs.csv", index=False)
    LIBRARY[:60].to_csv("lib.csv", index=False)
    return tmp_path


def suggest(*more, target="yield:max,cost:min"):
    return main(
        [
            "suggest",
            "--measured",
            "runs.csv",
            "--target",
            target,
            "--features",
            *FEATURES,
            "--library",
            "lib.csv",
            "-q",
            "4",
            "--out",
            "next.csv",
            *more,
        ]
    )


@pytest.mark.slow
def test_suggest_and_its_picture(folder, capsys):
    assert suggest("--reference", "yield:40", "cost:6", "--require", "purity>=90", "--shared", "temp") == 0
    frame, run = pd.read_csv("next.csv"), json.loads((folder / "next.run.json").read_text())
    assert frame["temp"].nunique() == 1
    assert {"mean of yield", "mean of cost", "mean of purity"} <= set(frame)
    assert run["outcomes"]["reference"] == {"yield": 40.0, "cost": 6.0}
    assert run["outcomes"]["aims"] == {"yield": "max", "cost": "min"}
    assert (folder / "next.front.png").read_bytes().startswith(b"\x89PNG")
    page = "".join(_batch(ProposedBatch("next.csv", frame, run)))
    assert 'alt="front and batch"' in page
    assert suggest("--reference", "yield:40", "cost:6") == 0  # its own files may be replaced


@pytest.mark.slow
def test_campaign_of_a_trade_off(folder):
    given = {"target": {"yield": "max", "cost": "min"}, "features": FEATURES, "library": "lib.csv", "q": 3}
    settings = Settings.of(
        **given, require=["purity>=90"], reference={"yield": 40, "cost": 6}, at_most_distinct={"temp": 2}
    )
    campaign = Campaign.create("camp", "runs.csv", settings)
    kept = yaml.safe_load((folder / "camp" / "campaign.yaml").read_text())
    assert kept["target"] == {"yield": "max", "cost": "min"}
    assert (kept["require"], kept["reference"]) == (["purity>=90"], {"yield": 40, "cost": 6})
    suggestion = campaign.suggest()
    assert len(suggestion.batch.frame) == 3
    assert suggestion.path.with_name("round-001.front.png").exists()
    results = suggestion.batch.frame[FEATURES].assign(**{"yield": 60.0, "cost": [1.0, 2.0, 3.0], "purity": 95.0})
    campaign.record(results)
    assert campaign.status().rounds[0].measured == 3


@pytest.mark.slow
def test_box_of_a_trade_off():
    table = bs.read_table(frame_of(24), {"yield": "max", "cost": "min"}, features=FEATURES, require=["purity>=92"])
    bounds = {"x": (0, 1), "y": (0, 1), "acid": ["a", "b", "c"], "temp": (0, 30)}
    surrogate = bs.fit(table)
    search = bs.specs.BoxSearch(restarts=1, polish=10)
    batch = bs.propose(surrogate, 4, bounds=bs.specs.Box(bounds, shared=["temp"]), temperature=0.0, search=search)
    assert batch.frame["temp"].nunique() == 1
    assert (batch.frame["mean of purity"] > 91).all()
    library = pd.concat([batch.frame[FEATURES], LIBRARY.assign(temp=batch.frame["temp"][0])], ignore_index=True)
    chosen = bs.propose(surrogate, 4, library=library, temperature=0.0)
    assert batch.run["energy_by_fresh_samples"] > 0.95 * chosen.run["certificate"]["energy_by_fresh_samples"]


def test_landscape_of_a_trade_off():
    world = TradeoffLandscape.of(frame_of(80), {"yield": "max", "cost": "min"}, FEATURES, {"yield": 40, "cost": 6})
    judged = world.judged([world.start(20, 0), world.draw(60, world.start(20, 0), 1)])
    assert judged["normalised"].tolist()[-1] == pytest.approx(1.0)
    assert judged["recall"].tolist()[-1] == 1.0
    assert 0 < judged["normalised"][0] < 1
    refuse(
        lambda: TradeoffLandscape.of(frame_of(9), {"yield": "max", "cost": "min"}, FEATURES, {"yield": 400, "cost": 6}),
        "no row is better",
    )


def test_what_targets_and_limits_may_be():
    columns = Columns("a", require=["p>=95", "c<=10", "p<=99"])
    assert columns.limits == {"p": (95.0, 99.0), "c": (-float("inf"), 10.0)}
    assert columns.weights == {"a": 1.0, "p": 0.0, "c": 0.0}
    assert columns.goal == "a with p >= 95, p <= 99, c <= 10"
    front = Columns({"a": "max", "b": "min"}, require="a>=3")
    assert (front.weights, front.aims) == ({"a": 1.0, "b": -1.0}, {"a": "max", "b": "min"})
    assert Columns({"a": 0.5, "b": -2.0}).weights == {"a": 0.5, "b": -2.0}
    refuse(lambda: Columns("a", require=["p>=95", "p<=90"]), "no value keeps both")
    refuse(lambda: Columns("a", require=["p=95"]), "write COLUMN>=NUMBER or COLUMN<=NUMBER")
    refuse(lambda: Columns("a", require=["a>=3"]), "it is the target itself")
    refuse(lambda: Columns({"a": "max", "b": 0.5}), "give each a weight, or each max or min")
    refuse(lambda: Columns({f"t{i}": "max" for i in range(6)}), "a front takes 2 to 5")
    refuse(lambda: Columns("a", require=["p>=3"], noise_variance="v"), "known noise variances go with one target")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--reference", "yield:99", "cost:0.1"], "as good as every measured row in all targets, or better"),
        (["--reference", "yield:40"], "'cost' is not in both"),
        (["--minimize"], "write NAME:min instead"),
        (["--hit", "3"], "a value to hit goes with one target"),
        (["--energy", "softmax"], "an energy goes with one target"),
        (["--shared", "temp", "--at-most-distinct", "temp:2"], "contradict each other"),
        (["--at-most", "temp:1", "--at-most-distinct", "temp:2"], "leaves room for 2"),
    ],
)
def test_bad_input_before_the_fit(more, words, capsys):
    assert suggest(*more) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


def test_targets_that_were_never_measured_together(capsys):
    frame = frame_of(24)
    frame.loc[:11, "yield"] = None
    frame.loc[12:, "cost"] = None
    frame.to_csv("runs.csv", index=False)
    assert suggest() == 2
    assert "no row has all of yield, cost" in capsys.readouterr().err
    assert suggest("--reference", "yield:1", "cost:1", target="yield") == 2
    assert "goes with targets that have directions" in capsys.readouterr().err


def test_choice_checks_what_goes_together():
    with pytest.raises(InputError, match="reference of 'a' is nan"):
        Choice(reference={"a": float("nan")})
