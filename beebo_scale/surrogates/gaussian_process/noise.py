"""Measurement noise sigma^2(x) of new points: constant, by task, or learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ...posterior import Posterior
from ...protocols import Noise


@dataclass(frozen=True)
class ConstantNoise:
    """sigma^2(x) = sigma^2."""

    variance: Tensor  # scalar

    def __call__(self, X: Tensor) -> Tensor:
        """... q x d -> ... q."""
        return self.variance.expand(X.shape[:-1])

    def to(self, *args: Any, **kwargs: Any) -> ConstantNoise:
        """The same noise with another dtype or on another device."""
        return ConstantNoise(self.variance.to(*args, **kwargs))


@dataclass(frozen=True)
class TaskNoise:
    """sigma^2(x, t) = sigma^2_t, the task t a column of the inputs.

    Attributes:
        variance: one for each value of the task column, 0, 1, ....
        column: where the task stands.
    """

    variance: Tensor
    column: int = -1

    def __call__(self, X: Tensor) -> Tensor:
        """... q x d -> ... q."""
        task = X[..., self.column].round().long()
        if bool((task < 0).any()):
            raise ValueError(f"tasks are 0, 1, ..., got {int(task.min())} in column {self.column}")
        return self.variance[task]

    def to(self, *args: Any, **kwargs: Any) -> TaskNoise:
        """The same noise with another dtype or on another device."""
        return TaskNoise(self.variance.to(*args, **kwargs), self.column)


@dataclass(frozen=True)
class ScaledNoise:
    """A multiple of another noise variance."""

    base: Noise
    factor: float

    def __call__(self, X: Tensor) -> Tensor:
        """... q x d -> ... q."""
        return self.factor * self.base(X)

    def to(self, *args: Any, **kwargs: Any) -> ScaledNoise:
        """The same noise with another dtype or on another device."""
        return ScaledNoise(self.base.to(*args, **kwargs), self.factor)


@dataclass(frozen=True)
class LearnedNoise:
    """sigma^2(x) = exp(mean of a Gaussian process on log sigma^2): the median of what that process believes.

    Attributes:
        log_variance: posterior over log sigma^2(x), in the squared units of the surrogate's target.
    """

    log_variance: Posterior

    def __call__(self, X: Tensor) -> Tensor:
        """... q x d -> ... q, differentiable in X."""
        return self.log_variance.mean(X).exp()

    def to(self, *args: Any, **kwargs: Any) -> LearnedNoise:
        """The same noise with another dtype or on another device."""
        return LearnedNoise(self.log_variance.to(*args, **kwargs))
