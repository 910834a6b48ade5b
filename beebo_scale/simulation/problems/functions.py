"""Functions of which the truth is known, over the unit cube: test functions and control problems."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.quasirandom import SobolEngine

from ...errors import InputError
from ...screening import Encoder, Table
from ...screening.files.opening import did_you_mean
from ...screening.packing import Packing, pack
from ..world import Candidates, Points, Yardstick
from . import push, rover, synthetic
from .problem import Problem, embedded

if TYPE_CHECKING:
    import pandas as pd

TYPICAL = 1 << 14  # points that the mean of the function is taken over
VALUE = "value"


@dataclass(frozen=True)
class Family:
    """Problems of one name.

    Attributes:
        make: the problem with so many inputs.
        known: numbers of inputs that it is known in, the usual one first; none where any will do.
        least: number of inputs; no point of the unit interval is 0.5 away from its middle.
    """

    make: Callable[[int], Problem]
    known: tuple[int, ...] = ()
    least: int = 2

    @property
    def words(self) -> str:
        """Which numbers of inputs there are."""
        return " or ".join(map(str, sorted(self.known))) if self.known else f"{self.least} or more"


FUNCTIONS: dict[str, Family] = {
    "ackley": Family(synthetic.ackley),
    "levy": Family(synthetic.levy),
    "rastrigin": Family(synthetic.rastrigin),
    "rosenbrock": Family(synthetic.rosenbrock),
    "styblinski-tang": Family(synthetic.styblinski_tang),
    "powell": Family(synthetic.powell, least=4),
    "shekel": Family(lambda d: synthetic.shekel(), (4,)),
    "hartmann": Family(synthetic.hartmann, (6, 3)),
    "cosine": Family(lambda d: synthetic.cosine(), (8,)),
    "rover": Family(lambda d: rover.rover(), (60,)),
    "push": Family(lambda d: push.push(), (14,)),
    "branin": Family(lambda d: synthetic.branin(), (2,)),
    "branin-noise": Family(lambda d: synthetic.branin_noise(), (2,)),
}


@dataclass(frozen=True)
class TestFunction:
    """A function over the unit cube, turned so that large values are good: `maximize` is always true.

    Attributes:
        name: one of FUNCTIONS; each is described where it is made.
        dimension: d, number of inputs; None where the function has only one.
        noise: standard deviation of the noise of a measurement.
        effective: number of inputs that matter, the first ones: the function is embedded in `dimension` inputs. None
            is all of them.
    """

    name: str
    dimension: int | None = None
    noise: float = 0.0
    effective: int | None = None

    maximize = True  # functions to minimise are turned over
    __test__ = False  # the name means something else to pytest

    def __post_init__(self) -> None:
        if self.name not in FUNCTIONS:
            near = did_you_mean(self.name, FUNCTIONS)
            raise InputError(f"there is no function {self.name!r}{near}; choose one of {', '.join(FUNCTIONS)}")
        if self.dimension is None and self.effective is None and FUNCTIONS[self.name].known:
            object.__setattr__(self, "dimension", FUNCTIONS[self.name].known[0])
        if self.dimension is None:
            raise InputError(f"{self.name}: give its dimension, the number of inputs in all")
        if self.effective is not None and self.effective >= self.dimension:
            raise InputError(f"effective = {self.effective}: give less than dimension = {self.dimension}")
        if not (np.isfinite(self.noise) and self.noise >= 0):
            raise InputError(f"noise = {self.noise}: give a standard deviation, 0 or more")
        if self._problem.variance is not None and self.noise:
            raise InputError(f"noise = {self.noise}: {self.name} has noise of its own; leave it out")

    def __reduce__(self) -> tuple[Any, ...]:
        """What goes to another process, which makes the problem anew."""
        return type(self), (self.name, self.dimension, self.noise, self.effective)

    @cached_property
    def _problem(self) -> Problem:
        family, own = FUNCTIONS[self.name], self.d if self.effective is None else self.effective
        if (family.known and own not in family.known) or own < family.least:
            more = "; to embed it, give effective, too" if family.known and own > max(family.known) else ""
            raise InputError(f"{self.name} with {own} inputs: it has {family.words}{more}")
        problem = family.make(own)
        return problem if own == self.d else embedded(problem, self.d)

    @property
    def tells_variance(self) -> bool:
        """Whether every measurement comes with the variance of its noise."""
        return self._problem.variance is not None

    @property
    def d(self) -> int:
        """Number of inputs."""
        assert self.dimension is not None
        return self.dimension

    @property
    def columns(self) -> list[str]:
        """Names of the inputs."""
        return [f"x{i + 1}" for i in range(self.d)]

    @property
    def title(self) -> str:
        """Name, dimension, noise, and whether the best is known."""
        some = "" if self.effective is None else f"{self.effective} of "
        noise = f", noise {self.noise:g}" if self.noise else ""
        bound = "" if len(self._problem.optima) else ", best known only as a bound"
        return f"{self.name} in {some}{self.d} dimensions{noise}{bound}"

    def identity(self) -> dict[str, Any]:
        """All that the function is given by."""
        some = {} if self.effective is None else {"effective": self.effective}
        return {"function": self.name, "dimension": self.dimension, "noise": self.noise, **some}

    def check(self, count: int) -> None:
        """Any number of points can be measured."""

    def start(self, count: int, seed: int) -> Points:
        """Uniform points, the same for every strategy, at least 0.5 away from every optimum where these are known."""
        generator = torch.Generator().manual_seed(seed)
        optima = torch.from_numpy(self._problem.to_cube(self._problem.optima))  # o x d
        kept = torch.empty(0, self.d, dtype=torch.float64)
        while len(kept) < count:
            X = torch.rand(max(count, 64), self.d, generator=generator, dtype=torch.float64)
            far = (torch.cdist(X, optima) >= self._problem.distance).all(-1)
            kept = torch.cat([kept, X[far]])
        return kept[:count].numpy()

    def draw(self, count: int, taken: Points, seed: int) -> Points:
        """Scrambled Sobol points."""
        return SobolEngine(self.d, scramble=True, seed=seed).draw(count, dtype=torch.float64).numpy()

    def measure(self, points: Points, seed: int) -> NDArray[np.float64]:
        """The function where the inputs slipped to, with noise."""
        generator, problem = np.random.default_rng([seed, 2]), self._problem
        errors, X = generator.standard_normal(len(points)), problem.from_cube(points)
        variance = self._variance(X)
        scale = self.noise if variance is None else np.sqrt(variance)
        if np.any(problem.slip):
            X = X + problem.slip * generator.standard_normal(X.shape)
        return problem.f(X) + scale * errors

    def truth(self, points: Points) -> NDArray[np.float64]:
        """The function."""
        return self._problem.f(self._problem.from_cube(points))

    def _variance(self, X: Points) -> NDArray[np.float64] | None:
        """Of the noise, n; None where it is the same everywhere."""
        return None if self._problem.variance is None else self._problem.variance(X)

    def table(self, points: Points, values: NDArray[np.float64]) -> Table:
        """Columns x1, ..., xd, and the value as the target; its variance where that depends on x and is known."""
        import pandas as pd

        kinds = dict.fromkeys(self.columns, "continuous")
        variance = self._variance(self._problem.from_cube(points))
        return Table(pd.DataFrame(points, columns=self.columns), kinds, None, self.name, VALUE, values, variance)

    def candidates(self, encoder: Encoder, taken: Points, seed: int, count: int) -> Candidates:
        """Scrambled Sobol points."""
        points = self.draw(count, taken, seed)
        rows = pack(encoder, self.table(points, np.zeros(count)), np.arange(1, count + 1))
        return Candidates(points, torch.from_numpy(rows), Packing.of(encoder))

    def offer(self, taken: Points, seed: int) -> dict[str, Any]:
        """The unit cube; the same point may come again, as in the paper's experiments."""
        return {"bounds": dict.fromkeys(self.columns, (0.0, 1.0)), "allow_repeats": True}

    def chosen(self, frame: pd.DataFrame) -> Points:
        """The points of a batch."""
        return frame[self.columns].to_numpy(dtype=np.float64)

    def written(self, points: Points, values: NDArray[np.float64]) -> pd.DataFrame:
        """Inputs and value."""
        return self.table(points, values).frame.assign(**{VALUE: values})

    def parsed(self, frame: pd.DataFrame) -> tuple[Points, NDArray[np.float64]]:
        """Inverse of `written`."""
        numbers = frame.to_numpy(dtype=np.float64)  # numpy reads text exactly, pandas may not
        return np.ascontiguousarray(numbers[:, :-1]), np.ascontiguousarray(numbers[:, -1])

    def yardstick(self, start: Points) -> Yardstick:
        """Best-so-far from the best of the starting points (0) to the optimum, or its bound (1), as in the paper."""
        return Yardstick(self._problem.best, float(self.truth(start).max()), typical=self._typical)

    @cached_property
    def _typical(self) -> float:
        if self._problem.typical is not None:
            return self._problem.typical
        generator = torch.Generator().manual_seed(0)
        X: Tensor = torch.rand(TYPICAL, self.d, generator=generator, dtype=torch.float64)
        return float(self.truth(X.numpy()).mean())
