r"""Kernel, mean and noise of a weighted sum of outputs, g(x) = offset + sum_t w_t f(x, t).

A point at which g is meant stands in the kernel as a pair with the task ALL, so k(g(x), f(z, t)) =
sum_s w_s k((x, s), (z, t)); what is made of them is in `surrogates.scalarize`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor, nn

from ..protocols import Noise
from .stationary import gram

ALL = -1.0  # in the task column: the weighted sum of all tasks


class TaskSum(nn.Module):
    """Rows with a task column as weighted sums over tasks."""

    weights: Tensor

    def __init__(self, weights: Tensor, column: int) -> None:
        super().__init__()
        self.register_buffer("weights", weights)
        self.column = column

    def pairs(self, X: Tensor) -> Tensor:
        """Every row with every task, ... q x d -> ... (q t) x d."""
        return insert_tasks(
            torch.cat([X[..., : self.column], X[..., self.column + 1 :]], -1), self.weights, self.column
        )

    def of(self, X: Tensor) -> Tensor:
        """Weight of every task in every row, ... q x d -> ... q x t: w where the task is ALL, else one for its task."""
        task = X[..., self.column].round()
        one_hot = nn.functional.one_hot(task.clamp_min(0).long(), len(self.weights)).to(self.weights)
        return torch.where((task == ALL).unsqueeze(-1), self.weights, one_hot)


def insert_tasks(X: Tensor, weights: Tensor, column: int) -> Tensor:
    """Every point with every task, ... q x d -> ... (q t) x (d + 1)."""
    t = len(weights)
    task = torch.arange(t, dtype=X.dtype, device=X.device).expand(*X.shape[:-1], t)  # ... q x t
    X = X.unsqueeze(-2).expand(*X.shape[:-1], t, X.shape[-1])  # ... q x t x d
    return torch.cat([X[..., :column], task.unsqueeze(-1), X[..., column:]], dim=-1).flatten(-3, -2)


class TaskSumKernel(Kernel):
    """sum_s sum_t W_s(x) k((x, s), (x', t)) W_t(x')."""

    def __init__(self, base: Kernel, tasks: TaskSum) -> None:
        super().__init__()
        self.base, self.tasks = base, tasks

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        """... p x d, ... q x d -> ... p x q (diag: ... p)."""
        W1, W2 = self.tasks.of(x1), self.tasks.of(x2)
        t = W1.shape[-1]
        if diag:
            P1, P2 = self.tasks.pairs(x1.unsqueeze(-2)), self.tasks.pairs(x2.unsqueeze(-2))  # ... p x t x d
            return torch.einsum("...ps,...pst,...pt->...p", W1, gram(self.base, P1, P2), W2)
        K = gram(self.base, self.tasks.pairs(x1), self.tasks.pairs(x2))  # ... p t x q t
        K = K.reshape(*K.shape[:-2], x1.shape[-2], t, x2.shape[-2], t)
        return torch.einsum("...ps,...psqt,...qt->...pq", W1, K, W2)


class TaskSumMean(Mean):
    """sum_t W_t(x) m((x, t)), and the offset where the task is ALL."""

    def __init__(self, base: nn.Module, tasks: TaskSum, offset: float) -> None:
        super().__init__()
        self.base, self.tasks, self.offset = base, tasks, offset

    def forward(self, X: Tensor) -> Tensor:
        """... q x d -> ... q."""
        W = self.tasks.of(X)  # ... q x t
        mean = (self.base(self.tasks.pairs(X)).reshape(W.shape) * W).sum(-1)
        return mean + self.offset * (X[..., self.tasks.column].round() == ALL).to(mean)


@dataclass(frozen=True)
class TaskSumNoise:
    """sum_t w_t^2 sigma^2(x, t)."""

    base: Noise
    weights: Tensor
    column: int | None

    def __call__(self, X: Tensor) -> Tensor:
        """Points without a task column, ... q x d -> ... q."""
        P = X if self.column is None else insert_tasks(X, self.weights, self.column)
        return self.base(P).reshape(*X.shape[:-1], len(self.weights)) @ self.weights.square()

    def to(self, *args: Any, **kwargs: Any) -> TaskSumNoise:
        """The same noise with another dtype or on another device."""
        return TaskSumNoise(self.base.to(*args, **kwargs), self.weights.to(*args, **kwargs), self.column)


class AllTasks(nn.Module):
    """Points without a task column to pairs with the task ALL, then the warp of the pairs."""

    def __init__(self, warp: nn.Module | None, column: int) -> None:
        super().__init__()
        self.warp: Any
        self.warp, self.column = warp, column

    def forward(self, X: Tensor) -> Tensor:
        """... q x d -> ... q x (d + 1)."""
        task = torch.full_like(X[..., :1], ALL)
        P = torch.cat([X[..., : self.column], task, X[..., self.column :]], dim=-1)
        return P if self.warp is None else self.warp(P)

    def untransform(self, P: Tensor) -> Tensor:
        """Pairs without their tasks, ... q x (d + 1) -> ... q x d; not known under a warp that cannot be undone."""
        P = P if self.warp is None else self.warp.untransform(P)
        return torch.cat([P[..., : self.column], P[..., self.column + 1 :]], dim=-1)
