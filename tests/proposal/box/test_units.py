import json

import numpy as np
import pandas as pd
import pytest
import torch

from beebo_scale.errors import InputError
from beebo_scale.proposal.box.units import units_of
from beebo_scale.screening import Encoder, read_table
from beebo_scale.screening.encoding import CategoricalColumn, ContinuousColumn
from beebo_scale.specs import Box
from tests.helpers import close


def box():
    return Encoder((ContinuousColumn("temp", 20.0, 40.0), ContinuousColumn("pH", 7.0, 7.0)))


def mixed():
    return Encoder(
        (
            ContinuousColumn("acid", 0.0, 50.0),
            ContinuousColumn("base", 10.0, 30.0),
            ContinuousColumn("cycles", 3.0, 12.0),
            CategoricalColumn("salt", ("KCl", "MgCl2", "NaCl", "none")),
        )
    )


MIXED = {"acid": (0, 60), "base": (0, 40), "cycles": (1.5, 9.9)}


def test_bounds_in_encoded_units():
    expected = torch.tensor([[-0.5, -1 / 7], [2.0, 1 / 7]], dtype=torch.float64)
    for own in ([(10, 60), (6, 8)], {"pH": (6, 8), "temp": (10, 60)}, np.array([[10, 60], [6, 8]])):
        space = units_of(box(), Box(own)).space
        assert torch.equal(space.bounds, expected)
        assert space.plain
        assert not space.discrete


def test_every_kind_of_column():
    space = units_of(
        mixed(), Box(MIXED | {"salt": ["NaCl", "KCl"]}, ["cycles"], ["acid + 2*base <= 80"], ["salt"])
    ).space
    close(space.bounds, torch.tensor([[0.0, -0.5, -1 / 9, 0.0], [1.2, 1.5, 6 / 9, 2.0]], dtype=torch.float64))
    assert space.integer == {2: 7}
    assert {column: codes.tolist() for column, codes in space.categorical.items()} == {3: [0.0, 2.0]}
    assert space.shared == (3,)
    ((indices, coefficients, bound),) = space.inequalities
    assert indices.tolist() == [0, 1]
    assert coefficients.tolist() == [-50.0, -40.0]
    assert bound == -60.0


def test_fixed_columns_and_all_labels():
    space = units_of(mixed(), Box({"acid": 25, "base": (0, 40), "cycles": 4, "salt": "none"})).space
    assert space.continuous.tolist() == [False, True, False, False]
    assert space.bounds[0].tolist() == [0.5, -0.5, pytest.approx(1 / 9), 3.0]
    assert not space.categorical
    assert units_of(mixed(), Box(MIXED)).space.categorical[3].tolist() == [0.0, 1.0, 2.0, 3.0]


def test_numbers_may_stand_for_labels_of_numbers():
    encoder = Encoder((CategoricalColumn("plate", ("1", "2", "3.5")),))
    assert units_of(encoder, Box({"plate": [1, 3.5]})).space.categorical[0].tolist() == [0.0, 2.0]
    assert units_of(encoder, Box({"plate": 2.0})).space.bounds.tolist() == [[1.0], [1.0]]


def test_batches_in_own_units_meet_everything_exactly():
    texts = ["acid + 0.3*base <= 41.7", "acid - base >= 0.1"]
    settings = units_of(mixed(), Box(MIXED, ["cycles"], texts, ["cycles"]))
    generator = torch.Generator().manual_seed(0)
    X = settings.space.settle(settings.space.sample(200, generator) + 0.3)
    frame = settings.frame(X)
    assert (frame["acid"] + 0.3 * frame["base"] <= 41.7 + 1e-9).all()
    assert (frame["acid"] - frame["base"] >= 0.1 - 1e-9).all()
    assert frame["acid"].between(0, 60).all()
    assert frame["base"].between(0, 40).all()
    assert (frame["cycles"] == frame["cycles"].round()).all()
    assert frame["cycles"].between(2, 9).all()
    assert frame["cycles"].nunique() == 1
    assert set(frame["salt"]) <= {"KCl", "MgCl2", "NaCl", "none"}
    close(torch.tensor(frame["acid"].to_numpy()) / 50, X[:, 0], atol=1e-9)


