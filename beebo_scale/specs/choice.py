"""`Choice`: what a batch is chosen from, and how."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any, Literal, get_args

from ..errors import InputError
from ..temperature import check_temperature
from .setting import Reader, check_least, number, one_of, part, refuse, setting, text, whole_number
from .texts import is_list_file, parse_bounds, parse_choices, parse_counts, parse_names, parse_point, parse_texts

Bounds = Mapping[str, Any] | Sequence[Sequence[float]]
Start = Literal["greedy", "sobol", "mixed"]
STARTS: tuple[Start, ...] = get_args(Start)
ENERGIES = ("mean", "softmax")
NAMES = Reader("a list", parse_names, several=True, types=(list,))
TEXTS = Reader("a list", parse_texts, several=True, types=(list,))
COUNTS = Reader("a mapping", parse_counts, several=True, types=(dict,))
CHOICES = Reader("a mapping, or a YAML file", parse_choices, several=True, types=(dict, str))
DISTINCT = Reader("a mapping", partial(parse_counts, option="--at-most-distinct"), several=True, types=(dict,))
POINT = Reader("a mapping", parse_point, several=True, types=(dict,))
BOUNDS = Reader("a mapping", parse_bounds, several=True, types=(dict,))


@dataclass(frozen=True)
class Box:
    """What a batch may be, in the features' own units."""

    bounds: Bounds = setting(
        None,
        "a box instead of a library: COLUMN:LOW:HIGH, COLUMN:VALUE to fix a column, COLUMN:A|B|C for the levels to "
        "choose from (without it all that were measured); in Python column -> (low, high), a value or a list of "
        "labels, or one pair for each column, in order; all in the features' own units",
        BOUNDS,
        metavar="COLUMN:LOW:HIGH",
    )
    integer: Sequence[str] = setting((), "columns of the box that take whole numbers only", NAMES, metavar="COLUMN")
    constraints: Sequence[str] = setting(
        (),
        "linear constraints within one experiment of a box, such as 'acid + 2*base <= 80' or 'a + b + c == 100'",
        TEXTS,
        metavar="TEXT",
        also=("--constraint",),
    )
    shared: Sequence[str] = setting(
        (),
        "columns of the box or the library that are the same in the whole batch, as one plate has one temperature",
        NAMES,
        metavar="COLUMN",
    )

    def __post_init__(self) -> None:
        if self.bounds is None and (self.integer or self.constraints or not self.shared):
            name = next((name for name in ("integer", "constraints") if getattr(self, name)), "bounds")
            raise InputError(f"--{name} goes with --bounds only")


@dataclass(frozen=True)
class Lists:
    """A library of all combinations of one block of each list, which is never written down."""

    choices: Any = setting(
        None,
        "lists instead of a library, whose combinations are never written down: COLUMN:FILE with the blocks (a column "
        "COLUMN, smiles or sequence; their ids in id, name or code), COLUMN:A|B|C, or for sites of a sequence "
        "COLUMN:WILDTYPE@3|5|9=NNK with a degenerate codon, letters or ALL; or one YAML file with COLUMN: LIST",
        CHOICES,
        metavar="COLUMN:LIST",
    )
    incompatible: Sequence[Any] = setting(
        (),
        "pairs of blocks that do not go together: a file with columns of two lists, or an expression such as "
        "\"temp > 80 and solvent == 'THF'\"",
        TEXTS,
        metavar="FILE_OR_TEXT",
    )

    def __post_init__(self) -> None:
        if not self.choices:
            raise InputError("--incompatible goes with --choices only" if self.incompatible else "choices has no list")

    @property
    def files(self) -> dict[str, str]:
        """Name -> path of what is read."""
        if isinstance(self.choices, str):
            return {"choices": self.choices}
        given = {n: v["file"] if isinstance(v, Mapping) and "file" in v else v for n, v in self.choices.items()}
        pairs = {f"incompatible {i}": v for i, v in enumerate(self.incompatible, start=1)}
        return {n: v for n, v in ({f"choices {n}": v for n, v in given.items()} | pairs).items() if is_list_file(v)}

    def moved(self, move: Callable[[Any], str]) -> Lists:
        """The same with other paths."""
        if isinstance(self.choices, str):
            return replace(self, choices=move(self.choices))

        def each(value: Any) -> Any:
            if isinstance(value, Mapping) and "file" in value:
                return {**value, "file": move(value["file"])}
            return move(value) if is_list_file(value) else value

        choices = {name: each(value) for name, value in self.choices.items()}
        return Lists(choices, tuple(map(each, self.incompatible)))


