"""Whether one strategy beats another: paired t-tests over the replicates, and all problems together.

Strategies with the same seed start from the same points, so that the replicates of two strategies come in pairs. The
one-sided test asks whether the mean difference is above zero; Fisher's method joins the p-values of several problems,
-2 sum log p being chi^2 with twice as many degrees of freedom where nothing is better anywhere (paper, experiments).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from scipy import stats

Figures = Mapping[int, float]  # seed -> figure
ROUNDING = 1e-12  # differences that agree so well are all alike
LEAST = 1e-16  # p-value, where all replicates differ by the same


def p_better(ours: Figures, theirs: Figures, larger: bool = True) -> float:
    """p-value of the paired t-test that ours is better, over the seeds that both have.

    1/2 where no replicate differs (0 or 1 where all differ by the same); NaN for fewer than two pairs.

    Args:
        ours: figure by seed.
        theirs: likewise.
        larger: whether large figures are good.
    """
    seeds = sorted(ours.keys() & theirs.keys())
    if len(seeds) < 2:
        return float("nan")
    sign = 1.0 if larger else -1.0
    a, b = (sign * np.array([figures[seed] for seed in seeds]) for figures in (ours, theirs))
    if np.ptp(a - b) <= ROUNDING * np.abs(a - b).max():  # t is 0 / 0, or infinite
        return float(np.clip(0.5 * (1.0 - np.sign((a - b)[0])), LEAST, 1.0))
    return float(stats.ttest_rel(a, b, alternative="greater").pvalue)


def fisher(p_values: Iterable[float]) -> float:
    """One p-value of several independent ones; those that are NaN do not count, NaN if none does."""
    known = [p for p in p_values if p == p]
    return float(stats.combine_pvalues(known, method="fisher").pvalue) if known else float("nan")


def standard_error(values: Sequence[float]) -> float:
    """Of the mean; NaN for a single value."""
    return float(np.std(values, ddof=1) / len(values) ** 0.5) if len(values) > 1 else float("nan")
