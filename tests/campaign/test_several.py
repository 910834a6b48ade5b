"""Campaigns with several targets: results of some of them, whenever they come."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import beebo_scale as bs
from beebo_scale.campaign import Campaign
from beebo_scale.campaign.entry import enter, give_up
from beebo_scale.campaign.results import ResultFile
from beebo_scale.surrogates.data.observe import target_scale
from beebo_scale.surrogates.data.target import Prediction
from tests.campaign.helpers import files, frame_of, proposed, settings, snapshot, truth, unmeasured

WEIGHTS = {"a": 0.7, "b": -0.3}


def create(folder, **changes):
    """14 variants measured, every third without b."""
    files(folder)
    screen = pd.read_csv(folder / "screen.csv")
    y = truth(screen["variant"])
    screen = screen.drop(columns="y").assign(a=y, b=np.where(np.arange(14) % 3, 5 - y + np.sin(y), np.nan), plate="p0")
    return Campaign.create(folder / "c", screen, settings(folder, **{"target": WEIGHTS} | changes))


@pytest.fixture
def campaign(tmp_path):
    return create(tmp_path)


def new(before):
    """Cells that came after the start: experiment -> a, b, status."""
    rows = before.measured.iloc[14:]
    return [tuple(row) for row in rows[["name", "a", "b", "status"]].to_numpy()]


def test_a_row_with_one_of_two_is_kept_and_joined(campaign):
    rows = proposed(campaign, 4)
    n = rows["name"].tolist()
    tally = campaign.record(rows.iloc[:2].assign(a=[1.0, 2.0]))
    assert (tally.measured, dict(tally.values), tally.absent) == (2, {"a": 2}, ("b",))
    assert new(campaign.state()) == [(n[0], "1.0", "", "partial"), (n[1], "2.0", "", "partial")]
    assert len(campaign.table()) == 16
    assert pd.read_csv(campaign.folder.pending)["still out"].tolist() == ["b", "b", "a, b", "a, b"]

    both = rows.iloc[1:].assign(a=[2.0, None, None], b=[4.0, 3.0, None])
    tally = campaign.record(both)
    assert (tally.measured, tally.failed, tally.known) == (2, 1, 0)
    expected = [(n[0], "1.0", "", "partial"), (n[1], "2.0", "4.0", "measured")]
    assert new(campaign.state()) == [*expected, (n[2], "", "3.0", "partial"), (n[3], "", "", "failed")]
    before = snapshot(campaign.folder.path)
    assert campaign.record(both).known == 3
    assert snapshot(campaign.folder.path) == before
    table = campaign.table()
    np.testing.assert_array_equal(table.y[14:], [[1.0, np.nan], [2.0, 4.0], [np.nan, 3.0]])
    assert campaign.record(rows.iloc[3:].assign(b=0.5)).measured == 1  # it worked after all
    assert new(campaign.state())[3] == (n[3], "", "0.5", "partial")


def test_an_empty_cell_says_nothing_where_another_target_is_not_in_the_file(campaign):
    rows = proposed(campaign, 3)
    tally = campaign.record(rows.assign(a=[1.0, None, None]))
    assert (tally.measured, tally.empty, tally.failed) == (1, 2, 0)
    assert len(campaign.state().pending) == 3
    assert campaign.record(rows.assign(a=[1.0, None, None])).empty == 2


def test_another_value_is_refused_for_its_target_alone(campaign):
    rows = proposed(campaign, 3)
    campaign.record(rows.assign(a=1.0))
    before = snapshot(campaign.folder.path)
    with pytest.raises(bs.InputError, match=r"results in row 2.* differ from what is recorded.*; .* --replicate"):
        campaign.record(rows.assign(a=[1.0, 2.0, 1.0], b=3.0))
    assert snapshot(campaign.folder.path) == before  # all or none
    tally = campaign.record(rows.assign(a=[1.0, 2.0, 1.0], b=3.0), replicate=True)
    assert (tally.measured, tally.replicates) == (3, 0)
    tally = campaign.record(rows.iloc[:1].assign(a=1.5, b=3.5), replicate=True)
    assert (tally.measured, tally.replicates) == (0, 1)
    n = rows["name"].tolist()
    assert new(campaign.state()) == [
        *((name, "1.0", "3.0", "measured") for name in n),
        *sorted([(n[0], "1.5", "3.5", "replicate"), (n[1], "2.0", "", "replicate")]),
    ]
    tally = campaign.record(rows.iloc[1:2].assign(b=9.0), replicate=True)
    assert (n[1], "2.0", "9.0", "replicate") in new(campaign.state())


def test_what_was_measured_before_or_by_nobody_asked_is_filled_in(campaign):
    first = campaign.state().measured.iloc[[0]]
    assert first["b"].item() == ""
    assert campaign.record(first[["name"]].assign(b=2.5)).measured == 1
    assert campaign.state().measured.iloc[0][["b", "status"]].tolist() == ["2.5", "initial"]
    other = frame_of(unmeasured(campaign)[:1])
    with pytest.raises(bs.InputError, match="--extra"):
        campaign.record(other.assign(a=1.0))
    assert campaign.record(other.assign(a=1.0), extra=True).extra == 1
    assert campaign.record(other.assign(b=2.0)).measured == 1
    assert new(campaign.state()) == [(other["name"][0], "1.0", "2.0", "extra")]


def test_giving_up_what_is_still_out(campaign):
    rows = proposed(campaign, 3)
    campaign.record(rows.iloc[:1].assign(a=1.0))
    assert campaign.give_up(campaign.folder.pending).given_up == 3
    before = campaign.state()
    assert before.pending.empty
    assert [status for *_, status in new(before)] == ["measured", "given up", "given up"]
    assert campaign.status().rounds[0].out == {"a": 0, "b": 0}
    campaign.record(rows.iloc[:2].assign(b=4.0))  # they did come
    n = rows["name"].tolist()
    assert new(campaign.state())[:2] == [(n[0], "1.0", "4.0", "measured"), (n[1], "", "4.0", "partial")]


def test_status_says_what_is_out_by_target(campaign):
    rows = proposed(campaign, 5)
    campaign.record(rows.assign(a=[1.0, 2.0, 9.0, None, None], b=[1.0, None, -8.0, 2.0, None]))
    status = campaign.status()
    assert status.values == {"a": 14, "b": 9}
    (found,) = status.rounds
    assert (found.measured, found.failed, found.pending, found.partial) == (2, 1, 2, 2)
    assert found.out == {"a": 1, "b": 1}
    y = torch.tensor(campaign.state().values(campaign.state().measured))
    a, b = (target_scale(column[~column.isnan()], "auto").standardise(column) for column in y.T)
    best = float((0.7 * a - 0.3 * b)[14 + 2])
    assert found.best == status.objective == pytest.approx(best)
    assert status.best["name"] == rows["name"][2]


@pytest.mark.slow
def test_a_round_learns_from_half_measured_rows(tmp_path):
    campaign = create(tmp_path, batch="plate", temperatures=(0.5,))
    first = campaign.suggest()
    frame = first.batch.frame
    assert list(frame)[-8:] == [f"{what} of {name}" for name in "ab" for what in Prediction.names()]
    y = truth(frame["variant"])
    campaign.record(frame[["name"]].iloc[:3].assign(a=y[:3], plate="p1"))
    campaign.record(frame[["variant"]].iloc[1:2].assign(b=5 - y[1], plate="p2"))
    second = campaign.suggest()
    run = second.batch.run
    assert run["surrogate"]["measurements"] == 14 + 9 + 3 + 1
    assert run["campaign"]["pending"] == 3  # one complete, two half measured, one not at all
    assert run["surrogate"]["batch"]["levels"] == 3
    assert second.notes == ()
    assert not set(second.batch.frame["variant"]) & set(frame["variant"])
    path = campaign.folder.settings
    path.write_text(path.read_text().replace("b: -0.3", "b: 0.3"))  # weights may change, and the fit stays warm
    third = campaign.suggest(another=True)
    assert [note.split("campaign.yaml: ")[1] for note in third.notes] == [
        'target is {"a": 0.7, "b": 0.3}, the last command saw {"a": 0.7, "b": -0.3}'
    ]
    assert third.batch.run["surrogate"]["target"] == "0.7 a + 0.3 b"


@pytest.mark.slow
def test_several_processes_enter_several_targets(campaign):
    """Locks are of open files, so that threads meet as processes do."""
    rows = proposed(campaign)
    pieces = [rows.iloc[i : i + 2].assign(**{name: 1.0 + i}) for i in (0, 2, 4) for name in ("a", "b")]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(Campaign(campaign.folder).record, pieces))
    assert campaign.state().pending.empty
    np.testing.assert_array_equal(campaign.table().y[14:], np.repeat([[1.0, 1], [3, 3], [5, 5]], 2, axis=0))


@pytest.fixture(scope="module", params=[None, "plate"])
def two_rounds(request, tmp_path_factory):
    """A state with six pending experiments of two rounds, and these, two that lack b, and one that nobody proposed."""
    campaign = create(tmp_path_factory.mktemp("campaign"), batch=request.param)
    rows = pd.concat([proposed(campaign, 4), proposed(campaign, 2)], ignore_index=True)
    before = campaign.state()
    lacking = before.measured[["name", "variant"]][before.measured["b"] == ""].iloc[:2]
    return before, pd.concat([rows, lacking, frame_of(unmeasured(campaign)[:1])], ignore_index=True)


def drawn(data, before, rows):
    """What is found out: (row, target, value, plate) one by one, and the rows of which nothing is."""
    facts = [(i, "b", 2.0, "p0") for i in (6, 7)]
    for i in (0, 1, 2, 3, 4, 5, 8):
        for target in ("a", "b"):
            value = data.draw(st.sampled_from([0.0, 1.5, None]))
            if value is not None:
                facts.append((i, target, value, data.draw(st.sampled_from(["p0", "p1", ""]))))
    return facts, [i for i in range(6) if i not in {fact[0] for fact in facts}]


def file_of(rows, facts, failed, narrow):
    """A file of results; facts of one row and plate share a line; columns without a value are left out if narrow."""
    lines = {(i, plate): {"a": None, "b": None} for i, _, _, plate in facts} | {(i, ""): {} for i in failed}
    for i, target, value, plate in facts:
        lines[i, plate][target] = value
    frame = rows.iloc[[i for i, _ in lines]].reset_index(drop=True)
    frame[["a", "b"]] = pd.DataFrame(list(lines.values()), columns=["a", "b"], dtype=float)
    frame["plate"] = [plate for _, plate in lines]
    empty = [target for target in ("a", "b") if frame[target].isna().all()]
    return frame.drop(columns=empty) if narrow and not failed else frame


@pytest.mark.slow
@hypothesis_settings(max_examples=12, deadline=None, derandomize=True)
@given(st.data())
def test_any_order_and_any_split_gives_the_same_books(two_rounds, data):
    """Targets together or apart, failures first or last, pieces again, on one plate or on several."""
    before, rows = two_rounds
    facts, failed = drawn(data, before, rows)
    straight, _ = enter(before, ResultFile.read(file_of(rows, facts, failed, False), before), extra=True)
    parts = data.draw(st.permutations([*facts, *failed]))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(parts) - 1), max_size=5)))
    pieces = [parts[i:j] for i, j in zip([0, *cuts], [*cuts, len(parts)], strict=True)]
    state = before
    for piece in [*pieces, *data.draw(st.lists(st.sampled_from(pieces), max_size=2))]:
        some, none = [x for x in piece if isinstance(x, tuple)], [x for x in piece if not isinstance(x, tuple)]
        file = file_of(rows, some, none, data.draw(st.booleans()))
        state, _ = enter(state, ResultFile.read(file, before), extra=True)
    pd.testing.assert_frame_equal(state.measured, straight.measured)
    known = {(i, target) for i, target, *_ in facts}
    out = [[target for target in ("a", "b") if (i, target) not in known] for i in range(6) if i not in failed]
    assert state.waiting["still out"].tolist() == [", ".join(names) for names in out if names]
    assert sum((state.measured[name] != "").sum() for name in ("a", "b")) == 14 + 9 + len(facts)


@pytest.mark.slow
@hypothesis_settings(max_examples=8, deadline=None, derandomize=True)
@given(st.data())
def test_with_replicates_no_value_is_lost_or_counted_twice(two_rounds, data):
    """Values, empty rows and releases of a few experiments, against a list of what was said."""
    before, rows = two_rounds
    state, said = before, {(name, target): set() for name in rows["name"][:6] for target in ("a", "b")}
    for _ in range(data.draw(st.integers(1, 6))):
        some = rows.iloc[data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True))]
        pending = some[some["name"].isin(state.pending["name"])]
        if len(pending) and data.draw(st.integers(0, 3)) == 0:
            state, _ = give_up(state, ResultFile.read(pending, before, with_target=False))
            continue
        values = st.lists(st.sampled_from([0.0, 1.5, None]), min_size=len(some), max_size=len(some))
        drawn = {target: data.draw(values) for target in data.draw(st.sampled_from(["a", "b", "ab"]))}
        file = some.assign(**drawn, plate=data.draw(st.sampled_from(["p0", "p1"])))
        state, _ = enter(state, ResultFile.read(file, before), replicate=True)
        for target, column in drawn.items():
            for name, value in zip(some["name"], column, strict=True):
                said[name, target] |= {value} - {None}
    added = state.measured.iloc[14:]
    for (name, target), values in said.items():
        assert sorted(float(y) for y in added[target][added["name"] == name] if y) == sorted(values)
    for name in rows["name"][:6]:
        ended = added[(added["name"] == name) & (added["round"] != "") & (added["status"] != "partial")]
        assert len(set(zip(ended["round"], ended["rank"], strict=True))) + (state.pending["name"] == name).sum() == 1


def test_settings(tmp_path):
    made = settings(tmp_path, target=WEIGHTS)
    path = tmp_path / "campaign.yaml"
    path.write_text(made.to_yaml())
    assert "target: {a: 0.7, b: -0.3}" in path.read_text().splitlines()
    again = type(made).from_yaml(path)
    assert (again.columns.weights, again.columns.targets, again.columns.goal) == (WEIGHTS, ["a", "b"], "0.7 a - 0.3 b")
    assert settings(tmp_path).columns.goal == "y"


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"target": {"a": 1.0}}, "at least two with their weights"),
        ({"target": {"a": 1.0, "b": 0}}, "'b' has the weight 0"),
        ({"target": {"a": 1.0, "b": "high"}}, "'b' has the weight 'high'"),
        ({"noise_variance": "v"}, "known noise variances go with one target"),
        ({"hit": 3.0}, "a value to hit goes with one target"),
        ({"transform": "held-out"}, "is for one target"),
    ],
)
def test_settings_that_cannot_be(tmp_path, changes, match):
    with pytest.raises(bs.InputError, match=match):
        settings(tmp_path, **{"target": WEIGHTS} | changes)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda r: r, "has no result column 'a'"),
        (lambda r: r.assign(a=1.0, b="high"), r"'b' is text \('high' in rows 1, 2"),
        (lambda r: r.assign(b=[np.inf, 1.0]), "'b' is infinite in row 1"),
    ],
)
def test_broken_results_change_nothing(campaign, change, match):
    rows = proposed(campaign, 2)
    before = snapshot(campaign.folder.path)
    with pytest.raises(bs.InputError, match=match):
        campaign.record(change(rows))
    assert snapshot(campaign.folder.path) == before


def test_a_screen_without_values_of_one_target_or_a_name_of_ours(tmp_path):
    files(tmp_path)
    screen = pd.read_csv(tmp_path / "screen.csv").rename(columns={"y": "a"})
    for name, match in (("b", "column 'b' is empty in all 14 rows"), ("still out", "has the name of a column that a")):
        chosen = settings(tmp_path, target={"a": 1.0, name: 1.0})
        values = np.nan if name == "b" else np.arange(14)
        with pytest.raises(bs.InputError, match=match):
            Campaign.create(tmp_path / "c", screen.assign(**{name: values}), chosen)
