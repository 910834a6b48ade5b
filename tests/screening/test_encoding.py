import json

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from beebo_scale.errors import InputError
from beebo_scale.screening import CategoricalColumn, ContinuousColumn, Encoder, SequenceColumn, read_library, read_table

KINDS = {"temp": "continuous", "base": "categorical", "variant": "protein", "primer": "dna"}


def frame():
    return pd.DataFrame(
        {
            "temp": [20.0, 30.0, 25.0],
            "base": ["None", "NA", "K2CO3"],
            "variant": ["VDGV", "ADGY", "CDGV"],
            "primer": ["AC", "GT", "TT"],
            "y": [1.0, 2.0, 3.0],
        }
    )


def measured():
    return read_table(frame(), "y", features=KINDS)


def box():
    return Encoder((ContinuousColumn("temp", 20.0, 40.0), ContinuousColumn("pH", 7.0, 7.0)))


def test_columns_are_learned_from_the_table():
    encoder = Encoder.from_table(measured())
    assert encoder.columns == (
        ContinuousColumn("temp", 20.0, 30.0),
        CategoricalColumn("base", ("K2CO3", "NA", "None")),
        SequenceColumn("variant", "protein", 4),
        SequenceColumn("primer", "dna", 2),
    )
    assert encoder.kinds == KINDS
    assert encoder.width == 8
    assert encoder.slices() == {
        "temp": slice(0, 1),
        "base": slice(1, 2),
        "variant": slice(2, 6),
        "primer": slice(6, 8),
    }


def test_codes():
    X = Encoder.from_table(measured()).encode(measured())
    assert X.dtype == torch.float64
    assert X.device.type == "cpu"
    assert X.tolist() == [
        [0.0, 2, 17, 2, 5, 17, 0, 1],
        [1.0, 1, 0, 2, 5, 19, 2, 3],
        [0.5, 0, 1, 2, 5, 17, 3, 3],
    ]


def test_the_order_of_rows_does_not_change_the_encoder():
    table = measured()
    assert Encoder.from_table(table) == Encoder.from_table(table.take(np.array([2, 0, 1])))


def test_decode_is_the_inverse():
    encoder = Encoder.from_table(measured())
    X = encoder.encode(measured())
    pd.testing.assert_frame_equal(encoder.decode(X), measured().frame, check_dtype=False)
    near = X.clone().requires_grad_() + torch.tensor([0.0] + [0.4] * 7)
    pd.testing.assert_frame_equal(encoder.decode(near), measured().frame, check_dtype=False)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20))
@settings(max_examples=50, deadline=None)
def test_continuous_round_trip(values):
    table = read_library(pd.DataFrame({"a": values}), {"a": "continuous"})
    encoder = Encoder.from_table(table)
    X = encoder.encode(table)
    assert X.min() >= 0
    assert X.max() <= 1
    np.testing.assert_allclose(encoder.decode(X)["a"], values, rtol=1e-12, atol=1e-12 * np.abs(values).max())


@pytest.mark.parametrize("u", [1.0, 1e-6, 1e6, -1e-6])
def test_a_constant_column_is_scaled_by_its_candidates_or_its_size(u):
    kinds = {"c": "continuous"}
    encoder = Encoder.from_table(read_table(pd.DataFrame({"c": [2 * u] * 3, "y": [0, 1, 2]}), "y", features=kinds))
    library = read_library(pd.DataFrame({"c": [2 * u, 5 * u, u]}), kinds)
    np.testing.assert_allclose(encoder.encode(library)[:, 0], np.array([0.0, 1.5, -0.5]) * np.sign(u))
    assert "own size" in encoder.constant["c"].note
    wide = encoder.reaching({"c": (min(u, 5 * u), max(u, 5 * u))}, "the library")
    np.testing.assert_allclose(wide.encode(library)[:, 0], np.array([0.0, 0.75, -0.25]) * np.sign(u))
    assert "the range of the library" in wide.constant["c"].note
    assert Encoder.from_dict(json.loads(json.dumps(wide.to_dict()))) == wide
    np.testing.assert_allclose(wide.decode(wide.encode(library))["c"], library.frame["c"], rtol=1e-15)
    assert encoder.reaching({"c": (2 * u, 2 * u)}, "the library") == encoder  # of no use


