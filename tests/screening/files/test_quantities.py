"""Numbers with something around them: read as the same number, or refused; never a label, never another number."""

from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beebo_scale.errors import InputError
from beebo_scale.screening.column_uses import infer
from beebo_scale.screening.files.numerals import numbers
from beebo_scale.screening.files.quantities import Form, parts_of, spelled
from beebo_scale.screening.places import Place

MINUS = "\u2212"


def inferred(cells, typed=False):
    values = pd.Series(cells, dtype=object)
    return infer(values, typed, Place("x.csv", "a", np.arange(1, len(cells) + 1)))


def grouped(x, blank, comma=False):
    text = f"{x:,.3f}".replace(",", blank)
    return text.replace(".", ",") if comma else text


DECORATED = {
    "suffix": lambda x: f"{x!r} mol%",
    "suffix at once": lambda x: f"{x!r}mol%",
    "percent": lambda x: f"{x!r}%",
    "degrees": lambda x: f" {x!r} \u00b0C ",
    "money": lambda x: f"${x!r}",
    "money behind": lambda x: f"{x!r} \u20ac",
    "per volume": lambda x: f"{x!r} U/mL",
    "volume": lambda x: f"{x!r} cm3",
    "short": lambda x: f"{x!r} h",
    "one letter": lambda x: f"{x!r}M",
    "words": lambda x: f"{x!r} mg per well",
    "point": lambda x: f"{x!r} eq.",
    "power": lambda x: f"{x:.17e}".replace("e", " x 10^"),
    "high power": lambda x: f"{x:.17e} g".replace("e", "\u00b710^"),
    "deviation": lambda x: f"{x!r} \u00b1 0.2",
    "deviation in a unit": lambda x: f"{x!r} mg +/- 0.2 mg",
    "range": lambda x: f"{x!r}-{abs(x) + 1!r}",
    "wide range": lambda x: f"{x!r} \u2013 {abs(x) + 1!r} nM",
    "limit": lambda x: f">{x!r}",
    "about": lambda x: f"~ {x!r} nM",
    "open": lambda x: f"{x!r}+",
    "ratio": lambda x: f"{x!r}:1",
    "brackets": lambda x: f"{x!r} (0.3)",
    "negative": lambda x: f"({x!r})",
    "footnote": lambda x: f"{x!r}*",
    "minus": lambda x: f"{x!r} kJ".replace("-", MINUS),
    "thousands": lambda x: grouped(round(x, 3), "\u202f"),
    "no-break": lambda x: grouped(round(x, 3), "\u00a0", comma=True) + " kg",
    "Swiss": lambda x: grouped(round(x, 3), "'"),
    "name and decimals": lambda x: f"pH {x:.3f}",
}
NUMBERS = st.lists(
    st.one_of(st.integers(-3000, 3000).map(float), st.decimals(-(10**6), 10**6, places=3).map(float)),
    min_size=3,
    max_size=12,
    unique=True,
)


def expected(style, x):
    return round(x, 3) if style in ("thousands", "no-break", "Swiss") else x


def same_or_refused(cells, values):
    try:
        use = inferred(cells)
    except InputError:
        return "refused"
    assert use.use == "continuous", (cells, use)
    found = numbers(pd.Series(cells, dtype=object), None)
    assert not found.bad.any()
    assert found.values.tolist() == values
    return use.unit


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(style=st.sampled_from(list(DECORATED)), column=NUMBERS)
def test_a_decorated_number_is_the_same_number_or_refused(style, column):
    same_or_refused([DECORATED[style](x) for x in column], [expected(style, x) for x in column])


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([s for s in DECORATED if s != "no-break"]), st.floats(-1e9, 1e9)), min_size=2)
)
def test_decorations_may_be_mixed(cells):
    """Numbers of several forms are the same numbers if they are one column, or refused."""
    cells = [(style, round(x, 3)) for style, x in cells]
    same_or_refused([DECORATED[s](x) for s, x in cells], [expected(s, x) for s, x in cells])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(st.sampled_from("0123456789.,-+±%$ €'eEx^()/:#AamµLg<>\u00a0\u202f"), max_size=9), min_size=1))
def test_whatever_stands_in_cells_is_read_or_refused(cells):
    with suppress(InputError):
        if inferred(cells).use == "continuous":
            assert not numbers(pd.Series(cells, dtype=object), None).bad.any()


UNITS = [("suffix", "mol%"), ("suffix at once", "mol%"), ("percent", "%"), ("degrees", "°C"), ("money", "$")]
UNITS += [("money behind", "€"), ("per volume", "U/mL"), ("volume", "cm3"), ("short", "h"), ("point", "eq")]
UNITS += [("words", "mg per well"), ("power", ""), ("high power", "g"), ("minus", "kJ"), ("no-break", "kg")]
UNITS += [("Swiss", ""), ("thousands", "")]


