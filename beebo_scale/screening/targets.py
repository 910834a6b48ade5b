"""Columns of a measured table that are no features: several targets with their weights, and batches."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError
from .columns import check_scalars, missing_text
from .places import Place

if TYPE_CHECKING:
    import pandas as pd

WEIGHTED = re.compile(r"^\s*(.+):\s*([-+]?[\d.]+(?:e[-+]?\d+)?)\s*$", re.IGNORECASE)


def parse_target(text: str | Mapping[str, float]) -> str | Mapping[str, float]:
    """A column by its name, or several with their weights: 'ic50:0.7,solubility:-0.3'."""
    if not isinstance(text, str):
        return text
    parts = [WEIGHTED.match(part) for part in text.split(",")]
    if len(parts) < 2 or not all(parts):
        return text
    found = [(part[1], float(part[2])) for part in parts if part is not None]
    if len(dict(found)) < len(found):
        raise InputError(f"target {text!r} names a column twice; name it once")
    return dict(found)


def check_weights(weights: Mapping[str, float], noise_variance: str | None = None) -> dict[str, float]:
    """Weights of several targets as given.

    Raises:
        InputError: fewer than two targets, a weight that is zero or not a number, or a known noise variance.
    """
    if len(weights) < 2:
        raise InputError(f"target {dict(weights)}: give one column by its name, or at least two with their weights")
    for name, weight in weights.items():
        if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not np.isfinite(weight) or weight == 0:
            raise InputError(f"target {name!r} has the weight {weight!r}; give a finite number that is not zero")
    if noise_variance is not None:
        raise InputError("known noise variances go with one target; leave noise_variance out, or name one target")
    return {str(name): float(weight) for name, weight in weights.items()}


def weighted_name(weights: Mapping[str, float]) -> str:
    """'0.7 ic50 - 0.3 solubility'; empty without weights."""
    text = " ".join(f"{'-' if weight < 0 else '+'} {abs(weight):g} {name}" for name, weight in weights.items())
    return text.removeprefix("+ ")


def batch_labels(cells: pd.Series, place: Place) -> np.ndarray:
    """Cells as n texts, empty where they are missing.

    Raises:
        InputError: all are missing.
    """
    check_scalars(cells, place)
    missing = missing_text(cells)
    if missing.all():
        raise place.error("(batch) is empty", missing, "name the column of plates, or leave batch out")
    text = cells.astype(object).astype(str).str.strip()
    return np.where(missing, "", text).astype(object)
