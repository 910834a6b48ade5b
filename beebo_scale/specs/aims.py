"""What several targets are after: directions, and limits that outcomes keep."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from ..errors import InputError

DIRECTIONS = ("max", "min")
MOST = 5  # targets of a front: with more, nearly every row is on it
LIMIT = re.compile(r"^\s*(.+?)\s*(>=|<=)\s*(\S+)\s*$")


def parse_limits(texts: Iterable[str]) -> dict[str, tuple[float, float]]:
    """`purity>=95`, `cost<=10` to column -> (least, most), infinite where there is no such limit.

    Raises:
        InputError: a text that is no limit, or limits that no value can keep.
    """
    found: dict[str, tuple[float, float]] = {}
    for text in texts:
        match = LIMIT.match(text)
        try:
            value = float(match[3]) if match else math.nan
        except ValueError:
            value = math.nan
        if match is None or not math.isfinite(value):
            raise InputError(f"--require {text!r}: write COLUMN>=NUMBER or COLUMN<=NUMBER, such as 'purity>=95'")
        low, high = found.get(match[1], (-math.inf, math.inf))
        found[match[1]] = (max(low, value), high) if match[2] == ">=" else (low, min(high, value))
    for name, (low, high) in found.items():
        if low >= high:
            raise InputError(f"--require {name}>={low:g} and {name}<={high:g}: no value keeps both; loosen one of them")
    return found


def check_directions(target: Mapping[str, object]) -> None:
    """Refuse directions that no front can have.

    Raises:
        InputError: weights beside directions, an unknown direction, or too few or too many targets.
    """
    for name, direction in target.items():
        if direction not in DIRECTIONS:
            raise InputError(
                f"target {name!r} has {direction!r} beside targets with directions: give each a weight, or each max or "
                "min"
            )
    if not 2 <= len(target) <= MOST:
        raise InputError(f"{len(target)} targets with directions: a front takes 2 to {MOST}; limit others by --require")


def limits_in_words(limits: Mapping[str, tuple[float, float]]) -> str:
    """'purity >= 95, cost <= 10'."""
    parts = []
    for name, (low, high) in limits.items():
        parts += [f"{name} >= {low:g}"] if low > -math.inf else []
        parts += [f"{name} <= {high:g}"] if high < math.inf else []
    return ", ".join(parts)
