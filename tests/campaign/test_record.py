"""Entering results, on before that were put down without a fit."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import beebo_scale as bs
from beebo_scale.campaign import Campaign, Settings
from beebo_scale.campaign.entry import enter, give_up
from beebo_scale.campaign.results import ResultFile
from beebo_scale.screening import Batch
from tests.campaign.helpers import create, files, frame_of, proposed, snapshot, truth, unmeasured
from tests.campaign.helpers import settings as some_settings


@pytest.fixture
def campaign(tmp_path):
    return create(tmp_path)


def status_of(campaign):
    measured = campaign.state().measured
    return dict(zip(measured["variant"], measured["status"], strict=True))


def test_results_leave_pending_and_enter_measured_once(campaign):
    rows = proposed(campaign)
    results = rows.assign(y=truth(rows["variant"]))
    tally = campaign.record(results.iloc[[1, 4]])
    assert (tally.measured, tally.known, tally.failed) == (2, 0, 0)
    assert campaign.state().pending["name"].tolist() == rows["name"].drop([1, 4]).tolist()
    assert pd.read_csv(campaign.folder.pending)["name"].tolist() == rows["name"].drop([1, 4]).tolist()
    campaign.record(results)  # the two again, and the others
    assert campaign.state().pending.empty
    table = campaign.table()
    assert len(table) == 14 + 6
    assert not table.frame.duplicated().any()
    np.testing.assert_array_equal(table.y[14:], truth(rows["variant"]))
    assert campaign.state().measured["rank"].tolist()[14:] == ["1", "2", "3", "4", "5", "6"]
    before = snapshot(campaign.folder.path)
    assert campaign.record(results).known == 6
    assert snapshot(campaign.folder.path) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    "columns", [["name", "y"], ["variant", "y"], ["name", "variant", "y"], ["y", "variant", "rank"]]
)
@pytest.mark.parametrize("suffix", ["csv", "parquet", "frame"])
def test_rows_are_known_by_id_or_by_features(campaign, tmp_path, columns, suffix):
    rows = proposed(campaign)
    results = rows.assign(y=truth(rows["variant"]), rank=[9, 8, 7, 6, 5, 4])[columns].sample(frac=1, random_state=0)
    path = tmp_path / f"results.{suffix}"
    if suffix == "csv":
        results.to_csv(path, index=False)
    if suffix == "parquet":
        results.to_parquet(path, index=False)
    assert campaign.record(results if suffix == "frame" else path).measured == 6
    np.testing.assert_array_equal(campaign.table().y[14:], truth(rows["variant"]))


@pytest.mark.parametrize("name", ["results.csv", "results.xlsx"])
def test_results_as_a_spreadsheet_writes_them(tmp_path, name):
    campaign = create(tmp_path)
    rows = proposed(campaign).assign(y=["1,25", "-0,5", "3", "n/a", "1,234", "\u22122,5"])
    path = tmp_path / name
    rows.to_csv(path, index=False, sep=";") if name == "results.csv" else rows.to_excel(path, index=False)
    tally = campaign.record(path)
    assert (tally.measured, tally.failed) == (5, 1)
    assert campaign.table().y[14:].tolist() == [1.25, -0.5, 3.0, 1.234, -2.5]
    assert campaign.record(path).known == 6


def test_a_name_that_is_a_feature(tmp_path):
    campaign = create(tmp_path, id="variant")
    rows = proposed(campaign)
    assert campaign.record(pd.DataFrame({"variant": rows["variant"].str.lower(), "y": 1.0})).measured == 6
    assert campaign.state().pending.empty


def test_an_empty_target_is_a_failure_until_there_is_a_value(campaign):
    rows = proposed(campaign)
    tally = campaign.record(rows.assign(y=[1.0, None, None, 2.0, 3.0, 4.0]))
    assert (tally.measured, tally.failed) == (4, 2)
    assert campaign.state().pending.empty
    assert len(campaign.table()) == 14 + 4
    assert campaign.state().failed["variant"].tolist() == rows["variant"].iloc[1:3].tolist()
    assert campaign.record(rows.iloc[[1]].assign(y=np.nan)).known == 1
    assert campaign.record(rows.iloc[[1]].assign(y=7.0)).measured == 1  # it worked after all
    assert status_of(campaign)[rows["variant"][1]] == "measured"
    assert campaign.record(rows.iloc[[1]].assign(y=np.nan)).known == 1  # an old file
    assert len(campaign.table()) == 14 + 5


def test_another_value_is_refused_or_a_replicate(campaign):
    rows = proposed(campaign)
    campaign.record(rows.assign(y=1.0))
    before = snapshot(campaign.folder.path)
    with pytest.raises(
        bs.InputError, match=r"results in rows 2, 5 \(v6, v9\) differ from what is recorded \(.*\); .* --replicate"
    ):
        campaign.record(rows.assign(y=[1.0, 2.0, 1.0, 1.0, 2.0, 1.0]))
    assert snapshot(campaign.folder.path) == before
    again = rows.assign(y=[1.0, 2.0, 1.0, 1.0, 2.0, 1.0])
    tally = campaign.record(again, replicate=True)
    assert (tally.replicates, tally.known) == (2, 4)
    assert campaign.record(again, replicate=True).known == 6  # nothing is counted twice
    assert len(campaign.table()) == 14 + 6 + 2
    twice = pd.concat([rows.iloc[:1].assign(y=1.0)] * 3)
    assert campaign.record(twice, replicate=True).replicates == 2  # three equal wells on one plate are three results
    assert campaign.record(twice, replicate=True).replicates == 0


def test_one_file_with_two_values_for_one_experiment(campaign):
    rows = proposed(campaign)
    both = pd.concat([rows.assign(y=1.0), rows.iloc[:1].assign(y=3.0)])
    with pytest.raises(bs.InputError, match=r"results in rows 1, 7 .*differ"):
        campaign.record(both)
    assert len(campaign.state().pending) == 6
    tally = campaign.record(both, replicate=True)
    assert (tally.measured, tally.replicates) == (6, 1)


def test_what_nobody_proposed(campaign):
    rows = proposed(campaign)
    other = frame_of(unmeasured(campaign)[:2], y=[5.0, 6.0])
    mixed = pd.concat([rows.assign(y=1.0).iloc[:1], other])
    with pytest.raises(
        bs.InputError, match=r"experiments in rows 2, 3 .*are neither pending nor measured.*; .*--extra"
    ):
        campaign.record(mixed)
    assert len(campaign.state().pending) == 6  # all or nothing
    with pytest.raises(bs.InputError, match=r"in rows 2, 3 .*are new; add the feature columns"):
        campaign.record(mixed[["name", "y"]], extra=True)
    tally = campaign.record(mixed, extra=True)
    assert (tally.measured, tally.extra) == (1, 2)
    assert campaign.record(mixed, extra=True).known == 3
    assert status_of(campaign)[other["variant"][0]] == "extra"
    assert len(campaign.table()) == 14 + 3
    failed = frame_of(unmeasured(campaign)[:1], y=[np.nan])
    assert campaign.record(failed, extra=True).failed == 1
    assert campaign.record(failed.assign(y=2.0)).measured == 1


def test_measured_before_the_campaign(campaign):
    known = pd.read_csv(campaign.folder.path.parent / "screen.csv")
    assert campaign.record(known).known == 14
    with pytest.raises(bs.InputError, match="differ from what is recorded"):
        campaign.record(known.assign(y=known["y"] + 1))
    assert campaign.record(known.assign(y=known["y"] + 1), replicate=True).replicates == 14


def test_giving_up_releases_proposals(campaign):
    rows = proposed(campaign)
    campaign.record(rows.iloc[:2].assign(y=1.0))
    with pytest.raises(bs.InputError, match=r"in rows 1, 2 .*are not pending"):
        campaign.give_up(rows)
    assert campaign.give_up(rows[["name"]].iloc[2:4]).given_up == 2
    assert campaign.give_up(campaign.folder.pending).given_up == 2
    assert campaign.state().pending.empty
    assert campaign.state().failed.empty
    assert len(campaign.table()) == 16
    assert campaign.record(rows.iloc[[2]].assign(y=4.0)).measured == 1  # somebody did try
    assert campaign.record(rows.iloc[[3]].assign(y=np.nan)).failed == 1
    assert list(status_of(campaign).values())[14:] == ["measured"] * 3 + ["failed"] + ["given up"] * 2


def test_what_was_given_up_may_be_proposed_again(campaign):
    rows = proposed(campaign, 2)
    campaign.give_up(rows)
    before = campaign.state()
    frame = rows.assign(rank=[1, 2], mean=1.0, std=0.5, gain=0.2)
    bs.Batch(frame, {}).write(campaign.folder.batch(2))
    assert len(campaign.state().pending) == 2
    campaign.record(rows.assign(y=[3.0, np.nan]))
    measured = campaign.state().measured.iloc[len(before.measured) - 2 :]
    assert measured[["round", "status"]].to_numpy().tolist() == [
        ["1", "given up"],
        ["1", "given up"],
        ["2", "measured"],
        ["2", "failed"],
    ]


@pytest.fixture(scope="module")
def two_rounds(tmp_path_factory):
    """CampaignState with six pending experiments of two rounds, and these."""
    campaign = create(tmp_path_factory.mktemp("campaign"))
    rows = pd.concat([proposed(campaign, 4), proposed(campaign, 2)], ignore_index=True)
    return campaign.state(), rows


@pytest.mark.slow
@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.data())
def test_any_order_and_pieces_of_results_give_the_same_state(two_rounds, data):
    """Failures first or last, files cut anywhere, some of them recorded again."""
    before, rows = two_rounds
    results = rows.assign(y=data.draw(st.lists(st.sampled_from([0.0, 1.5, None]), min_size=6, max_size=6)))
    straight, _ = enter(before, ResultFile.read(results, before))
    pieces = np.split(np.array(data.draw(st.permutations(range(6)))), sorted(data.draw(st.sets(st.integers(1, 5)))))
    again = data.draw(st.lists(st.sampled_from(range(len(pieces))), max_size=3))
    by = data.draw(st.sampled_from([["name", "y"], ["variant", "y"]]))
    state, total = before, 0
    for piece in [*pieces, *(pieces[i] for i in again)]:
        state, tally = enter(state, ResultFile.read(results.iloc[piece][by], before))
        total += tally.measured + tally.failed
    assert total == 6
    assert state.pending.empty
    assert (state.measured["status"] == "measured").sum() == results["y"].notna().sum()
    pd.testing.assert_frame_equal(state.measured, straight.measured)


@pytest.mark.slow
@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.data())
def test_whatever_is_recorded_no_result_is_lost_or_counted_twice(two_rounds, data):
    """Values, failures and releases of the same few experiments, with replicates, against a list of what was said."""
    before, rows = two_rounds
    state, said = before, {name: set() for name in rows["name"]}
    for _ in range(data.draw(st.integers(1, 6))):
        some = rows.iloc[data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True))]
        values = data.draw(st.lists(st.sampled_from([0.0, 1.5, None]), min_size=len(some), max_size=len(some)))
        pending = some[some["name"].isin(state.pending["name"])]
        if len(pending) and data.draw(st.booleans()):
            state, _ = give_up(state, ResultFile.read(pending, before, with_target=False))
            continue
        state, _ = enter(state, ResultFile.read(some.assign(y=values), before), replicate=True)
        for name, value in zip(some["name"], values, strict=True):
            said[name] |= {value} - {None}
    new = state.measured.iloc[len(before.measured) :]
    for name, values in said.items():
        assert sorted(float(y) for y in new["y"][new["name"] == name] if y) == sorted(values)
        waiting = (state.pending["name"] == name).sum()
        settled = ((new["name"] == name) & (new["round"] != "")).sum()
        assert waiting + settled == 1


def test_settings_in_a_box_are_known_by_ten_digits(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"temp": rng.uniform(20, 80, 8), "base": list("abababab"), "y": rng.uniform(size=8)})
    box = some_settings(
        tmp_path, features={"temp": None, "base": None}, id=None, library=None, bounds={"temp": (20, 80), "base": ["a"]}
    )
    campaign = Campaign.create(tmp_path / "c", frame, box)
    batch = pd.DataFrame({"rank": [1, 2], "temp": [100 / 3, 25.0], "base": "a", "mean": 0.0, "std": 1.0, "gain": 1.0})
    bs.Batch(batch, {}).write(campaign.folder.batch(1))
    assert campaign.record(pd.DataFrame({"temp": [33.33333333333], "base": ["a"], "y": [1.0]})).measured == 1
    with pytest.raises(bs.InputError, match="row 1 are neither"):
        campaign.record(pd.DataFrame({"temp": [25.001], "base": ["a"], "y": [1.0]}))
    assert campaign.table().frame["temp"].iloc[-1] == 100 / 3  # as it was proposed


def test_known_noise_goes_along(tmp_path):
    files(tmp_path)
    frame = pd.read_csv(tmp_path / "screen.csv").assign(v=0.01)
    campaign = Campaign.create(tmp_path / "c", frame, some_settings(tmp_path, noise_variance="v"))
    rows = proposed(campaign, 3)
    with pytest.raises(bs.InputError, match=r"\(noise variance\) is empty or not above 0 in row 2"):
        campaign.record(rows.assign(y=1.0, v=[0.1, None, 0.3]))
    campaign.record(rows.assign(y=[1.0, None, 1.0], v=[0.1, None, 0.3]))
    assert campaign.table().noise_variance.tolist()[14:] == [0.1, 0.3]


BROKEN = {
    "no target": (lambda r: r, "has no result column 'y'"),
    "no identity": (lambda r: r.assign(y=1.0)[["y"]], "lacks the id column 'name' or the feature 'variant'"),
    "no rows": (lambda r: r.assign(y=1.0).iloc[:0], "header but no rows"),
    "text": (lambda r: r.assign(y="high"), r"'y' is text \('high' in rows 1, 2, 3 and"),
    "infinite": (lambda r: r.assign(y=np.inf), "infinite in rows 1, 2, 3 and 3 more; correct"),
    "empty id": (lambda r: r.assign(y=1.0, name=["", *r["name"][1:]]), r"'name' \(id\) is empty in row 1"),
    "other features": (
        lambda r: r.assign(y=1.0, variant=["WW", *r["variant"][1:]]),
        "features in row 1 .*are not those",
    ),
    "bad letter": (lambda r: r.drop(columns="name").assign(y=1.0, variant="A1"), "letter '1'"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", BROKEN)
def test_broken_results_change_nothing(campaign, case):
    change, match = BROKEN[case]
    rows = proposed(campaign)
    before = snapshot(campaign.folder.path)
    with pytest.raises(bs.InputError, match=match) as error:
        campaign.record(change(rows))
    assert "\n" not in str(error.value)
    assert snapshot(campaign.folder.path) == before


def test_words_among_results_are_refused_or_left_out_and_stay_pending(campaign, tmp_path):
    rows = proposed(campaign).iloc[:4].assign(y=["1", "PENDING", "n.d.", "4"])
    rows.loc[3, "variant"] = "AX"  # a letter that no protein has
    rows.to_csv(tmp_path / "r.csv", index=False)
    with pytest.raises(bs.InputError, match=r"'PENDING' in rows 2, 3\): 2 of 4 .*stay pending \(--drop-invalid\)"):
        campaign.record(tmp_path / "r.csv")
    counts = campaign.record(tmp_path / "r.csv", drop_invalid=True)
    assert counts.measured == 1
    assert [fault.row for fault in counts.invalid] == [2, 3, 4]
    assert len(campaign.state().pending) == 5
    assert campaign.folder.left_out.read_text().count("\n") == 4


def test_an_unknown_result_is_told_from_the_nearest_one(tmp_path):
    x = pd.DataFrame({"name": [f"c{i}" for i in range(8)], "t": range(20, 100, 10), "s": ["A", "B"] * 4})
    x.to_csv(tmp_path / "l.csv", index=False)
    x.iloc[:4].drop(columns="name").assign(y=[1, 3, 2, 5]).to_csv(tmp_path / "m.csv", index=False)
    given = {"target": "y", "features": {"t": "continuous", "s": "categorical"}, "id": "name"}
    campaign = Campaign.create(
        tmp_path / "c", tmp_path / "m.csv", Settings.of(**given, library=str(tmp_path / "l.csv"), q=2)
    )
    batch = x.iloc[4:6].assign(mean=1.0, std=1.0, gain=1.0)
    batch.insert(0, "rank", [1, 2])
    Batch(batch, {"temperature": 1.0}).write(campaign.folder.batch(1))
    result = pd.DataFrame({"t": [61], "s": ["A"], "y": [4.0]})
    with pytest.raises(bs.InputError, match=r"nearest to round 1 rank 1, name c4: column 't' is 61.0 here and 60.0"):
        campaign.record(result)
    with pytest.raises(bs.InputError, match=r"\(c9\).*row 1 has the features of round 1 rank 1, name c4\)"):
        campaign.record(result.assign(t=60, name="c9"))
    campaign.record(result.assign(t=60))
    with pytest.raises(bs.InputError, match=r"row 1 \(c4\) differ .*'y' is 5 here and 4 there"):
        campaign.record(result.assign(t=60, y=5.0))