@dataclass(frozen=True)
class Limits:
    """What a batch from a library must keep to."""

    at_most: Mapping[str, int] = setting(
        {}, "no more rows of the library than COUNT with the same value of COLUMN", COUNTS, metavar="COLUMN:COUNT"
    )
    min_distance: float | None = setting(
        None,
        "least distance between proposed rows of the library: the square root of |x - x'|^2 over the continuous "
        "columns, each scaled by its measured range, plus s^2, s the share of the categorical columns and sequence "
        "letters in which the rows differ",
        number,
    )
    at_most_distinct: Mapping[str, int] = setting(
        {},
        "no more different values of COLUMN of the library on the plate than COUNT; --shared COLUMN is COLUMN:1",
        DISTINCT,
        metavar="COLUMN:COUNT",
    )

    def __post_init__(self) -> None:
        for column, k in self.at_most.items():
            if isinstance(k, bool) or not isinstance(k, Integral) or k < 1:
                raise InputError(f"at most {k!r} rows with the same {column!r}: give a whole number, 1 or more")
        for column, k in self.at_most_distinct.items():
            if isinstance(k, bool) or not isinstance(k, Integral) or k < 1:
                raise InputError(f"at most {k!r} different values of {column!r}: give a whole number, 1 or more")
        if self.min_distance is not None and not (math.isfinite(self.min_distance) and self.min_distance > 0):
            raise InputError(f"min_distance = {self.min_distance}: give a finite number above 0, or None")

    def __bool__(self) -> bool:
        return bool(self.at_most or self.at_most_distinct) or self.min_distance is not None

    @property
    def columns(self) -> list[str]:
        """Columns whose values count, those of `at_most` first."""
        return list(dict.fromkeys([*self.at_most, *self.at_most_distinct]))

    def sharing(self, columns: Sequence[str]) -> Limits:
        """These limits, with one value of each of some columns on the whole plate.

        Raises:
            InputError: more than one value was asked for.
        """
        for name in columns:
            if self.at_most_distinct.get(name, 1) != 1:
                k = self.at_most_distinct[name]
                raise InputError(f"--shared {name} and --at-most-distinct {name}:{k} contradict each other; give one")
        return replace(self, at_most_distinct={**dict.fromkeys(columns, 1), **self.at_most_distinct})

    def check(self, q: int) -> None:
        """Refuse rules that no batch of q can keep to.

        Raises:
            InputError: the first of them.
        """
        for name, k in self.at_most_distinct.items():
            most = k * self.at_most.get(name, q)
            if most < q:
                raise InputError(
                    f"q = {q}, but --at-most-distinct {name}:{k} with --at-most {name}:{self.at_most[name]} leaves "
                    f"room for {most}; lower q, or loosen one of the two"
                )

    def guarantee(self) -> str:
        """What is known about the greedy batch, in plain words."""
        limited = " under the limits" if self else ""
        loose = [
            "of several limited columns it counts one at a time" if len(self.columns) > 1 else "",
            "it does not count the minimum distance" if self.min_distance is not None else "",
            "the values on the plate are chosen first, by greedy batches over the best rows, and certified holds among "
            "rows with these; upper_bound is of all values"
            if self.at_most_distinct
            else "",
        ]
        return "; ".join(
            [
                f"certified means: the same batch as greedy choice{limited} over all eligible rows",
                "value is a(X) of this batch, in standard deviations of the (transformed) target, as this surrogate "
                "sees it",
                f"no batch of as many eligible rows{limited} has a larger a(X) than upper_bound, whatever the signs",
                *filter(None, loose),
            ]
        )


