r"""Lazy greedy choice by the energy of several targets and the information of all of them.

    gain(x | S) = factor E[improvement by x beyond S] + T/2 logdet(1 + Sigma^-1/2 C(x, x | S) Sigma^-1/2)

Both parts only shrink as S grows. The second is kept up to date for all rows, by block columns of a partial Cholesky
factor. The first starts as what a row is worth alone; rows whose bound could win are drawn jointly with all that were
drawn before, and from then on it is what the samples say: an exact value of a function that is submodular itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from ...progress import track
from ...surrogates.data.pairs import PairsPosterior
from .samples import JointSamples
from .worth import Worth, information

AT_ONCE = 16  # rows looked at again together at first, and twice as many each time that was not enough
FIRST = 256  # rows drawn at once at the beginning
PAIRS = 8192  # pairs drawn jointly, at most: their factor takes 512 MB
FEATURES_AT_ONCE = 512  # rows


class TradeoffGreedy:
    """A greedy choice among M rows.

    Args:
        posterior: of all targets, given what is pending.
        X: M x d rows.
        worth: energy.
        T: scaled temperature.
        q: most rows to choose.
        samples: joint samples.
        seed: of the samples.
        shut: from the row chosen last to rows that have no room any more, M booleans; None limits nothing.
        like: an earlier choice among the same rows, whose moments are taken over.
    """

    def __init__(
        self,
        posterior: PairsPosterior,
        X: Tensor,
        worth: Worth,
        T: float,
        q: int,
        samples: int,
        seed: int,
        shut: Callable[[int], Tensor] | None = None,
        like: TradeoffGreedy | None = None,
    ) -> None:
        self.posterior, self.worth, self.T, self.q, self.shut = posterior, worth, T, q, shut
        t, self.X = posterior.tasks, X.to(posterior.points)
        with torch.no_grad():
            found = self._moments() if like is None else (like.first, like.F)
            self.first: tuple[Tensor, Tensor, Tensor] = found[0]
            self.F: Tensor = found[1]
            self.mean: Tensor
            self.V: Tensor
            self.noise: Tensor
            self.mean, self.V, self.noise = self.first  # M x t, M x t x t, M x t
            parts = zip(self.mean.split(FEATURES_AT_ONCE), self.V.split(FEATURES_AT_ONCE), strict=True)
            self.energy = torch.cat([worth.alone(mean, V) for mean, V in parts])  # M, a bound where there are samples
        self.columns = self.mean.new_empty(len(X) * t, q * t)
        self.open = torch.ones(len(X), dtype=torch.bool, device=self.X.device)
        self.chosen: list[int] = []
        self.gains: list[float] = []
        self.informations: list[float] = []
        self.certain = 0  # rows that were chosen while every other row could be compared
        self.bound = math.inf  # of the value of any batch of q rows
        self.best_left_out = -math.inf  # set by who knows the rest of the library
        self.samples = None if worth.joint is None else JointSamples(posterior, samples, seed, PAIRS)
        self.place = torch.full((len(X),), -1, dtype=torch.long)  # among the rows drawn
        self.age = torch.full((len(X),), -1, dtype=torch.long)  # points that the energy of a row knows; -1: bound
        if worth.joint is not None:
            self.level = worth.joint.best.clone()  # s x w, what the front and the chosen rows reach
            self.reached = self.level.new_empty(0, *self.level.shape)  # rows drawn x s x w

    def _moments(self) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
        """Means, covariance blocks and noise with nothing chosen, and features, (M t) x r."""
        t = self.posterior.tasks
        F, parts = self.X.new_empty(len(self.X) * t, self.posterior.rank), []
        for i, x in enumerate(self.X.split(FEATURES_AT_ONCE)):
            mean, V, noise, some = moments(self.posterior, x)
            F[i * FEATURES_AT_ONCE * t :][: len(some)] = some
            parts.append((mean, V, noise))
        mean, V, noise = (torch.cat(each) for each in zip(*parts, strict=True))
        return (mean, V, noise), F

    def choose(self, given: int = 0) -> None:
        """All q rows, or as many as have room; the first `given` rows are taken whatever they are worth."""
        with torch.no_grad():
            for row in track(range(self.q), "choosing the batch"):
                gains = self.T * information(self.V, self.noise)
                self._note_bound(gains)
                if row < given and self.samples is not None:
                    self._look_again(torch.tensor([row]))
                best = row if row < given else self._best(gains)
                if best is None:
                    return
                self._accept(best, float(self.energy[best]), float(gains[best]))
            self._note_bound(self.T * information(self.V, self.noise))

    def _best(self, gains: Tensor) -> int | None:
        """The row with the largest gain; None where no row has room."""
        size = AT_ONCE if len(self.chosen) else FIRST
        whole = True
        while True:
            bound = torch.where(self.open, self.energy + gains, -math.inf)
            if self.samples is not None and not self.samples.room():
                undrawn = (self.place < 0).to(bound.device)
                whole &= not bool((undrawn & self.open & (bound >= bound[~undrawn].max())).any())
                bound = bound.masked_fill(undrawn, -math.inf)
            best = int(bound.argmax())
            value = float(bound[best])
            if value == -math.inf:
                return None
            if self.samples is None or int(self.age[best]) == len(self.chosen):
                whole &= value >= self.best_left_out
                self.certain += whole and self.certain == len(self.chosen)
                return best
            top = bound.topk(min(size, int((bound > -math.inf).sum()))).indices.cpu()
            stale = top[self.age[top] < len(self.chosen)]
            if self.samples is not None and bool((self.place[stale] < 0).any()):  # many at once: a solve costs the same
                undrawn = bound.masked_fill((self.place >= 0).to(bound.device), -math.inf)
                more = undrawn.topk(min(max(FIRST // 4, len(self.reached) // 4), len(undrawn))).indices.cpu()
                stale = torch.cat([stale, more[self.open[more].cpu()]]).unique()
            self._look_again(stale)
            size *= 2

    def _look_again(self, rows: Tensor) -> None:
        """Bring the energies of rows up to date; those that were not drawn yet are, as far as there is room."""
        assert self.samples is not None
        joint = self.worth.joint
        assert joint is not None
        new = rows[self.place[rows] < 0][: self.samples.room()]
        if len(new):
            t, at = self.posterior.tasks, new.to(self.X.device)
            F = self.F.reshape(len(self.X), t, -1)[at].reshape(len(new) * t, -1)
            f = self.samples.at(self.X[at], self.mean[at], F)  # s x n x t
            self.place[new] = torch.arange(len(self.reached), len(self.reached) + len(new))
            self.reached = torch.cat([self.reached, joint.reached(f).transpose(0, 1)])
        rows = rows[self.place[rows] >= 0]
        for some in rows.split(AT_ONCE * 4):
            over = (self.reached[self.place[some].to(self.reached.device)] - self.level).clamp_min(0.0).mean((-2, -1))
            self.energy[some.to(self.energy.device)] = self.worth.factor * over
        self.age[rows] = len(self.chosen)

    def _accept(self, row: int, energy: float, gain: float) -> None:
        t, k = self.posterior.tasks, len(self.chosen) * self.posterior.tasks
        self.chosen.append(row)
        self.gains.append(energy + gain)
        self.informations.append(gain)
        if self.samples is not None:
            self.level = torch.maximum(self.level, self.reached[int(self.place[row])])
        self.open[row] = False
        if self.shut is not None:
            self.open &= ~self.shut(row).to(self.open.device)
        if self.T == 0.0:
            return
        own = slice(row * t, row * t + t)
        c = self.posterior.cross_covar(self.X, self.F, self.X[row : row + 1], self.F[own])  # (M t) x t
        c = c - self.columns[:, :k] @ self.columns[own, :k].mT
        L = torch.linalg.cholesky(self.V[row] + self.noise[row].diag())
        column = torch.linalg.solve_triangular(L.mT, c, upper=True, left=False)
        self.columns[:, k : k + t] = column
        B = column.reshape(len(self.X), t, t)
        self.V = self.V - B @ B.mT

    def _note_bound(self, gains: Tensor) -> None:
        """a(X) <= a(S) + the q largest of what rows may add to S, rows without room among them."""
        chosen = torch.zeros_like(self.open)
        chosen[self.chosen] = True
        if self.worth.joint is None:  # energies are a plain sum, and may be negative
            spent = math.fsum(self.informations)
            each = self.energy + gains.masked_fill(chosen, 0.0)
        else:
            spent = math.fsum(self.gains)
            each = (self.energy + gains).masked_fill(chosen, 0.0)
        each = torch.cat([each, each.new_full((self.q,), self.best_left_out)])
        self.bound = min(self.bound, spent + float(each.topk(self.q).values.sum()))


def moments(posterior: PairsPosterior, X: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Means (n x t), covariance blocks (n x t x t), noise (n x t) and features ((n t) x r) of n points."""
    t = posterior.tasks
    mean, _, F = posterior.mean_variance_and_features(X)
    return mean.reshape(-1, t), posterior.blocks(X, F), posterior.noise(X).reshape(-1, t), F
