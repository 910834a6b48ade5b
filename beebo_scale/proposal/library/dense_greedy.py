r"""Greedy choice among few rows: all gains are kept up to date.

`pool` evaluates only the rows that could win, which pays where there are many. Among a few hundred the bookkeeping
costs more than the arithmetic: here each choice is one row of a partial Cholesky factor of C + Sigma, for all rows
at once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...information import marginal_gain
from ...posterior import Posterior


def greedy_eagerly(posterior: Posterior, X: Tensor, q: int, T: float, sign: float = 1.0) -> tuple[Tensor, Tensor]:
    """Greedy maximisation of sum of means + T I over the rows of X; a row may be chosen again and again.

        gain(x | S) = mean(x) + T/2 log(1 + v(x | S) / sigma^2(x)),   v(x | S) = v(x) - |L_S^-1 C(S, x)|^2

    Args:
        posterior: of the surrogate.
        X: K x d rows.
        q: how many to choose.
        T: scaled temperature.
        sign: -1 where small targets are good.

    Returns:
        Chosen rows (q, in order of choice) and their gains (q, never rising).
    """
    with torch.no_grad():
        mean, variance, F = posterior.mean_variance_and_features(X)  # K, K, K x r
        mean, sigma2 = sign * mean, posterior.noise(X)
        columns = X.new_empty(q, len(X))  # L_S^-1 C(S, X)
        rows, gains = [], []
        for t in range(q):
            gain = mean + T * marginal_gain(variance, sigma2)
            best = int(gain.argmax())
            rows.append(best)
            gains.append(gain[best])
            c = posterior.cross_covar(X[best : best + 1], F[best : best + 1], X, F).squeeze(0)  # K
            c = c - columns[:t, best] @ columns[:t]
            columns[t] = c / (variance[best] + sigma2[best]).sqrt()
            variance = (variance - columns[t].square()).clamp_min(0.0)
    return torch.tensor(rows), torch.stack(gains)
