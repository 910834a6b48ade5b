from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import beebo_scale as bs
from beebo_scale.errors import InputError
from beebo_scale.screening import Encoder
from beebo_scale.screening.files import delimited, parquet
from beebo_scale.specs import Columns
from beebo_scale.surrogates.data.observations import merge_replicates
from beebo_scale.training.splits import TEST, TRAIN, VALIDATION, Split
from beebo_scale.training.store import Screen, encode, find, load

N = 200


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def frame():
    g = np.random.default_rng(0)
    x = g.uniform(-2, 7, N).round(1)  # replicates
    y = np.sin(x) + 0.1 * g.standard_normal(N)
    y[::17] = np.nan
    letters = g.choice(list("AC"), (N, 2))
    return pd.DataFrame({"x": x, "v": ["".join(row) for row in letters], "c": g.choice(list("pqr"), N), "y": y})


KINDS = {"x": "continuous", "v": "protein", "c": "categorical"}


def screen(file, **changes):
    columns = {name: changes.pop(name) for name in [*changes] if name in vars(Columns())}
    columns = {"target": "y", "features": KINDS} | columns
    start = Screen(str(file), columns["target"], Columns(**columns), "auto", Split())
    return replace(start, **changes)


def stored(file, folder, **changes):
    encode(screen(file, **changes), folder)
    return load(screen(file, **changes), folder)


def test_the_store_is_the_table(folder):
    frame().to_csv("s.csv", index=False)
    store = stored("s.csv", folder)
    table = bs.read_table("s.csv", "y", features=KINDS)
    assert store.y.tolist() == table.y.tolist()
    train = store.members(TRAIN)
    own = table.take(train.numpy())
    assert store.encoder == Encoder.from_table(own)  # learned from the training rows alone
    assert torch.equal(store.packing.unpack(store.rows[:]), store.encoder.encode(table))
    y = torch.from_numpy(own.y)
    assert (store.scale.shift, store.scale.scale) == (float(y.mean()), float(y.std()))
    expected = merge_replicates(store.encoder.encode(own), store.scale.standardise(y))
    found = store.training()
    assert len(found) < len(train)
    assert torch.equal(found.X, expected.X)
    assert torch.equal(found.scatter, expected.scatter)
    assert sum(len(store.members(part)) for part in (TRAIN, VALIDATION, TEST)) == len(table)


@pytest.mark.slow
def test_pieces_of_any_size_give_the_same_store(folder, monkeypatch):
    data = pd.concat([frame()] * 5, ignore_index=True)
    data.loc[len(data) - 1, ["x", "c"]] = [99.0, "z"]  # the range and a level come late
    data.to_csv("s.csv", index=False)
    data.to_parquet("s.parquet", row_group_size=70)
    given = {"split": Split(validation=0.01, test=0.0, seed=2)}
    whole = stored("s.csv", folder, **given)
    monkeypatch.setattr(delimited, "BYTES_AT_ONCE", 1000)
    monkeypatch.setattr(parquet, "BATCH", 33)
    for name in ("s.csv", "s.parquet"):
        pieces = stored(name, folder / "pieces", **given)
        assert pieces.encoder == whole.encoder
        assert pieces.encoder.columns[0].high == 99.0
        assert "z" in pieces.encoder.columns[2].levels
        assert torch.equal(pieces.rows, whole.rows)
        assert pieces.identity == whole.identity


def test_a_relaunch_finds_the_rows_and_a_changed_file_does_not(folder):
    frame().to_csv("s.csv", index=False)
    first = stored("s.csv", folder)
    written = {path: path.stat().st_mtime_ns for path in folder.glob("*.rows")}
    assert stored("s.csv", folder).identity == first.identity
    assert {path: path.stat().st_mtime_ns for path in folder.glob("*.rows")} == written
    changed = frame()
    changed.loc[5, "y"] += 1
    changed.to_csv("s.csv", index=False)
    second = stored("s.csv", folder)
    assert second.identity != first.identity
    assert find(folder, first.identity).y.tolist() == first.y.tolist()
    assert find(folder, "nobody") is None


def test_known_noise_is_standardised(folder):
    frame().assign(var=0.04).to_csv("s.csv", index=False)
    store = stored("s.csv", folder, noise_variance="var")
    torch.testing.assert_close(store.noise, torch.full_like(store.y, 0.04 / store.scale.scale**2))
    assert store.scale.transform == "none"


def test_splits_by_group_column_and_scaffold(folder):
    data = frame().assign(plate=np.arange(N) // 20, part=["train", "train", "validation", "test"] * (N // 4))
    data["m"] = ["C1CC1" + "C" * (i % 9) if i % 2 else "c1ccccc1" + "N" * (i % 9 + 1) for i in range(N)]
    data.loc[::10, "m"] = "CCO"
    data.to_csv("s.csv", index=False)
    measured = data["y"].notna().to_numpy()
    by_plate = stored("s.csv", folder, split=Split("group", "plate", 0.2, 0.1)).part.numpy()
    plates = data["plate"].to_numpy()[measured]
    assert all(len(set(by_plate[plates == plate])) == 1 for plate in range(10))
    given = stored("s.csv", folder, split=Split("column", "part")).part.numpy()
    assert [("train", "validation", "test")[part] for part in given] == data["part"][measured].tolist()
    molecules = {"features": {"m": "smiles"}, "split": Split("scaffold", None, 0.2, 0.0)}
    parts = stored("s.csv", folder, **molecules).part.numpy()
    rings = data["m"][measured].str.contains("c1").to_numpy()
    assert len(set(parts[rings])) == 1
    assert "plate" not in stored("s.csv", folder, features=None, split=Split("group", "plate")).encoder.kinds


REFUSED = {
    "text target": ({"y": ["high"] * N}, {}, "column 'y' is text"),
    "no target column": ({}, {"target": "z"}, "no target column 'z'"),
    "one group": ({"g": "a"}, {"split": Split("group", "g")}, "all 188 rows are one of the groups of column 'g'"),
    "no such group": ({}, {"split": Split("group", "plate")}, "no split column 'plate'"),
    "a word in the split": (
        {"g": "a"},
        {"split": Split("column", "g")},
        "column 'g' holds 'a' in rows 2, 3, 4 and 185",
    ),
    "no molecules": ({}, {"split": Split("scaffold")}, "a split by scaffold needs a feature of kind smiles"),
    "bad molecule": (
        {"m": ["CC"] * 150 + ["C("] * 50},
        {"features": {"m": "smiles"}},
        r"'m' holds what is no .* 151, 152",
    ),
    "constant training rows": (
        {"y": [0.0] * 100 + [1.0] * 100, "g": ["train"] * 100 + ["validation"] * 100},
        {"split": Split("column", "g")},
        "column 'y' is 0 in every training row",
    ),
    "empty feature": ({"x": [1.0] * 199 + [None]}, {}, "column 'x' is empty in row 200"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_and_leaves_nothing(case, folder):
    columns, changes, words = REFUSED[case]
    frame().assign(**columns).to_csv("s.csv", index=False)
    with pytest.raises(InputError, match=words):
        encode(screen("s.csv", **changes), folder / "cache")
    assert not list(folder.glob("cache/*"))
