import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beebo_scale.screening.files.numerals import numbers
from beebo_scale.screening.files.quantities import advice_on

COLUMNS = st.lists(st.decimals(-(10**9), 10**9, places=2), min_size=1, max_size=20)
STYLES = {
    "plain": "{:.2f}".format,
    "decimal comma": lambda x: f"{x:.2f}".replace(".", ","),
    "thousands": "{:,.2f}".format,
    "minus": lambda x: f" {x:.2f} ".replace("-", "\u2212"),
    "power": "{:.12E}".format,
}


@pytest.mark.slow
@pytest.mark.parametrize("style", STYLES)
@given(column=COLUMNS)
def test_a_column_reads_the_same_in_every_style(style, column):
    values = [float(x) for x in column]
    found = numbers(pd.Series([STYLES[style](x) for x in values]))
    assert not found.bad.any()
    np.testing.assert_allclose(found.values, values, rtol=1e-12)


@given(st.lists(st.sampled_from(["1,234", "12", "1.5", "0,5", "1,234,567", "x", "", "-"]), min_size=1))
def test_a_number_with_a_comma_is_never_read_in_two_ways(cells):
    """1,234 is 1234 only beside what must be thousands, and 1.234 only beside what must be decimals."""
    found = numbers(pd.Series(cells))
    read = {float(x) for cell, x, b in zip(cells, found.values, found.bad, strict=True) if cell == "1,234" and not b}
    assert len(read) <= 1
    if read == {1234.0}:
        assert "1,234,567" in cells
        assert "0,5" not in cells
    if read == {1.234}:
        assert "0,5" in cells
        assert "1,234,567" not in cells


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        *(("12 nM", "unit"), ("5%", "percent"), ("3.5 mg/mL", "unit"), ("<0.5", "limit"), ("≥ 100 µM", "limit")),
        *(("1,5", "comma"), ("1.234,5", "comma")),
    ],
)
def test_hints(cell, words):
    assert words in str(advice_on(cell))


@pytest.mark.parametrize("cell", ["DMF", "2-MeTHF", "1,4-dioxane", "A01", "", "12"])
def test_no_hints(cell):
    assert advice_on(cell) is None