@dataclass(frozen=True)
class BoxSearch:
    """How hard to search a box.

    Attributes:
        learning_rate: first step of Adam, as a part of the box; it falls to zero on a cosine.
        refresh: steps after which an approximate posterior is made exact at the batches as they are then.
        polish: iterations of L-BFGS-B; as many more steps of Adam where it cannot serve, as there are
            inequalities or the posterior is approximate.
        chunk: restarts that one worker moves side by side; workers share out the chunks.
        block: most points that move together; a larger batch is put together from blocks.
        block_steps: steps of Adam for a block.
        sweeps: how often each block is moved again, given all the others.
    """

    restarts: int = setting(4, "batches that are moved in a box, each from a start of its own")
    steps: int = setting(50, "steps of Adam that they move; none where L-BFGS-B can do all")
    learning_rate: float = 0.05
    start: Start = setting(
        "greedy",
        "where they start: greedy (a greedy batch over many points), sobol (points spread over the box, as in the "
        "paper) or mixed (some of these, and the best points measured with a small change: up to half in many inputs); "
        "a batch with T' = 0 always starts greedily",
        one_of(STARTS),
        name="search_start",
    )
    refresh: int = 50
    polish: int = 200
    chunk: int = 1
    block: int = 128
    block_steps: int = 60
    sweeps: int = 1

    def __post_init__(self) -> None:
        check_least(self, restarts=1, refresh=1, chunk=1, block=1, steps=0, polish=0, block_steps=0, sweeps=0)
        if not 0.0 < self.learning_rate < math.inf:
            raise InputError(f"learning_rate = {self.learning_rate}: give a number above zero")
        refuse({"start": STARTS}, self)


