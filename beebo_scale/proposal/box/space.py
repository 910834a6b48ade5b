"""The set that a batch may come from, in encoded units: a box, its columns' kinds, and what binds them together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from ...errors import InputError
from . import polytope
from .polytope import TOLERANCE, Inequality, Polytope

TRADED = 12  # steps of one whole number that others make up for, at most
MENDED_POINTS = 50  # points that are mended one by one where no sampled point fits


@dataclass(frozen=True, eq=False)
class Space:
    """Bounds, kinds of columns, inequalities within one point, and columns that the whole batch shares.

    Attributes:
        bounds: 2 x d, lower and upper; a column with equal ends is fixed.
        integer: column -> k, its number of steps: only k + 1 evenly spaced values from end to end are allowed.
        categorical: column -> its allowed codes (at least two, rising); the bounds are the first and the last.
        shared: columns that have one value in the whole batch.
        inequalities: triples of indices, coefficients and right-hand side; columns are continuous or integer.
        equalities: the same, that hold with equality; two opposite inequalities are one too.
    """

    bounds: Tensor
    integer: Mapping[int, int] = field(default_factory=dict)
    categorical: Mapping[int, Tensor] = field(default_factory=dict)
    shared: tuple[int, ...] = ()
    inequalities: tuple[Inequality, ...] = ()
    equalities: tuple[Inequality, ...] = ()

    @property
    def width(self) -> int:
        """Number of columns d."""
        return self.bounds.shape[-1]

    def to(self, *args: Any, **kwargs: Any) -> Space:
        """The same space on another device (arguments as in `torch.Tensor.to`)."""
        codes = {column: values.to(*args, **kwargs) for column, values in self.categorical.items()}
        return replace(self, bounds=self.bounds.to(*args, **kwargs), categorical=codes)

    def with_shared(self, x: Tensor) -> Space:
        """The space with its shared columns fixed at their values in a point (d)."""
        own = [column for column in range(self.width) if column not in self.shared]
        return replace(
            self,
            bounds=torch.where(self.tied, x, self.bounds),
            integer={column: k for column, k in self.integer.items() if column in own},
            categorical={column: codes for column, codes in self.categorical.items() if column in own},
            shared=(),
        )

    @cached_property
    def relaxed(self) -> Tensor:
        """Columns that a gradient can move, integers taken as continuous: neither fixed nor categorical, d booleans."""
        mask = self.bounds[1] > self.bounds[0]
        mask[list(self.categorical)] = False
        return mask

    @cached_property
    def continuous(self) -> Tensor:
        """Columns that take any value between their bounds, d booleans."""
        mask = self.relaxed.clone()
        mask[list(self.integer)] = False
        return mask

    @cached_property
    def tied(self) -> Tensor:
        """Shared columns as d booleans."""
        mask = torch.zeros(self.width, dtype=torch.bool, device=self.bounds.device)
        mask[list(self.shared)] = True
        return mask

    @property
    def discrete(self) -> bool:
        """Whether a column takes single values only."""
        return bool(self.integer or self.categorical)

    @cached_property
    def plain(self) -> bool:
        """Whether bounds are all there is for the columns that move."""
        return not len(self.polytope)

    @cached_property
    def polytope(self) -> Polytope:
        """Inequalities and equalities in the unit cube, those left out that no point breaks."""
        return Polytope.over(self.bounds, self.inequalities, self.equalities)

    @cached_property
    def coupled(self) -> bool:
        """Whether a condition binds a shared column."""
        return bool((self.polytope.A[:, self.tied] != 0).any())

    def lean(self, U: Tensor) -> Tensor:
        """Where the inequalities that each point breaks want it to go, by column: n x d in the unit cube -> n x d."""
        A, b = self.polytope.A, self.polytope.b
        return ((U @ A.mT < b) & ~self.polytope.equal).to(A) @ A

    @cached_property
    def _steps(self) -> Tensor:
        """Steps of the integer columns, zero for the others, d."""
        steps = torch.zeros_like(self.bounds[0])
        for column, k in self.integer.items():
            steps[column] = k
        return steps

    def check(self) -> None:
        """Refuse a space without points.

        Raises:
            InputError: no point meets all inequalities.
        """
        if not self.plain:
            self._anywhere(torch.full_like(self.bounds[0], 0.5) * self.relaxed)

    # --- the unit cube ---------------------------------------------------------------------------------

    def unit(self, X: Tensor) -> Tensor:
        """Points in the unit cube, ... d -> ... d; fixed columns are zero there."""
        lo, hi = self.bounds
        return torch.where(hi > lo, (X - lo) / torch.where(hi > lo, hi - lo, 1.0), 0.0)

    def own(self, U: Tensor) -> Tensor:
        """Points of the unit cube in the space's units, ... d -> ... d; both ends are met exactly."""
        return torch.lerp(self.bounds[0], self.bounds[1], U)

    def relax(self, U: Tensor, moving: Tensor) -> Tensor:
        """The nearest batches inside, integers taken as continuous; for a gradient to move on.

        Args:
            U: b x q x d, in the unit cube.
            moving: d booleans, the columns that may move, out of the relaxed ones.
        """
        if self.plain:
            return self.shared_mean(torch.where(moving, U.clamp(0.0, 1.0), U))
        U = self.shared_mean(U)
        if bool((self.polytope.A[:, self.tied & moving] != 0).any()):
            return self.polytope.project_batches(U, moving, self.tied)
        return self.polytope.project(U.flatten(0, -2), moving).reshape(U.shape)

    def shared_mean(self, U: Tensor) -> Tensor:
        """Shared columns replaced by their mean over the batch, ... q x d -> ... q x d."""
        if not self.shared:
            return U
        first = U[..., :1, :]
        return torch.where(self.tied, first + (U - first).mean(-2, keepdim=True), U)

    # --- single values ---------------------------------------------------------------------------------

    def settle(self, X: Tensor) -> Tensor:
        """A batch of the space near the given points: q x d -> q x d, every condition met.

        Labels and whole numbers go to the nearest, the continuous columns then onto the inequalities; where whole
        numbers leave no room there, the nearest that do are found by mixed integer programming.
        """
        U = self._rounded(self.shared_mean(self._rounded(self.unit(X))))
        return self._exact(U if self.plain else self._whole(U))

    def _rounded(self, U: Tensor) -> Tensor:
        """Clipped, integers on the nearest step and labels on the nearest code, in the unit cube."""
        U = U.clamp(0.0, 1.0)
        k = self._steps
        U = torch.where(k > 0, (U * k).round() / k.clamp_min(1.0), U)
        for column, codes in self.categorical.items():
            allowed = self.unit(self._column(codes, column))[:, column]
            U[..., column] = allowed[(U[..., column, None] - allowed).abs().argmin(-1)]
        return U

    def _column(self, values: Tensor, column: int) -> Tensor:
        rows = self.bounds[0].repeat(len(values), 1)
        rows[:, column] = values
        return rows

    def _whole(self, U: Tensor, again: bool = True) -> Tensor:
        """A rounded batch (q x d, unit cube) that meets the inequalities, whole numbers moved only where they must."""
        faces = self.polytope
        V = self.relax(U[None], self.continuous)[0]
        if bool((faces.slack(V) >= -TOLERANCE).all()):
            return V
        V = faces.project(U, self.continuous & ~self.tied)
        for row in (faces.slack(V) < -TOLERANCE).nonzero().squeeze(-1).tolist():
            whole = polytope.nearest_whole(U[row], faces, self._steps, ~self.relaxed | self.tied)
            if whole is not None:
                start = torch.where(self.continuous, U[row], whole)[None]
                V[row] = faces.project(start, self.continuous & ~self.tied)[0]
            elif again and self.shared:  # the shared columns leave no room: they move, and the batch with them
                return self._whole(torch.where(self.tied, self._anywhere(U[row]), U), again=False)
            else:
                self._anywhere(U[row])
        return V

    def _anywhere(self, u: Tensor) -> Tensor:
        """A point near u (d, unit cube) that meets all conditions, its shared columns free to move.

        Raises:
            InputError: there is none.
        """
        whole = polytope.nearest_whole(u, self.polytope, self._steps, ~self.relaxed)
        if whole is None:
            raise InputError("constraints: no point within the bounds meets them all; widen the bounds or drop one")
        return self.polytope.project(torch.where(self.continuous, u, whole)[None], self.continuous)[0]

    def _exact(self, U: Tensor) -> Tensor:
        X = self.own(U)
        for column, codes in self.categorical.items():
            X[..., column] = codes[(X[..., column, None] - codes).abs().argmin(-1)]
        return X

    def contains(self, X: Tensor, tolerance: float = TOLERANCE) -> Tensor:
        """Whether each point meets bounds, single values and inequalities to a tolerance in the unit cube, ... d."""
        lo, hi = self.bounds
        U = self.unit(X)
        inside = ((lo <= X) & (hi >= X)).all(-1)
        inside &= ((U - self._rounded(U)).abs() <= tolerance).all(-1)
        return inside & (self.polytope.slack(U.reshape(-1, self.width)) >= -tolerance).reshape(inside.shape)

    # --- all points, random points ---------------------------------------------------------------------

    @cached_property
    def count(self) -> float:
        """Number of points that the bounds allow, infinite with a continuous column."""
        if bool(self.continuous.any()):
            return float("inf")
        count = 1.0
        for k in self.integer.values():
            count *= k + 1
        for codes in self.categorical.values():
            count *= len(codes)
        return count

    def every(self) -> Tensor:
        """All points of a space of labels and whole numbers, in lexicographic order, n x d."""
        values = [self.bounds[:1, column] for column in range(self.width)]
        for column, k in self.integer.items():
            whole = torch.arange(k + 1, dtype=torch.float64) / k
            values[column] = torch.lerp(self.bounds[0, column], self.bounds[1, column], whole.to(self.bounds))
        for column, codes in self.categorical.items():
            values[column] = codes
        X = torch.cartesian_prod(*values).reshape(-1, self.width)
        return X[self.contains(X)]

    def sample(self, count: int, generator: torch.Generator, like: Tensor | None = None) -> Tensor:
        """Points spread over the space, count x d: scrambled Sobol points; inside inequalities, random walks.

        Args:
            count: number of points; where few were found they come several times.
            generator: on the CPU.
            like: d; shared columns are as in this point. None draws them for each point.
        """
        seed = int(torch.randint(2**31, (1,), generator=generator))
        U = SobolEngine(self.width, scramble=True, seed=seed).draw(count, dtype=torch.float64).to(self.bounds)
        U = self._spread(U)
        moving = self.relaxed
        if like is not None:
            U, moving = torch.where(self.tied, self.unit(like), U), moving & ~self.tied
        if self.plain:
            return self._exact(U)
        U = polytope.fill(U, self.polytope, moving, generator)
        found = self._feasible(U, moving)
        if not len(found):
            found = torch.cat([self._exact(self._whole(u)) for u in self._rounded(U[:MENDED_POINTS]).split(1)])
        return found[torch.arange(count, device=U.device) % len(found)]

    def near(self, X: Tensor, like: Tensor | None = None) -> Tensor:
        """Those of the points (n x d) that rounding and a projection bring into the space; `like` as in `sample`."""
        U, moving = self.unit(X), self.relaxed
        if like is not None:
            U, moving = torch.where(self.tied, self.unit(like), U), moving & ~self.tied
        return self._feasible(U, moving)

    def mended(self, X: Tensor) -> Tensor:
        """Those of the points (n x d) of which a projection of their own continuous columns makes one of the space."""
        return X[self.contains(X)] if self.plain else self._feasible(self.unit(X), self.relaxed & ~self.tied)

    @cached_property
    def trades(self) -> list[tuple[int, int, int, int]]:
        """Pairs of own whole numbers and the steps of each that together keep an equality."""
        found = []
        own = [column for column in self.integer if column not in self.shared]
        for a in self.polytope.A[self.polytope.equal].tolist():
            for i, j in combinations([column for column in own if a[column] != 0.0], 2):
                ratio = -(a[i] / self.integer[i]) / (a[j] / self.integer[j])
                n = next((n for n in range(1, TRADED + 1) if abs(n * ratio - round(n * ratio)) < 1e-9), 0)
                found += [(i, j, sign * n, sign * round(n * ratio)) for sign in (1, -1) if n]
        return found

    def _feasible(self, U: Tensor, moving: Tensor) -> Tensor:
        U = self._rounded(U)
        X = self._exact(U if self.plain else self.polytope.project(U, moving & self.continuous))
        return X[self.contains(X)]

    def _spread(self, U: Tensor) -> Tensor:
        """Uniform numbers with those of labels and whole numbers spread evenly over the values; fixed columns zero."""
        k = self._steps
        U = torch.where(k > 0, (U * (k + 1)).floor() / k.clamp_min(1.0), U * (self.bounds[1] > self.bounds[0]))
        for column, codes in self.categorical.items():
            allowed = self.unit(self._column(codes, column))[:, column]
            U[..., column] = allowed[(U[..., column] * len(codes)).long()]
        return U
