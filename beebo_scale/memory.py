"""How much memory there is."""

from __future__ import annotations

import os
from pathlib import Path

UNKNOWN_MEMORY = 4 * 1024**3  # bytes that are taken for a machine that does not tell its memory


def half_of_free() -> int:
    """Half of the memory that is free, in bytes."""
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
