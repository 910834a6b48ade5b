import json

import numpy as np
import pandas as pd
import pytest

from beebo_scale.cli.main import main
from tests.campaign.helpers import create, files, frame_of, proposed, snapshot, truth

INIT = [
    "--measured=screen.csv",
    "--target=y",
    "--features=variant:protein",
    "--id=name",
    "--library=library.csv",
    "--q=4",
]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files(tmp_path)
    return tmp_path


def campaign(capsys, *arguments, code=0):
    """Lines of standard output, or the one line of standard error."""
    assert main(["campaign", *arguments]) == code
    out, err = capsys.readouterr()
    if code:
        assert out == ""
        assert len(err.splitlines()) == 1
        return err
    return out.splitlines()


@pytest.mark.slow
def test_two_rounds(folder, capsys):
    plan = ["--temperatures", "2", "0.5", "--schedule=geometric", "--rounds=3", "--seed=5"]
    said = campaign(capsys, "init", "c", *INIT, *plan)
    assert said[0] == "c: a campaign with 14 results"
    assert ["variant", "protein", "named"] in [line.split() for line in said]
    assert "temperatures: [2.0, 1.0, 0.5]" in (folder / "c" / "campaign.yaml").read_text().splitlines()

    plate = ["--plate=96", "--controls", "A01:negative", "H12:positive", "--shuffle"]
    assert campaign(capsys, "suggest", "c", *plate) == [
        "c/rounds/round-001.csv: 4 experiments of round 1",
        "c/rounds/round-001.plate.csv",
        "c/rounds/round-001.plate.png",
    ]
    wells = pd.read_csv("c/rounds/round-001.plate.csv")
    names = pd.read_csv("c/rounds/round-001.csv")["name"]
    stock = pd.DataFrame({"name": names[:3], "source_plate": "S1", "source_well": ["A1", "A2", "A3"]})
    stock.to_csv("stock.csv", index=False)
    picks = [*plate, "--stock=stock.csv", "--volume=2.5", "--picks=opentrons"]
    assert "1 of 4 experiments have no row in stock.csv" in campaign(capsys, "suggest", "c", *picks, code=2)
    stock.loc[3] = [names[3], "S1", "A4"]
    stock.to_csv("stock.csv", index=False)
    assert campaign(capsys, "suggest", "c", *picks) == [
        "note: stock.csv has no column volume: whether the stock wells hold enough was not checked",
        "this is round 1 as it was made, which was there already: nothing was entered since (--another makes one more)",
        "c/rounds/round-001.csv: 4 experiments of round 1",
        "c/rounds/round-001.plate.csv",
        "c/rounds/round-001.plate.png",
        "c/rounds/round-001.picks.csv",
    ]
    assert len(pd.read_csv("c/rounds/round-001.picks.csv")) == 4
    assert campaign(capsys, "suggest", "c", "--round=1")[0] == "this is round 1 as it was made"
    assert wells["role"].tolist() == ["negative", *["sample"] * 4, "positive"]
    assert sorted(wells["rank"].dropna()) == [1, 2, 3, 4]

    batch = pd.read_csv("c/rounds/round-001.csv")
    batch.assign(y=truth(batch["variant"])).iloc[:2].to_csv("first.csv", index=False)
    batch[["variant"]].assign(y=[*truth(batch["variant"][:3]), ""]).iloc[1:].to_csv("second.csv", index=False)
    assert campaign(capsys, "record", "c", "--results=first.csv") == [
        "first.csv: 2 results entered",
        "2 experiments are pending",
    ]
    assert campaign(capsys, "suggest", "c", "-q", "3") == [
        "c/rounds/round-002.csv: 3 experiments of round 2; 2 from earlier rounds are pending, too"
    ]
    assert campaign(capsys, "record", "c", "--results=second.csv") == [
        "second.csv: 1 results entered, 1 failed (without a value), 1 known already",
        "3 experiments are pending",
    ]
    assert campaign(capsys, "record", "c", "--give-up=c/pending.csv") == [
        "c/pending.csv: 3 given up",
        "0 experiments are pending",
    ]
    status = campaign(capsys, "status", "c")
    assert status[0] == "c: 14 results before round 1"
    assert status[2].split()[:7] == ["1", "2", "4", "3", "1", "0", "0"]
    assert status[3].split() == ["2", "1", "3", "0", "0", "3", "0"]
    best = max(pd.read_csv("c/measured.csv")["y"].dropna())
    assert status[4].startswith(f"best so far: y {best:g} (name v")
    run = json.loads((folder / "c" / "rounds" / "round-002.run.json").read_text())
    assert (run["seed"], run["temperature"], run["campaign"]["pending"]) == (6, 1.0, 2)


