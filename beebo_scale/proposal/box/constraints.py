"""Linear constraints as people write them: 'acid + 0.5*base <= 80', 'inlet >= outlet', 'a + b + c == 100'."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...errors import InputError
from ...screening.files.opening import did_you_mean

NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
WORD = r"[^\W\d]\w*"
SAME = 1e-12  # of a number: rounding
COMPARISON = re.compile(r"(<=|>=|==|=<|=>|!=|<|>|=)")


@dataclass(frozen=True)
class LinearConstraint:
    """sum_i coefficients[i] x_i >= bound, or = bound, in the columns' own units.

    Attributes:
        text: as the user wrote it.
        coefficients: column -> its factor, never zero.
        bound: right-hand side.
        equal: whether it holds with equality.
    """

    text: str
    coefficients: Mapping[str, float]
    bound: float
    equal: bool = False

    def opposite(self, other: LinearConstraint) -> bool:
        """Whether two inequalities are an equality together."""
        if self.coefficients.keys() != other.coefficients.keys():
            return False
        ratios = [-other.coefficients[name] / factor for name, factor in self.coefficients.items()]
        size = SAME * max(map(abs, ratios))
        if ratios[0] <= 0.0 or max(ratios) - min(ratios) > size:
            return False
        return abs(ratios[0] * self.bound + other.bound) <= SAME * max(1.0, abs(other.bound))


def parse_constraints(texts: Sequence[str], names: Sequence[str]) -> tuple[LinearConstraint, ...]:
    """Constraints as in `parse_linear`; each of two that are opposite inequalities is an equality."""
    limits = [parse_linear(text, names) for text in texts]
    return tuple(replace(limit, equal=limit.equal or any(map(limit.opposite, limits))) for limit in limits)


def parse_linear(text: str, names: Sequence[str]) -> LinearConstraint:
    """One inequality or equality between two sums of numbers, columns and numbers times columns.

    Args:
        text: such as '2*acid - base/3 <= 5'. A name with odd characters may stand in `backticks`.
        names: the columns it may name.

    Raises:
        InputError: it is no comparison, not linear, or names something else than a column.
    """
    if not isinstance(text, str):
        raise InputError(f"constraints: {text!r} is no text; write such as 'acid + 0.5*base <= 80'")
    parts = COMPARISON.split(text)
    if len(parts) != 3:
        raise _wrong(text, "is not one comparison; write such as 'acid + 0.5*base <= 80', one text for each")
    left, comparison, right = parts
    equal = comparison in ("=", "==")
    if comparison not in ("<=", ">=") and not equal:
        raise _wrong(text, f"compares by {comparison!r}; write <=, >= or ==")
    sign = -1.0 if comparison == "<=" else 1.0
    coefficients: dict[str, float] = {}
    bound = 0.0
    for side, terms in ((sign, _terms(left, text, names)), (-sign, _terms(right, text, names))):
        for factor, name in terms:
            if name is None:
                bound -= side * factor
            else:
                coefficients[name] = coefficients.get(name, 0.0) + side * factor
    coefficients = {name: factor for name, factor in coefficients.items() if factor != 0.0}
    if not coefficients:
        raise _wrong(text, f"leaves no column; the columns are {list(names)}")
    if equal and len(coefficients) == 1:
        raise _wrong(text, f"compares by {comparison!r}; for a fixed value, give it as the bounds")
    return LinearConstraint(text, coefficients, bound + 0.0, equal)


def _terms(side: str, text: str, names: Sequence[str]) -> list[tuple[float, str | None]]:
    """The terms of a sum: each a factor and a column, or None for a plain number."""
    tokens = _tokens(side, text, names)
    if not tokens:
        raise _wrong(text, "has an empty side")
    terms = [_term(tokens, text)]
    while tokens:
        if tokens[0] not in ("+", "-"):
            raise _wrong(text, "lacks an operator between two terms; write 2*acid, not 2 acid")
        terms.append(_term(tokens, text))
    return terms


def _term(tokens: list[str | float], text: str) -> tuple[float, str | None]:
    """Take one term off the tokens: signs, then numbers and at most one column with * and / between them."""
    factor, name, operator = 1.0, None, "*"
    while tokens and tokens[0] in ("+", "-"):
        factor = -factor if tokens.pop(0) == "-" else factor
    while True:
        token = tokens.pop(0) if tokens else "+"
        if isinstance(token, float):
            if operator == "/" and token == 0.0:
                raise _wrong(text, "divides by zero")
            factor = factor / token if operator == "/" else factor * token
        elif token in ("+", "-", "*", "/"):
            raise _wrong(text, "ends where a number or a column should stand")
        elif operator == "/" or name is not None:
            raise _wrong(text, "is not linear: columns may only be multiplied by numbers")
        else:
            name = token[1:]
        if not tokens or tokens[0] not in ("*", "/"):
            return factor, name
        operator = str(tokens.pop(0))


def _tokens(side: str, text: str, names: Sequence[str]) -> list[str | float]:
    """Numbers, '+', '-', '*', '/' and columns; a column has a quotation mark in front."""
    known = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    pattern = re.compile(rf"\s*(?:`([^`]*)`|(?<!\w)({known})(?!\w)|({NUMBER})|([-+*/])|({WORD}|\S))")
    tokens: list[str | float] = []
    place = 0
    side = side.rstrip()
    while place < len(side):
        found = pattern.match(side, place)
        assert found is not None  # the last alternative takes anything
        quoted, name, number, operator, other = found.groups()
        name = name if quoted is None else quoted
        if other is not None or (name is not None and name not in names):
            raise _unknown(text, name if other is None else other, names)
        tokens.append(float(number) if number else operator or f"'{name}")
        place = found.end()
    return tokens


def _unknown(text: str, word: str, names: Sequence[str]) -> InputError:
    if word in "()[]{}":
        return _wrong(text, "has brackets; multiply them out")
    if re.fullmatch(WORD, word):
        return _wrong(text, f"names {word!r}, no feature{did_you_mean(word, names)}; the features are {list(names)}")
    return _wrong(text, f"has {word!r}; a sum of columns times numbers is understood, names with such signs in `...`")


def _wrong(text: str, problem: str) -> InputError:
    return InputError(f"constraints: {text!r} {problem}")
