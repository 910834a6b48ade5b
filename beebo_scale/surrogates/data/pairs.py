"""The posterior of all targets at once: each point stands for its pairs with every task, x1 t1, x1 t2, x2 t1, ...."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ...kernels.task_sums import insert_tasks
from ...posterior import Posterior
from ...protocols import Noise


@dataclass(frozen=True)
class PairNoise:
    """sigma^2(x, t) of every pair, ... q x d -> ... (q t)."""

    base: Noise
    tasks: int

    def __call__(self, X: Tensor) -> Tensor:
        """Variance of a measurement of each task at each point."""
        return self.base(pairs(X, self.tasks))

    def to(self, *args: Any, **kwargs: Any) -> PairNoise:
        """The same noise with another dtype or on another device."""
        return PairNoise(self.base.to(*args, **kwargs), self.tasks)


@dataclass(frozen=True)
class PairsPosterior(Posterior):
    """A posterior over (input, task) pairs, asked for points: q points have q t means and a q t x q t covariance.

    Features have a row for each pair, so that all that is made of features and pairs stays exact; measuring a point
    means measuring all its targets.

    Attributes:
        base: over pairs, the task behind the features, then the batch where there is one.
        tasks: t.
        after: values of the columns behind the task: none, or that of no known batch.
    """

    base: Posterior
    tasks: int
    after: tuple[float, ...] = ()
    noise: Noise = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", PairNoise(self.base.noise, self.tasks))

    @cached_property
    def points(self) -> Tensor:
        """The known points without task and batch; one comes once for each task that was measured there."""
        return self.base.points[:, : -1 - len(self.after)]

    @property
    def outputs(self) -> int:
        """One for each task."""
        return self.tasks

    @property
    def rank(self) -> int:
        """That of the base."""
        return self.base.rank

    @cached_property
    def amplitude(self) -> float:
        """Prior variance of a target, the mean over all."""
        return self.base.amplitude

    @property
    def exact(self) -> bool:
        """Whether the base is exact."""
        return self.base.exact

    def pairs(self, X: Tensor) -> Tensor:
        """... q x d -> ... (q t) x (d + 1 or 2)."""
        P = pairs(X, self.tasks)
        return torch.cat([P, P.new_tensor(self.after).expand(*P.shape[:-1], -1)], dim=-1) if self.after else P

    def mean(self, X: Tensor) -> Tensor:
        """Posterior means, ... q x d -> ... (q t)."""
        return self.base.mean(self.pairs(X))

    def mean_variance_and_features(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Of all pairs: ... (q t), ... (q t) and ... (q t) x r."""
        return self.base.mean_variance_and_features(self.pairs(X))

    def mean_and_covar(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """... (q t) and ... (q t) x (q t)."""
        return self.base.mean_and_covar(self.pairs(X))

    def cross_covar(self, X1: Tensor, F1: Tensor, X2: Tensor, F2: Tensor) -> Tensor:
        """... p x d, ... (p t) x r, ... q x d, ... (q t) x r -> ... (p t) x (q t)."""
        return self.base.cross_covar(self.pairs(X1), F1, self.pairs(X2), F2)

    def cross_covar_product(self, S: Tensor, F_S: Tensor, W: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
        """(X, F) -> C(X, S) W over pairs."""
        inner = self.base.cross_covar_product(self.pairs(S), F_S, W)
        return lambda X, F: inner(self.pairs(X), F)

    def blocks(self, X: Tensor, F: Tensor) -> Tensor:
        """Covariance of the targets of each point, n x d and its features -> n x t x t."""
        X, F = X.unsqueeze(-2), F.reshape(len(X), self.tasks, -1)
        return self.cross_covar(X, F, X, F)

    def augment(self, X: Tensor, noise: Tensor | float | None = None, Y: Tensor | None = None) -> PairsPosterior:
        """Given measurements of all targets at X (q x d); noise and Y have a number for each pair, q t."""
        sigma2 = self.noise(X) if noise is None else noise
        return PairsPosterior(self.base.augment(self.pairs(X), sigma2, Y), self.tasks, self.after)

    def adapt(self, X: Tensor) -> PairsPosterior:
        """With a base that is exact at X."""
        base = self.base.adapt(self.pairs(X))
        return self if base is self.base else PairsPosterior(base, self.tasks, self.after)

    def to(self, *args: Any, **kwargs: Any) -> PairsPosterior:
        """With the base in another dtype or on another device."""
        return PairsPosterior(self.base.to(*args, **kwargs), self.tasks, self.after)


def pairs(X: Tensor, tasks: int) -> Tensor:
    """Every point with every task, ... q x d -> ... (q t) x (d + 1)."""
    return insert_tasks(X, X.new_zeros(tasks), X.shape[-1])
