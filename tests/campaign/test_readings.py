"""What comes off plates: maps filled in, wells without names, grids of readers; with controls, normalised or not."""

import numpy as np
import pandas as pd
import pytest

import beebo_scale as bs
from beebo_scale.campaign import Campaign
from beebo_scale.campaign.readings import read_results
from beebo_scale.screening import Layout, write_plates
from beebo_scale.screening.plates.normalise import b_score, percent_of_control

from .helpers import create, files, proposed, settings, truth

LAYOUT = Layout.of(12, ["A01:negative", "A02:positive", "C04:positive"], name="R1", shuffle=True)


@pytest.fixture
def campaign(tmp_path):
    """Twelve proposals on two plates of 12, of which 3 are controls."""
    made = create(tmp_path)
    proposed(made, 12)
    batch = pd.read_csv(made.folder.batch(1))
    write_plates(batch, made.folder.batch(1), LAYOUT)
    return made


def filled(campaign):
    """The map with values: those of the experiments times 10 and plus 5, on the second plate times 20."""
    frame = pd.read_csv(campaign.folder.batch(1).with_suffix(".plate.csv"))
    sample = frame["role"] == "sample"
    y = frame["role"].map({"negative": 0.0, "positive": 10.0, "sample": 0.0}).to_numpy(copy=True)
    y[sample] = truth(frame["variant"][sample])
    return frame.assign(y=5 + np.where(frame["plate"] == "R1-P1", 10, 20) * y)


def read(campaign, source, **options):
    return read_results(source, campaign.folder, campaign.settings, **options)


def values(readings):
    frame = readings.source.load(["name", "y"])
    return dict(zip(frame["name"], frame["y"].astype(float), strict=True))


def expected(frame):
    samples = frame[frame["role"] == "sample"]
    return dict(zip(samples["name"], samples["y"], strict=True))


def test_our_own_map_filled_in(campaign, tmp_path):
    frame = filled(campaign)
    frame.to_csv(tmp_path / "filled.csv", index=False)
    readings = read(campaign, tmp_path / "filled.csv")
    assert values(readings) == expected(frame)
    assert readings.controls == {"negative": 2, "positive": 4}
    rows = np.flatnonzero(frame["role"] == "sample") + 1
    np.testing.assert_array_equal(readings.source.numbers(12), rows)  # messages name rows of the file


@pytest.mark.parametrize("header", [("plate", "well"), ("Plate", " Well")])
def test_wells_without_names(campaign, header):
    frame = filled(campaign)
    table = frame[["plate", "well", "y"]].sample(frac=1, random_state=0)
    table["well"] = table["well"].str.replace("0", "").str.lower()
    readings = read(campaign, table.set_axis([*header, "y"], axis=1))
    assert values(readings) == expected(frame)
    assert readings.controls == {"negative": 2, "positive": 4}


def test_empty_wells_that_no_map_knows_say_nothing(campaign):
    frame = filled(campaign)
    empty = pd.DataFrame({"plate": "R1-P2", "well": ["C01", "C02", "C03"], "y": np.nan})
    table = pd.concat([frame[["plate", "well", "y"]], empty])
    assert values(read(campaign, table)) == expected(frame)
    table.iloc[-1, -1] = 3.0
    with pytest.raises(
        bs.InputError, match=r"table has 1 values in wells that no map knows: .* nothing in well C03 of plate"
    ):
        read(campaign, table)


def grids_of(frame, path):
    with path.open("w") as file:
        for plate, here in frame.groupby("plate"):
            y = dict(zip(here["well"], here["y"], strict=True))
            file.write(f"Measured,today\nPlate: {plate}\n,1,2,3,4\n")
            for row in "ABC":
                file.write(",".join([row, *(str(y.get(f"{row}0{column}", "")) for column in (1, 2, 3, 4))]) + "\n")


def test_grids_as_readers_export_them(campaign, tmp_path):
    frame = filled(campaign)
    grids_of(frame, tmp_path / "grids.csv")
    readings = read(campaign, tmp_path / "grids.csv")
    assert values(readings) == expected(frame)
    assert readings.controls == {"negative": 2, "positive": 4}
    grids_of(frame.assign(y=frame["y"].astype(object).where(frame["well"] != "B02", "OVER")), tmp_path / "grids.csv")
    with pytest.raises(bs.InputError, match="well B02 of plate R1-P1 holds 'OVER', which is no number; correct"):
        read(campaign, tmp_path / "grids.csv")


def test_grids_need_names_where_there_are_several_plates(campaign, tmp_path):
    grids_of(filled(campaign).assign(plate="unknown"), tmp_path / "grids.csv")
    with pytest.raises(
        bs.InputError, match=r"grid in row 3 names none of the plates 'R1-P1', 'R1-P2' .*write the plate"
    ):
        read(campaign, tmp_path / "grids.csv")


