r"""Any energy from a library: the certified batch of the mean energy, improved by exchanges.

Energies beside the mean have no gain that only shrinks, so nothing certifies or bounds their joint value a(X). What is
certain: the batch starts as the greedy one of the mean energy, and no exchange ever lowers a(X).

Which of all exchanges are worth a try is estimated at once: replacing x_i by x changes the information by

    1/2 log(1 + v(x | others) / sigma^2(x)) - 1/2 log(1 + v(x_i | others) / sigma^2(x_i)),
    v(x | others) = v(x | X) + (P c(x))_i^2 / P_ii,        P = (C + Sigma)^-1, c(x) = C(X, x), others = X without x_i,

exactly, and the energy to first order by its gradient in mean and covariance. The most promising are then evaluated in
full. One round costs O(q^2 c) for c candidates and O(q^3) for each exchange that is tried: with 96 points about 0.05 s,
with 384 about one second.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...acquisition import BatchedEnergyEntropy
from ...progress import track
from .certified import CertifiedBatch
from .encoded import EncodedLibrary
from .exclusion import original_inputs, repeated_in_group
from .lazy_greedy import greedy
from .limits import exchangeable
from .products.encoded import EncodedProduct

TRIED = 64  # exchanges evaluated in full in each round
NUMBERS_TOGETHER = 1 << 22  # numbers in the covariances of batches evaluated together


@dataclass(frozen=True, eq=False)
class Swapped:
    """A batch after exchanges.

    Attributes:
        places: q rows of the pool.
        before: a(X) at the start.
        after: a(X) at the end, never lower.
        swaps: number of exchanges.
        settled: whether no exchange tried would have helped, or the limit of swaps came first.
    """

    places: Tensor
    before: float
    after: float
    swaps: int
    settled: bool


def improve(
    acqf: BatchedEnergyEntropy,
    X: Tensor,
    start: Tensor,
    allowed: Callable[[Tensor, Tensor], Tensor] | None = None,
    most: int | None = None,
) -> Swapped:
    """Exchange points of a batch for others of a pool as long as the joint acquisition value rises.

    Args:
        acqf: to maximise.
        X: p x d pool, the batch among it; C of all of it is kept, 8 p^2 bytes.
        start: q different rows of the pool.
        allowed: from rows of the batch (q) and others (c) to q x c booleans: which exchanges may be made.
        most: most exchanges, 4 q if None.

    Raises:
        ValueError: the energy does not hold at the start.
    """
    with torch.no_grad():
        X = X.to(acqf.posterior.points)
        mean, covar = acqf.conditioned.mean_and_covar(X)  # p, p x p
        moments = _Moments(acqf, X, mean, covar, acqf.conditioned.noise(X))
        batch = start.clone().to(X.device)
        before = value = float(acqf(X[batch]))
        most = 4 * len(batch) if most is None else most
        swaps, settled = 0, False
        with track(None, "exchanging points", total=most) as bar:
            while swaps < most and not settled:
                found = _best_swap(moments, batch, value, allowed)
                settled = found is None
                if found is not None:
                    batch, value = found
                    swaps += 1
                    bar.update()
    return Swapped(batch, before, value, swaps, settled)


@dataclass(frozen=True, eq=False)
class _Moments:
    """A pool of p rows: points, posterior mean, covariance and noise."""

    acqf: BatchedEnergyEntropy
    X: Tensor
    mean: Tensor
    covar: Tensor
    noise: Tensor

    def values(self, batches: Tensor) -> Tensor:
        """The joint values of some batches of rows, b x q -> b; minus infinity where the energy does not hold."""
        q = batches.shape[-1]
        parts = batches.split(max(1, NUMBERS_TOGETHER // q**2))
        return torch.cat([self._values(part) for part in parts])

    def _values(self, batches: Tensor) -> Tensor:
        covar = self.covar[batches.unsqueeze(-1), batches.unsqueeze(-2)]  # b x q x q
        try:
            return self.acqf.of_moments(self.X[batches], self.mean[batches], covar)
        except ValueError:
            if len(batches) == 1:
                return covar.new_full((1,), -math.inf)
            return torch.cat([self._values(half) for half in batches.tensor_split(2)])

    def estimated_rise(self, batch: Tensor, others: Tensor) -> Tensor:
        """About what each exchange adds to a: q and c rows -> q x c."""
        rise = self._energy_rise(batch, others)
        if self.acqf.temperature == 0.0:
            return rise
        return rise + self.acqf.temperature * self._information_rise(batch, others)

    def _information_rise(self, batch: Tensor, others: Tensor) -> Tensor:
        P = torch.cholesky_inverse(torch.linalg.cholesky(self._block(batch, batch) + self.noise[batch].diag()))
        c = self._block(batch, others)  # q x c
        Pc = P @ c
        v = self.covar.diagonal()[others] - (c * Pc).sum(0)  # c, given the whole batch
        without = v + Pc.square() / P.diagonal().unsqueeze(-1)  # q x c, given the batch without one
        new = torch.log1p(without / self.noise[others])
        old = -(P.diagonal() * self.noise[batch]).log()  # P_ii^-1 = sigma^2 + v(x_i | the others)
        return 0.5 * (new - old.unsqueeze(-1))

    def _energy_rise(self, batch: Tensor, others: Tensor) -> Tensor:
        with torch.enable_grad():
            mean = self.mean[batch].clone().requires_grad_(True)
            C = self._block(batch, batch).clone().requires_grad_(True)
            energy = self.acqf._energy(self.X[batch], mean, C)
            slope, G = torch.autograd.grad(energy, [mean, C], allow_unused=True)
        rise = slope.unsqueeze(-1) * (self.mean[others] - self.mean[batch].unsqueeze(-1))  # q x c
        if G is None:
            return rise
        G = G + G.mT
        own = 0.5 * G.diagonal().unsqueeze(-1)  # q x 1, slope in C_ii
        G = G - G.diagonal().diag()
        c = self._block(batch, others)
        rise = rise + G @ c - (G * C.detach()).sum(-1, keepdim=True)
        return rise + own * (self.covar.diagonal()[others] - C.detach().diagonal().unsqueeze(-1))

    def _block(self, rows: Tensor, columns: Tensor) -> Tensor:
        return self.covar[rows.unsqueeze(-1), columns]


def _best_swap(
    moments: _Moments, batch: Tensor, value: float, allowed: Callable[[Tensor, Tensor], Tensor] | None
) -> tuple[Tensor, float] | None:
    """The best of the promising exchanges and its value, None if none of them helps."""
    mask = torch.ones(len(moments.X), dtype=torch.bool, device=batch.device)
    mask[batch] = False
    others = mask.nonzero().squeeze(-1)
    if not len(others):
        return None
    rise = moments.estimated_rise(batch, others)  # q x c
    if allowed is not None:
        rise = rise.masked_fill(~allowed(batch, others), -math.inf)
    rank = rise.reshape(-1).argsort(descending=True, stable=True)[:TRIED]
    rank = rank[rise.reshape(-1)[rank] > -math.inf]
    if not len(rank):
        return None
    batches = batch.repeat(len(rank), 1)
    batches[torch.arange(len(rank)), rank // len(others)] = others[rank % len(others)]
    values = moments.values(batches)
    best = batches[int(values.argmax())]
    # What counts is the value from scratch: the moments of the pool may differ from it by rounding.
    if float(values.max()) <= value:
        return None
    exact = float(moments.acqf(moments.X[best]))
    return (best, exact) if exact > value else None


@dataclass(frozen=True, eq=False)
class ExchangedBatch:
    """Rows chosen from a library for their joint value.

    Attributes:
        rows: q row numbers of the library, best first by the mean energy.
        gain: what each adds to a(X) of those before it; the sum is a(X).
        X: the rows encoded, q x d.
        record: values before and after, swaps, settled, pool, upper_bound (None: not known), guarantee.
    """

    rows: Tensor
    gain: Tensor
    X: Tensor
    record: dict[str, Any]


def improve_batch(
    acqf: BatchedEnergyEntropy, library: EncodedLibrary | EncodedProduct, start: CertifiedBatch, most: int | None = None
) -> ExchangedBatch:
    """Exchange rows of a certified batch for its runners-up as long as the joint acquisition value rises.

    Args:
        acqf: to maximise, with the energy, the pending points and the temperature that are asked for.
        library: as `choose_certified` had it.
        start: from `choose_certified`.
        most: most exchanges, 4 q if None.
    """
    rows, q = torch.cat([start.rows, start.runners_up]), len(start.rows)
    X, groups = library.rows(rows)
    if not library.rules.allow_repeats:  # the batch comes first and holds no repeats
        original = original_inputs(X, library.encoder)
        once = ~repeated_in_group(original, groups)
        rows, X, groups = rows[once], X[once], groups[once]
        original = original_inputs(X, library.encoder)
    else:
        original = torch.arange(len(rows))

    def allowed(batch: Tensor, others: Tensor) -> Tensor:
        batch, others = batch.cpu(), others.cpu()
        parts = X[batch], groups[batch], X[others], groups[others]
        copies = original[batch].unsqueeze(-1) == original[others]  # q x c
        free = copies.sum(0) - copies.long() == 0  # no copy of it stays in the batch
        return (free & exchangeable(library.limits, library.encoder, *parts)).to(acqf.posterior.device)

    swapped = improve(acqf, X, torch.arange(q), allowed if library.limits else None, most)
    batch = swapped.places.cpu()
    order, _ = greedy(acqf.conditioned, X[batch].to(acqf.posterior.points), q, acqf.temperature, acqf.sign)
    batch = batch[order]
    record = {
        "acquisition_value_before_swaps": swapped.before,
        "acquisition_value": swapped.after,
        "swaps": swapped.swaps,
        "settled": swapped.settled,
        "pool": len(rows),
        "upper_bound": None,
        "guarantee": "no upper bound of the joint value is known, as this energy is no sum over rows; the certificate, "
        "with value and upper_bound, is of the mean energy's batch that the swaps started from, and no swap lowered "
        "the joint value",
    }
    return ExchangedBatch(rows[batch], nested_gains(acqf, X[batch]), X[batch], record)


def nested_gains(acqf: BatchedEnergyEntropy, X: Tensor) -> Tensor:
    """What each point adds to a(X) of those before it: q x d -> q. O(q^4) in all; 96 points take a moment."""
    with torch.no_grad():
        X = X.to(acqf.posterior.points)
        mean, covar = acqf.conditioned.mean_and_covar(X)
        values = [acqf.of_moments(X[:n], mean[:n], covar[:n, :n]).reshape(()) for n in range(1, len(X) + 1)]
    return torch.stack(values).diff(prepend=mean.new_zeros(1)).cpu()
