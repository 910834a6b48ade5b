r"""What several targets of an experiment are worth together: heights above a reference point, and limits they keep.

The targets of a point are Gaussian in standardised units, mean mu (t) and covariance V (t x t); `own` brings each to
its own units. With limits low <= f <= high on some of them, expectations go over the feasible part alone, by Genz's
conditioning (Genz, Numerical computation of multivariate normal probabilities, 1992): targets are drawn one after the
other, those with limits inside these, and a draw weighs the probability of what it was conditioned on. Nothing is
rejected, so that small probabilities keep their digits and everything has a gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .fronts import orthant_volume, reach

NODES = tuple(i / 2.0 - 5.0 for i in range(21))  # of the trapezoidal rule for a standard normal variable
COMPARED = 64  # directions of a bound
DRAWS = 256  # Sobol points of a point's own expectations
TINY = 1e-12


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Heights and limits of t targets.

    Attributes:
        own: of each target, from standardised to its own units, rising.
        signs: of each target 1 where it is to become large, -1 small, 0 where it only has limits.
        reference: of the targets that are to improve (m), in their own units.
        unit: m, what counts as one.
        low: t, in standardised units; minus infinity where there is none.
        high: t.
    """

    own: tuple[Callable[[Tensor], Tensor], ...]
    signs: tuple[int, ...]
    reference: Tensor
    unit: Tensor
    low: Tensor
    high: Tensor

    @property
    def aims(self) -> list[int]:
        """Places of the targets that are to improve."""
        return [i for i, sign in enumerate(self.signs) if sign]

    @property
    def limited(self) -> bool:
        """Whether any target has a limit."""
        return bool((self.low > -math.inf).any() | (self.high < math.inf).any())

    def heights(self, f: Tensor) -> Tensor:
        """Of targets in standardised units, ... t -> ... m."""
        values = [self.signs[i] * self.own[i](f[..., i]) for i in self.aims]
        signs = self.reference.new_tensor([self.signs[i] for i in self.aims])
        return (torch.stack(values, dim=-1) - signs * self.reference) / self.unit

    def met(self, f: Tensor) -> Tensor:
        """Whether all limits are kept, ... t -> ... booleans."""
        return ((f >= self.low) & (f <= self.high)).all(-1)

    def softly_met(self, f: Tensor, width: float) -> Tensor:
        """`met` with a slope: 0 far outside, 1 far inside, over `width` standard deviations of a target."""
        inside = torch.sigmoid((f - self.low) / width) * torch.sigmoid((self.high - f) / width)
        return inside.prod(-1)

    def drawn(self, mean: Tensor, covar: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        """Draws of the feasible part and their weights, ... t and ... t x t -> ... s x t and ... s.

        Args:
            mean: of the targets.
            covar: of the targets.
            u: s x t points of the unit cube, spread evenly.
        """
        t = mean.shape[-1]
        order = sorted(range(t), key=lambda i: bool(self.low[i] > -math.inf or self.high[i] < math.inf))
        L = cholesky(covar[..., order, :][..., :, order])
        weight = mean.new_ones(*mean.shape[:-1], len(u))
        z: list[Tensor] = []
        f: list[Tensor] = [weight] * t
        for k, i in enumerate(order):
            center = mean[..., i, None] + sum(L[..., k, j, None] * z[j] for j in range(k))  # ... s
            size = L[..., k, k, None].clamp_min(TINY)
            a, b = torch.special.ndtr((self.low[i] - center) / size), torch.special.ndtr((self.high[i] - center) / size)
            weight = weight * (b - a)
            z.append(torch.special.ndtri((a + u[:, k] * (b - a)).clamp(1e-15, 1 - 1e-15)))
            f[i] = (center + size * z[k]).clamp(self.low[i], self.high[i])
        return torch.stack(f, dim=-1), weight

    def feasibility(self, mean: Tensor, covar: Tensor) -> Tensor:
        """Probability that all limits are kept, ... t and ... t x t -> ... ."""
        return self.drawn(mean, covar, draws(mean))[1].mean(-1)

    def likely(self, mean: Tensor, variance: Tensor) -> Tensor:
        """A bound of the probability that all limits are kept, also if the variances are too large, ... t -> ... ."""
        sd, bound = variance.clamp_min(TINY**2).sqrt(), mean.new_ones(mean.shape[:-1])
        for over in (self.low - mean, mean - self.high):  # beyond a limit the probability rises with the variance
            bound = torch.minimum(bound, torch.where(over > 0, torch.special.ndtr(-over / sd), 1.0).amin(-1))
        return bound

    def shortfall(self, mean: Tensor, covar: Tensor) -> Tensor:
        """How far limits are expected to be broken, the sum over targets in standard deviations, ... ."""
        sd = covar.diagonal(dim1=-2, dim2=-1).clamp_min(TINY**2).sqrt()
        total = mean.new_zeros(mean.shape[:-1])
        for i in range(mean.shape[-1]):
            for over in (self.low[i] - mean[..., i], mean[..., i] - self.high[i]):
                if bool(over.isfinite().all()):
                    z = over / sd[..., i]
                    density = torch.exp(-0.5 * z.square()) / math.sqrt(2 * math.pi)
                    total = total + sd[..., i] * (z * torch.special.ndtr(z) + density)
        return total


@dataclass(frozen=True, eq=False)
class Improvement:
    r"""Expected improvement of the hypervolume by a batch, as a share of the box from the reference to the best values.

    E over S joint samples f of the posterior and w directions for each of

        ( max over points x of reach(heights(f(x))) [limits are kept at x] - best )^+,

    `best` the reach of the measured front. It is a mean of maxima: monotone, submodular, zero for no points.

    Attributes:
        outcomes: heights and limits.
        W: directions, s x w x m, of each sample its own.
        best: what the measured front reaches, s x w.
    """

    outcomes: Outcomes
    W: Tensor
    best: Tensor

    def reached(self, f: Tensor, soft: float | None = None) -> Tensor:
        """Reach of points in each direction, ... s x q x t -> ... s x q x w; zero where limits are broken."""
        found = reach(self.outcomes.heights(f).unsqueeze(-2), self.W.unsqueeze(-3))
        if self.outcomes.limited:
            met = self.outcomes.met(f) if soft is None else self.outcomes.softly_met(f, soft)
            found = found * met.unsqueeze(-1)
        return found

    def of_samples(self, f: Tensor, soft: float | None = None) -> Tensor:
        """The improvement in each sample, ... s x q x t -> ... s."""
        return (self.reached(f, soft).amax(-2) - self.best).clamp_min(0.0).mean(-1)

    def alone(self, mean: Tensor, covar: Tensor) -> Tensor:
        """Of single points, n x t and n x t x t -> n; no row of a batch adds more than it does alone."""
        u = draws(mean, min(DRAWS, len(self.W)))
        f, weight = self.outcomes.drawn(mean, covar, u)  # n x s x t, n x s
        found = reach(self.outcomes.heights(f).unsqueeze(-2), self.W[: len(u)])  # n x s x w
        return ((found - self.best[: len(u)]).clamp_min(0.0).mean(-1) * weight).mean(-1)

    def ceiling(self, mean: Tensor, variance: Tensor) -> Tensor:
        """A bound of `alone` from moments of each target by itself, n x t and n x t -> n.

        The reach is the least over targets, so that its expectation is no larger than the least of the expectations of
        the targets' own; with limits also no larger than sqrt(E[its square] P(limits are kept)). Of targets whose
        heights are convex in standardised units it rises with the variance, so that a variance that is too large gives
        a bound, too. By quadrature, over evenly chosen directions.
        """
        m = self.W.shape[-1]
        W, best = self.W.reshape(-1, m), self.best.reshape(-1)
        some = (W[:, 0] / W.norm(dim=-1)).argsort()[:: max(1, len(W) // COMPARED)]
        nodes = mean.new_tensor(NODES)
        weights = torch.exp(-0.5 * nodes.square())
        weights = weights / weights.sum()
        f = mean.unsqueeze(-2) + variance.sqrt().unsqueeze(-2) * nodes.unsqueeze(-1)  # n x nodes x t
        heights = self.outcomes.heights(f).clamp_min(0.0)  # n x nodes x m
        inside = self.outcomes.likely(mean, variance).unsqueeze(-1) if self.outcomes.limited else None
        least = None
        for j in range(m):
            over = (orthant_volume(m) * (heights[..., j, None] / W[some, j]).pow(m) - best[some]).clamp_min(0.0)
            own = torch.einsum("k,nkw->nw", weights, over)
            if inside is not None:
                own = torch.minimum(own, (torch.einsum("k,nkw->nw", weights, over.square()) * inside).sqrt())
            least = own if least is None else torch.minimum(least, own)
        assert least is not None
        return least.mean(-1)


def draws(like: Tensor, count: int = DRAWS) -> Tensor:
    """Points of the unit cube for t targets, the same whenever they are asked for, count x t."""
    engine = torch.quasirandom.SobolEngine(like.shape[-1], scramble=True, seed=1)
    return engine.draw(count, dtype=torch.float64).clamp(1e-9, 1 - 1e-9).to(like)


def cholesky(A: Tensor) -> Tensor:
    """Cholesky factors for samples, ... n x n: with a jitter of 1e-10 of the diagonal or as much more as it needs."""
    eye = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    size = A.detach().diagonal(dim1=-2, dim2=-1).mean(-1).clamp_min(TINY)[..., None, None]
    for power in range(-10, -3):
        L, info = torch.linalg.cholesky_ex(A + 10.0**power * size * eye)
        if not bool(info.any()):
            break
    return L