def test_percent_of_control(campaign):
    """The second plate reads twice as much; between its controls both are alike."""
    frame = filled(campaign)
    readings = read(campaign, frame, normalise="percent-of-control")
    samples = frame[frame["role"] == "sample"]
    np.testing.assert_allclose(list(values(readings).values()), 10 * truth(samples["variant"]), atol=1e-9)
    assert "percent-of-control of each plate now; results recorded before must be" in readings.notes[0]
    direct = percent_of_control(frame, "y", "plate", "role")[frame["role"] == "sample"]
    np.testing.assert_allclose(list(values(readings).values()), direct)


def test_robust_z_leaves_empty_wells_empty(campaign):
    frame = filled(campaign)
    first = frame["name"][frame["role"] == "sample"].iloc[0]
    frame.loc[frame["name"] == first, "y"] = np.nan
    found = read(campaign, frame, normalise="robust-z").source.load(["name", "y"])
    assert found["name"][found["y"] == ""].tolist() == [first]
    assert abs(np.median(pd.to_numeric(found["y"][found["y"] != ""]))) < 1.0


def test_b_score_is_of_the_samples_alone(campaign):
    write_plates(pd.read_csv(campaign.folder.batch(1)), campaign.folder.batch(1), Layout.of(24, ["A01:negative"]))
    frame = pd.read_csv(campaign.folder.batch(1).with_suffix(".plate.csv"))
    frame["y"] = np.random.default_rng(0).normal(size=len(frame))
    frame.loc[0, "y"] = 1e6  # a control, whatever it reads
    samples = frame.iloc[1:].reset_index(drop=True)
    readings = read(campaign, frame, normalise="b-score")
    np.testing.assert_allclose(list(values(readings).values()), b_score(samples, "y", "plate", "well"))


def test_normalising_takes_wells(campaign):
    table = filled(campaign)[["name", "y"]].dropna()
    with pytest.raises(
        bs.InputError, match="--normalise robust-z takes wells and roles, as in a filled-in plate map; it"
    ):
        read(campaign, table, normalise="robust-z")
    no_positive = filled(campaign)
    no_positive = no_positive[no_positive["role"] != "positive"]
    with pytest.raises(
        bs.InputError, match=r"plate 'R1-P1' has no 'positive' well in column 'role' \(it has 'negative'"
    ):
        read(campaign, no_positive, normalise="percent-of-control")


def test_a_plate_name_of_two_rounds(campaign):
    proposed(campaign, 3)
    write_plates(pd.read_csv(campaign.folder.batch(2)), campaign.folder.batch(2), LAYOUT)
    with pytest.raises(bs.InputError, match="plate 'R1-P1' is in the maps of rounds 1, 2; give results of it by id"):
        read(campaign, filled(campaign)[["plate", "well", "y"]])


def test_no_map(tmp_path):
    made = create(tmp_path)
    with pytest.raises(bs.InputError, match="has no plate map to find wells in"):
        read(made, pd.DataFrame({"well": ["A1"], "y": [1.0]}))


def test_a_filled_map_is_recorded_once(campaign, tmp_path):
    frame = filled(campaign)
    counts = campaign.record(frame)
    assert (counts.measured, counts.controls) == (12, {"negative": 2, "positive": 4})
    assert len(campaign.state().pending) == 0
    grids_of(frame, tmp_path / "grids.csv")
    assert campaign.record(tmp_path / "grids.csv").known == 12  # the same values in another form
    measured = campaign.state().measured
    entered = measured[measured["status"] == "measured"]
    assert dict(zip(entered["name"], entered["y"].astype(float), strict=True)) == expected(frame)


def test_rows_that_nobody_proposed_are_skipped_if_asked(campaign):
    rows = expected(filled(campaign))
    table = pd.DataFrame({"name": ["DMSO", *rows, "", "POS"], "y": [0.2, *rows.values(), 1.0, 88.0]})
    with pytest.raises(bs.InputError, match=r"\(id\) is empty in row 14"):
        campaign.record(table)
    counts = campaign.record(table, ignore=True)
    assert (counts.measured, counts.ignored) == (12, 3)


def test_the_plate_of_a_well_is_its_batch(tmp_path):
    """Where plates are batches, a file without that column has the names of the map."""
    files(tmp_path)
    screen = pd.read_csv(tmp_path / "screen.csv").assign(plate=["P0", "P9"] * 7)
    made = Campaign.create(tmp_path / "c", screen, settings(tmp_path, batch="plate"))
    proposed(made, 12)
    write_plates(pd.read_csv(made.folder.batch(1)), made.folder.batch(1), LAYOUT)
    table = filled(made).rename(columns={"plate": "Plate"})[["Plate", "well", "y"]]
    assert made.record(table).measured == 12
    measured = made.state().measured
    assert set(measured["plate"][measured["status"] == "measured"]) == {"R1-P1", "R1-P2"}