def test_dust_is_no_range():
    kinds = {"c": "continuous"}
    cells = [0.3, 0.30000000000000004, float(np.float32(0.3))]
    encoder = Encoder.from_table(read_table(pd.DataFrame({"c": cells, "y": [0, 1, 2]}), "y", features=kinds))
    library = read_library(pd.DataFrame({"c": [*cells, 0.6]}), kinds)
    np.testing.assert_allclose(encoder.encode(library)[:, 0], [0.0, 0.0, 0.0, 1.0], rtol=1e-6)
    zero = Encoder.from_table(read_table(pd.DataFrame({"c": [0.0, 0.0], "y": [0, 1]}), "y", features=kinds))
    assert zero.encode(read_library(pd.DataFrame({"c": [0.0, 0.5]}), kinds)).tolist() == [[0.0], [0.5]]


def test_a_constant_column_of_an_earlier_version_keeps_its_unit():
    old = {"columns": [{"name": "c", "low": 7.0, "high": 7.0, "kind": "continuous"}]}
    library = read_library(pd.DataFrame({"c": [7.0, 8.5]}), {"c": "continuous"})
    assert Encoder.from_dict(old).encode(library).tolist() == [[0.0], [1.5]]


def test_dict_survives_json():
    encoder = Encoder.from_table(measured())
    again = Encoder.from_dict(json.loads(json.dumps(encoder.to_dict(), allow_nan=False)))
    assert again == encoder
    assert torch.equal(again.encode(measured()), encoder.encode(measured()))
    with pytest.raises(InputError, match="unknown kind 'spectrum'"):
        Encoder.from_dict({"columns": [{"name": "s", "kind": "spectrum"}]})


def test_new_levels_have_lasting_codes_of_their_own():
    encoder = Encoder((CategoricalColumn("base", ("a", "b")),))

    def codes(*levels):
        table = read_library(pd.DataFrame({"base": levels}), {"base": "categorical"})
        return encoder.encode(table)[:, 0].tolist()

    first = codes("x", "a", "y", "x")
    assert first[1] == 0
    assert first[0] == first[3] != first[2]
    assert min(first[0], first[2]) >= 2
    assert max(first) < 2**53
    assert codes("y", "b", "x") == [first[2], 1, first[0]]
    assert codes("x")[0] == 885_519_557_734  # the same in every process and version
    with pytest.raises(ValueError, match="base"):
        encoder.decode(torch.tensor([[first[0]]], dtype=torch.float64))


def test_decode_refuses_what_is_no_code():
    encoder = Encoder.from_table(measured())
    X = encoder.encode(measured())
    for cell in (-1.0, 20.0, float("nan")):
        bad = X.clone()
        bad[0, 2] = cell
        with pytest.raises(ValueError, match="variant"):
            encoder.decode(bad)
    with pytest.raises(ValueError, match="n x 8"):
        encoder.decode(X[:, :5])


def test_another_length_names_both():
    encoder = Encoder.from_table(measured())
    library = read_library(frame().assign(variant="VDG"), KINDS)
    with pytest.raises(InputError, match=r"table: column 'variant' .* 4 letters, but has one of 3 in rows 1, 2, 3"):
        encoder.encode(library)


def test_missing_feature_and_other_kind():
    encoder = Encoder.from_table(measured())
    library = read_library(frame(), {name: kind for name, kind in KINDS.items() if name != "temp"})
    with pytest.raises(InputError, match="'temp' is no feature here, but was continuous"):
        encoder.encode(library)
    library = read_library(frame(), {**KINDS, "variant": "categorical"})
    with pytest.raises(InputError, match="'variant' is categorical here, but was protein"):
        encoder.encode(library)


def test_a_large_protein_library_is_encoded():
    letters = np.array(list("ACDEFGHIKLMNPQRSTVWY"))
    places = np.random.default_rng(0).integers(0, 20, (20_000, 4))
    library = read_library(
        pd.DataFrame({"variant": ["".join(row) for row in letters[places].tolist()]}), {"variant": "protein"}
    )
    encoder = Encoder.from_table(library)
    X = encoder.encode(library)
    assert np.array_equal(X.numpy(), places)
