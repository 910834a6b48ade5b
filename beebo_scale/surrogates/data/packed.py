"""Observations whose inputs stay packed (`screening.packing`) until some of them are needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...screening.packing import Packing
from .observations import Observations, merge_replicates


class PackedObservations(Observations):
    """n observations with packed inputs; `take` unpacks what it takes.

    Args:
        rows: n x bytes uint8.
        packing: of the rows.
        rest: y, noise, count and scatter of `Observations`.
        dtype: number format of what `take` gives.
    """

    def __init__(
        self, rows: Tensor, packing: Packing, rest: dict[str, Tensor | None], dtype: torch.dtype = torch.float64
    ) -> None:
        for name, value in {"rows": rows, "packing": packing, "dtype": dtype, **rest}.items():
            object.__setattr__(self, name, value)

    rows: Tensor
    packing: Packing
    dtype: torch.dtype

    @property
    def X(self) -> Tensor:
        """All inputs, n x d float64, unpacked anew each time: 8 n d bytes."""
        return self.packing.unpack(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, rows: Tensor) -> Observations:
        """A subset, unpacked."""
        X = self.packing.unpack(self.rows[rows], self.dtype)
        noise = None if self.noise is None else self.noise[rows].to(self.dtype)
        y, count, scatter = (values[rows].to(self.dtype) for values in (self.y, self.count, self.scatter))
        return Observations(X, y, noise, count, scatter)

    def in_format(self, dtype: torch.dtype) -> PackedObservations:
        """The same observations, for work in another number format."""
        return PackedObservations(self.rows, self.packing, self._rest(), dtype)

    def to(self, device: torch.device) -> PackedObservations:
        """The same observations on another device."""
        rest = {name: None if value is None else value.to(device) for name, value in self._rest().items()}
        return PackedObservations(self.rows.to(device), self.packing, rest, self.dtype)

    def to_dict(self) -> dict[str, Any]:
        """Plain types and tensors, for a file."""
        return {"rows": self.rows, "packing": [list(part) for part in self.packing.parts], **self._rest()}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> PackedObservations:
        """Inverse of `to_dict`."""
        rest = {name: value for name, value in content.items() if name not in ("rows", "packing")}
        return cls(content["rows"], Packing(tuple((form, width) for form, width in content["packing"])), rest)

    def _rest(self) -> dict[str, Tensor | None]:
        return {"y": self.y, "noise": self.noise, "count": self.count, "scatter": self.scatter}


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
    rest = {"y": merged.y, "noise": merged.noise, "count": merged.count, "scatter": merged.scatter}
    return PackedObservations(rows[kept], packing, rest)
