import numpy as np
import pandas as pd
import pytest

from beebo_scale import InputError
from beebo_scale.screening.plates.layout import Layout, filled_map
from beebo_scale.screening.plates.picks import Picks, Stock, picks_path, write_picks


def batch(count):
    return pd.DataFrame({"rank": np.arange(1, count + 1), "name": [f"c{i}" for i in range(count)], "mean": 1.0})


def stock(count=4, **more):
    wells = {
        "id": [f" c{i}" for i in range(count)],
        "source_plate": "S1",
        "source_well": [f"B{i + 1}" for i in range(count)],
    }
    return pd.DataFrame(wells | more)


def test_every_transfer_from_the_well_of_its_id():
    frame = filled_map(batch(3), Layout(6, ["A1"], name="R1"))
    table = Picks(Stock.read(stock(), "name"), 2.5).of(frame)
    assert list(table) == [
        "Source Plate Name", "Source Well", "Destination Plate Name", "Destination Well", "Transfer Volume",
    ]  # fmt: skip
    assert table.values.tolist() == [
        ["S1", "B1", "R1-P1", "A2", 2500.0],
        ["S1", "B2", "R1-P1", "A3", 2500.0],
        ["S1", "B3", "R1-P1", "B1", 2500.0],
    ]


@pytest.mark.parametrize(
    ("form", "first"),
    [("opentrons", ["S1", "B1", "P1", "A2", 2.0]), ("hamilton", ["S1", "B01", "P1", "A02", 2.0])],
)
def test_forms_of_machines(form, first):
    frame = filled_map(batch(1), Layout(24, ["A1"]))
    assert Picks(Stock.read(stock(), "name"), 2.0, form).of(frame).values.tolist() == [first]


def test_controls_have_stock_of_their_role_and_wells_are_used_up_in_order():
    table = pd.concat([stock(2), pd.DataFrame({"id": "low", "source_plate": "C", "source_well": ["A1", "A2"]})])
    table["volume"] = [9.0, 9.0, 5.0, 100.0]
    frame = filled_map(batch(2), Layout.of(6, ["A1-B1:low", "B3:low", "B2:other"]))
    picked = Picks(Stock.read(table, "name"), 2.5, "hamilton").of(frame)
    assert picked[["SourceLabware", "SourcePosition", "TargetPosition"]].values.tolist() == [
        ["C", "A01", "A01"],
        ["S1", "B01", "A02"],
        ["S1", "B02", "A03"],
        ["C", "A01", "B01"],  # the other role has no stock, which is no error
        ["C", "A02", "B03"],
    ]
    assert Stock.read(table, "name").notes == []
    assert "no column volume" in Stock.read(stock(), "name").notes[0]


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Stock.read(stock().drop(columns="source_well"), "name"), "no stock column 'source_well'"),
        (lambda: Stock.read(stock().drop(columns="id"), "name"), r"no stock \('name' or 'id'\) column 'id'"),
        (lambda: Stock.read(stock(source_well="Z99"), "name"), "'Z99' in row 1, which is no well"),
        (
            lambda: Stock.read(stock(source_well=["A1", "A1", "A2", "A3"]), "name"),
            "well A1 of plate 'S1' comes twice, in",
        ),
        (lambda: Stock.read(stock(id=["a", "", "b", "c"]), "name"), r"\(id\) is empty in row 2"),
        (lambda: Stock.read(stock(volume=[1, 2, -1, 3]), "name"), "below 0 in row 3"),
        (lambda: Stock.read(stock(volume=[1, 2, "much", 3]), "name"), "'volume' is text .*row 3"),
        (lambda: Stock.read(stock().iloc[:0], "name"), "no rows"),
        (lambda: Picks(Stock.read(stock(), "name"), 0.0), "above 0"),
        (lambda: Picks(Stock.read(stock(), "name"), 0.001), "multiples of 2.5 nl.*nearest is 0.0025"),
        (lambda: Picks(Stock.read(stock(), "name"), 20.0), "at most 10 microlitres"),
        (lambda: Picks(Stock.read(stock(), "name"), 1.0, "robot"), "'echo', 'opentrons', 'hamilton'"),
    ],
)
def test_what_cannot_be_picked(make, match):
    with pytest.raises(InputError, match=match):
        make()


def test_experiments_without_stock_or_with_too_little(tmp_path):
    frame, out = filled_map(batch(6), Layout(6)), tmp_path / "next.csv"
    with pytest.raises(InputError, match=r"2 of 6 experiments have no row in .*'c4', 'c5'.*next.csv and its plate map"):
        write_picks(frame, out, Picks(Stock.read(stock(4), "name"), 1.0))
    little = stock(6, volume=[5, 5, 0.5, 5, 5, 5])
    with pytest.raises(InputError, match=r"too little of 'c2': of 'c2' 1 microlitres are needed, 0.5 are there"):
        write_picks(frame, out, Picks(Stock.read(little, "name"), 1.0))
    assert not picks_path(out).exists()
    path = write_picks(frame, out, Picks(Stock.read(stock(6, volume=1.0), "name"), 1.0))
    assert len(pd.read_csv(path)) == 6
