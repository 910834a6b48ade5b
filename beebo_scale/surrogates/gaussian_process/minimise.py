"""L-BFGS over hyperparameters, those that are positive in logarithms.

A lengthscale of 0.1 and one of 10, or a noise variance of 1e-4, then take steps of the same relative size. On screens
with ten to thirty columns that needs a third of the evaluations, and ends higher where there is a limit to them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from botorch.optim.core import OptimizationResult, OptimizationStatus, scipy_minimize
from torch import Tensor

ParameterBounds = dict[str, tuple[Any, Any]]


@dataclass(frozen=True)
class _Coordinate:
    """A parameter p and the coordinate that L-BFGS moves: log p where p has a lower bound above zero, else p."""

    p: Tensor
    value: Tensor
    lower: float | None
    upper: float | None

    @classmethod
    def of(cls, p: Tensor, bounds: tuple[Any, Any]) -> _Coordinate:
        lower, upper = (None if b is None or abs(float(b)) == torch.inf else float(b) for b in bounds)
        positive = lower is not None and lower > 0
        return cls(p, p.detach().log() if positive else p.detach().clone(), lower, upper)

    @property
    def positive(self) -> bool:
        return self.lower is not None and self.lower > 0

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """Those of the coordinate."""
        pair = [None if b is None else torch.tensor(b, dtype=torch.float64) for b in (self.lower, self.upper)]
        low, high = (None if b is None else float(b.log() if self.positive else b) for b in pair)
        return low, high

    def apply(self) -> None:
        """Set p."""
        with torch.no_grad():
            self.p.copy_(self.value.exp().clamp_(self.lower, self.upper) if self.positive else self.value)

    def slope(self, gradient: Tensor | None) -> Tensor | None:
        """Gradient in the coordinate from that in p."""
        return gradient * self.p.detach() if gradient is not None and self.positive else gradient


def minimise(
    loss: Callable[[], Tensor],
    parameters: dict[str, Tensor],
    bounds: ParameterBounds,
    maxiter: int,
    on_step: Callable[[], object] | None = None,
) -> OptimizationResult:
    """Minimise by L-BFGS-B, in place.

    Args:
        loss: a scalar with a graph to the parameters.
        parameters: by name.
        bounds: lower and upper bound by name, None or infinite where there is none.
        maxiter: limit of iterations; 0 leaves the parameters where they are.
        on_step: called after every evaluation, of which an iteration takes one or a little more.
    """
    if maxiter < 1:  # scipy takes one step even then
        with torch.no_grad():
            return OptimizationResult(fval=float(loss()), status=OptimizationStatus.STOPPED, step=0)
    coordinates = {name: _Coordinate.of(p, bounds.get(name, (None, None))) for name, p in parameters.items()}

    def closure() -> tuple[Tensor, list[Tensor | None]]:
        for coordinate in coordinates.values():
            coordinate.apply()
        value = loss()
        gradient = torch.autograd.grad(value, list(parameters.values()), allow_unused=True)
        if on_step is not None:  # here, as scipy_minimize would evaluate once more for a callback
            on_step()
        return value.detach(), [c.slope(g) for c, g in zip(coordinates.values(), gradient, strict=True)]

    result = scipy_minimize(
        closure,
        {name: coordinate.value for name, coordinate in coordinates.items()},
        bounds={name: coordinate.bounds for name, coordinate in coordinates.items()},
        options={"maxiter": maxiter, "ftol": 1e-8, "gtol": 1e-5},
    )
    for coordinate in coordinates.values():
        coordinate.apply()
    return result
