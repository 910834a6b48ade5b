r"""Certified greedy choice from a product of lists, by bounds on tiles and rows.

    bound_1(x) = mean(x) + T/2 log(1 + k(x, x) / sigma^2)          the mean by contraction, for all products
    bound_2(x) = mean(x) + T/2 log(1 + v_r(x) / sigma^2)           v_r by a root of low rank, which is never too small
    gain(x | S) <= bound_2 <= bound_1

1. A level is guessed from a part of the tiles: so many products lie above it by bound_1 as a shortlist needs.
2. One pass over all tiles keeps the products with both bounds above the level. All others gain less than it.
3. Lazy greedy runs over what was kept. As long as each gain is above the level, the batch is the greedy one over all
   products: the same as from the library written out.
4. Where a gain is not, greedy goes on among what was kept, to see how low the level has to be; then 2 and 3 again.

Tiles are cut by the lists, never by workers, which share them out; what a pass keeps does not depend on them. Memory:
16 bytes (24 with groups) for each product kept, no more than `KEPT`; a tile; and what `LazyGreedy` holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from math import inf, sqrt
from typing import Any

import torch
from torch import Tensor

from ....information import marginal_gain
from ....posterior import Posterior
from ....progress import track
from ....specs import Choice
from ....surrogates.products.coded import ProductPosterior, over_products
from ....surrogates.products.contraction import Contraction, index_of
from ...jobs.chunks import ChunkRunner
from .. import lazy_greedy
from ..best_rows import Top, best_of
from ..certified import CertifiedBatch, gains_of
from ..shortlist import LibrarySearch, Shortlist
from .encoded import EncodedProduct

RESERVE = (
    8  # products above the first level for each row of a shortlist, and the factor by which a further one has more
)
SAMPLED = 1 << 22  # products whose means tell where the first level lies
PROBES = 256  # products at which the root of low rank is exact: half the best by mean, half at random
KEPT = 1 << 22  # products that a pass keeps, at most
CHUNK = 1 << 24  # products of a chunk of work, about
BOUNDED_TOGETHER = 1 << 13  # products whose second bound is computed together


@dataclass(frozen=True, eq=False)
class ProductSearch:
    """All that bounds and chooses.

    Attributes:
        over: the posterior over products, conditioned on what is pending.
        library: to choose from.
        q: batch size.
        T: scaled temperature.
        sign: -1 where small targets are good.
        tiles: of the means.
        rough: a posterior with the same mean whose variance is never too small.
    """

    over: ProductPosterior
    library: EncodedProduct
    q: int
    T: float
    sign: float
    tiles: Contraction
    rough: Posterior

    def codes(self, rows: Tensor) -> Tensor:
        """Rows as the posterior takes them, n -> n x J."""
        return self.over.codes(index_of(rows, self.tiles.sizes))

    @property
    def prior_gain(self) -> float:
        """What bound_1 adds to the mean, rounding included."""
        posterior = self.over.posterior
        x = posterior.centers[:1]
        variance = posterior.kernel(x, diag=True)
        return self.T * float(marginal_gain(variance, posterior.noise(x))) + self.tiles.slack

    def bounds(self, rows: Tensor, means: Tensor) -> Tensor:
        """bound_2 of some rows (n) with their means (n, of what is to become large)."""
        X = self.codes(rows)
        variance = torch.cat([self.rough.variance(part) for part in X.split(lazy_greedy.SCORED_AT_ONCE)])
        noise = self.over.posterior.noise(X)
        return means + self.T * marginal_gain(variance, noise) + self.tiles.slack


def choose_product(
    posterior: Posterior, library: EncodedProduct, choice: Choice, runner: ChunkRunner | None = None
) -> CertifiedBatch:
    """The greedy batch of q products, certified; see the module.

    Args:
        posterior: of the surrogate.
        library: with its rules and limits.
        choice: batch size, temperature and direction.
        runner: who works, and where finished chunks are kept.

    Raises:
        InputError: a surrogate that does not go with lists, or fewer rows than q can be chosen.
    """
    runner, wide = runner or ChunkRunner(), posterior
    if library.rules.pending is not None and len(library.rules.pending):
        wide = posterior.augment(library.rules.pending)
    with torch.no_grad():
        task, most, level = _prepared(wide, library, choice)
        chunks = _chunks(task.tiles)
        for number in count(1):
            merge = partial(best_of, keep=KEPT)
            work = partial(_kept, task, level, chunks, merge)
            top = runner.reduce(f"products {number}", len(chunks), work, merge)
            picked = runner.deal(f"choice {number}", 1, partial(_pick, task, top, level))[0]
            if len(picked["rows"]) == choice.q:
                break
            if level == -inf or len(top["row"]) > KEPT:
                raise library.too_few(choice.q, len(picked["rows"]), library.counts, limited=bool(library.limits))
            most *= RESERVE
            lowest = picked["lowest"]
            if lowest is None or number > 2:  # what was found tells nothing, or too little
                lowest = min(_level(task, most)[0], inf if lowest is None else lowest)
            level = min(lowest, level) - task.tiles.slack
    library.check_lists(library.counts)
    rows = picked["rows"]
    chosen = set(rows.tolist())
    rest = [row for row in top["row"][: 9 * choice.q].tolist() if row not in chosen]
    X = library.rows(rows)[0]
    return CertifiedBatch(
        rows=rows,
        gain=gains_of(wide, X, task.T, task.sign),
        X=X,
        certificate={**picked["certificate"], "passes": number, "guarantee": library.limits.guarantee()},
        counts={"rows": len(library), **library.counts, "repeated": picked["counts"]["repeated"]},
        runners_up=torch.tensor(rest[: 8 * choice.q], dtype=torch.long),
    )


def _prepared(wide: Posterior, library: EncodedProduct, choice: Choice) -> tuple[ProductSearch, int, float]:
    """The search, how many products its first level is meant to leave, and that level."""
    over = over_products(wide, library.lists)
    tiles, exact = Contraction(over), over.posterior
    T = choice.temperature * sqrt(wide.amplitude)
    task = ProductSearch(over, library, choice.q, T, choice.sign, tiles, exact)
    most = RESERVE * lazy_greedy.SHORTLIST * choice.q
    level, best = _level(task, most)
    draw = torch.Generator().manual_seed(0)
    random = (torch.rand(PROBES // 2, generator=draw, dtype=torch.float64) * len(library)).long()
    probes = torch.cat([best[: PROBES // 2], random]).unique()
    return (
        ProductSearch(over, library, choice.q, T, choice.sign, tiles, exact.compress_at(task.codes(probes))),
        most,
        level,
    )


def _level(task: ProductSearch, most: int) -> tuple[float, Tensor]:
    """A bound_1 that about so many products lie above, and the best products seen."""
    tiles = task.tiles
    step = max(1, tiles.count * tiles.products // SAMPLED)
    seen, score, row = 0, task.tiles.K.new_empty(0), torch.empty(0, dtype=torch.long)
    wanted = max(PROBES, -(-most // step))
    for tile in range(step // 2, tiles.count, step):
        means = task.sign * tiles.means(tile)
        seen += means.numel()
        values, at = means.flatten().topk(min(wanted, means.numel()))
        places = torch.stack([at // means.shape[1], at % means.shape[1]], dim=-1)
        score, row = torch.cat([score, values]), torch.cat([row, tiles.rows(tile, places)])
        keep = score.topk(min(wanted, len(score))).indices
        score, row = score[keep], row[keep]
    share = max(1, round(most * seen / len(task.library)))
    if most >= len(task.library) or share > len(score):
        return -inf, row
    return float(score[share - 1]) + task.prior_gain, row


def _chunks(tiles: Contraction) -> list[range]:
    """Tiles that make a chunk of work."""
    together = max(1, CHUNK // tiles.products)
    return [range(start, min(start + together, tiles.count)) for start in range(0, tiles.count, together)]


def _kept(
    task: ProductSearch, level: float, chunks: list[range], merge: Any, wanted: Sequence[int]
) -> Iterator[tuple[int, Top]]:
    """Chunks of tiles, each as the products with both bounds above the level."""
    for number in track(wanted, "bounding the products", total=len(wanted)):
        with torch.no_grad():
            yield number, merge(_above(task, level, chunks[number]))


def _above(task: ProductSearch, level: float, tiles: range) -> Top:
    """The products of some tiles with both bounds above the level."""
    least = level - task.prior_gain
    kept: list[tuple[Tensor, Tensor]] = []
    waiting: list[tuple[Tensor, Tensor]] = []

    def bound() -> None:
        rows, means = (torch.cat(parts) for parts in zip(*waiting, strict=True))
        waiting.clear()
        score = task.bounds(rows, means) if task.T > 0.0 else means + task.tiles.slack
        kept.append((rows[score > level], score[score > level]))

    for tile in tiles:
        means = task.tiles.means(tile).mul_(task.sign)
        places = (means > least).nonzero() if least > -inf else _everywhere(means)
        rows = task.tiles.rows(tile, places)
        good = task.library.eligible(rows.cpu()).to(rows.device)
        waiting.append((rows[good], means[places[good, 0], places[good, 1]]))
        if sum(len(rows) for rows, _ in waiting) >= BOUNDED_TOGETHER:
            bound()
    if waiting:
        bound()
    rows, score = (torch.cat(parts).cpu() for parts in zip(*kept, strict=True))
    groups = task.library.groups(index_of(rows, task.tiles.sizes))
    return {"score": score, "row": rows, "groups": groups, "counts": {}}


def _everywhere(means: Tensor) -> Tensor:
    """All places of a tile, n x 2."""
    return torch.ones_like(means, dtype=torch.bool).nonzero()


def _pick(task: ProductSearch, top: Top, level: float, chunks: Sequence[int]) -> Iterator[tuple[int, Any]]:
    """Work of a single chunk: the greedy choice among what was kept, and how low the level has to be if it fails."""
    full, length = len(top["row"]) > KEPT, min(len(top["row"]), KEPT)
    left_out = max(level, float(top["score"][KEPT]) if full else -inf)
    top = {**top, **{name: top[name][:length] for name in ("score", "row", "groups")}}
    if left_out > -inf:  # the last row stands for all that were not kept
        top["score"] = torch.cat([top["score"], top["score"].new_tensor([left_out])])
        top["row"] = torch.cat([top["row"], torch.tensor([0])])
        top["groups"] = torch.cat([top["groups"], top["groups"].new_zeros(1, top["groups"].shape[1])])
    for chunk in chunks:
        search = LibrarySearch(task.over.posterior, _Rows(task), task.q, task.T, task.sign)
        shortlist = Shortlist(search, top, length, None)
        picked = shortlist.choose()
        certain = len(picked["rows"])
        picked["lowest"] = None if certain == task.q else shortlist.lowest()
        if certain < task.q and full:  # more cannot be kept: the choice goes on without certificate
            picked |= shortlist.report(certain)
        yield chunk, picked


class _Rows:
    """The products as the shortlist sees them, by codes."""

    def __init__(self, task: ProductSearch) -> None:
        self.task, self.rules, self.limits = task, task.library.rules, task.library.limits
        self.encoder = task.library.coded

    def __len__(self) -> int:
        return len(self.task.library)

    def rows(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Codes of some rows, and those of their groups: k -> k x J, k x g."""
        index = index_of(numbers, self.task.tiles.sizes)
        return self.task.over.codes(index), self.task.library.groups(index)
