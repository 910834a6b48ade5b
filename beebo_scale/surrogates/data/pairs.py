"""The posterior of all targets at once: each point stands for its pairs with every task, x1 t1, x1 t2, x2 t1, ...."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from gpytorch.kernels import ProductKernel
from torch import Tensor

from ...kernels.screen import TaskKernel
from ...kernels.stationary import gram
from ...kernels.task_sums import insert_tasks
from ...linalg.roots import CholeskyRoot
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
        if self._by_input is None:
            return self.base.mean(self.pairs(X))
        kernel, inputs, weights = self._by_input
        base: Any = self.base
        K = gram(kernel, X.reshape(-1, X.shape[-1]), inputs)
        return base.prior_mean(self.pairs(X)) + (K @ weights).reshape(*X.shape[:-2], -1)

    @cached_property
    def _by_input(self) -> tuple[Any, Tensor, Tensor] | None:
        """Where k((x, s), (z, t)) = k(x, z) B[s, t]: k, the different inputs (n x d) and sum_t B[s, t] alpha (n x t).

        The means of all tasks then take one evaluation of k(x, z) for each input, not one for each pair of pairs.
        """
        base: Any = self.base
        kernel = getattr(base, "kernel", None)
        parts: list[Any] = list(kernel.kernels) if isinstance(kernel, ProductKernel) and not self.after else []
        if base.warp is not None or len(parts) < 2 or not isinstance(parts[-1], TaskKernel):
            return None
        if any(part.active_dims is None for part in parts):
            return None
        with torch.no_grad():
            inputs, place = torch.unique(base.centers[:, :-1], dim=0, return_inverse=True)
            B = parts[-1].covariance.to(base.centers)
            each = B[base.centers[:, -1].round().long()] * base.weights.unsqueeze(-1)  # pairs x t
            weights = each.new_zeros(len(inputs), self.tasks).index_add(0, place, each)
        return parts[0] if len(parts) == 2 else ProductKernel(*parts[:-1]), inputs, weights

    def coarse(self, count: int) -> PairsPosterior:
        """A posterior that knows `count` of the measured inputs only; itself where it knows no more, or is approximate.

        Knowing less, it has no smaller variance anywhere, at the price of so many centers. Its mean is of no use.
        """
        base: Any = self.base
        if base.rank <= count * self.tasks or base.up is not None or not base.exact or base.warp is not None:
            return self
        with torch.no_grad():
            inputs = torch.unique(base.centers[:, : base.centers.shape[-1] - 1 - len(self.after)], dim=0)
            chosen = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(0))[:count]
            X = inputs[chosen.to(inputs.device)]
            P = self.pairs(X)
            L = torch.linalg.cholesky(base.prior_covar(P, P) + self.noise(X).diag())
            known = replace(
                base, centers=P, weights=P.new_zeros(len(P)), down=CholeskyRoot(L), prior_variance=self.amplitude
            )
        return PairsPosterior(known, self.tasks, self.after)

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
