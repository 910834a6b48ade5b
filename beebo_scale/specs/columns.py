"""`Columns`: what the columns of a measured file are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from .aims import DIRECTIONS, check_directions, limits_in_words, parse_limits
from .setting import Reader, setting, text
from .texts import parse_features, parse_target, parse_texts, parse_units

TARGET = Reader("a column or a mapping of columns to weights", parse_target, types=(str, dict))
UNITS = Reader("a mapping", parse_units, several=True, types=(dict,))
LIMITS = Reader("a list", parse_texts, several=True, types=(list,))
FEATURES = Reader("a mapping", parse_features, several=True, types=(dict,))


@dataclass(frozen=True)
class Columns:
    """What the columns of a measured file are, and what becomes of rows that cannot be read.

    Raises:
        InputError: weights that no sum can have, or known noise with several targets.
    """

    target: str | Mapping[str, Any] | None = setting(
        None,
        "column to improve, in its own units; rows without it are left out. Several columns with their weights in the "
        "sum that is to improve, in units of their standard deviations, are written as ic50:0.7,solubility:-0.3 (a "
        "mapping in Python); with a direction for each, as in yield:max,cost:min, the batch is for the trade-off "
        "between them; rows need one of these only",
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
    require: Sequence[str] = setting(
        (),
        "limits that outcomes must keep, such as 'purity>=95' 'cost<=10' (with quotation marks): measured columns, in "
        "their own units, which are learned beside the target",
        LIMITS,
        metavar="LIMIT",
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
        object.__setattr__(self, "require", parse_texts(self.require))
        if self.aims:
            check_directions(self._mapping)
        elif self._mapping:
            check_weights(self._mapping)
        if self.limits and isinstance(self.target, str) and self.target in self.limits:
            raise InputError(
                f"--require {self.target}: it is the target itself; limit another column, or name no limit"
            )
        if self.several and self.noise_variance is not None:
            raise InputError(
                "known noise variances go with one target; leave noise_variance out, or name one target without limits"
            )

    @property
    def _mapping(self) -> dict[str, Any]:
        return {str(k): v for k, v in self.target.items()} if isinstance(self.target, Mapping) else {}

    @property
    def aims(self) -> dict[str, str]:
        """Target -> max or min, where the trade-off between several is looked for, else empty."""
        aims = self._mapping
        return aims if any(value in DIRECTIONS for value in aims.values()) else {}

    @property
    def limits(self) -> dict[str, tuple[float, float]]:
        """Column -> the least and the most that it may be."""
        return parse_limits(self.require)

    @property
    def weights(self) -> dict[str, float]:
        """Column -> weight where several are learned, else empty: 1 and -1 by direction, 0 of one with limits alone."""
        own = {n: {"max": 1.0, "min": -1.0}[aim] for n, aim in self.aims.items()} or self._mapping
        if not own and self.limits and isinstance(self.target, str):
            own = {self.target: 1.0}
        return own | {name: 0.0 for name in self.limits if own and name not in own}

    @property
    def targets(self) -> list[str]:
        """Columns that are learned, in order."""
        return list(self.weights) or ([self.target] if isinstance(self.target, str) else [])

    @property
    def several(self) -> bool:
        """Whether several columns are learned."""
        return bool(self.weights)

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
        goal = ", ".join(f"{name}:{aim}" for name, aim in self.aims.items())
        goal = goal or (self.target if isinstance(self.target, str) else weighted_name(self._mapping))
        return f"{goal} with {limits_in_words(self.limits)}" if self.limits else goal


def check_weights(weights: Mapping[str, float]) -> None:
    """Refuse weights of several targets that no sum can have.

    Raises:
        InputError: fewer than two targets, or a weight that is zero or not a number.
    """
    if len(weights) < 2:
        raise InputError(f"target {dict(weights)}: give one column by its name, or at least two with their weights")
    for name, weight in weights.items():
        if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not math.isfinite(weight) or weight == 0:
            raise InputError(f"target {name!r} has the weight {weight!r}; give a finite number that is not zero")


def weighted_name(weights: Mapping[str, float]) -> str:
    """'0.7 ic50 - 0.3 solubility'; empty without weights."""
    words = " ".join(f"{'-' if weight < 0 else '+'} {abs(weight):g} {name}" for name, weight in weights.items())
    return words.removeprefix("+ ")
