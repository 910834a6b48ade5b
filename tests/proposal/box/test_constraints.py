import pytest

from beebo_scale.errors import InputError
from beebo_scale.proposal.box.constraints import parse_constraints, parse_linear

NAMES = ["acid", "base", "base 2", "pH", "flow (ml/min)", "x"]


@pytest.mark.parametrize(
    ("text", "coefficients", "bound"),
    [
        ("acid + 0.5*base <= 80", {"acid": -1.0, "base": -0.5}, -80.0),
        ("acid >= base", {"acid": 1.0, "base": -1.0}, 0.0),
        ("2*acid-base/4 >= 3", {"acid": 2.0, "base": -0.25}, 3.0),
        ("1 + acid >= 1e2 - base*.5*2", {"acid": 1.0, "base": 1.0}, 99.0),
        ("-acid - -base <= +1.5E-3", {"acid": 1.0, "base": -1.0}, -1.5e-3),
        ("base 2 + base <= 7", {"base 2": -1.0, "base": -1.0}, -7.0),
        ("2*`flow (ml/min)` >= pH", {"flow (ml/min)": 2.0, "pH": -1.0}, 0.0),
        ("flow (ml/min) <= 3", {"flow (ml/min)": -1.0}, -3.0),
        ("acid + acid <= acid + 6/3", {"acid": -1.0}, -2.0),
        ("x*2/4 >= 0", {"x": 0.5}, 0.0),
    ],
)
def test_inequalities_are_read(text, coefficients, bound):
    linear = parse_linear(text, NAMES)
    assert linear.coefficients == coefficients
    assert linear.bound == bound


@pytest.mark.parametrize("text", ["acid + base + x == 1", "acid + base = 1 - x"])
def test_equalities_are_read(text):
    linear = parse_linear(text, NAMES)
    assert linear.coefficients == {"acid": 1.0, "base": 1.0, "x": 1.0}
    assert linear.bound == 1.0
    assert linear.equal


def test_two_opposite_inequalities_are_an_equality():
    texts = ["acid + 2*base <= 3", "x >= base", "6 <= 4*base + 2*acid", "acid + 2*base >= 1"]
    assert [limit.equal for limit in parse_constraints(texts, NAMES)] == [True, False, True, False]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("acid + foo <= 80", "names 'foo', no feature"),
        ("acid + Base <= 80", "did you mean 'base'?"),
        ("acid * base <= 80", "is not linear"),
        ("3 / acid <= 80", "is not linear"),
        ("acid / 0 <= 80", "divides by zero"),
        ("acid <= 80 <= base", "is not one comparison"),
        ("acid + base", "is not one comparison"),
        ("acid = 3", "compares by '='"),
        ("acid == 3", "give it as the bounds"),
        ("acid + base => 3", "compares by '=>'; write <=, >= or =="),
        ("acid + base != 3", "compares by '!='"),
        ("acid < 3", "compares by '<'"),
        ("2*(acid + base) <= 3", "has brackets"),
        ("acid^2 <= 3", "has '^'"),
        ("2 acid <= 3", "lacks an operator"),
        ("acid + <= 3", "ends where"),
        ("* acid <= 3", "ends where"),
        ("acid <= ", "has an empty side"),
        ("3 <= 4", "leaves no column"),
        ("acid <= acid + 1", "leaves no column"),
        ("`acids` <= 1", "names 'acids', no feature"),
        (3.0, "is no text"),
    ],
)
def test_what_is_no_inequality(text, said):
    with pytest.raises(InputError) as caught:
        parse_linear(text, NAMES)
    assert said in str(caught.value)
    assert str(caught.value).startswith(f"constraints: {text!r}")
    assert "\n" not in str(caught.value)
