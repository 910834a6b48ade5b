"""A campaign keeps the units that its first results had."""

import pandas as pd
import pytest

from beebo_scale.campaign import Campaign, Settings
from beebo_scale.errors import InputError
from beebo_scale.screening import Batch, Encoder


@pytest.fixture
def campaign(tmp_path):
    loading = [1, 2, 3, 5, 8, 10]
    measured = pd.DataFrame({"loading": [f"{x} mol%" for x in loading], "y": [f"{x / 2} mg" for x in loading]})
    measured.to_csv(tmp_path / "screen.csv", index=False)
    pd.DataFrame({"loading": [f"{x}.5 mol%" for x in range(12)]}).to_csv(tmp_path / "library.csv", index=False)
    settings = Settings.of(target="y", features=None, library=str(tmp_path / "library.csv"), q=2)
    campaign = Campaign.create(tmp_path / "c", tmp_path / "screen.csv", settings)
    frame = pd.DataFrame({"rank": [1, 2], "loading": [4.5, 6.5], "mean": 1.0, "std": 0.5, "gain": 0.2})
    Batch(frame, {"temperature": 0.5}).write(campaign.folder.batch(1))
    campaign.refresh()
    return campaign


def test_units_stay_in_the_folder(campaign):
    assert dict(campaign.settings.columns.units) == {"loading": "mol%", "y": "mg"}
    assert pd.read_csv(campaign.folder.measured)["loading"].tolist() == [1, 2, 3, 5, 8, 10]
    table = Campaign.open(campaign.folder.path).table()
    assert table.units == {"loading": "mol%", "y": "mg"}
    assert Encoder.from_table(table).columns[0].unit == "mol%"


@pytest.mark.parametrize(("loading", "y"), [("{} mol%", "{} mg"), ("{}", "{}"), ("{}mol %", "{}")])
def test_results_are_recorded_in_the_unit_or_as_numbers_alone(campaign, loading, y):
    results = pd.DataFrame({"loading": [loading.format(4.5), loading.format(6.5)], "y": [y.format(2), y.format(3.25)]})
    assert campaign.record(results).measured == 2
    assert campaign.table().y.tolist()[-2:] == [2, 3.25]
    assert campaign.table().frame["loading"].tolist()[-2:] == [4.5, 6.5]


@pytest.mark.parametrize(("loading", "y"), [("{} wt%", "{} mg"), ("{} mol%", "{} g"), ("{}", "{} ± 1")])
def test_results_in_another_unit_are_refused(campaign, loading, y):
    results = pd.DataFrame({"loading": [loading.format(4.5)], "y": [y.format(2)]})
    with pytest.raises(InputError, match=r"the column is in|no single number"):
        campaign.record(results)
    assert campaign.status().initial == 6


@pytest.mark.slow
def test_a_round_is_chosen_from_a_library_in_the_unit(campaign):
    suggestion = campaign.suggest()
    assert set(suggestion.batch.frame["loading"]) <= {x + 0.5 for x in range(12)}
