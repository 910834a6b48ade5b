"""Measured rows as the Gaussian process sees them, with exact replicates merged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...screening.packing import Packing


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
        return self._each(lambda values: values[rows])

    def in_format(self, dtype: torch.dtype) -> Observations:
        """The same observations in another number format."""
        return self._each(lambda values: values.to(dtype))

    def to(self, device: torch.device) -> Observations:
        """The same observations on another device."""
        return self._each(lambda values: values.to(device))

    def _each(self, change: Callable[[Tensor], Tensor]) -> Observations:
        return replace(self, **{name: change(values) for name, values in vars(self).items() if values is not None})

    def to_dict(self) -> dict[str, Any]:
        """Plain types and tensors, for a file."""
        return dict(vars(self))


@dataclass(frozen=True)
class PackedObservations:
    """`Observations` whose inputs stay packed until some of them are needed; `take` unpacks what it takes.

    Attributes:
        rows: n x bytes uint8.
        packing: of the rows.
        y, noise, count, scatter: as in `Observations`.
        dtype: number format of what `take` gives.
    """

    rows: Tensor
    packing: Packing
    y: Tensor
    noise: Tensor | None
    count: Tensor
    scatter: Tensor
    dtype: torch.dtype = torch.float64

    @property
    def X(self) -> Tensor:
        """All inputs, n x d float64, unpacked anew each time: 8 n d bytes."""
        return self.packing.unpack(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, rows: Tensor) -> Observations:
        """A subset, unpacked."""
        return self.packed(rows).unpacked()

    def packed(self, rows: Tensor) -> PackedObservations:
        """A subset, still packed."""
        return self._each(lambda values: values[rows])

    def unpacked(self) -> Observations:
        """All of them, unpacked."""
        X = self.packing.unpack(self.rows, self.dtype)
        return Observations(X, self.y, self.noise, self.count, self.scatter).in_format(self.dtype)

    def in_format(self, dtype: torch.dtype) -> PackedObservations:
        """The same observations, for work in another number format."""
        return replace(self, dtype=dtype)

    def to(self, device: torch.device) -> PackedObservations:
        """The same observations on another device."""
        return self._each(lambda values: values.to(device))

    def _each(self, change: Callable[[Tensor], Tensor]) -> PackedObservations:
        changed: dict[str, Any] = {name: change(v) for name, v in vars(self).items() if isinstance(v, Tensor)}
        return replace(self, **changed)

    def to_dict(self) -> dict[str, Any]:
        """Plain types and tensors, for a file."""
        kept = {name: value for name, value in vars(self).items() if name != "dtype"}
        return kept | {"packing": [list(part) for part in self.packing.parts]}


Measurements = Observations | PackedObservations


def measurements_of(content: dict[str, Any]) -> Measurements:
    """Inverse of `to_dict` of either kind."""
    if "packing" not in content:
        return Observations(**content)
    packing = Packing(tuple((form, width) for form, width in content["packing"]))
    return PackedObservations(**content | {"packing": packing})


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


def merge_packed(rows: Tensor, packing: Packing, y: Tensor, noise: Tensor | None = None) -> PackedObservations:
    """`merge_replicates` for packed inputs: rows with the same bytes are one input.

    Args:
        rows: N x bytes uint8.
        packing: of the rows.
        y: N measured values.
        noise: N known variances, or None.
    """
    keys = np.ascontiguousarray(rows.numpy()).view(f"V{packing.size}").ravel()
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    merged = merge_replicates(torch.from_numpy(group).double().unsqueeze(-1), y, noise)  # of group numbers
    kept = torch.from_numpy(first)[merged.X.squeeze(-1).long()]
    return PackedObservations(rows[kept], packing, merged.y, merged.noise, merged.count, merged.scatter)
