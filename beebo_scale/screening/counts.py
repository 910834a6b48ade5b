r"""Sequencing counts before and after a selection: the enrichment of each variant and how noisy it is.

With c the counts of a variant, Poisson around their expectation, and a = 1/2 added to each,

    L = log (c_sel + a) / (c_in + a)  [ - the same of a reference ],      var L = 1 / (c_sel + a) + 1 / (c_in + a),

the delta method, d log c = dc / c and var c = c (Rubin et al., A statistical framework for analyzing deep mutational
scanning data, Genome Biology 18:150, 2017). The ratio exp L has the variance (exp L)^2 var L.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError
from .places import rows_text

if TYPE_CHECKING:
    from numpy.typing import NDArray


def noise_from_counts(
    input: Sequence[int] | NDArray[np.generic],
    selected: Sequence[int] | NDArray[np.generic],
    pseudocount: float = 0.5,
    *,
    reference: tuple[float, float] | None = None,
    log: bool = True,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Enrichment of each variant by a selection, and its variance.

    Put both into the table, as target and as noise variance: variants that were counted a few times only then weigh
    as little as they should.

    Args:
        input: n counts before the selection.
        selected: n counts after it.
        pseudocount: added to every count; 1/2 takes most of the bias out of the logarithm of a Poisson count.
        reference: counts before and after of what enrichment is relative to: the wild type, or the totals of both
            libraries. Its own error moves all values together and is no noise between them, so it is left out.
        log: False for the ratio instead of its (natural) logarithm.

    Returns:
        Two arrays of n: enrichment and variance.

    Raises:
        InputError: counts that are missing, negative or not whole, or a variant that was never counted.
    """
    before, after = _counts(input, "input"), _counts(selected, "selected")
    if len(before) != len(after):
        raise InputError(f"counts: {len(before)} input and {len(after)} selected; give both for each variant")
    if not (np.isfinite(pseudocount) and pseudocount > 0):
        raise InputError(f"pseudocount = {pseudocount}: give a number above 0, or a count of zero has no logarithm")
    empty = np.flatnonzero(before + after == 0) + 1
    if len(empty):
        raise InputError(f"counts: input and selected are both 0 {rows_text(empty)}; leave these variants out")
    before, after = before + pseudocount, after + pseudocount
    enrichment = np.log(after / before) - _log_ratio(reference, pseudocount)
    variance = 1 / before + 1 / after
    return (enrichment, variance) if log else (np.exp(enrichment), np.exp(2 * enrichment) * variance)


def _log_ratio(reference: tuple[float, float] | None, pseudocount: float) -> float:
    """The log of (selected + a) / (input + a) of what enrichment is relative to."""
    if reference is None:
        return 0.0
    before, after = _counts(reference, "reference") + pseudocount
    return float(np.log(after / before))


def _counts(counts: Sequence[float] | NDArray[np.generic], name: str) -> NDArray[np.float64]:
    """Checked counts, n float64."""
    try:
        values = np.asarray(counts, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"counts: {name} holds something else than numbers; give whole numbers") from None
    if values.ndim != 1:
        raise InputError(f"counts: {name} has the shape {values.shape}; give one count for each variant")
    for problem, bad in (
        ("is missing or infinite", ~np.isfinite(values)),
        ("is negative", values < 0),
        ("is not a whole number", values != np.floor(values)),
    ):
        if bad.any():
            rows = rows_text(np.flatnonzero(bad) + 1)
            raise InputError(f"counts: {name} {problem} {rows}; give the counts as the sequencer made them")
    return values
