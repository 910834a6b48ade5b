"""What others do to a campaign's files is said, or refused where something is missing."""

import json

import pandas as pd
import pytest

import beebo_scale as bs
from beebo_scale.campaign import Campaign
from beebo_scale.screening import Batch
from tests.campaign.helpers import create, frame_of, proposed, truth


@pytest.fixture
def campaign(tmp_path):
    """One round, three results."""
    made = create(tmp_path)
    rows = proposed(made)
    made.record(rows.iloc[:3].assign(y=truth(rows["variant"][:3])))
    return made


def refuse(campaign, match):
    for act in (lambda: Campaign.open(campaign.folder.path), campaign.suggest):
        with pytest.raises(bs.InputError, match=match) as caught:
            act()
        assert "\n" not in str(caught.value)


def test_nothing_is_said_where_nothing_was_changed(campaign):
    assert campaign.changes() == []
    proposed(campaign, 2)  # a round that no command has seen yet is no change
    assert campaign.changes() == []


def test_results_that_were_cut_at_the_end_of_a_line(campaign):
    path = campaign.folder.measured
    whole = path.read_bytes()
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:-2]))
    refuse(
        campaign, r"measured\.csv has 16 lines, the last command left 18: it was cut; restore it, or, .* delete .*seal"
    )
    (campaign.folder.path / "seal.json").unlink()  # it was meant
    assert Campaign.open(campaign.folder.path).changes() == []
    assert len(campaign.state().measured) == 15


def test_a_result_that_was_corrected_is_said_once(campaign):
    path = campaign.folder.measured
    path.write_text(path.read_text().replace("initial", "initial", 1).replace("4.5", "4.25", 1))
    (note,) = campaign.changes()
    assert "measured.csv was changed since the last command" in note
    rows = campaign.state().pending
    campaign.record(frame_of(rows["variant"][:1], y=1.0))
    assert campaign.changes() == []


def test_settings_that_were_cut_or_changed(campaign):
    path = campaign.folder.settings
    whole = path.read_text()
    path.write_text(whole.replace("q: 4", "q: 3"))
    assert campaign.changes() == [f"{path}: q is 3, the last command saw 4"]
    lines = whole.splitlines(keepends=True)
    path.write_text("".join(lines[:-1]))
    refuse(campaign, r"campaign\.yaml has lost entries since the last command: \w+: .*; write them again")
    path.write_text("")
    refuse(campaign, "has lost entries since the last command: target")
    path.unlink()
    refuse(campaign, r"campaign\.yaml is gone, but not the campaign; write it again from the entries in .*seal\.json")
    path.write_text("# mine\n" + whole)
    assert campaign.changes() == []


def test_a_round_that_is_gone_or_cut(campaign):
    path = campaign.folder.batch(1)
    whole = path.read_bytes()
    path.unlink()
    refuse(campaign, r"round-001\.csv is gone since the last command; restore it, or")
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:3]))
    refuse(campaign, r"round-001\.csv has 3 lines, the last command left 7: it was cut")
    path.write_bytes(whole.replace(b"0.5", b"0.7", 1))
    (note,) = campaign.changes()
    assert "round-001.csv was changed" in note


def test_a_damaged_seal(campaign):
    (campaign.folder.path / "seal.json").write_text("{")
    refuse(campaign, r"seal\.json is damaged .* delete it to take them as they are")


@pytest.mark.slow
def test_a_library_that_was_changed_is_said(tmp_path):
    campaign = create(tmp_path)
    assert campaign.suggest().notes == ()
    library = pd.read_csv(tmp_path / "library.csv")
    assert campaign.suggest(another=True).notes == ()
    library.iloc[:-1].to_csv(tmp_path / "library.csv", index=False)
    (note,) = campaign.suggest(another=True).notes
    assert "library.csv (--library) has another content than when round 2 was chosen from it; round 3 is" in note
    assert campaign.suggest(q=1, another=True).notes == ()


def test_a_filled_in_file_is_not_written_over(campaign, tmp_path):
    path = campaign.folder.pending
    filled = pd.read_csv(path).assign(y=1.0)
    filled.to_csv(path, index=False)
    other = tmp_path / "other.csv"
    filled.iloc[:1].to_csv(other, index=False)
    for act in (campaign.suggest, lambda: campaign.record(other), lambda: campaign.give_up(path)):
        with pytest.raises(bs.InputError, match=r"pending\.csv was filled in or changed"):
            act()
    assert campaign.record(path).measured == 3
    assert len(pd.read_csv(path)) == 0
    (campaign.folder.path / "rounds" / "round-002.run.json").write_text("mine")
    with pytest.raises(
        bs.InputError, match=r"round-002\.run\.json is there and is not, or no longer, what this command"
    ):
        campaign.suggest()


def test_a_round_may_be_filled_in(campaign):
    path = campaign.folder.batch(1)
    filled = pd.read_csv(path).assign(y=1.0)
    filled.to_csv(path, index=False)
    assert len(campaign.changes()) == 1
    assert campaign.record(filled.iloc[3:]).measured == 3
    assert campaign.changes() == []


def test_the_seal_is_plain(campaign):
    seal = json.loads((campaign.folder.path / "seal.json").read_text())
    assert seal["files"].keys() == {"measured.csv", "rounds/round-001.csv", "rounds/round-001.run.json"}
    assert seal["files"]["measured.csv"][1] == 18
    assert seal["settings"]["q"] == "4"
    Batch(pd.DataFrame({"rank": [1]}), {}).write(campaign.folder.batch(2))
    assert campaign.changes() == []
