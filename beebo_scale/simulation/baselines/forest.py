"""Greedy choice by a random forest, as MolPAL does it (Graff et al., Chemical Science 2021): 100 trees of depth 8."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...errors import InputError
from ...screening import CategoricalColumn, Encoder, SequenceColumn
from ...screening.columns import ALPHABETS
from ..strategies import best
from ..world import Points, State


@dataclass(frozen=True)
class RandomForest:
    """The q candidates with the best prediction of a random forest.

    Attributes:
        trees: how many.
        depth: of each, at most.
        summed: take the sum of the fingerprints of all molecules of a row, instead of one beside the other.
    """

    trees: int = 100
    depth: int = 8
    summed: bool = False

    def fit(self, state: State) -> tuple[Any, Encoder]:
        """The forest and the encoder of its inputs.

        Raises:
            InputError: scikit-learn is not installed.
        """
        try:
            from sklearn.ensemble import RandomForestRegressor
        except ImportError:
            raise InputError(
                "rf-greedy needs scikit-learn; install it by: pip install 'beebo-scale[sklearn]'"
            ) from None
        table = state.table()
        encoder = Encoder.from_table(table)
        forest = RandomForestRegressor(self.trees, max_depth=self.depth, random_state=state.seed)
        return forest.fit(self._inputs(encoder, encoder.encode(table)), table.y), encoder

    def _inputs(self, encoder: Encoder, X: Tensor) -> NDArray[np.float32]:
        """What the forest sees, n x d -> n x f."""
        if not self.summed:
            return indicators(encoder, X).numpy()
        cuts = [cut for c, cut in zip(encoder.columns, encoder.slices().values(), strict=True) if c.kind == "smiles"]
        rest = Encoder(tuple(column for column in encoder.columns if column.kind != "smiles"))
        others = [X[:, c] for name, c in encoder.slices().items() if name in rest.kinds]
        summed = [torch.stack([X[:, cut] for cut in cuts]).sum(0).float()] if cuts else []
        beside = [indicators(rest, torch.cat(others, dim=-1))] if others else []
        return torch.cat([*summed, *beside], dim=-1).numpy()

    def choose(self, state: State, model: tuple[Any, Encoder]) -> Points:
        """Best first."""
        forest, encoder = model
        candidates = state.world.candidates(encoder, state.points, state.run_seed, 4 * state.q)
        score = candidates.map(lambda X: torch.from_numpy(forest.predict(self._inputs(encoder, X))))
        return candidates.points[best(state.sign * score, state.q).numpy()]


def indicators(encoder: Encoder, X: Tensor) -> Tensor:
    """Encoded rows with one column for each letter of a position and each level of a category, n x d -> n x f.

    Numbers and fingerprints stay as they are; a level that was not measured has zeros only.
    """
    pieces = []
    for column, cut in zip(encoder.columns, encoder.slices().values(), strict=True):
        part = X[:, cut]
        if isinstance(column, SequenceColumn):
            part = (part.unsqueeze(-1) == torch.arange(len(ALPHABETS[column.kind]))).flatten(1)
        elif isinstance(column, CategoricalColumn):
            part = part == torch.arange(len(column.levels))
        pieces.append(part.float())
    return torch.cat(pieces, dim=-1)
