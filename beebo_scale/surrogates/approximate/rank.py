r"""How good the rank of a root is: probe batches, the excess of their information gain, and what memory allows.

A root from below makes C, and with it I, too large; how much depends on the kernel, the noise and the data, and no rule
of thumb finds it (1 % to 200 % at the same rank). So it is measured, on batches for which I is also computed exactly.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ...information import information_gain
from ...posterior import Posterior

WORKSPACE = 8  # n x r matrices that live at once while a root is built
UNKNOWN_MEMORY = 4 * 1024**3  # bytes that are taken for a machine that does not tell its memory
STREAM = 920_817_003  # added to the seed: data that somebody drew at random from seed 0 must not come again as probes


@dataclass(frozen=True)
class Probes:
    """How to draw probe batches.

    Attributes:
        batches: number of batches.
        q: points in each.
        box: share of the points that are uniform in the box of the data in the continuous columns.
        seed: of the draw.
    """

    batches: int = 2
    q: int = 64
    box: float = 0.25
    seed: int = 0

    def draw(self, Z: Tensor, continuous: Sequence[int] = ()) -> Tensor:
        """Probe batches for any encoding: each coordinate from a row of its own, some continuous ones from the box.

        Args:
            Z: n x d data.
            continuous: columns in which any value between the least and the largest makes sense.

        Returns:
            batches x q x d.
        """
        generator = torch.Generator().manual_seed(STREAM + self.seed)
        count, d = self.batches * self.q, Z.shape[-1]
        rows = torch.randint(len(Z), (count, d), generator=generator).to(Z.device)
        X = Z.gather(0, rows)  # count x d
        columns = list(continuous)
        U = torch.rand(count, len(columns), generator=generator, dtype=torch.float64).to(Z)
        chosen = torch.rand(count, 1, generator=generator) < self.box
        if columns:
            lo, hi = Z[:, columns].min(0).values, Z[:, columns].max(0).values
            X[:, columns] = torch.where(chosen.to(Z.device), torch.lerp(lo, hi, U), X[:, columns])
        return X.reshape(self.batches, self.q, d)


def information_gain_error(posterior: Posterior, probes: Tensor) -> float:
    """Mean relative excess of the information gain on probe batches, I_r / I - 1 with I from the adapted root.

    Args:
        posterior: from any surrogate; 0.0 where nothing is approximated.
        probes: b x q x d.

    Returns:
        Zero or more, but for rounding.
    """
    return excess(posterior, posterior.adapt(probes), probes)


def excess(posterior: Posterior, adapted: Posterior, probes: Tensor) -> float:
    """Mean over batches (b x q x d) of I / I_adapted - 1."""
    if adapted is posterior:
        return 0.0
    with torch.no_grad():
        noise = posterior.noise(probes)
        ratio = information_gain(posterior.covar(probes), noise) / information_gain(adapted.covar(probes), noise)
    return float(ratio.mean()) - 1.0


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
