import os
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

import beebo_scale as bs
from beebo_scale.campaign import Campaign, folder
from beebo_scale.screening import Layout
from tests.campaign.helpers import VARIANTS, create, files, frame_of, proposed, settings, snapshot, truth


def names(path):
    return sorted(p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file())


# --- starting ----------------------------------------------------------------------------------------------


def test_a_new_campaign(tmp_path):
    campaign = create(tmp_path)
    assert names(tmp_path / "c") == ["campaign.yaml", "lock", "measured.csv", "pending.csv", "seal.json"]
    measured = pd.read_csv(tmp_path / "c" / "measured.csv")
    assert list(measured) == ["name", "variant", "y", "round", "rank", "status"]
    assert set(measured["status"]) == {"initial"}
    assert campaign.state().pending.empty
    assert campaign.settings.choice.library == "../library.csv"  # the two can move together
    assert Campaign.open(tmp_path / "c").settings.columns.features == {"variant": "protein"}
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_kinds_are_inferred_and_rows_without_a_target_left_out(tmp_path):
    files(tmp_path)
    screen = pd.read_csv(tmp_path / "screen.csv")
    screen.loc[3, "y"] = np.nan
    frame = pd.concat([screen, screen.iloc[:1].assign(y=9.0)], ignore_index=True)  # a replicate: the id comes twice
    campaign = Campaign.create(tmp_path / "c", frame, settings(tmp_path, features={"variant": None}))
    assert campaign.settings.columns.features == {"variant": "categorical"}
    measured = campaign.state().measured
    assert measured["name"].tolist() == frame["name"].drop(3).tolist()
    assert campaign.table().y.tolist() == frame["y"].dropna().tolist()
    unnamed = Campaign.create(tmp_path / "d", frame.drop(columns="name"), settings(tmp_path))  # ids are the library's
    assert set(unnamed.state().measured["name"]) == {""}


@pytest.mark.parametrize(
    ("prepare", "changes", "match"),
    [
        (lambda f: (f / "c").mkdir() or (f / "c" / "mine.txt").touch(), {}, "exists already; give a new folder"),
        (lambda f: (f / "c").touch(), {}, "exists already"),
        (None, {"target": "z"}, "no target column 'z'"),
        (None, {"features": {"variant": "dna"}}, "letter"),
        (None, {"q": 40}, "q = 40, but only 22"),
        (None, {"id": "Name"}, "no id column 'Name'"),
        (None, {"library": "nowhere.csv"}, "no such file"),
        (None, {"library": None, "id": None, "bounds": {"variant": (0, 1)}}, "is protein, but a box needs"),
    ],
)
def test_campaigns_that_cannot_start_leave_nothing(tmp_path, prepare, changes, match):
    files(tmp_path)
    if prepare is not None:
        prepare(tmp_path)
    before = names(tmp_path)
    with pytest.raises(bs.InputError, match=match):
        Campaign.create(tmp_path / "c", tmp_path / "screen.csv", settings(tmp_path, **changes))
    assert names(tmp_path) == before


@pytest.mark.parametrize("column", ["round", "rank", "status", "gain"])
def test_columns_with_names_of_our_own(tmp_path, column):
    files(tmp_path)
    frame = pd.read_csv(tmp_path / "screen.csv").rename(columns={"variant": column})
    frame_of(VARIANTS).rename(columns={"variant": column}).to_csv(tmp_path / "library.csv", index=False)
    with pytest.raises(bs.InputError, match=f"column '{column}' has the name of a column that a"):
        Campaign.create(tmp_path / "c", frame, settings(tmp_path, features={column: "protein"}))


def test_what_is_no_campaign(tmp_path):
    with pytest.raises(bs.InputError, match=r"is no campaign: it has no campaign\.yaml"):
        Campaign.open(tmp_path)


