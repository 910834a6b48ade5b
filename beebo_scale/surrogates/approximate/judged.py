"""A surrogate that says how wrong its information gain is."""

from __future__ import annotations

from dataclasses import replace

from ..factors import Sparse
from ..surrogate import Surrogate
from .gain_error import sparse_gain_error


def judged(surrogate: Surrogate, seed: int = 0) -> Surrogate:
    """The surrogate with the error of I measured, where that was left open: training has no time for it at each epoch.

    Args:
        surrogate: of any kind; only the sparse kinds may have left it open.
        seed: of the probes.
    """
    recipe = surrogate.recipe
    if not isinstance(recipe, Sparse) or recipe.error is not None:
        return surrogate
    columns = surrogate.encoder.numbers()
    error, reference = sparse_gain_error(surrogate.of_rows, surrogate.gp, surrogate.data, columns, seed)
    return replace(surrogate, recipe=replace(recipe, error=error, reference=reference))
