"""Modules that carry a model's kernel and mean from standardised units to the caller's."""

from __future__ import annotations

from typing import Any

import torch
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor, nn

from .stationary import StationaryKernel, gram


class OutcomeScale(nn.Module):
    """y = shift + scale z, constants or one pair for each task."""

    shift: Tensor
    scale: Tensor

    def __init__(self, shift: Tensor, scale: Tensor, column: int | None = None) -> None:
        super().__init__()
        self.register_buffer("shift", shift.detach().clone().reshape(-1))
        self.register_buffer("scale", scale.detach().clone().reshape(-1))
        self.column = column

    def of(self, values: Tensor, X: Tensor) -> Tensor:
        """Shift or scale at each point: ... q x d -> ... q."""
        return values.expand(X.shape[:-1]) if self.column is None else values[X[..., self.column].long()]


def rescale(kernel: Kernel, outcome: OutcomeScale) -> Kernel:
    """scale(x) k(x, x') scale(x'), in the kernel's own amplitude where it has one and the scale is constant."""
    if outcome.column is None and isinstance(kernel, StationaryKernel):
        return kernel.scaled(float(outcome.scale) ** 2)
    return RescaledKernel(kernel, outcome)


class RescaledKernel(Kernel):
    """scale(x) k(x, x') scale(x')."""

    def __init__(self, base: Kernel, outcome: OutcomeScale) -> None:
        super().__init__()
        self.base, self.outcome = base, outcome

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        """... p x d, ... q x d -> ... p x q (diag: ... p)."""
        s1, s2 = self.outcome.of(self.outcome.scale, x1), self.outcome.of(self.outcome.scale, x2)
        if diag:
            return self.base(x1, x2, diag=True) * s1 * s2
        return s1.unsqueeze(-1) * gram(self.base, x1, x2) * s2.unsqueeze(-2)


class RescaledMean(Mean):
    """shift(x) + scale(x) m(x)."""

    def __init__(self, base: nn.Module, outcome: OutcomeScale) -> None:
        super().__init__()
        self.base, self.outcome = base, outcome

    def forward(self, X: Tensor) -> Tensor:
        """... q x d -> ... q."""
        return self.outcome.of(self.outcome.shift, X) + self.outcome.of(self.outcome.scale, X) * self.base(X)


class TaskMean(Mean):
    """The mean of a botorch MultiTaskGP at inputs whose task column holds indices."""

    def __init__(self, base: nn.Module, column: int) -> None:
        super().__init__()
        self.base, self.column = base, column

    def forward(self, X: Tensor) -> Tensor:
        """... q x d -> ... q."""
        others = torch.cat([X[..., : self.column], X[..., self.column + 1 :]], dim=-1)
        by_task = self.base(others)  # ... q x tasks
        return by_task.gather(-1, X[..., self.column : self.column + 1].long()).squeeze(-1)