# --- rounds ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_rounds_go_on_where_the_last_one_ended(tmp_path):
    campaign = create(tmp_path, temperatures=(2.0, 0.5), q=4)
    first = campaign.suggest()
    assert (first.round, first.path) == (1, tmp_path / "c" / "rounds" / "round-001.csv")
    assert first.batch.run["temperature"] == 2.0
    assert not set(first.batch.frame["variant"]) & set(campaign.state().measured["variant"])
    pd.testing.assert_frame_equal(pd.read_csv(first.path), first.batch.frame)
    assert campaign.state().pending["variant"].tolist() == first.batch.frame["variant"].tolist()

    rows = first.batch.frame[["name", "variant"]]
    campaign.record(rows.iloc[:2].assign(y=[*truth(rows["variant"][:1]), np.nan]))  # one failed, two are still running
    second = campaign.suggest(q=3)
    assert second.batch.run["temperature"] == 0.5
    assert second.batch.run["campaign"].items() >= {"round": 2, "pending": 2, "failed": 1}.items()
    assert second.batch.run["measured"]["rows"] == 15
    assert not set(second.batch.frame["variant"]) & set(rows["variant"])  # neither pending nor failed ones
    assert second.notes == ()
    assert len(campaign.state().pending) == 5

    status = campaign.status()
    assert [(r.proposed, r.measured, r.failed, r.pending) for r in status.rounds] == [(4, 1, 1, 2), (3, 0, 0, 3)]
    assert [r.temperature for r in status.rounds] == [2.0, 0.5]
    assert (status.initial, status.others) == (14, 0)


@pytest.mark.slow
def test_the_fit_is_warm_and_says_when_it_is_not(tmp_path):
    campaign = create(tmp_path)
    campaign.suggest()
    cold = bs.fit(campaign.table(), seed=4).report
    second = campaign.suggest(another=True)
    assert second.notes == ()
    assert second.batch.run["surrogate"]["fit"]["iterations"] <= cold.iterations
    campaign.folder.model(2).write_bytes(b"half a file")
    assert "not a readable surrogate" in campaign.suggest(another=True).notes[0]
    campaign.folder.model(3).unlink()
    assert campaign.suggest(another=True).notes == ()


@pytest.mark.slow
def test_the_same_campaign_gives_the_same_bytes(tmp_path):
    ends = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        campaign = create(tmp_path / name)
        frame = campaign.suggest(layout=Layout(96, {"A01": "negative"}, shuffle=True)).batch.frame
        results = frame[["name"]].assign(y=truth(frame["variant"]))
        for piece in [results] if name == "one" else [results.iloc[2:], results.iloc[:2]]:  # whenever they came
            campaign.record(piece)
        campaign.suggest()
        ends.append({k: v for k, v in snapshot(tmp_path / name).items() if k.endswith((".csv", ".png"))})
    assert "round-001.plate.csv" in ends[0]
    assert ends[0] == ends[1]


@pytest.mark.slow
def test_results_far_from_all_others_are_noted(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.uniform(size=40), "y": rng.standard_normal(40)})
    frame.loc[[7, 12], "y"] = [np.nan, 99.0]
    box = {"library": None, "id": None, "bounds": {"x": (0, 1)}, "features": {"x": "continuous"}}
    campaign = Campaign.create(tmp_path / "c", frame, settings(tmp_path, **box, q=2))
    (note,) = campaign.suggest().notes
    assert note.startswith(f"1 of 39 results lie far from all others, in row 12 of {campaign.folder.measured}: look")
    assert "--robust" in note


@pytest.mark.parametrize("goal", [{"minimize": True}, {"hit": 2.0}, {}])
def test_status_knows_the_best(tmp_path, goal):
    files(tmp_path)
    box = {"library": None, "id": None, "bounds": {"x": (0, 10)}, "features": {"x": "continuous"}}
    frame = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0, 4.0], "y": [0.0, 1.0, 2.1, 3.0, 4.0]})
    campaign = Campaign.create(tmp_path / "c", frame, settings(tmp_path, **box, **goal))
    best = campaign.status().best
    assert best["y"] == {"minimize": "0.0", "hit": "2.1"}.get(next(iter(goal), ""), "4.0")
    assert best["status"] == "initial"


