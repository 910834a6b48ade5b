"""Tests of `beebo_scale.screening.same`."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beebo_scale.screening import Encoder, read_table
from beebo_scale.screening.packing import Packing, pack
from beebo_scale.screening.same import SameNumbers, SameRows, as_bytes, id_texts, number_columns, told_unknown
from tests.helpers import LAWS

NUMBERS = st.lists(st.floats(-1e6, 1e6).map(lambda x: round(x, 3)), min_size=2, max_size=20, unique=True)


def nine(x):
    return np.array([float(f"{value:.9g}") for value in x])


WRITTEN = {
    "float32": lambda x: x.astype(np.float32).astype(np.float64),
    "nine digits": nine,
    "dust": lambda x: np.nextafter(x, np.inf),
    "sums": lambda x: (x * 3 + x * 7) / 10,
}


@pytest.mark.parametrize("way", WRITTEN)
@given(x=NUMBERS)
@LAWS
def test_a_number_is_one_with_itself_written_in_another_way(way, x):
    x = np.array(x)
    width = np.ptp(x)
    x = x[np.abs(x) < 100 * width]  # a narrow range far from zero is finer than float32
    x = x[np.append(True, np.diff(np.sort(x)) > 1e-5 * width)[np.argsort(np.argsort(x))]] if len(x) else x
    same = SameNumbers.of(np.append(x, [0.0, width]))
    np.testing.assert_array_equal(same.named(WRITTEN[way](x)), same.named(x))


@pytest.mark.parametrize(
    "numbers",
    [
        [1e-9, 2e-9, 1e-8, 1e-7, 1e-6, 1e-3, 1.0],  # concentrations over decades
        [1.7e9, 1.7e9 + 1, 1.7e9 + 2, 1.7e9 + 1000],  # seconds, whole
        [20240101.0, 20240102.0, 20240103.0],
        [0.3, 0.3001, 0.3002],
        [1000.001, 1000.002, 1000.003],
    ],
)
def test_different_numbers_stay_different(numbers):
    numbers = np.array(numbers)
    assert len(np.unique(SameNumbers.of(numbers).named(numbers))) == len(numbers)


def test_encoded_numbers_are_compared_in_their_own_unit():
    own = np.array([5.0, 5.5, 6.0, 7.0])
    low, scale = 5.0, 2.0
    same = SameNumbers.of((own - low) / scale, low, scale)
    written = (own.astype(np.float32).astype(np.float64) * (1 + 5e-8) - low) / scale
    np.testing.assert_array_equal(same.named(written), (own - low) / scale)


def test_ids_have_one_spelling():
    cells = pd.Series([" C1", "C1\u00a0", "182.0", 182, "182", "1.50", None], dtype=object)
    assert id_texts(cells).tolist() == ["C1", "C1", "182", "182", "182", "1.50", ""]
    assert id_texts(pd.Series([182.0, 7.0])).tolist() == ["182", "7"]
    assert id_texts(pd.Series([182, 7])).tolist() == ["182", "7"]


def test_unknown_ids_are_counted_and_near_ones_named():
    told = told_unknown("excluded", "row of lib.csv", ["c12", "c08", "C1", "x", "C2"], ["c12", "c08"], ["C12", "C08"])
    assert told == ("2 of 5 excluded ids are in no row of lib.csv: c12 (did you mean C12?), c08 (did you mean C08?)")


def test_packed_rows_and_rows_of_float64_are_spelled_alike():
    frame = pd.DataFrame({"x": [0.1, 0.2, 0.3, 0.1 + 0.2], "s": list("abaa"), "y": [1.0, 2, 3, 4]})
    table = read_table(frame, target="y")
    encoder = Encoder.from_table(table)
    packing = Packing.of(encoder)
    X, packed = encoder.encode(table), pack(encoder, table, np.arange(4))
    np.testing.assert_array_equal(packing.packed(X), packed)
    for rows, columns in ((packed, number_columns(encoder, packing)), (as_bytes(X.numpy()), number_columns(encoder))):
        spelled = SameRows.of(rows, columns).spelled(rows)
        assert (spelled[2] == spelled[3]).all()
        assert len(np.unique(spelled, axis=0)) == 3


def test_packing_of_encoded_rows_is_that_of_the_table():
    pytest.importorskip("rdkit")
    frame = pd.DataFrame(
        {"m": ["CCO", "c1ccccc1", "CCN"], "p": ["ACD", "AAA", "WYV"], "x": [-0.0, 1.5, 2], "y": [1.0, 2, 3]}
    )
    table = read_table(frame, target="y", features={"m": "smiles", "p": "protein", "x": "continuous"})
    encoder = Encoder.from_table(table)
    np.testing.assert_array_equal(Packing.of(encoder).packed(encoder.encode(table)), pack(encoder, table, np.arange(3)))
