"""Functions with a known optimum (those of botorch) over the unit cube, larger is better."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.quasirandom import SobolEngine

from ..errors import InputError
from ..screening import Encoder, Table
from ..screening.files import did_you_mean
from ..screening.packing import Packing, pack
from .world import Candidates, Points, Yardstick

if TYPE_CHECKING:
    import pandas as pd

DIMENSIONS: dict[str, tuple[int, ...]] = {  # those that a function is known in; empty: any from the least on
    "ackley": (),
    "levy": (),
    "rastrigin": (),
    "rosenbrock": (),
    "styblinski-tang": (),
    "powell": (),
    "shekel": (4,),
    "hartmann": (6, 3),
    "cosine": (8,),
}
CLASSES = {"styblinski-tang": "StyblinskiTang", "cosine": "Cosine8"}  # others have the name with a capital
LEAST = {"powell": 4}
LEAST_OF_ALL = 2  # no point of the unit interval is 0.5 away from its middle
DISTANCE = 0.5  # of a starting point from every optimum (paper, experiments)
TYPICAL = 1 << 14  # points that the mean of the function is taken over
VALUE = "value"


@dataclass(frozen=True)
class TestFunction:
    """A test function over the unit cube, turned so that large values are good.

    Attributes:
        name: one of DIMENSIONS.
        dimension: d; None where the function has only one.
        noise: standard deviation of the noise of a measurement.
    """

    name: str
    dimension: int | None = None
    noise: float = 0.0

    __test__ = False  # the name means something else to pytest

    def __post_init__(self) -> None:
        if self.name not in DIMENSIONS:
            near = did_you_mean(self.name, DIMENSIONS)
            raise InputError(f"there is no function {self.name!r}{near}; choose one of {', '.join(DIMENSIONS)}")
        known, least = DIMENSIONS[self.name], LEAST.get(self.name, LEAST_OF_ALL)
        if self.dimension is None and known:
            object.__setattr__(self, "dimension", known[0])
        if self.dimension is None:
            raise InputError(f"{self.name} has any number of inputs; give its dimension")
        if (known and self.dimension not in known) or self.dimension < least:
            words = " or ".join(map(str, sorted(known))) if known else f"{least} or more"
            raise InputError(f"{self.name} with {self.dimension} inputs: it has {words}")
        if not (np.isfinite(self.noise) and self.noise >= 0):
            raise InputError(f"noise = {self.noise}: give a standard deviation, 0 or more")

    @property
    def maximize(self) -> bool:
        """Always; functions to minimise are turned over."""
        return True

    @property
    def d(self) -> int:
        """Number of inputs."""
        assert self.dimension is not None
        return self.dimension

    @property
    def columns(self) -> list[str]:
        """Names of the inputs."""
        return [f"x{i + 1}" for i in range(self.d)]

    @cached_property
    def _function(self) -> Any:
        from botorch import test_functions

        cls = getattr(test_functions, CLASSES.get(self.name, self.name.capitalize()))
        given = {} if DIMENSIONS[self.name] in ((4,), (8,)) else {"dim": self.dimension}
        return cls(negate=cls(**given).is_minimization_problem, **given)

    @property
    def title(self) -> str:
        """Name, dimension and noise."""
        return f"{self.name} in {self.d} dimensions" + (f", noise {self.noise:g}" if self.noise else "")

    def identity(self) -> dict[str, Any]:
        """Name, dimension and noise."""
        return {"function": self.name, "dimension": self.dimension, "noise": self.noise}

    def check(self, count: int) -> None:
        """There is no end of points."""

    def start(self, count: int, seed: int) -> Points:
        """Uniform points at least 0.5 away from every optimum, the same for every strategy."""
        generator = torch.Generator().manual_seed(seed)
        lo, hi = self._function.bounds
        optima = (self._function.optimizers - lo) / (hi - lo)  # o x d
        kept = torch.empty(0, self.d, dtype=torch.float64)
        while len(kept) < count:
            X = torch.rand(max(count, 64), self.d, generator=generator, dtype=torch.float64)
            kept = torch.cat([kept, X[torch.cdist(X, optima).amin(-1) >= DISTANCE]])
        return kept[:count].numpy()

    def draw(self, count: int, taken: Points, seed: int) -> Points:
        """Scrambled Sobol points."""
        return SobolEngine(self.d, scramble=True, seed=seed).draw(count, dtype=torch.float64).numpy()

    def measure(self, points: Points, seed: int) -> NDArray[np.float64]:
        """The function with noise."""
        values = self.truth(points)
        return values + self.noise * np.random.default_rng([seed, 2]).standard_normal(len(values))

    def truth(self, points: Points) -> NDArray[np.float64]:
        """The function."""
        lo, hi = self._function.bounds
        return self._function(lo + torch.from_numpy(points) * (hi - lo), noise=False).numpy()

    def table(self, points: Points, values: NDArray[np.float64]) -> Table:
        """Columns x1, ..., xd, and the value as the target."""
        import pandas as pd

        kinds = dict.fromkeys(self.columns, "continuous")
        return Table(pd.DataFrame(points, columns=self.columns), kinds, None, self.name, VALUE, values)

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
        """Best-so-far from the best of the starting points (0) to the optimum (1), as in the paper."""
        best, floor = float(self._function.optimal_value), float(self.truth(start).max())
        return Yardstick(best, floor, typical=self._typical)

    @cached_property
    def _typical(self) -> float:
        generator = torch.Generator().manual_seed(0)
        X: Tensor = torch.rand(TYPICAL, self.d, generator=generator, dtype=torch.float64)
        return float(self.truth(X.numpy()).mean())
