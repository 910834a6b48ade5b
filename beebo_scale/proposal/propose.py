"""`propose`: from a fitted surrogate to the next batch, out of a library or a box."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import torch

from ..screening import Batch
from ..specs import Choice, keywords_of
from .choose import choose
from .jobs.chunks import ChunkRunner
from .prepare import prepare

if TYPE_CHECKING:
    from ..surrogates import Surrogate


@keywords_of(Choice)
def propose(
    surrogate: Surrogate,
    q: int = Choice.q,
    library: Any = None,
    bounds: Any = None,
    *,
    id: str | None = None,
    drop_invalid: bool = False,
    runner: ChunkRunner | None = None,
    device: torch.device | str = "cpu",
    **choice: Any,
) -> Batch:
    """Choose the next q experiments by BEEBO, a(X) = q E[summary] + T' sqrt(A) I(X): `prepare`, then `choose`.

    Args:
        surrogate: from `fit` or `load_surrogate`.
        q: batch size.
        library: candidates to choose from ...
        bounds: ... or a box, see `Choice`.
        id: column of the library that names its rows.
        drop_invalid: leave out rows of the library that cannot be read, instead of refusing it: the batch is that of a
            library without them, and its `invalid` lists them.
        runner: workers that share the work, and the ledger of what they have finished; all get the same batch.
        device: where to compute.
        choice: everything else, see `Choice`.

    Returns:
        A `Batch`; its `gain` is the rise of a(X) with each row, in standard deviations of the (transformed) target.

    Raises:
        InputError: an unusable q, temperature, library or box, or fewer candidates than q.
    """
    asked = Choice(q=q, library=library, bounds=bounds, **choice)
    prepared = prepare(asked, surrogate.encoder, surrogate.measured_rows, id, drop_invalid)
    for note in prepared.notes:
        warnings.warn(note, stacklevel=2)
    return choose(prepared, surrogate, runner, device)