@pytest.mark.slow
def test_a_value_to_hit_in_a_box(tmp_path):
    x = np.linspace(0, 10, 12)
    box = {"library": None, "id": None, "bounds": {"x": (0, 10)}, "features": {"x": "continuous"}}
    campaign = Campaign.create(
        tmp_path / "c",
        pd.DataFrame({"x": x, "y": x**2 / 10}),
        settings(tmp_path, **box, hit=4.0, temperatures=(0.0,), q=2, transform="none"),
    )
    suggestion = campaign.suggest()
    np.testing.assert_allclose(suggestion.batch.frame["x"], np.sqrt(40), atol=0.5)
    np.testing.assert_allclose(suggestion.batch.frame["mean"], 4.0, atol=0.6)
    assert suggestion.batch.run["configuration"]["energy"]["name"] == "TargetEnergy"


@pytest.mark.slow
def test_batches_of_a_box_start_where_the_settings_say(tmp_path):
    x = np.linspace(0, 10, 12)
    box = {"library": None, "id": None, "bounds": {"x": (0, 10)}, "features": {"x": "continuous"}}
    frame = pd.DataFrame({"x": x, "y": np.sin(x)})
    choice = settings(tmp_path, **box, q=2, priors="search", search_start="mixed")
    suggestion = Campaign.create(tmp_path / "c", frame, choice).suggest()
    assert suggestion.batch.run["configuration"]["search"]["start"] == "mixed"
    assert "search_start: mixed" in (tmp_path / "c" / "campaign.yaml").read_text()


# --- what is killed or meets another -----------------------------------------------------------------------


def crash_at(monkeypatch, count):
    """The `count`-th file that is moved into place never arrives, nor does any after it."""
    moves, replace = [], os.replace

    def broken(source, target):
        moves.append(target)
        if len(moves) >= count:
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", broken)


@pytest.mark.parametrize("count", [1, 2, 3, 4])  # seal, results, pending, seal
def test_a_record_that_is_killed_between_its_writes(tmp_path, monkeypatch, count):
    campaign = create(tmp_path)
    rows = proposed(campaign)
    before = campaign.folder.measured.read_bytes()
    with monkeypatch.context() as patch:
        crash_at(patch, count)
        with pytest.raises(KeyboardInterrupt):
            campaign.record(rows.iloc[:3].assign(y=1.0))
    assert (campaign.folder.measured.read_bytes() == before) == (count <= 2)
    campaign.record(rows.iloc[:3].assign(y=1.0))  # the same command again
    assert len(campaign.table()) == 14 + 3
    assert pd.read_csv(campaign.folder.pending)["name"].tolist() == rows["name"].tolist()[3:]
    assert not [name for name in names(campaign.folder.path) if name.startswith(".")]


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_a_suggestion_that_is_killed_between_its_writes(tmp_path, monkeypatch, count):
    """Model, run file, batch, pending: the batch makes the round."""
    campaign = create(tmp_path)
    with monkeypatch.context() as patch:
        crash_at(patch, count)
        with pytest.raises(KeyboardInterrupt):
            campaign.suggest()
    made = count == 4
    assert campaign.folder.rounds() == ([1] if made else [])
    assert len(campaign.state().pending) == (4 if made else 0)
    again = campaign.suggest()
    assert (again.round, again.again) == (1, made)
    assert len(pd.read_csv(campaign.folder.pending)) == 4


def test_a_start_that_is_killed_leaves_nothing(tmp_path, monkeypatch):
    files(tmp_path)
    before = names(tmp_path)
    for count in (1, 2):
        with monkeypatch.context() as patch:
            crash_at(patch, count)
            with pytest.raises(KeyboardInterrupt):
                create(tmp_path)
        assert names(tmp_path) == before
    assert create(tmp_path).status().initial == 14


def test_a_folder_that_is_in_use(tmp_path, monkeypatch):
    campaign = create(tmp_path)
    rows = proposed(campaign)
    monkeypatch.setattr(folder, "WAIT", 0.2)
    with campaign.folder.locked(), pytest.raises(bs.InputError, match=rf"in use by .*process {os.getpid()} on"):
        campaign.record(rows.assign(y=1.0))
    assert len(campaign.status().rounds) == 1
    assert campaign.record(rows.assign(y=1.0)).measured == 6


