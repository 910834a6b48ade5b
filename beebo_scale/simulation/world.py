"""What a closed loop asks of a world that can be measured, and what a strategy is told.

Points are an array with one experiment in each row: row numbers of a landscape (n), or inputs of a function (n x d).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InputError
from ..screening import Encoder, Table
from ..screening.packing import Packing
from ..surrogates import Surrogate

if TYPE_CHECKING:
    import pandas as pd

Points = NDArray[Any]
CROWDED = 0.75  # half of a normal distribution's range is 0.5, of an exponential one that is minimised 0.9
TOP_SHARE = 100  # one row of so many is among the best ones, unless told otherwise
UNPACKED_AT_ONCE = 2048  # candidates that are unpacked together


class FiniteWorld(ABC):
    """A world whose points are the numbers of its rows, each with one value."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of rows."""

    @abstractmethod
    def truth(self, points: Points) -> NDArray[np.float64]:
        """The values of some rows."""

    def measure(self, points: Points, seed: int) -> NDArray[np.float64]:
        """The values of some rows, which are without noise."""
        return self.truth(points)

    def start(self, count: int, seed: int) -> Points:
        """Rows at random, the same for every strategy."""
        return np.random.default_rng(seed).choice(len(self), count, replace=False)

    def draw(self, count: int, taken: Points, seed: int) -> Points:
        """Rows at random that are not taken."""
        return self._open(taken, seed)[:count]

    def _open(self, taken: Points, seed: int) -> Points:
        """Rows that are not taken, shuffled: ties must not go by the order of a file, which may be sorted."""
        free = np.ones(len(self), dtype=bool)
        free[taken] = False
        order = np.random.default_rng([seed, 1]).permutation(len(self))
        return order[free[order]]


def best_rows(top: int | None, count: int, source: str) -> int:
    """How many rows of `count` are the best ones; None takes one in `TOP_SHARE`.

    Raises:
        InputError: none, or all of them.
    """
    top = max(1, count // TOP_SHARE) if top is None else top
    if not 1 <= top < count:
        raise InputError(f"top = {top}: give 1 or more, and less than the {count} rows of {source}")
    return top


@dataclass(frozen=True)
class Yardstick:
    """What results are measured by, in the target's own units.

    Attributes:
        best: the best that there is.
        floor: best-so-far is 0 here and 1 at `best`.
        typical: mean of points drawn at random.
        top: number of best rows whose recall counts; 0 where points are not counted.
        threshold: the value that all of these reach.
        ranked: all values, best first; None where there is no end of them.
    """

    best: float
    floor: float
    typical: float
    top: int = 0
    threshold: float = float("nan")
    ranked: NDArray[np.float64] | None = field(default=None, repr=False, compare=False)

    def ranks(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Rank of each value among all, 1 the best; equal ones share the best of their ranks. NaN without an end."""
        if self.ranked is None:
            return np.full(len(values), np.nan)
        sign = 1.0 if self.best < self.floor else -1.0  # the ranked values rise where small ones are good
        return (1 + np.searchsorted(sign * self.ranked, sign * values)).astype(np.float64)

    @property
    def crowded(self) -> bool:
        """Whether one row in two reads more than CROWDED on the scale from `floor` to `best`: all seem to be there."""
        if self.ranked is None:
            return False
        return bool((np.median(self.ranked) - self.floor) / (self.best - self.floor) > CROWDED)


@dataclass(frozen=True, eq=False)
class Candidates:
    """Encoded points in few bytes, unpacked where they are needed.

    Attributes:
        points: n (x d), as the world has them.
        rows: n x bytes uint8.
        packing: of the rows.
    """

    points: Points
    rows: Tensor
    packing: Packing

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, some: Tensor) -> Candidates:
        """Some of them, in the order given."""
        return Candidates(self.points[some.numpy()], self.rows[some], self.packing)

    @property
    def X(self) -> Tensor:
        """All of them, n x d."""
        return self.packing.unpack(self.rows)

    def map(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        """A function of encoded points (p x d -> p ...) of all of them, chunk by chunk."""
        with torch.no_grad():
            return torch.cat([function(self.packing.unpack(rows)) for rows in self.rows.split(UNPACKED_AT_ONCE)])


class SomeCandidates(Protocol):
    """Points to choose from, see `Candidates`."""

    @property
    def points(self) -> Points:
        """As the world has them, n (x d)."""

    @property
    def X(self) -> Tensor:
        """All of them, n x d."""

    def __len__(self) -> int: ...

    def take(self, some: Tensor) -> SomeCandidates:
        """Some of them, in the order given."""

    def map(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        """A function of encoded points (p x d -> p ...) of all of them, chunk by chunk."""


class World(Protocol):
    """Something that can be measured, and of which the truth is known."""

    @property
    def maximize(self) -> bool:
        """False if small values are good."""

    @property
    def title(self) -> str:
        """What is measured, in a few words."""

    def identity(self) -> dict[str, Any]:
        """All that decides what is measured, in plain types."""

    def check(self, count: int) -> None:
        """Refuse a loop that measures more points than there are.

        Raises:
            InputError: there are fewer.
        """

    def start(self, count: int, seed: int) -> Points:
        """The points that are measured before any choice."""

    def draw(self, count: int, taken: Points, seed: int) -> Points:
        """Points at random, none of those taken."""

    def measure(self, points: Points, seed: int) -> NDArray[np.float64]:
        """One value for each point, with noise where there is some."""

    def truth(self, points: Points) -> NDArray[np.float64]:
        """The same without noise."""

    def table(self, points: Points, values: NDArray[np.float64]) -> Table:
        """Measured points as a surrogate takes them."""

    def candidates(self, encoder: Encoder, taken: Points, seed: int, count: int) -> SomeCandidates:
        """Points to choose from: all that are not taken, or `count` where they are infinitely many."""

    def offer(self, taken: Points, seed: int) -> dict[str, Any]:
        """The same as `propose` takes it: its argument `library` or `bounds`."""

    def chosen(self, frame: pd.DataFrame) -> Points:
        """The points of a batch of `propose`."""

    def written(self, points: Points, values: NDArray[np.float64]) -> pd.DataFrame:
        """Points for a reader: the value is the last column."""

    def parsed(self, frame: pd.DataFrame) -> tuple[Points, NDArray[np.float64]]:
        """Inverse of `written`, from the text of a CSV file."""

    def yardstick(self, start: Points) -> Yardstick:
        """What the results of a loop with this start are measured by."""


@dataclass(frozen=True, eq=False)
class State:
    """What a strategy knows when it chooses a batch.

    Attributes:
        world: where to choose.
        points: measured so far, n (x d).
        values: their values, n.
        q: batch size.
        round: 0, ..., rounds - 1.
        rounds: how many batches are chosen in all.
        seed: of this round.
        run_seed: of the run.
        warm: the surrogate of the last round, if there was one.
    """

    world: World
    points: Points
    values: NDArray[np.float64]
    q: int
    round: int
    rounds: int
    seed: int
    run_seed: int
    warm: Surrogate | None = None

    @property
    def sign(self) -> float:
        """-1 where small values are good."""
        return 1.0 if self.world.maximize else -1.0

    def table(self) -> Table:
        """What was measured."""
        return self.world.table(self.points, self.values)


class Strategy(Protocol):
    """A way to choose batches; a frozen dataclass, so that a run folder can say which it is of."""

    def fit(self, state: State) -> Any:
        """What the choice is made by; a `Surrogate` is handed to the next round as `warm`."""

    def choose(self, state: State, model: Any) -> Points:
        """The next q points."""
