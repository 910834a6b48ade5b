import json

import numpy as np
import pandas as pd
import pytest

import beebo_scale as bs
from beebo_scale.specs import Box, Choice

QUICK = bs.BoxSearch(restarts=1, steps=20, polish=0)
BOX = {"a": (0.0, 1e-3), "b": (-1e6, 2e6)}


def rising_screen(*more):
    """Random settings, and more of them given on the unit square."""
    u = np.concatenate([np.random.default_rng(0).uniform(size=(20, 2)), np.reshape(more, (-1, 2))])
    y = u.sum(axis=-1) + 0.01 * np.random.default_rng(1).standard_normal(len(u))
    return pd.DataFrame({"a": 1e-3 * u[:, 0], "b": 3e6 * u[:, 1] - 1e6, "y": y})


@pytest.fixture(scope="module")
def rising():
    """A surrogate of a target that rises to the corner a = 0.001, b = 2e6, in units far from one."""
    return bs.fit(bs.read_table(rising_screen(), "y"))


@pytest.fixture(scope="module")
def labels():
    """A surrogate of a target over two categorical columns, and the library of all their pairs."""
    library = pd.DataFrame([(x, z) for x in "abcd" for z in "uvw"], columns=["x", "z"])
    y = [3.0 * "abcd".index(x) + "uvw".index(z) for x, z in library.itertuples(index=False)]
    measured = library.assign(y=y).iloc[[0, 1, 4, 6, 8, 10]]
    return bs.fit(bs.read_table(measured, "y")), library.assign(id=[f"r{i}" for i in range(12)])


def settings(batch):
    return list(batch.frame[["a", "b"]].itertuples(index=False, name=None))


# --- a box -----------------------------------------------------------------------------------------------


def test_units_are_the_users_own(rising):
    batch = bs.propose(rising, 3, bounds=BOX, temperature=0.0, search=QUICK)
    assert list(batch.frame) == ["rank", "a", "b", "mean", "std", "noiseless_mean", "noiseless_std", "gain"]
    best = batch.frame.iloc[0]
    assert (best["a"], best["b"]) == (1e-3, 2e6)  # the corner itself, without a last bit more or less
    assert best["mean"] == pytest.approx(2.0, abs=0.1)
    mean, std = rising.predict(bs.read_library(batch.frame, rising.encoder.kinds))
    np.testing.assert_allclose(batch.frame["mean"], mean, rtol=1e-6)
    np.testing.assert_allclose(batch.frame["std"], std, rtol=1e-6)


@pytest.mark.slow
def test_a_box_by_name_and_by_order(rising):
    frame = bs.propose(rising, 2, bounds=BOX, search=QUICK).frame
    for same in (list(BOX.values()), dict(reversed(BOX.items())), np.array(list(BOX.values()))):
        again = bs.propose(rising, 2, bounds=same, search=QUICK)
        pd.testing.assert_frame_equal(again.frame, frame, check_exact=True)
        assert again.run["configuration"]["bounds"] == {"a": [0.0, 1e-3], "b": [-1e6, 2e6]}


@pytest.mark.parametrize(
    ("box", "near"),
    [({"a": (2e-4, 3e-4), "b": (0.1, 1e6 / 3)}, True), ({"a": (-0.01, 0.02), "b": (1e7, 2e7)}, False)],
)
def test_settings_stay_inside_any_box(rising, box, near):
    frame = bs.propose(rising, 6, bounds=box, temperature=5.0, search=QUICK).frame
    for name, (lo, hi) in box.items():
        assert frame[name].between(lo, hi).all()
        assert not near or frame[name].isin([lo, hi]).any()  # information lies at the ends, far away everywhere


@pytest.mark.parametrize("temperature", [0.0, 0.5])
def test_a_corner_is_proposed_once_unless_repeats_are_allowed(rising, temperature):
    batch = bs.propose(rising, 5, bounds=BOX, temperature=temperature, search=QUICK)
    assert len(set(settings(batch))) == 5
    if temperature == 0.0:
        again = bs.propose(rising, 5, bounds=BOX, temperature=0.0, search=QUICK, allow_repeats=True)
        assert settings(again) == [(1e-3, 2e6)] * 5
        assert batch.run["replaced_repeats"] == 4
        assert again.run["replaced_repeats"] == 0
        assert batch.run["acquisition_value"] < again.run["acquisition_value"]


def test_a_measured_setting_is_not_proposed_again():
    surrogate = bs.fit(bs.read_table(rising_screen([1.0, 1.0]), "y"))
    batch = bs.propose(surrogate, 1, bounds=BOX, temperature=0.0, search=QUICK)
    assert settings(batch) != [(1e-3, 2e6)]
    again = bs.propose(surrogate, 1, bounds=BOX, temperature=0.0, search=QUICK, allow_repeats=True)
    assert settings(again) == [(1e-3, 2e6)]


def test_minimising_a_box(rising):
    best = bs.propose(rising, 2, bounds=BOX, temperature=0.0, minimize=True, search=QUICK).frame.iloc[0]
    assert (best["a"], best["b"]) == (0.0, -1e6)


def test_gains_sum_to_the_acquisition_value(rising):
    batch = bs.propose(rising, 6, bounds=BOX, temperature=0.8, search=QUICK)
    assert (batch.frame["gain"].diff().iloc[1:] <= 1e-12).all()
    assert batch.frame["gain"].sum() == pytest.approx(batch.run["acquisition_value"], rel=1e-9)
    json.dumps(batch.run, allow_nan=False)


# --- a library -------------------------------------------------------------------------------------------


