import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beebo_scale import InputError
from beebo_scale.screening.plates.layout import (
    SHAPES,
    Layout,
    draw_plate,
    filled_map,
    parse_well,
    plate_map,
    plate_paths,
    well_name,
    write_plates,
)

EDGES = {"A01-D01": "negative", "E01-H01": "positive", "H12": "blank"}


def batch(count):
    return pd.DataFrame(
        {
            "rank": np.arange(1, count + 1),
            "variant": [f"v{i}" for i in range(count)],
            "mean": np.linspace(3, 1, count),
            "std": 0.1,
            "gain": np.linspace(2, 1, count),
        }
    )


@pytest.mark.parametrize("plate", SHAPES)
def test_names_of_wells(plate):
    rows, columns = SHAPES[plate]
    names = [well_name(r, c) for r in range(rows) for c in range(columns)]
    assert len(set(names)) == plate
    assert [parse_well(name) for name in names] == [(r, c) for r in range(rows) for c in range(columns)]
    assert names[-1] == {6: "B03", 12: "C04", 24: "D06", 48: "F08", 96: "H12", 384: "P24", 1536: "AF48"}[plate]


@pytest.mark.parametrize("text", ["", "A", "1", "A0", "A00", "A49", "AG01", "BA01", "A1B", "AAA1", "A-1", "A1.0"])
def test_what_is_no_well(text):
    assert parse_well(text) is None


def test_rows_of_a_batch_fill_the_wells_in_order():
    frame = plate_map(batch(10))
    assert list(frame) == ["plate", "well", "role", "rank", "variant", "mean", "std", "gain"]
    assert frame["well"].tolist() == [f"A{i:02d}" for i in range(1, 11)]
    assert frame["rank"].tolist() == list(range(1, 11))
    assert set(frame["plate"]) == {"P1"}
    assert set(frame["role"]) == {"sample"}


@pytest.mark.slow
@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(1, 2000), st.sampled_from([96, 384, 1536]), st.booleans(), st.integers(0, 5))
def test_every_row_once_and_every_control_on_every_plate(count, plate, shuffle, seed):
    frame = plate_map(batch(count), plate, EDGES, shuffle, seed)
    samples, controls = frame[frame["role"] == "sample"], frame[frame["role"] != "sample"]
    assert sorted(samples["rank"]) == list(range(1, count + 1))
    assert not frame.duplicated(["plate", "well"]).any()
    plates = -(-count // (plate - 9))
    assert set(frame["plate"]) == {f"P{i}" for i in range(1, plates + 1)}
    assert len(controls) == 9 * plates
    for _, here in controls.groupby("plate"):
        roles = dict(zip(here["well"], here["role"], strict=True))
        expected = {f"{r}01": "negative" if r < "E" else "positive" for r in "ABCDEFGH"} | {"H12": "blank"}
        assert roles == expected
    assert controls["variant"].isna().all()
    cells = [(int(number[1:]), *parse_well(well)) for number, well in zip(frame["plate"], frame["well"], strict=True)]
    assert cells == sorted(cells)
    assert all(r < SHAPES[plate][0] and c < SHAPES[plate][1] for _, r, c in cells)
    by_variant = samples.set_index("variant")["mean"].to_dict()
    assert by_variant == batch(count).set_index("variant")["mean"].to_dict()  # values stay with their rows


def test_a_thousand_rows_on_plates_of_96():
    frame = plate_map(batch(1000), 96, {"A01": "negative", "H12": "positive"})
    assert frame["plate"].iloc[-1] == "P11"
    assert (frame[frame["plate"] != "P11"].groupby("plate").size() == 96).all()
    assert len(frame) == 1000 + 22


def test_shuffling_has_a_seed_and_mixes_good_and_bad():
    plain, shuffled = plate_map(batch(300)), plate_map(batch(300), shuffle=True, seed=3)
    pd.testing.assert_frame_equal(shuffled, plate_map(batch(300), shuffle=True, seed=3))
    assert not shuffled.equals(plate_map(batch(300), shuffle=True, seed=4))
    assert not shuffled["rank"].equals(plain["rank"])
    assert shuffled["well"].tolist() == plain["well"].tolist()  # the same wells, filled otherwise
    assert abs(np.corrcoef(np.arange(300), shuffled["rank"].astype(float))[0, 1]) < 0.2


def test_layouts_in_words():
    layout = Layout.of(96, ["A01-B02:negative", "h12"], shuffle=True, seed=7)
    assert layout.roles == {
        "A01": "negative",
        "A02": "negative",
        "B01": "negative",
        "B02": "negative",
        "H12": "control",
    }
    assert layout == Layout(96, layout.roles, True, 7)
    assert Layout(384, ["P24"]).roles == {"P24": "control"}


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.sampled_from(list(SHAPES)[2:]), st.integers(1, 300), st.integers(0, 3), st.integers(0, 1), st.booleans())
@pytest.mark.slow
def test_scattered_controls_and_a_free_edge(plate, count, seed, edge, shuffle):
    rows, columns = SHAPES[plate]
    layout = Layout.of(
        plate, ["A01:blank", "2:low", "1:high", "1:low"], edge=edge, seed=seed, shuffle=shuffle, name="R7"
    )
    frame = filled_map(batch(count), layout)
    assert not frame.duplicated(["plate", "well"]).any()
    assert sorted(frame["rank"].dropna()) == list(range(1, count + 1))
    for number, (name, here) in enumerate(frame.groupby("plate", sort=False)):
        assert name == f"R7-P{number + 1}"
        assert here["role"].value_counts().drop("sample").to_dict() == {"blank": 1, "low": 3, "high": 1}
        inner = [parse_well(well) for well in here["well"][here["role"] != "blank"]]
        assert all(edge <= r < rows - edge and edge <= c < columns - edge for r, c in inner)
        assert here["well"][here["role"] == "blank"].tolist() == ["A01"]
    pd.testing.assert_frame_equal(frame, filled_map(batch(count), layout))