def test_an_equality_holds_in_own_units_after_rounding():
    encoder = Encoder(tuple(ContinuousColumn(name, 0.07, 0.9) for name in "abc"))
    box = Box({"a": (0, 1), "b": (0, 0.6), "c": (0.1, 1)}, (), ["a + b + c == 1"])
    settings = units_of(encoder, box)
    frame = settings.frame(settings.space.sample(300, torch.Generator().manual_seed(0)))
    assert (abs(frame["a"] + frame["b"] + frame["c"] - 1) <= 4e-16).all()
    for name, (low, high) in settings.ranges.items():
        assert frame[name].between(low, high).all()
        assert (abs(frame[name] - frame[name].round(10)) < 1e-15).mean() > 0.99
    both = units_of(encoder, Box(box.bounds, (), ["a + b + c <= 1", "2 <= 2*a + 2*b + 2*c"]))
    assert both.record()["constraints"] == ["a + b + c <= 1", "2 <= 2*a + 2*b + 2*c"]
    assert both.space.polytope.equal.tolist() == [True]
    X = settings.space.sample(50, torch.Generator().manual_seed(1))
    pd.testing.assert_frame_equal(settings.frame(X), both.frame(X))


def test_an_equality_with_whole_numbers_and_a_shared_column():
    box = Box(MIXED, ["cycles"], ["acid + 0.3*base + 2*cycles = 41.7"], ["acid"])
    settings = units_of(mixed(), box)
    space = settings.space
    like = space.sample(1, torch.Generator().manual_seed(0))[0]
    frame = settings.frame(space.settle(space.sample(40, torch.Generator().manual_seed(0), like)))
    assert (abs(frame["acid"] + 0.3 * frame["base"] + 2 * frame["cycles"] - 41.7) < 1e-13).all()
    assert frame["acid"].nunique() == 1
    assert frame["cycles"].nunique() > 1


def test_fixed_columns_that_meet_a_constraint_exactly_are_taken():
    random = np.random.default_rng(0)
    for draw in range(600):
        values, factors = random.integers(0, 2000, 3) / 1000.0, random.integers(1, 30, 3) / 10.0
        total = round(float(values @ factors), 6)
        ends = np.sort(random.random((3, 2)) * 10.0 ** random.integers(-2, 4, (3, 1)), axis=1)
        columns = [ContinuousColumn(name, *pair) for name, pair in zip("abc", ends.tolist(), strict=True)]
        encoder = Encoder((*columns, ContinuousColumn("free", 0.0, 1.0)))
        text = " + ".join(f"{factor}*{name}" for factor, name in zip(factors, "abc", strict=True))
        bounds = dict(zip("abc", values.tolist(), strict=True)) | {"free": (0, 1)}
        settings = units_of(encoder, Box(bounds, (), [f"{text} {('<=', '>=', '==')[draw % 3]} {total}"]))
        assert settings.space.plain
        with pytest.raises(InputError, match="no point within the bounds"):
            units_of(encoder, Box(bounds, (), [f"{text} >= {total + 1e-3}"]))


def test_no_dust_is_left():
    settings = units_of(box(), Box({"temp": (0.1, 0.7), "pH": 6.1}))
    X = settings.space.own(torch.tensor([[0.0, 0.0], [1 / 3, 0.0], [0.5, 0.0], [1.0, 0.0]], dtype=torch.float64))
    frame = settings.frame(X)
    assert frame["temp"].tolist() == [0.1, 0.3, 0.4, 0.7]
    assert frame["pH"].tolist() == [6.1] * 4


