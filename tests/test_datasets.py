from beebo_scale.datasets import buchwald_hartwig, enamine10k, gb1
from beebo_scale.screening import Encoder, read_table


def test_gb1_is_the_published_landscape():
    frame = gb1()
    assert list(frame) == ["variant", "fitness", "count_input", "count_selected"]
    assert len(frame) == 149_361
    assert frame["variant"].is_unique
    assert not frame.isna().any(axis=None)
    assert frame.set_index("variant").loc["VDGV", "fitness"] == 1.0
    assert abs(frame["fitness"].max() - 8.762) < 5e-4


def test_gb1_is_ready_for_reading():
    table = read_table(gb1(), "fitness", features={"variant": "protein"}, id="variant")
    assert (len(table), table.dropped) == (149_361, 0)
    assert Encoder.from_table(table).width == 4


def test_molecules_are_in_random_order():
    frame = enamine10k()
    assert list(frame) == ["smiles", "score"]
    assert len(frame) == 10_449
    assert (frame["score"].min(), frame["score"].max()) == (-9.9, -4.5)
    assert abs(frame["score"].corr(frame.index.to_series())) < 0.03


def test_reactions_are_ready_for_reading():
    table = read_table(buchwald_hartwig(), "yield")
    assert table.kinds == dict.fromkeys(["ligand", "additive", "base", "halide"], "categorical")
    assert len(table) == 3955
    assert not table.frame.duplicated().any()
    assert (table.y.min(), round(table.y.max())) == (0.0, 100)
