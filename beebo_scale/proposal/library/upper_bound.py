r"""An upper bound of a(X) over every batch X of q rows of a library, whatever the signs of its gains.

a(X) is a sum of means plus T times I(X), which is submodular and never falls. So for every prefix S_i of a batch

    a(X) <= T I(S_i) + sum of the q largest of [mean(o) + T dI(o | S_i)],      mean(o) alone for o in S_i,

and the smallest over i is reported. Where dI(o | S_i) was not computed, that of a smaller S stands in, which is never
below it: the rows outside the shortlist count with their scores, and those of which nothing was kept with the best
score that one of them may have.

Limits make the best batch no better, so this holds under limits, too. Caps of groups are counted, those of one column
at a time: of each group no more than the cap, and the smallest over the columns. A least distance is not counted.
Where repeats are not allowed, each input of the shortlist counts once.

Minoux' way to bound greedy choice (Krause and Golovin, Submodular function maximization, 2014, section 3.3), with the
modular part kept apart, so that means of any sign will do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ...information import marginal_gain
from .best_rows import place_in_group
from .exclusion import repeated_in_group
from .lazy_greedy import SCORED_AT_ONCE, LazyGreedy

PREFIXES = 32  # prefixes S_i that are tried besides the empty one
WORK = 1 << 31  # multiplications spent on bringing bounds up to date, the largest first; more hardly helped


@dataclass(frozen=True, eq=False)
class Others:
    """Rows outside the shortlist, each with a bound of its gain.

    Attributes:
        bound: n.
        groups: codes of their groups, n x g ...
        known: ... which of these are known, n x g booleans; a row of unknown group is under no cap.
    """

    bound: Tensor
    groups: Tensor
    known: Tensor


def upper_bound(
    state: LazyGreedy, score: Tensor, groups: Tensor, original: Tensor, others: Others, caps: list[int]
) -> float:
    """The bound above for the batch that `state` has chosen; brings bounds of `state` up to date, which ends its use.

    Args:
        state: a finished choice among K rows.
        score: K gains with nothing chosen.
        groups: K x g codes.
        original: K, the first row with the same input; the row itself where repeats are allowed.
        others: all other rows of the library.
        caps: most rows of one group, for each of the g columns.
    """
    q = len(state)
    prefixes = torch.arange(q + 1) if q <= PREFIXES else torch.linspace(0, q, PREFIXES + 1).round().long()
    if state.T == 0.0:
        prefixes = prefixes[:1]  # the scores are the means: nothing can be better than the q largest
    prefixes = prefixes.to(state.X.device)
    with torch.no_grad():
        rows = _bounds(state, score.to(state.X), original.to(state.X.device), prefixes).cpu()  # K x p
        information = _information(state)[prefixes].cpu()  # p
    once = original == torch.arange(len(original))
    different = ~repeated_in_group(original, groups)
    codes = torch.cat([groups[different], others.groups])
    known = torch.cat([torch.ones_like(groups[different], dtype=torch.bool), others.known])
    totals = []
    for bound, gained in zip(rows.unbind(-1), information.tolist(), strict=True):
        sums = [torch.cat([bound[once], others.bound]).topk(q).values.sum()]
        each = torch.cat([bound[different], others.bound])
        sums += [_best_within(each, codes[:, i], known[:, i], q, cap) for i, cap in enumerate(caps)]
        totals.append(state.T * gained + float(min(sums)))
    return max(min(totals), math.fsum(state.gains))  # rounding could leave it below the batch's own value


def _best_within(bound: Tensor, codes: Tensor, known: Tensor, q: int, cap: int) -> Tensor:
    """The sum of the q largest of n bounds, no more than `cap` of each known group."""
    order = bound.argsort(descending=True)
    order = order[(place_in_group(codes[order]) < cap) | ~known[order]]
    return bound[order[:q]].sum()


def _information(state: LazyGreedy) -> Tensor:
    """I(S_i) for i = 0, ..., q."""
    gain = (state.L.diagonal() / _noise(state).sqrt()).log()
    return torch.cat([gain.new_zeros(1), gain.cumsum(0)])


def _noise(state: LazyGreedy) -> Tensor:
    """sigma^2 of the chosen points, q."""
    return torch.cat([state.posterior.noise(part) for part in state.S.split(SCORED_AT_ONCE)])


def _bounds(state: LazyGreedy, score: Tensor, original: Tensor, prefixes: Tensor) -> Tensor:
    """Bounds of mean(o) + T dI(o | S_i) for all rows and p prefixes, K x p."""
    bound = score.unsqueeze(-1).repeat(1, len(prefixes))
    if len(prefixes) == 1:
        return bound
    stale = state.bound > -math.inf
    bound[stale, -1] = torch.minimum(bound[stale, -1], state.bound[stale])
    _refresh(state, bound[:, -1])
    cache = state.cache
    for places in torch.arange(len(cache.rows), device=bound.device).split(SCORED_AT_ONCE):
        written = torch.arange(len(state), device=bound.device) < cache.age[places].unsqueeze(-1)
        told = cache.columns[places].square().where(written, 0.0)  # by each chosen point that the row knows
        left = cache.variance[places].unsqueeze(-1) - _sums(told, prefixes)
        gain = marginal_gain(left.clamp_min(0.0), cache.noise[places].unsqueeze(-1))
        rows = cache.rows[places]
        bound[rows] = torch.minimum(bound[rows], cache.mean[places].unsqueeze(-1) + state.T * gain)
    _bound_chosen(state, bound, prefixes)
    index = original.unsqueeze(-1).expand_as(bound)
    return bound.scatter_reduce(0, index, bound, "amin").gather(0, index)  # what holds for a row holds for its copies


def _refresh(state: LazyGreedy, ceiling: Tensor) -> None:
    """Bring rows of the cache up to the whole batch, the best first, as far as the work goes."""
    q, cache = len(state), state.cache
    free = torch.ones(len(ceiling), dtype=torch.bool, device=ceiling.device)
    free[torch.tensor(state.chosen, device=ceiling.device)] = False
    places = (free[cache.rows] & (cache.age < q)).nonzero().squeeze(-1)
    places = places[ceiling[cache.rows[places]].argsort(descending=True, stable=True)]
    work = ((q - cache.age[places]) * (q + state.posterior.rank)).cumsum(0)
    places = places[work <= WORK]
    if not len(places):
        return
    for part in places[cache.age[places].argsort(stable=True)].split(SCORED_AT_ONCE):
        state.bring(part, int(cache.age[part].min()))


def _bound_chosen(state: LazyGreedy, bound: Tensor, prefixes: Tensor) -> None:
    """The chosen rows' own bounds: the gain before a row's turn, the mean alone after it; changes `bound`."""
    turns = torch.arange(len(state), device=bound.device)
    gains = torch.tensor(state.gains, dtype=torch.float64).to(bound)
    chosen, noise = torch.tensor(state.chosen, device=bound.device), _noise(state)
    for part in turns.split(SCORED_AT_ONCE):
        L, sigma2 = state.L[part].tril(int(part[0]) - 1), noise[part].unsqueeze(-1)
        told = L.square()
        own = (state.L[part, part].square().unsqueeze(-1) - sigma2).clamp_min(0.0)  # variance at its turn
        mean = gains[part].unsqueeze(-1) - state.T * marginal_gain(own, sigma2)
        left = own + told.sum(-1, keepdim=True) - _sums(told, prefixes)
        gain = mean + state.T * marginal_gain(left.clamp_min(0.0), sigma2)
        bound[chosen[part]] = torch.where(prefixes > part.unsqueeze(-1), mean, gain)


def _sums(values: Tensor, prefixes: Tensor) -> Tensor:
    """Sums of the first i of values, n x q -> n x p."""
    return torch.nn.functional.pad(values.cumsum(-1), (1, 0))[:, prefixes]
