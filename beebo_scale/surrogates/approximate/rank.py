"""What rank of a root memory allows."""

from __future__ import annotations

import os
from pathlib import Path

import torch

WORKSPACE = 8  # n x r matrices that live at once while a root is built
UNKNOWN_MEMORY = 4 * 1024**3  # bytes that are taken for a machine that does not tell its memory


def affordable_rank(n: int, memory: int, itemsize: int = 8) -> int:
    """Largest rank whose root over n centers can be built in so many bytes, at least 1."""
    return max(1, memory // (WORKSPACE * itemsize * n))


def free_memory(device: torch.device) -> int:
    """Half of the memory that is free, in bytes."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] // 2
    try:  # what caches would give back counts as free
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        available = {line.split(":")[0]: int(line.split()[1]) for line in lines}["MemAvailable"]
        return 1024 * available // 2
    except (OSError, KeyError, ValueError):  # not Linux: what is free is not told
        return (_physical_memory() or UNKNOWN_MEMORY) // 2


def _physical_memory() -> int | None:
    """All memory of the machine in bytes; None where the system has no sysconf (Windows)."""
    if not hasattr(os, "sysconf"):
        return None
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