def test_library_batches_are_new_rows_best_first(labels):
    surrogate, library = labels
    batch = bs.propose(surrogate, 6, library, id="id")
    assert list(batch.frame) == ["rank", "id", "x", "z", "mean", "std", "noiseless_mean", "noiseless_std", "gain"]
    assert sorted(batch.frame["id"]) == sorted(f"r{i}" for i in (2, 3, 5, 7, 9, 11))
    assert batch.frame.iloc[0]["x"] == "d"
    assert (batch.frame["gain"].diff().iloc[1:] <= 1e-12).all()
    assert batch.run["configuration"]["library"] == "table"
    assert batch.run["inputs"] == {}


def test_sources_of_a_library_are_the_same(labels, tmp_path):
    surrogate, library = labels
    frame = bs.propose(surrogate, 3, library).frame
    table = bs.read_library(library, surrogate.encoder.kinds)
    library.to_csv(tmp_path / "library.csv", index=False)
    for source in (table, tmp_path / "library.csv", str(tmp_path / "library.csv")):
        pd.testing.assert_frame_equal(bs.propose(surrogate, 3, source).frame, frame, check_exact=True)


def test_a_level_that_was_never_measured_can_be_proposed(labels):
    surrogate, library = labels
    new = pd.DataFrame({"x": ["e", "e", "f"], "z": ["u", "v", "u"]})
    batch = bs.propose(surrogate, 2, pd.concat([library[["x", "z"]], new]), temperature=100.0)
    assert set(batch.frame["x"]) == {"e", "f"}  # what is least known, when information is all that counts
    assert bs.propose(surrogate, 9, pd.concat([library, new])).frame.shape[0] == 9


def test_repeated_rows_of_a_library_count_once(labels):
    surrogate, library = labels
    twice = pd.concat([library, library], ignore_index=True)
    batch = bs.propose(surrogate, 6, twice)
    assert not batch.frame.duplicated(["x", "z"]).any()
    assert batch.run["library"] == {"rows": 24, "measured_already": 12, "repeated": 6}
    again = bs.propose(surrogate, 24, twice, allow_repeats=True)
    assert (again.frame.groupby(["x", "z"]).size() == 2).all()


# --- what is refused -------------------------------------------------------------------------------------


def test_whole_numbers_of_any_type(labels):
    surrogate, library = labels
    assert len(bs.propose(surrogate, np.int64(2), library).frame) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"q": 0}, "q = 0"),
        ({"q": 2.0}, "q = 2.0 is not a whole number"),
        ({"q": True}, "q = True is not a whole number"),
        ({"q": 7}, "table: q = 7, but only 6 of its 12 rows"),
        ({"temperature": -1.0}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"seed": -1}, "seed = -1"),
        ({"bounds": [(0, 1), (0, 1)]}, "either a library or bounds"),
        ({"library": None}, "either a library or bounds"),
        ({"library": None, "bounds": [(0, 1), (0, 1)]}, "'x' has the label 0, which was not measured"),
        ({"library": pd.DataFrame({"x": ["a"]})}, "no feature column 'z'"),
    ],
)
def test_bad_requests(labels, arguments, words):
    surrogate, library = labels
    with pytest.raises(ValueError, match=words):
        bs.propose(surrogate, **({"q": 2, "library": library} | arguments))


@pytest.mark.parametrize("name", ["rank", "mean", "std", "noiseless_mean", "noiseless_std", "gain"])
def test_columns_with_the_names_of_a_batch(name):
    frame = pd.DataFrame({name: [1.0, 2.0, 3.0], "y": [1.0, 2.0, 4.0]})
    surrogate = bs.fit(bs.read_table(frame, "y"), iterations=1)
    for choice in ({"library": frame}, {"bounds": [(0.0, 1.0)]}):
        with pytest.raises(ValueError, match=f"column '{name}' has the name of a column that a batch adds; rename it"):
            bs.propose(surrogate, 1, **choice)


def test_a_request_is_checked_when_made():
    assert Choice(q=3).temperature == 0.5
    with pytest.raises(ValueError, match="q = -1"):
        Choice(q=-1)


# --- a box with conditions -------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_plate_of_whole_numbers_labels_and_one_temperature():
    u = np.random.default_rng(0).uniform(size=(40, 3))
    frame = pd.DataFrame({"acid": 50 * u[:, 0], "cycles": (10 * u[:, 1]).round(), "temp": 20 + 60 * u[:, 2]})
    frame["salt"] = np.resize(["KCl", "NaCl", "none"], 40)
    frame["y"] = frame["acid"] + frame["cycles"] - (frame["temp"] - 50).abs() + 20.0 * (frame["salt"] == "NaCl")
    surrogate = bs.fit(bs.read_table(frame, "y"))
    box = Box(
        {"acid": (0, 50), "cycles": (1, 9.5), "temp": (30, 70), "salt": ["NaCl", "none"]},
        integer=["cycles"],
        constraints=["acid + 2*cycles <= 40.5"],
        shared=["temp"],
    )
    batch = bs.propose(surrogate, 6, bounds=box, search=QUICK, temperature=0.2)
    found = batch.frame
    assert (found["acid"] + 2 * found["cycles"] <= 40.5 + 1e-9).all()
    assert found["acid"].between(0, 50).all()
    assert found["cycles"].isin(range(1, 10)).all()
    assert found["temp"].nunique() == 1
    assert abs(found["temp"].iloc[0] - 50) < 10
    assert set(found["salt"]) <= {"NaCl", "none"}
    assert (found["salt"] == "NaCl").any()
    assert not found.duplicated(["acid", "cycles", "salt"]).any()
    assert found["gain"].sum() == pytest.approx(batch.run["acquisition_value"], rel=1e-9)
    assert batch.run["configuration"]["constraints"] == ["acid + 2*cycles <= 40.5"]
    assert len(batch.run["box"]["restarts"]) == 1
    json.dumps(batch.run, allow_nan=False)