def test_controls_are_scattered_otherwise_on_each_plate():
    frame = filled_map(batch(300), Layout.of(96, ["8:negative"]))
    wells = [set(here["well"][here["role"] == "negative"]) for _, here in frame.groupby("plate")]
    assert len(wells) == 4
    assert all(len(each) == 8 for each in wells)
    assert len(set.union(*wells)) > 16


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Layout(95), "plates have 6, 12, 24, 48, 96, 384, 1536 wells"),
        (lambda: Layout(96, {"I01": "negative"}), "no well of a plate of 96; they run from A01 to H12"),
        (lambda: Layout(96, {"A13": "negative"}), "'A13' is no well"),
        (lambda: Layout(96, {"A1-B": "negative"}), "'A1-B' is no well"),
        (lambda: Layout(96, {"H12-A01": "negative"}), "runs backwards"),
        (lambda: Layout(96, {"A01": "x", "a1": "y"}), "well A01 is given twice"),
        (lambda: Layout.of(96, ["A01:x", "A01:y"]), "'A01' is given twice"),
        (lambda: Layout(96, {"A01-H12": "negative"}), "all 96 wells are controls"),
        (lambda: Layout(96, {"A01": "sample"}), "name another"),
        (lambda: Layout(96, scattered={"sample": 3}), "name another"),
        (lambda: Layout.of(6, ["6:low"]), "all 6 wells are controls"),
        (lambda: Layout(6, edge=1), "are controls or among the outer 1 rows and columns"),
        (lambda: Layout(96, edge=-1), "0 or more"),
        (
            lambda: plate_map(batch(3).rename(columns={"variant": "well"})),
            "'well' has the name of a column that a plate",
        ),
    ],
)
def test_layouts_that_cannot_be(make, match):
    with pytest.raises(InputError, match=match) as error:
        make()
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_plate_map_and_picture_beside_the_batch(tmp_path):
    out = tmp_path / "next.csv.gz"
    layout = Layout(96, EDGES, shuffle=True)
    written = write_plates(batch(100), out, layout)
    assert written == list(plate_paths(out)) == [tmp_path / "next.plate.csv", tmp_path / "next.plate.png"]
    frame = pd.read_csv(written[0])
    assert frame["rank"].notna().sum() == 100
    assert ".0" not in written[0].read_text().split("\n")[1].split(",")[3]  # ranks are whole numbers
    assert written[1].read_bytes().startswith(b"\x89PNG")
    before = [path.read_bytes() for path in written]
    write_plates(batch(100), out, layout)
    assert [path.read_bytes() for path in written] == before  # the same bytes
    assert sorted(path.name for path in tmp_path.iterdir()) == ["next.plate.csv", "next.plate.png"]


def test_without_matplotlib_there_is_a_map_but_no_picture(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "beebo_scale.screening.plates.picture", raising=False)
    assert write_plates(batch(5), tmp_path / "next.csv", Layout()) == [tmp_path / "next.plate.csv"]
    with pytest.raises(InputError, match="pip install"):
        draw_plate(plate_map(batch(5)), tmp_path / "p.png")


def colours(path):
    """Colours of a picture, as a set of (r, g, b)."""
    from matplotlib.image import imread

    pixels = (imread(path)[..., :3] * 255).round().astype(int).reshape(-1, 3)
    codes = np.unique(pixels @ [1 << 16, 1 << 8, 1])
    return {(int(c) >> 16, int(c) >> 8 & 255, int(c) & 255) for c in codes}


@pytest.mark.slow
def test_the_picture_shows_values_and_controls(tmp_path):
    frame = plate_map(batch(20), 96, EDGES)
    draw_plate(frame, tmp_path / "p.png")
    drawn = colours(tmp_path / "p.png")
    assert {(253, 231, 37), (68, 1, 84)} <= drawn  # both ends of viridis
    assert {(214, 39, 40), (31, 119, 180), (255, 127, 14)} <= drawn  # three roles
    draw_plate(frame[frame["role"] == "sample"], tmp_path / "q.png", value="gain", plate=384)
    assert (214, 39, 40) not in colours(tmp_path / "q.png")


@pytest.mark.parametrize(
    ("frame", "path", "match"),
    [
        (batch(3), "p.png", "no column 'plate'"),
        (plate_map(batch(3)).drop(columns="mean"), "p.png", "no column 'mean'"),
        (plate_map(batch(3)).iloc[:0], "p.png", "is empty"),
        (plate_map(batch(3)).assign(well="Z99"), "p.png", "no well 'Z99' in rows 1, 2, 3"),
        (plate_map(batch(3)), "p.gif", "written as .png, .svg, .pdf"),
        (plate_map(batch(3)), "p", "written as .png"),
    ],
)
def test_pictures_that_cannot_be(tmp_path, frame, path, match):
    with pytest.raises(InputError, match=match):
        draw_plate(frame, tmp_path / path)


def test_a_map_drawn_on_too_small_a_plate(tmp_path):
    with pytest.raises(InputError, match="does not fit on plates of 96"):
        draw_plate(plate_map(batch(200), 384), tmp_path / "p.png", plate=96)