@pytest.mark.slow
def test_a_box_with_a_configuration_file(folder, capsys):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"temp": rng.uniform(20, 80, 15), "acid": ["HCl", "HBr", "HF"] * 5})
    frame.assign(y=-(((frame["temp"] - 50) / 20) ** 2)).to_csv("runs.csv", index=False)
    (folder / "plan.yaml").write_text(
        "measured: runs.csv\ntarget: y\nbounds:\n  temp: [20, 80]\n  acid: [HCl, HBr]\nq: 3\ntemperatures: [0.5]\n"
    )
    assert campaign(capsys, "init", "c", "--config=plan.yaml") == [
        "c: a campaign with 15 results",
        "  y     target       named",
        "  temp  continuous   holds numbers",
        "  acid  categorical  holds text ('HCl')",
    ]
    campaign(capsys, "suggest", "c")
    batch = pd.read_csv("c/rounds/round-001.csv")
    assert set(batch["acid"]) <= {"HCl", "HBr"}
    batch.assign(y=1.0).to_csv("results.csv", index=False)
    assert campaign(capsys, "record", "c", "--results=results.csv")[0] == "results.csv: 3 results entered"


@pytest.mark.slow
def test_results_of_another_kind(folder, capsys):
    made = create(folder)
    rows = proposed(made, 3)
    rows.assign(y=[1.0, 2.0, 3.0]).to_csv("r.csv", index=False)
    campaign(capsys, "record", "c", "--results=r.csv")
    rows.assign(y=[1.0, 2.0, 4.0]).to_csv("r.csv", index=False)
    assert "differ from what is recorded" in campaign(capsys, "record", "c", "--results=r.csv", code=2)
    lines = campaign(capsys, "record", "c", "--results=r.csv", "--replicate")
    assert lines[0] == "r.csv: 1 further replicates, 2 known already"
    frame_of(["GG"], y=1.0).to_csv("r.csv", index=False)
    assert "--extra" in campaign(capsys, "record", "c", "--results=r.csv", code=2)
    assert campaign(capsys, "record", "c", "--results=r.csv", "--extra")[0] == "r.csv: 1 that nobody proposed"


@pytest.mark.slow
def test_two_targets(folder, capsys):
    screen = pd.read_csv("screen.csv")
    screen.assign(z=np.where(np.arange(14) % 2, 9 - screen["y"], np.nan)).to_csv("screen.csv", index=False)
    target = "--target=y:0.7,z:-0.3"
    said = campaign(capsys, "init", "c", *INIT, target)
    assert ["z", "target", "2", "named"] in [line.split() for line in said]
    campaign(capsys, "suggest", "c", "--plate=96")
    wells = pd.read_csv("c/rounds/round-001.plate.csv")
    assert {"mean", "mean of y", "mean of z"} <= set(wells)
    np.testing.assert_array_equal(wells["rank"], [1, 2, 3, 4])
    names = wells["name"]
    pd.DataFrame({"name": names, "y": [1.0, 2.0, None, None]}).to_csv("first.csv", index=False)
    pd.DataFrame({"name": names[1:], "y": "", "z": [7.5, 5.0, ""]}).to_csv("second.csv", index=False)
    assert campaign(capsys, "record", "c", "--results=first.csv") == [
        "first.csv: 2 results entered, 2 rows without a value (y 2; no column z)",
        "4 experiments are pending; still out: y 2, z 4",
    ]
    assert campaign(capsys, "record", "c", "--results=second.csv") == [
        "second.csv: 2 results entered, 1 failed (without a value) (z 2)",
        "2 experiments are pending; still out: y 1, z 1",
    ]
    status = campaign(capsys, "status", "c")
    assert status[0] == "c: 14 results before round 1 (y 14, z 7)"
    assert status[1].endswith("pending  partly in      best  still out")
    assert status[2].split()[:8] == ["1", "1", "4", "1", "1", "0", "2", "2"]
    assert status[2].endswith("  y 1, z 1")
    assert status[3].startswith("best so far: 0.7 y - 0.3 z in standard deviations: ")
    assert campaign(capsys, "record", "c", "--give-up=c/pending.csv")[1] == "0 experiments are pending"


