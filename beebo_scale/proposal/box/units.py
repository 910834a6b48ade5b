"""A box in the users' own units, and the space that it is for the search."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError
from ...screening import Encoder
from ...screening.encoding import CategoricalColumn, ContinuousColumn
from ...screening.files.opening import did_you_mean
from ...specs.choice import Bounds, Box
from .constraints import LinearConstraint, parse_constraints
from .polytope import Inequality, solve_equalities
from .space import Space

if TYPE_CHECKING:
    import pandas as pd

WHOLE_NUMBERS = 1_000_000  # in the range of one column; beyond, steps of one are as good as none
DUST = 1e-9  # of a constraint's own unit
LEAST_STEPS = 1000  # numbers between two ends, as the settings that a box proposes are that far apart
TINY = 1e-300  # below it float64 loses digits
FAR = 1e100  # measured ranges; squares of what is farther away overflow
ROUNDING = 1e-15  # of the numbers that meet in an equality


@dataclass(frozen=True, eq=False)
class BoxUnits:
    """A box with the encoder of a surrogate: the way there and back.

    Attributes:
        encoder: of the surrogate's features.
        space: in encoded units.
        ranges: continuous column -> (low, high) in its own unit, equal where it is fixed.
        labels: categorical column -> its allowed labels.
        integer: columns of whole numbers.
        constraints: in own units.
        shared: columns that the batch shares.
    """

    encoder: Encoder
    space: Space
    ranges: Mapping[str, tuple[float, float]]
    labels: Mapping[str, tuple[str, ...]]
    integer: tuple[str, ...]
    constraints: tuple[LinearConstraint, ...]
    shared: tuple[str, ...]

    def frame(self, X: Tensor) -> pd.DataFrame:
        """A batch of the space (q x d) in own units, without the dust of decoding, never outside for the lack of it."""
        frame = self.encoder.decode(X)
        exact = frame.copy()
        for name, (low, high) in self.ranges.items():
            if name in self.integer:
                exact[name] = frame[name] = frame[name].round().clip(low, high)
                continue
            exact[name] = exact[name].clip(low, high)
            digits = 9 - math.floor(math.log10(high - low)) if high > low else 0
            frame[name] = (frame[name].round(digits) if high > low else frame[name]).clip(low, high)
        if any(limit.equal for limit in self.constraints):
            frame = self._solved(frame, exact)
        for limit in (limit for limit in self.constraints if not limit.equal):  # rounding may break what held
            broken = _excess(frame, limit) < np.minimum(0.0, _excess(exact, limit))
            frame.loc[broken] = exact.loc[broken]
        return frame.copy()  # in one piece: column by column pandas calls it fragmented, and warns from 100 on

    def _solved(self, frame: pd.DataFrame, exact: pd.DataFrame) -> pd.DataFrame:
        """Rounded rows (n) with one column for each equality put where that holds; where that fails, the exact row."""
        names = list(self.ranges)
        low, high = np.array([self.ranges[name] for name in names]).T
        limits = [limit for limit in self.constraints if limit.equal]
        E = np.array([[limit.coefficients.get(name, 0.0) for name in names] for limit in limits])
        e, sizes = np.array([limit.bound for limit in limits]), np.abs(E) @ np.maximum(np.abs(low), np.abs(high))
        still = np.isin(names, [*self.integer, *self.shared]) | (low == high)
        X, scale = frame[names].to_numpy(float), np.where(still, 1.0, high - low)
        room = np.where(still, 0.0, np.minimum(X - low, high - X) / scale)
        lengths = np.linalg.norm(E * scale, axis=1, keepdims=True)
        change = solve_equalities(np.zeros_like(X), E * scale / lengths, (e - X @ E.T) / lengths.T, room) * scale
        solved = np.where(still, X, X + change)
        digits = 12 - np.floor(np.log10(scale)).astype(int)
        tidy = np.array([np.round(column, k) for column, k in zip(solved.T, digits, strict=True)]).T
        left = np.ones(len(X), dtype=bool)
        for values in (np.where(still, X, tidy), solved):  # without the dust of the solution, if that fits
            fits = left & (np.abs(values @ E.T - e) <= ROUNDING * sizes).all(axis=1)
            fits &= ((values >= low) & (values <= high)).all(axis=1)
            frame.loc[fits, names] = values[fits]
            left &= ~fits
        left |= bool(left.any() and self.shared)  # the shared columns stay alike
        frame.loc[left] = exact.loc[left]
        return frame

    def record(self) -> dict[str, Any]:
        """What a run file says about the box, plain types only."""
        given: dict[str, Any] = {}
        for column in self.encoder.columns:
            if column.name in self.ranges:
                low, high = self.ranges[column.name]
                given[column.name] = [low, high] if high > low else low
            else:
                given[column.name] = list(self.labels[column.name])
        more = {"integer": self.integer, "constraints": [limit.text for limit in self.constraints]}
        extras = {name: list(value) for name, value in (more | {"shared": self.shared}).items() if value}
        return {"bounds": given} | extras


def _excess(frame: pd.DataFrame, limit: LinearConstraint) -> Any:
    """How far each row (n) is inside a constraint, in its own unit."""
    return sum(factor * frame[name].to_numpy() for name, factor in limit.coefficients.items()) - limit.bound


def ranges_of(encoder: Encoder, box: Box) -> dict[str, tuple[float, float]]:
    """The range of each column of numbers, in its own unit.

    Raises:
        InputError: as in `units_of`, of the bounds.
    """
    return _columns(encoder, _by_name(encoder, box.bounds))[0]


def units_of(encoder: Encoder, box: Box) -> BoxUnits:
    """Check a box against the features of a surrogate and encode it.

    Raises:
        InputError: a column that is missing, unknown or of another kind, an empty range, a label that was not
            measured, a text that is no linear constraint, or constraints that no point satisfies.
    """
    ranges, labels = _columns(encoder, _by_name(encoder, box.bounds))
    whole, shared = _names(encoder, box.integer, "integer"), _names(encoder, box.shared, "shared")
    for name in whole:
        if name not in ranges:
            raise InputError(f"integer: column {name!r} is categorical; name columns of numbers only")
        ranges[name] = _whole_range(name, *ranges[name])
    limits = parse_constraints(box.constraints, list(encoder.kinds))
    _check_limits(limits, ranges)
    bound = [limit for limit in limits if any(len(set(ranges[name])) > 1 for name in limit.coefficients)]  # can break
    places = {column.name: i for i, column in enumerate(encoder.columns)}  # all of width one
    space = Space(
        bounds=_encoded_bounds(encoder, ranges, labels),
        integer={places[name]: int(high - low) for name in whole for low, high in [ranges[name]] if high > low},
        categorical={places[name]: _codes(encoder, name, chosen) for name, chosen in labels.items() if chosen[1:]},
        shared=tuple(places[name] for name in shared),
        inequalities=tuple(_encoded(encoder, places, limit) for limit in bound if not limit.equal),
        equalities=tuple(_encoded(encoder, places, limit) for limit in bound if limit.equal),
    )
    space.check()
    return BoxUnits(encoder, space, ranges, labels, whole, limits, shared)


def _names(encoder: Encoder, names: Sequence[str], role: str) -> tuple[str, ...]:
    """Checked names of features, each once."""
    for name in [names] if isinstance(names, str) else names:
        if name not in encoder.kinds:
            near = did_you_mean(name, encoder.kinds)
            raise InputError(f"{role}: {name!r} is no feature{near}; the features are {list(encoder.kinds)}")
    return tuple(dict.fromkeys([names] if isinstance(names, str) else names))


def _by_name(encoder: Encoder, own: Bounds) -> Mapping[str, Any]:
    names = list(encoder.kinds)
    if not isinstance(own, Mapping):
        if len(own) != len(names):
            raise InputError(f"bounds: {len(own)} pairs for {len(names)} columns; give one for each of {names}")
        return dict(zip(names, own, strict=True))
    for name in own:
        if name not in names:
            raise InputError(f"bounds: {name!r} is no feature{did_you_mean(name, names)}; the features are {names}")
    return own


def _columns(
    encoder: Encoder, own: Mapping[str, Any]
) -> tuple[dict[str, tuple[float, float]], dict[str, tuple[str, ...]]]:
    """The ranges of the continuous and the labels of the categorical columns."""
    ranges: dict[str, tuple[float, float]] = {}
    labels: dict[str, tuple[str, ...]] = {}
    for column in encoder.columns:
        if isinstance(column, ContinuousColumn):
            if column.name not in own:
                raise InputError(
                    f"bounds: column {column.name!r} has no pair; give one, or leave it out of the features"
                )
            ranges[column.name] = _range(column.name, own[column.name])
        elif isinstance(column, CategoricalColumn):
            labels[column.name] = _labels(column, own.get(column.name, column.levels))
        else:
            raise InputError(
                f"bounds: column {column.name!r} is {column.kind}, but a box needs continuous or categorical columns; "
                "give a library"
            )
    return ranges, labels


def _range(name: str, given: Any) -> tuple[float, float]:
    try:
        ends = [given, given] if np.ndim(given) == 0 else list(given)
        if any(isinstance(end, bool) for end in ends):  # of a configuration file
            raise TypeError
        low, high = map(float, ends)
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"bounds: column {name!r} has {given!r}; give a pair (low, high) of numbers, or one number to fix it"
        ) from None
    if not (math.isfinite(low) and math.isfinite(high)):
        raise InputError(f"bounds: column {name!r} has ({low}, {high}); both ends must be finite")
    if low > high or (low == high and np.ndim(given) > 0):
        raise InputError(f"bounds: column {name!r} has ({low}, {high}); the low end must be below the high end")
    if np.ndim(given) > 0 and high - low < LEAST_STEPS * max(np.spacing(max(abs(low), abs(high))), TINY):
        raise InputError(f"bounds: column {name!r} has ({low}, {high}), with hardly a number between; widen it")
    return low, high


def _labels(column: CategoricalColumn, given: Any) -> tuple[str, ...]:
    """The allowed labels, in the order of their codes; numbers stand for the text that they are in the measurements."""
    asked = [given] if isinstance(given, str) or np.ndim(given) == 0 else list(given)
    if not asked:
        raise InputError(f"bounds: column {column.name!r} has no label; give some of {_some(column.levels)}")
    found = []
    for label in asked:
        texts = [str(label)] + ([str(int(label))] if isinstance(label, float) and label.is_integer() else [])
        known = [text for text in texts if text in column.levels]
        if not known:
            near = did_you_mean(label, column.levels)
            raise InputError(
                f"bounds: column {column.name!r} has the label {label!r}, which was not measured{near}; give some of "
                f"{_some(column.levels)}"
            )
        found.append(known[0])
    return tuple(label for label in column.levels if label in found)


def _some(labels: Sequence[str]) -> str:
    more = f" and {len(labels) - 8} more" if len(labels) > 8 else ""
    return ", ".join(repr(label) for label in labels[:8]) + more


def _whole_range(name: str, low: float, high: float) -> tuple[float, float]:
    first, last = float(math.ceil(low)), float(math.floor(high))
    if first > last:
        raise InputError(f"integer: column {name!r} has no whole number between {low} and {high}; widen its bounds")
    if last - first > WHOLE_NUMBERS:
        raise InputError(
            f"integer: column {name!r} has more than {WHOLE_NUMBERS:,} whole numbers in its bounds; leave it "
            "continuous and round, or narrow it"
        )
    return first, last


def _check_limits(limits: Sequence[LinearConstraint], ranges: Mapping[str, tuple[float, float]]) -> None:
    """Refuse, by its text, a constraint on a label and one that no corner of the box meets."""
    for limit in limits:
        most = least = 0.0
        for name, factor in limit.coefficients.items():
            if name not in ranges:
                raise InputError(f"constraints: {limit.text!r} names {name!r}, which is categorical; limit its labels")
            most += max(factor * end for end in ranges[name])
            least += min(factor * end for end in ranges[name])
        dust = DUST * max(1.0, abs(limit.bound))
        if most < limit.bound - dust or (limit.equal and least > limit.bound + dust):
            raise InputError(
                f"constraints: no point within the bounds satisfies {limit.text!r}; widen the bounds or drop it"
            )


def _encoded_bounds(
    encoder: Encoder, ranges: Mapping[str, tuple[float, float]], labels: Mapping[str, tuple[str, ...]]
) -> Tensor:
    ends = []
    for column in encoder.columns:
        if isinstance(column, ContinuousColumn):
            own = [(end - column.low) / column.scale for end in ranges[column.name]]
            if not max(map(abs, own)) < FAR:
                raise InputError(
                    f"bounds: column {column.name!r} has {ranges[column.name]}, too far from what was measured to "
                    "count with; narrow it"
                )
            ends.append(own)
        else:
            codes = _codes(encoder, column.name, labels[column.name])
            ends.append([float(codes[0]), float(codes[-1])])
    return torch.tensor(ends, dtype=torch.float64).reshape(-1, 2).mT.contiguous()


def _codes(encoder: Encoder, name: str, labels: Sequence[str]) -> Tensor:
    (levels,) = (column.levels for column in encoder.columns if column.name == name)  # type: ignore[attr-defined]
    return torch.tensor([levels.index(label) for label in labels], dtype=torch.float64)


def _encoded(encoder: Encoder, places: Mapping[str, int], limit: LinearConstraint) -> Inequality:
    """sum_i c_i x_i >= b (or = b) with x_i = low_i + scale_i u_i."""
    columns = [encoder.columns[places[name]] for name in limit.coefficients]
    factors = list(limit.coefficients.values())
    scaled = [factor * column.scale for factor, column in zip(factors, columns, strict=True)]  # type: ignore[attr-defined]
    shift = sum(factor * column.low for factor, column in zip(factors, columns, strict=True))  # type: ignore[attr-defined]
    indices = torch.tensor([places[name] for name in limit.coefficients])
    return indices, torch.tensor(scaled, dtype=torch.float64), limit.bound - shift
