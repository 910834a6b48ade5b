"""Greedy choice by a random forest, as MolPAL does it (Graff et al., Chemical Science 2021): 100 trees of depth 8."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
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
    """

    trees: int = 100
    depth: int = 8

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
        return forest.fit(indicators(encoder, encoder.encode(table)).numpy(), table.y), encoder

    def choose(self, state: State, model: tuple[Any, Encoder]) -> Points:
        """Best first."""
        forest, encoder = model
        candidates = state.world.candidates(encoder, state.points, state.run_seed, 4 * state.q)
        score = candidates.map(lambda X: torch.from_numpy(forest.predict(indicators(encoder, X).numpy())))
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