@dataclass(frozen=True)
class Choice:
    """What a batch is chosen from, and how; a(X) = q E[summary] + T' sqrt(A) I(X) is to become large.

    In Python a library is also a DataFrame or a table of `read_library`, `pending` and `exclude` are DataFrames or
    (`exclude`) a tuple of several, `energy` is one of the module `energy`, and bounds are a `Box` where it has more.

    Raises:
        InputError: an unusable number, a setting that does not go with another, or both a library and bounds.
    """

    q: int = setting(96, "experiments in the batch", whole_number, also=("-q",))
    library: Any = setting(None, "candidates to choose from: CSV, Excel or Parquet, or a folder of Parquet files", text)
    choices: Any = part(Lists, optional=True)
    bounds: Any = part(Box, optional=True)
    temperature: float = setting(0.5, "T': 0 exploits, 0.5 balances, 2 explores", number)
    minimize: bool = setting(False, "small targets are good")
    hit: float | None = setting(
        None, "a value that the target should come close to, in its own units, instead of a large or small one", number
    )
    reference: Mapping[str, float] = setting(
        {},
        "reference point of a trade-off, a value of each target with a direction that is just not good enough, in its "
        "own units; without it the worst values on the measured front, less a tenth of its range",
        POINT,
        metavar="COLUMN:NUMBER",
    )
    energy: Any = setting("mean", "of a batch; softmax values the best of it more", one_of(ENERGIES))
    allow_repeats: bool = setting(False, "also propose inputs that were measured already, and one input twice")
    pending: Any = setting(
        None,
        "experiments that are running: a file with the ids of the library or the feature columns; they count in the "
        "information and are not proposed again",
        text,
    )
    exclude: Any = setting(None, "candidates that must not be proposed: a file with their ids or feature columns", text)
    limits: Limits = part(Limits)
    search: BoxSearch = part(BoxSearch)
    seed: int = setting(0, "the same seed and input give the same surrogate and batch")

    def __post_init__(self) -> None:
        self._default_parts()
        check_temperature(self.temperature)
        if isinstance(self.q, bool) or not isinstance(self.q, Integral):
            raise InputError(f"q = {self.q!r} is not a whole number")
        if self.q < 1:
            raise InputError(f"q = {self.q}: a batch has at least one point; give 1 or more")
        if not 0 <= self.seed < 2**63:
            raise InputError(f"seed = {self.seed}: give a whole number from 0 to 2^63 - 1")
        if isinstance(self.energy, str):
            refuse({"energy": ENERGIES}, self)
        if self.hit is not None and (self.minimize or self.energy != "mean"):
            other = "minimize" if self.minimize else "energy"
            raise InputError(f"{other} and hit exclude each other; give one of the two")
        if sum(source is not None for source in (self.library, self.bounds, self.choices)) > 1:
            raise self._one_source()
        if self.limits and self.bounds is not None:
            names = ("at_most", "at_most_distinct", "min_distance")
            name = next(name for name in names if getattr(self.limits, name)).replace("_", "-")
            raise InputError(f"--{name} goes with --library only")
        self.limits.check(self.q)
        for name, value in self.reference.items():
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
                raise InputError(f"reference of {name!r} is {value!r}; give a finite number")

    def _default_parts(self) -> None:
        """What was left out or given as None; a plain box of bounds becomes a `Box`."""
        defaults: dict[str, Any] = {"limits": Limits(), "search": BoxSearch(), "energy": "mean", "reference": {}}
        for name, default in defaults.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, default)
        if self.bounds is not None and not isinstance(self.bounds, Box):
            object.__setattr__(self, "bounds", Box(self.bounds))
        if self.choices is not None and not isinstance(self.choices, Lists):
            object.__setattr__(self, "choices", Lists(self.choices))
        if self.bounds is not None and self.bounds.bounds is None:  # what a library shares is one of its limits
            object.__setattr__(self, "limits", self.limits.sharing(self.bounds.shared))
            object.__setattr__(self, "bounds", None)

    def check_source(self) -> None:
        """Refuse a choice from nothing.

        Raises:
            InputError: neither a library nor bounds.
        """
        if self.library is None and self.bounds is None and self.choices is None:
            raise self._one_source()

    def _one_source(self) -> InputError:
        return InputError(
            "give either a library or bounds to choose from, not both (--library FILE or --bounds COLUMN:LOW:HIGH "
            "...); lists (--choices COLUMN:LIST ...) go with neither"
        )

    @property
    def sign(self) -> float:
        """-1 where small targets are good."""
        return -1.0 if self.minimize else 1.0

    @property
    def direction(self) -> bool | None:
        """Whether small targets are good, None where a value is to be hit."""
        return None if self.hit is not None else self.minimize

    @property
    def exclusions(self) -> tuple[Any, ...]:
        """Files and frames of what must not be proposed."""
        return tuple(value for value in _several(self.exclude) if value is not None)

    @property
    def files(self) -> dict[str, str]:
        """Name -> path of what is read."""
        named = {name: _several(getattr(self, name)) for name in ("library", "pending", "exclude")}
        files = {name: str(value) for name, values in named.items() for value in values if _is_path(value)}
        return files if self.choices is None else files | self.choices.files

    def check_aims(self, aims: Collection[str], limited: bool) -> None:
        """Refuse what does not go with targets that have directions, or with limits on outcomes.

        Args:
            aims: names of the targets with directions.
            limited: whether outcomes have limits.

        Raises:
            InputError: the first of it.
        """
        if aims and self.minimize:
            raise InputError("--minimize goes with a target without a direction; write NAME:min instead")
        if (aims or limited) and self.hit is not None:
            raise InputError("a value to hit goes with one target without limits; write a limit on both sides instead")
        if (aims or limited) and self.energy != "mean" and type(self.energy).__name__ != "MeanEnergy":
            raise InputError("an energy goes with one target, or a weighted sum, without limits; leave it out")
        if self.reference and not aims:
            raise InputError("--reference goes with targets that have directions, such as --target yield:max,cost:min")
        if self.reference and set(self.reference) != set(aims):
            wrong = sorted(set(self.reference) ^ set(aims))[0]
            raise InputError(f"--reference: {wrong!r} is not in both; give a value of each of {', '.join(aims)}")

    def but(self, **changes: Any) -> Choice:
        """The same with some settings changed."""
        return replace(self, **changes)


def _several(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _is_path(value: Any) -> bool:
    return isinstance(value, str) or hasattr(value, "__fspath__")
