r"""Workers of a torch.distributed group that share out fixed-size chunks.

Chunk k is worked on by worker k mod W and results are put together in the order of the chunks, so that the result does
not depend on W, bit for bit (on like machines, with like numbers of threads).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True)
class Workers:
    """This process among its fellows.

    Attributes:
        rank: number of this worker.
        size: number of workers W.
        group: torch.distributed process group; None is the default group, or none at all where there is one worker.
    """

    rank: int = 0
    size: int = 1
    group: Any = None

    @classmethod
    def current(cls, group: Any = None) -> Workers:
        """The workers of an initialised group; one worker where torch.distributed is not initialised."""
        if not (dist.is_available() and dist.is_initialized()):
            return cls()
        return cls(dist.get_rank(group), dist.get_world_size(group), group)

    def own(self, count: int) -> range:
        """The chunks out of 0, ..., count - 1 that this worker works on."""
        return range(self.rank, count, self.size)

    def gather(self, parts: Tensor, count: int) -> Tensor:
        """All chunks in order, on every worker.

        Args:
            parts: s x ... results of this worker's own chunks, s the number of chunks of the busiest worker (unused
                places hold anything).
            count: number of chunks.

        Returns:
            count x ....
        """
        if self.size == 1:
            return parts[:count]
        everyone = [torch.empty_like(parts) for _ in range(self.size)]
        dist.all_gather(everyone, parts.contiguous(), group=self.group)
        return torch.stack(everyone, dim=1).flatten(0, 1)[:count]  # slot by slot, worker by worker

    def first(self, value: Tensor) -> Tensor:
        """Worker 0's value, on every worker: what decides the course of a computation must not differ by a bit."""
        if self.size > 1:
            value = value.contiguous()
            source = 0 if self.group is None else dist.get_global_rank(self.group, 0)
            dist.broadcast(value, source, group=self.group)
        return value