@pytest.mark.process
def test_two_processes_record_at_once(tmp_path):
    campaign = create(tmp_path)
    rows = proposed(campaign)
    code = (
        "import sys; from beebo_scale.campaign import Campaign; import pandas as pd\n"
        "campaign = Campaign.open('c'); print('ready', flush=True); sys.stdin.readline()\n"
        "for name in sys.argv[1:]: campaign.record(pd.DataFrame({'name': [name], 'y': [float(name[1:])]}))"
    )
    parts = [rows["name"].tolist()[:4], rows["name"].tolist()[2:]]  # two experiments in both
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": tmp_path}
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    workers = [subprocess.Popen([sys.executable, "-c", code, *part], env=env, **pipes) for part in parts]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    for worker in workers:
        worker.communicate(timeout=240)
        assert worker.returncode == 0
    assert campaign.state().pending.empty
    assert sorted(campaign.table().y[14:]) == sorted(float(name[1:]) for name in rows["name"])


@pytest.mark.process
def test_a_waiting_process_goes_on_when_the_other_ends(tmp_path):
    campaign = create(tmp_path)
    code = (
        "import fcntl, time\n"
        "lock = open('c/lock', 'a+'); fcntl.flock(lock, fcntl.LOCK_EX); print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    started = time.monotonic()
    holder.kill()  # the system gives the lock back
    campaign.refresh()
    holder.communicate()
    assert time.monotonic() - started < 10


def test_files_that_somebody_spoiled(tmp_path):
    campaign = create(tmp_path)
    proposed(campaign)
    measured = pd.read_csv(campaign.folder.measured)
    for change, match in (
        (measured.drop(columns="rank"), "measured.csv has no campaign column 'rank'"),
        (measured.assign(status="done"), "measured.csv: column 'status' is unknown in rows 1, 2, 3 and 11 more"),
        (measured.assign(y="high"), r"'y' is text \('high'"),
    ):
        change.to_csv(campaign.folder.measured, index=False)
        with pytest.raises(bs.InputError, match=match):
            campaign.status()
    campaign.folder.measured.unlink()
    with pytest.raises(bs.InputError, match=r"measured\.csv is gone since the last command"):
        campaign.status()


@pytest.mark.slow
def test_a_round_is_shown_again_until_something_is_entered(tmp_path):
    campaign = create(tmp_path, q=4)
    layout = Layout(6, {"A01": "low"})
    first = campaign.suggest(layout=layout)
    plates = pd.read_csv(first.plates[0])
    assert set(plates["plate"]) == {"R1-P1"}
    before = snapshot(tmp_path)
    again = campaign.suggest(layout=layout)
    assert (again.round, again.again, again.notes) == (1, True, first.notes)
    pd.testing.assert_frame_equal(again.batch.frame, first.batch.frame, check_dtype=False)
    assert snapshot(tmp_path) == before
    with pytest.raises(
        bs.InputError, match=r"round 1 of 4 experiments is out and nothing was entered since.*--another"
    ):
        campaign.suggest(q=3)
    second = campaign.suggest(q=3, layout=layout, another=True)
    assert (second.round, second.again) == (2, False)
    assert set(pd.read_csv(second.plates[0])["plate"]) == {"R2-P1"}
    assert campaign.again(1).batch.frame["variant"].tolist() == first.batch.frame["variant"].tolist()
    with pytest.raises(bs.InputError, match="has no round 3; its rounds are: 1, 2"):
        campaign.again(3)
    campaign.record(first.batch.frame[["name"]].assign(y=truth(first.batch.frame["variant"])))
    assert campaign.suggest().round == 3


@pytest.mark.slow
def test_a_map_that_was_filled_in_is_not_drawn_again(tmp_path):
    campaign = create(tmp_path, q=2)
    first = campaign.suggest(layout=Layout(6))
    filled = pd.read_csv(first.plates[0]).assign(y=1.0)
    filled.to_csv(first.plates[0], index=False)
    with pytest.raises(bs.InputError, match=r"plate\.csv is there and is not, or no longer, what this command writes"):
        campaign.again(1, Layout(6))
    assert campaign.again(1).round == 1
