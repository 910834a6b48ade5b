"""`Columns`: what the columns of a measured file are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from .setting import Words, setting, text
from .texts import parse_features, parse_target


@dataclass(frozen=True)
class Columns:
    """What the columns of a measured file are, and what becomes of rows that cannot be read.

    Attributes:
        target: column to learn and improve, in its own units; or several with the weight of each in the sum that is to
            improve, per standard deviation of the column. Rows need one of these only.
        features: column -> kind (None: infer it), or names; None takes every other column but those that hold dates,
            places on a plate, or another text in each row. Numbers are inferred as continuous, text as categorical.
        id: column that names the rows; it may also be a feature.
        noise_variance: column with the known variance of each target, in its squared units.
        batch: column with the batch (plate, day, operator) that a row was measured in: what the rows of one batch share
            is taken for an effect of the batch, not of the features. An empty cell is an unknown batch.
        drop_invalid: leave out rows with a feature that cannot be read, instead of refusing the file.

    Raises:
        InputError: weights that no sum can have, or known noise with several targets.
    """

    target: str | Mapping[str, float] | None = setting(
        None,
        "column to improve; rows without it are left out. Several columns with their weights, in units of their "
        "standard deviations, are written as ic50:0.7,solubility:-0.3",
        Words("a column or a mapping of columns to weights", parse_target, several=False),
    )
    features: Any = setting(
        None,
        "kinds: continuous, categorical, protein, dna, smiles; a bare COLUMN is continuous if it holds numbers, else "
        "categorical; without this option all other columns but dates, places on a plate and names are features",
        Words("a mapping", parse_features),
        metavar="COLUMN:KIND",
    )
    id: str | None = setting(None, "column that names the rows of the library; measured rows need none", text)
    noise_variance: str | None = setting(None, "column with the known variance of each target", text)
    batch: str | None = setting(
        None,
        "column of the plate or day that a row was measured in; its effect is told apart from that of the features",
        text,
    )
    drop_invalid: bool = setting(
        False, "leave out rows with a feature that cannot be read, and list them in a file beside the output"
    )

    def __post_init__(self) -> None:
        if self.several:
            check_weights(self.weights, self.noise_variance)

    @property
    def weights(self) -> dict[str, float]:
        """Target -> weight where there are several, else empty."""
        return {} if not isinstance(self.target, Mapping) else {str(name): w for name, w in self.target.items()}

    @property
    def targets(self) -> list[str]:
        """Columns of the targets, in order."""
        return [self.target] if isinstance(self.target, str) else list(self.weights)

    @property
    def several(self) -> bool:
        """Whether there are several targets, whose weighted sum is to improve."""
        return isinstance(self.target, Mapping)

    @property
    def goal(self) -> str:
        """What is to improve, in words."""
        return weighted_name(self.weights) or "".join(self.targets)


def check_weights(weights: Mapping[str, float], noise_variance: str | None = None) -> dict[str, float]:
    """Weights of several targets as given.

    Raises:
        InputError: fewer than two targets, a weight that is zero or not a number, or a known noise variance.
    """
    if len(weights) < 2:
        raise InputError(f"target {dict(weights)}: give one column by its name, or at least two with their weights")
    for name, weight in weights.items():
        if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not math.isfinite(weight) or weight == 0:
            raise InputError(f"target {name!r} has the weight {weight!r}; give a finite number that is not zero")
    if noise_variance is not None:
        raise InputError("known noise variances go with one target; leave noise_variance out, or name one target")
    return {str(name): float(weight) for name, weight in weights.items()}


def weighted_name(weights: Mapping[str, float]) -> str:
    """'0.7 ic50 - 0.3 solubility'; empty without weights."""
    words = " ".join(f"{'-' if weight < 0 else '+'} {abs(weight):g} {name}" for name, weight in weights.items())
    return words.removeprefix("+ ")
