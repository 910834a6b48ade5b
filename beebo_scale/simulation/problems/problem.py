"""A function to be maximised over a box, and what is known of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
DISTANCE = 0.5  # of a starting point from every optimum (paper, experiments)


@dataclass(frozen=True, eq=False)
class Problem:
    """f: box -> R in its own units; large values are good.

    Attributes:
        f: n x d -> n.
        bounds: 2 x d, smallest and largest of each input.
        best: the largest value; where nobody knows it, a bound that no value exceeds.
        optima: o x d, where it is reached; o = 0 where nobody knows.
        distance: of a starting point from every optimum, at least, in units of the box's sides.
        slip: standard deviation of the error with which inputs are set when they are measured; d, or one for all.
        variance: n x d -> n, of the noise of a measurement; None where it is the same everywhere.
        typical: mean of f over the box; None where it is quick to estimate.
    """

    f: Callable[[Array], Array]
    bounds: Array
    best: float
    optima: Array
    distance: float = DISTANCE
    slip: Array | float = 0.0
    variance: Callable[[Array], Array] | None = None
    typical: float | None = None

    @property
    def d(self) -> int:
        """Number of inputs."""
        return self.bounds.shape[1]

    def from_cube(self, U: Array) -> Array:
        """Points of the unit cube to points of the box, n x d."""
        lo, hi = self.bounds
        return lo + U * (hi - lo)

    def to_cube(self, X: Array) -> Array:
        """Inverse of `from_cube`."""
        lo, hi = self.bounds
        return (X - lo) / (hi - lo)


@dataclass(frozen=True)
class OfFirst:
    """h(x_1, ..., x_d) = f(x_1, ..., x_e)."""

    f: Callable[[Array], Array]
    e: int

    def __call__(self, X: Array) -> Array:
        """Values, n x d -> n."""
        return self.f(X[:, : self.e])


def embedded(problem: Problem, d: int) -> Problem:
    """The problem with more inputs, d in all, of which only the first e matter.

        h(x_1, ..., x_d) = f(x_1, ..., x_e),   x_{e+1}, ..., x_d in [0, 1]

    Its optima are those of f with zeros appended, as in the paper, which starts at least 0.5 away from these points:
    with many inputs that do not matter any start is, also one at the optimum of f.

    Source: Wang et al., Bayesian optimization in a billion dimensions, 2016.
    """
    e, more = problem.d, d - problem.d
    return replace(
        problem,
        f=OfFirst(problem.f, e),
        bounds=np.hstack([problem.bounds, [[0.0] * more, [1.0] * more]]),
        optima=np.pad(problem.optima, ((0, 0), (0, more))),
        slip=np.append(np.broadcast_to(problem.slip, e), [0.0] * more),
        variance=None if problem.variance is None else OfFirst(problem.variance, e),
    )