BROKEN = {
    "no action": ([], "give an action: init,suggest,record,status"),
    "wrong action": (["begin", "c"], "there is no action 'begin'"),
    "no folder": (["status"], "give the campaign's FOLDER"),
    "no campaign": (["status", "d"], "d is no campaign"),
    "nothing to record": (["record", "c"], "either --results FILE or --give-up FILE"),
    "too much to record": (["record", "c", "--results=a", "--give-up=b"], "either --results FILE or --give-up FILE"),
    "flags without results": (["record", "c", "--give-up=b", "--extra"], "go with --results"),
    "no results": (["record", "c", "--results=nowhere.csv"], "nowhere.csv: no such file"),
    "wrong plate": (["suggest", "c", "--plate=95"], "plates have 6, 12, 24, 48, 96, 384, 1536 wells"),
    "wrong well": (["suggest", "c", "--plate=96", "--controls=Z1"], "'Z1' is no well of a plate of 96"),
    "controls without a plate": (["suggest", "c", "--controls=A01"], "'--controls' without --plate; add --plate 6, 12"),
    "stock without a volume": (["suggest", "c", "--plate=6", "--stock=screen.csv"], "add --volume, the microlitres"),
    "volume without stock": (["suggest", "c", "--plate=6", "--volume=2"], "'--volume' without --stock"),
    "no such round": (["suggest", "c", "--round=7"], "has no round 7; its rounds are: none yet"),
    "a round with q": (["suggest", "c", "--round=7", "--another"], "--round shows a round that is there"),
    "too many": (["suggest", "c", "-q", "100"], "q = 100, but only 22"),
    "q is a word": (["suggest", "c", "-q", "many"], "q: 'many' is not a whole number"),
    "again": (["init", "c", *INIT], "c exists already"),
    "no target": (["init", "d", "--measured=screen.csv"], "missing options: --target"),
    "no file": (["init", "d", *INIT, "--measured=x.csv"], "x.csv: no such file"),
    "library and box": (["init", "d", *INIT, "--bounds", "a:1:2"], "either a library or bounds"),
    "a schedule of one": (["init", "d", *INIT, "--schedule=linear", "--rounds=3"], "--schedule leads from the first"),
    "rounds alone": (["init", "d", *INIT, "--rounds=3"], "--rounds goes with --schedule or --exploit-last"),
    "too few rounds": (
        ["init", "d", *INIT, "--exploit-last", "--rounds=2", "--temperatures=2,1,0.5"],
        "--temperatures has 3 for --rounds 2",
    ),
    "which is the last": (["init", "d", *INIT, "--exploit-last"], "--exploit-last needs --rounds N"),
    "geometric to zero": (
        ["init", "d", *INIT, "--schedule=geometric", "--temperatures=2,0", "--rounds=3"],
        "needs temperatures above zero",
    ),
    "a temperature in words": (["init", "d", *INIT, "--temperatures=hot"], "--temperatures 'hot' is not a number"),
    "a target without a weight": (["init", "d", *INIT, "--target=y:0.7,z"], "has no target column 'y:0.7,z'"),
    "no second target": (["init", "d", *INIT, "--target=y:1,x:1"], "no target 2 column 'x'"),
    "two goals": (["init", "d", *INIT, "--minimize", "--hit=3"], "exclude each other"),
    "wrong option": (["suggest", "c", "--foo"], "not understood: --foo"),
}


@pytest.mark.parametrize(
    ("plan", "written"),
    [
        (["--exploit-last", "--rounds=3"], "[1.0, 1.0, 0.0]"),
        (["--exploit-last", "--rounds=3", "--temperatures=2,1,0.5"], "[2.0, 1.0, 0.0]"),
        (["--exploit-last", "--rounds=3", "--temperatures=2,0.5", "--schedule=geometric"], "[2.0, 1.0, 0.0]"),
        (["--rounds=3", "--temperatures=2,0", "--schedule=linear"], "[2.0, 1.0, 0.0]"),
    ],
)
def test_temperatures_are_written_out(folder, capsys, plan, written):
    campaign(capsys, "init", "c", *INIT, *plan)
    assert f"temperatures: {written}" in (folder / "c" / "campaign.yaml").read_text().splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("case", BROKEN)
def test_bad_input_is_one_line(folder, capsys, case):
    create(folder)
    before = snapshot(folder)
    arguments, words = BROKEN[case]
    assert words in campaign(capsys, *arguments, code=2)
    assert snapshot(folder) == before
