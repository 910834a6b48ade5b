"""What rank of a root memory allows."""

from __future__ import annotations

import torch

from ...memory import half_of_free

WORKSPACE = 8  # n x r matrices that live at once while a root is built


def affordable_rank(n: int, memory: int, itemsize: int = 8) -> int:
    """Largest rank whose root over n centers can be built in so many bytes, at least 1."""
    return max(1, memory // (WORKSPACE * itemsize * n))


def free_memory(device: torch.device) -> int:
    """Half of the memory that is free, in bytes."""
    return torch.cuda.mem_get_info(device)[0] // 2 if device.type == "cuda" else half_of_free()