@pytest.mark.parametrize(("style", "unit"), UNITS)
def test_these_are_read_and_the_unit_is_said(style, unit):
    values = [1100.5, -2.25, 30.0, 4567.125]
    use = inferred([DECORATED[style](x) for x in values])
    assert (use.use, use.unit) == ("continuous", unit)
    assert use.why == ("holds numbers" if not unit else f"holds numbers in {unit!r}")
    assert numbers(pd.Series([DECORATED[style](x) for x in values]), None).values.tolist() == values


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["5 ± 0.2", "6 ± 0.1", "7 ± 1"], "'5 ± 0.2' (in rows 1, 2, 3); that is no single number"),
        (["20-25", "25-30", "30-35"], "no single number"),
        ([">100", "12", "13"], "'>100' (in row 1); a limit is no measured value"),
        (["5 mg", "10 mg", "1 g"], "'1 g' (in row 3); the column is in 'mg'"),
        (["500mg", "1g", "2kg"], "write all cells in one unit"),
        (["1 mol%", "2 mol%", "3"], "'3' (in row 3); the column is in 'mol%'"),
        (["1 mol%", "2 mol%", "none given"], "'none given'"),
        (["5A", "6A", "7A"], "numbers in 'A' or names"),
        (["30-min", "60-min", "90-min"], "numbers or names"),
        (["pH 7.4", "pH 7.5", "pH 8.0"], "write the number alone"),
        (["(5)", "(6)", "7"], "write the number alone"),
        (["1:2", "2:1", "1:1"], "no single number"),
        (["1,100 U", "2,200 U"], "comma"),
    ],
)
def test_these_are_refused_with_the_cell_and_a_way_out(cells, words):
    with pytest.raises(InputError) as caught:
        inferred(cells)
    assert words in str(caught.value)
    assert "declare 'a' as" in str(caught.value)
    assert "\n" not in str(caught.value)


LABELS = [
    ["L1", "L2", "L10"],
    ["P-3", "P-4"],
    ["Ligand 2", "Ligand 3"],
    ["2-MeTHF", "THF", "1,4-dioxane"],
    ["1-butanol", "2-butanol", "1-propanol", "2-propanol"],
    ["PEG400", "PEG600"],
    ["C12", "C14", "C16"],
    ["4CzIPN", "3DPAFIPN", "Ru(bpy)3"],
    ["1a", "1b", "2a", "2b", "3c"],
    ["1A", "1B", "2A", "2B"],
    ["68-12-2", "109-99-9", "75-05-8"],
    ["18-crown-6", "15-crown-5"],
    ["#1", "#2", "#3"],
    ["1.2.3", "1.2.4"],
    ["10 mM Tris", "20 mM HEPES", "PBS"],
    ["H2O", "D2O", "CO2"],
    ["pH 7", "pH 8"],
    ["2024-01-02", "2024-01-03"],
    ["N2", "Ar", "O2"],
    ["1-1", "1-2", "2-1", "2-2"],
    ["1ABC", "2XYZ", "4HHB", "6LUZ"],
    ["5'-GACTGACT-3'", "5'-GGCTGACT-3'"],
    ["4-(2-pyridyl)", "3,5-(CF3)2C6H3", "4-OMe", "4-CF3"],
    ["2,4,6-collidine", "2,6-lutidine", "2,2'-bipy"],
    ["A1", "B12", "H3"],
    ["96-well", "384-well"],
    ["high", "low", "5 mg"],
]


@pytest.mark.parametrize("cells", LABELS, ids=lambda cells: cells[0])
@pytest.mark.parametrize("typed", [False, True])
def test_labels_with_digits_stay_labels(cells, typed):
    assert inferred(cells * 3, typed).use == "categorical"


def test_text_with_a_unit_is_a_number_in_typed_files_too():
    assert inferred(["1 mol%", "2 mol%"], typed=True).unit == "mol%"
    assert inferred(["1", "2"], typed=True).use == "categorical"  # as the file says


@pytest.mark.parametrize(
    ("cell", "core", "power", "unit"),
    [
        ("1 x 10^5", "1", 5, ""),
        ("1.5\u00d710⁻³ M", "1.5", -3, "M"),
        ("10^5", "1", 5, ""),
        ("1e-5 mol/L", "1", -5, "mol/L"),
        ("-$5", "-5", 0, "$"),
        ("$-5", "-5", 0, "$"),
        ("5 mol %", "5", 0, "mol%"),
        ("5 µM", "5", 0, "μM"),
        ("1 100,5", "1100,5", 0, ""),
        ("5 g/100 mL", "5", 0, "g/100 mL"),
        ("5 cm-1", "5", 0, "cm-1"),
    ],
)
def test_parts(cell, core, power, unit):
    found = parts_of(cell)
    assert (found.core, found.power, found.unit) == (core, power, unit)
    assert found.form in (Form.NUMBER, Form.AMOUNT)


def test_one_unit_has_one_spelling():
    assert spelled("\u00b5M") == spelled("\u03bcM")
    assert spelled(" mg / mL ") == "mg/mL"
    assert spelled("\u2103") == spelled("\u00ba C") == "°C"
    assert spelled("mM") != spelled("MM")


def test_one_day_is_in_days():
    found = numbers(pd.Series(["1 day", "1 day", "2 days"]), None)
    assert (found.values.tolist(), found.unit) == ([1, 1, 2], "days")
    assert numbers(pd.Series(["1 m", "2 ms", "3 ms"]), None).bad.tolist() == [True, False, False]


def test_a_known_unit_takes_numbers_alone_and_no_other_unit():
    cells = pd.Series(["1 mol%", "2", "3 wt%", "4 mol %", None], dtype=object)
    found = numbers(cells, "mol%")
    np.testing.assert_array_equal(found.values, [1, 2, np.nan, 4, np.nan])
    assert found.bad.tolist() == [False, False, True, False, False]
    assert numbers(cells).bad.tolist() == [True, False, True, True, False]


def test_cells_of_a_workbook_are_numbers_and_texts():
    found = numbers(pd.Series([5, 2.5, None, "7 mg"], dtype=object), None)
    np.testing.assert_array_equal(found.values, [5, 2.5, np.nan, np.nan])
    assert found.bad.tolist() == [False, False, False, True]
