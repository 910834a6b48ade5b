"""Ranks as normal scores: a monotone, piecewise linear map between a target and a standard normal variable."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

KNOTS = 1000  # values kept of a large screen
TAIL = 1.0  # of score: the outermost piece that gives the slope beyond the measured values
# Quadrature of a standard normal variable. The trapezoidal rule is as good as Gauss-Hermite for what is smooth, and
# better for functions with kinks: its nodes lie three times as close as those of a rule of 48.
NODES = tuple(np.linspace(-6.0, 6.0, 81).tolist())
_DENSITY = np.exp(-0.5 * np.square(NODES))
WEIGHTS = tuple((_DENSITY / _DENSITY.sum()).tolist())


def normal_scores(y: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Measured values, rising, and the normal scores of their ranks, Phi^-1((rank - 1/2) / N).

    Equal values share the middle of their ranks. Of many values, those at equal distances of score are kept. One knot
    more at each end goes on with the slope of the outermost piece of score; that of two neighbours could be anything.

    Args:
        y: N values, at least two of them different.

    Returns:
        K values and K scores, both rising.
    """
    values, counts = torch.unique(y.double(), return_counts=True)  # rising
    middle = counts.cumsum(0) - 0.5 * counts  # of the ranks that equal values share, less 1/2
    scores = torch.special.ndtri(middle.double() / len(y))
    if len(values) > KNOTS:
        wanted = torch.linspace(float(scores[0]), float(scores[-1]), KNOTS, dtype=torch.float64)
        kept = torch.unique(torch.searchsorted(scores, wanted).clamp_max(len(values) - 1))
        values, scores = values[kept], scores[kept]
    first, last = _beyond(values, scores), -_beyond(-values.flip(0), -scores.flip(0))
    ends = scores.new_tensor([float(scores[0]) - 1, float(scores[-1]) + 1])
    values = torch.cat([first.reshape(1), values, last.reshape(1)])
    scores = torch.cat([ends[:1], scores, ends[1:]])
    return tuple(values.tolist()), tuple(scores.tolist())


def _beyond(values: Tensor, scores: Tensor) -> Tensor:
    """Value one of score below the first."""
    inner = min(int((scores < scores[0] + TAIL).sum()), len(scores) - 1)
    return values[0] - (values[inner] - values[0]) / (scores[inner] - scores[0])


def piecewise(x: Tensor, xs: Sequence[float], ys: Sequence[float]) -> Tensor:
    """The piecewise linear function through (xs, ys), both rising; beyond the ends the outermost pieces go on.

    Swapping xs and ys gives the inverse.
    """
    a, b = x.new_tensor(xs), x.new_tensor(ys)
    i = torch.searchsorted(a, x.detach().contiguous()).clamp(1, len(a) - 1)  # x lies between a[i - 1] and a[i]
    return b[i - 1] + (x - a[i - 1]) * ((b[i] - b[i - 1]) / (a[i] - a[i - 1]))