def test_the_record_is_plain():
    settings = units_of(mixed(), Box(MIXED | {"acid": 3}, ["cycles"], ["base <= 2*acid"], ["salt"]))
    record = settings.record()
    assert json.loads(json.dumps(record)) == {
        "bounds": {"acid": 3.0, "base": [0.0, 40.0], "cycles": [2.0, 9.0], "salt": ["KCl", "MgCl2", "NaCl", "none"]},
        "integer": ["cycles"],
        "constraints": ["base <= 2*acid"],
        "shared": ["salt"],
    }
    assert units_of(box(), Box([(0, 1), (0, 1)])).record() == {"bounds": {"temp": [0.0, 1.0], "pH": [0.0, 1.0]}}


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ([(10, 60)], "1 pairs for 2 columns"),
        ({"temp": (10, 60)}, "'pH' has no pair"),
        ({"temp": (10, 60), "ph": (6, 8)}, "'ph' is no feature (did you mean 'pH'?)"),
        ([(10, 60), (8, 8)], "'pH' has (8.0, 8.0); the low end"),
        ([(60, 10), (6, 8)], "'temp' has (60.0, 10.0); the low end"),
        ([(10, float("inf")), (6, 8)], "'temp' has (10.0, inf); both ends must be finite"),
        ([(10, float("nan")), (6, 8)], "'temp'"),
        ({"temp": float("nan"), "pH": (6, 8)}, "both ends must be finite"),
        ([(10, 60, 70), (6, 8)], "'temp' has (10, 60, 70); give a pair"),
        ([("low", 60), (6, 8)], "'temp'"),
        ({"temp": "hot", "pH": (6, 8)}, "'temp' has 'hot'; give a pair"),
    ],
)
def test_bounds_that_are_no_box(own, said):
    with pytest.raises(InputError) as caught:
        units_of(box(), Box(own))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"integer": ["cycle"]}, "integer: 'cycle' is no feature (did you mean 'cycles'?)"),
        ({"integer": ["salt"]}, "integer: column 'salt' is categorical"),
        ({"bounds": MIXED | {"cycles": (1.2, 1.8)}, "integer": ["cycles"]}, "no whole number between 1.2 and 1.8"),
        ({"bounds": MIXED | {"cycles": 2.5}, "integer": ["cycles"]}, "no whole number between 2.5 and 2.5"),
        ({"bounds": MIXED | {"cycles": (0, 1e9)}, "integer": ["cycles"]}, "more than 1,000,000 whole numbers"),
        ({"shared": ["Salt"]}, "shared: 'Salt' is no feature (did you mean 'salt'?)"),
        ({"constraints": ["acid + bass <= 3"]}, "names 'bass', no feature (did you mean 'base'?)"),
        ({"constraints": ["acid + salt <= 3"]}, "names 'salt', which is categorical"),
        ({"constraints": ["acid + base >= 101"]}, "no point within the bounds satisfies 'acid + base >= 101'"),
        ({"constraints": ["acid - base >= 50", "base >= 20"]}, "no point within the bounds meets them all"),
        ({"constraints": ["2*cycles >= 4.5", "2*cycles <= 5.5"], "integer": ["cycles"]}, "meets them all"),
        ({"bounds": MIXED | {"salt": ["NaCl", "KBr"]}}, "'salt' has the label 'KBr', which was not measured"),
        ({"bounds": MIXED | {"salt": []}}, "'salt' has no label"),
    ],
)
def test_what_is_refused(more, said):
    with pytest.raises(InputError) as caught:
        units_of(mixed(), Box(**({"bounds": MIXED} | more)))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_box_needs_continuous_or_categorical_columns():
    frame = pd.DataFrame({"variant": ["VDGV", "VDGA"], "y": [1.0, 2.0]})
    encoder = Encoder.from_table(read_table(frame, "y", features={"variant": "protein"}))
    with pytest.raises(InputError, match="'variant' is protein, but a box needs continuous or categorical columns"):
        units_of(encoder, Box({}))
