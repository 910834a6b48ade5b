"""`Columns`: what the columns of a measured file are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from .setting import Reader, setting, text
from .texts import parse_features, parse_target, parse_units

TARGET = Reader("a column or a mapping of columns to weights", parse_target, types=(str, dict))
UNITS = Reader("a mapping", parse_units, several=True, types=(dict,))
FEATURES = Reader("a mapping", parse_features, several=True, types=(dict,))


@dataclass(frozen=True)
class Columns:
    """What the columns of a measured file are, and what becomes of rows that cannot be read.

    Raises:
        InputError: weights that no sum can have, or known noise with several targets.
    """

    target: str | Mapping[str, float] | None = setting(
        None,
        "column to improve, in its own units; rows without it are left out. Several columns with their weights in the "
        "sum that is to improve, in units of their standard deviations, are written as ic50:0.7,solubility:-0.3 (a "
        "mapping in Python); rows need one of these only",
        TARGET,
    )
    features: Any = setting(
        None,
        "kinds: continuous, categorical, protein, dna, smiles; a bare COLUMN is continuous if it holds numbers, else "
        "categorical; without features all other columns but dates, places on a plate and names are features",
        FEATURES,
        metavar="COLUMN:KIND",
    )
    id: str | None = setting(
        None, "column that names the rows of the library; measured rows need none. It may also be a feature", text
    )
    noise_variance: str | None = setting(
        None,
        "column with the known variance of each target, in its squared units; of replicates give each as a row instead",
        text,
    )
    batch: str | None = setting(
        None,
        "column of the plate, day or operator that a row was measured in; its effect is told apart from that of the "
        "features. An empty cell is an unknown batch",
        text,
    )
    drop_invalid: bool = setting(
        False, "leave out rows with a feature that cannot be read, and list them in a file beside the output"
    )

    units: Mapping[str, str] | None = setting(
        None,
        "what the numbers of a column are in, such as loading:mol%. Units that stand in the cells are found; a library "
        "or results in another unit are refused, numbers alone are taken as being in it",
        UNITS,
        metavar="COLUMN:UNIT",
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
    def known_units(self) -> dict[str, str]:
        """Column -> unit where one was given."""
        return dict(self.units or {})

    def unit(self, column: str) -> str | None:
        """What the numbers of a column were said to be in."""
        return self.known_units.get(column)

    @property
    def named(self) -> list[str]:
        """All columns that are named: a header is recognised by them."""
        features = [] if self.features is None or isinstance(self.features, str) else list(self.features)
        return [name for name in (*self.targets, self.id, *self.beside, *features) if isinstance(name, str)]

    @property
    def beside(self) -> list[str]:
        """Columns that say more of a measurement: the noise variance and the batch, where there are such."""
        return [name for name in (self.noise_variance, self.batch) if name is not None]

    @property
    def goal(self) -> str:
        """What is to improve, in words."""
        return weighted_name(self.weights) or "".join(self.targets)


def check_weights(weights: Mapping[str, float], noise_variance: str | None = None) -> None:
    """Refuse weights of several targets that no sum can have.

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


def weighted_name(weights: Mapping[str, float]) -> str:
    """'0.7 ic50 - 0.3 solubility'; empty without weights."""
    words = " ".join(f"{'-' if weight < 0 else '+'} {abs(weight):g} {name}" for name, weight in weights.items())
    return words.removeprefix("+ ")
