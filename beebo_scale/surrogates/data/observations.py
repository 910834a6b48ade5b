"""Measured rows as the Gaussian process sees them, with exact replicates merged."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Observations:
    """Distinct inputs and what was measured there.

    n_i measurements of one input with variance sigma^2 say about f exactly what their mean with variance
    sigma^2 / n_i says; what they say about sigma^2 beyond that is in their scatter.

    Attributes:
        X: n x d distinct inputs, in order of first appearance.
        y: n means, standardised units.
        noise: n known variances of those means, or None if the noise is to be learned.
        count: n measurements behind each mean.
        scatter: n sums over replicates of (y_ij - mean_i)^2; zero where the noise is known.
    """

    X: Tensor
    y: Tensor
    noise: Tensor | None
    count: Tensor
    scatter: Tensor

    def __len__(self) -> int:
        return len(self.X)

    def take(self, rows: Tensor) -> Observations:
        """A subset of the inputs."""
        noise = None if self.noise is None else self.noise[rows]
        return Observations(self.X[rows], self.y[rows], noise, self.count[rows], self.scatter[rows])

    def to_dict(self) -> dict[str, Any]:
        """Plain types and tensors, for a file."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def draw_inputs(count: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Distinct inputs, `size` at most, as they first appear among measurements in random order; sorted.

    An input measured often is likelier to be drawn: most of what is known of the noise is in the scatter there.

    Args:
        count: n measurements of each input.
        size: number of inputs.
        generator: of the order, on the CPU.

    Returns:
        Their numbers.
    """
    inputs = torch.arange(len(count)).repeat_interleave(count.long().cpu())  # one for each measurement
    inputs = inputs[torch.randperm(len(inputs), generator=generator)]
    first = torch.full((len(count),), len(inputs)).scatter_reduce(0, inputs, torch.arange(len(inputs)), "amin")
    return first.argsort()[:size].sort().values


def merge_replicates(X: Tensor, y: Tensor, noise: Tensor | None = None) -> Observations:
    """Merge rows with identical inputs.

    Args:
        X: N x d inputs.
        y: N measured values.
        noise: N known variances, or None. Known variances weigh the mean: precision sum_j 1 / noise_j.
    """
    _, inverse = torch.unique(X, dim=0, return_inverse=True)  # N, group of each row
    first = torch.full((int(inverse.max()) + 1,), len(X)).scatter_reduce(0, inverse, torch.arange(len(X)), "amin")
    order = first.argsort()  # groups by first appearance
    group = order.argsort()[inverse]  # N
    n = len(first)

    def add(values: Tensor) -> Tensor:
        """Sum over each group, N -> n."""
        return X.new_zeros(n).index_add(0, group, values)

    precision = torch.ones_like(y) if noise is None else noise.reciprocal()
    total = add(precision)  # n
    mean = add(precision * y) / total  # n
    return Observations(
        X=X[first[order]],
        y=mean,
        noise=None if noise is None else total.reciprocal(),
        count=add(torch.ones_like(y)),
        scatter=add((y - mean[group]).square()) if noise is None else X.new_zeros(n),
    )
