r"""Thompson sampling over building blocks (Klarich et al., J. Chem. Inf. Model. 64 (2024) 1158).

Each block has a normal belief about the values of products that hold it: with mean m and variance s^2 of all measured
values as its prior, and s^2 as the noise of one value,

    b | n values with mean y   ~   N((m + n y) / (1 + n), s^2 / (1 + n)).

A draw takes a sample for every block and puts the best of each list together. Here q draws make a batch; a product that
is measured already, or drawn twice, is drawn again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from ..world import Points, State

if TYPE_CHECKING:
    from ..product import ProductLandscape

DRAWS = 1000  # for each point of a batch, at most; beyond, points come at random


@dataclass(frozen=True)
class BlockThompson:
    """See the module; for landscapes over lists."""

    def fit(self, state: State) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Mean and standard deviation of the belief about each block of each list, of what is to become large."""
        product = cast("ProductLandscape", state.world).product
        y, index = state.sign * state.values, product.index(state.points)
        mean, spread = float(y.mean()), float(y.std())
        beliefs = []
        for size, at in zip(product.sizes, index.T, strict=True):
            n, total = np.bincount(at, minlength=size), np.bincount(at, y, minlength=size)
            beliefs.append(((mean + total) / (1 + n), spread / np.sqrt(1 + n)))
        return beliefs

    def choose(self, state: State, model: list[tuple[NDArray[np.float64], NDArray[np.float64]]]) -> Points:
        """One product for each draw."""
        world, draw = cast("ProductLandscape", state.world), np.random.default_rng(state.seed)
        taken, found = set(state.points.tolist()), list[int]()
        for _ in range(DRAWS * state.q):
            if len(found) == state.q:
                break
            best = [int(np.argmax(draw.normal(mean, spread))) for mean, spread in model]
            row = int(world.product.rows(np.array([best]))[0])
            if row not in taken:
                taken.add(row)
                found.append(row)
        rest = world.draw(state.q - len(found), np.array(sorted(taken)), state.seed)
        return np.concatenate([np.array(found, dtype=np.int64), rest])
