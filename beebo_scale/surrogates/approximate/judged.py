"""A surrogate that says how wrong its information gain is: on measured rows, and on a batch that it chose."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ...kernel_posterior import over_centers, with_prior
from ...posterior import Posterior
from ..factors import Blocks, Love, Sparse
from ..surrogate import Surrogate
from .blocks.posterior import BlocksPosterior
from .blocks.sizes import gain_of_larger
from .gain_error import blocks_gain_error, reference_at, sparse_gain_error
from .held_out import excess, held_out_rows
from .love import LoveOptions, raised_root
from .student_t import site_precision

GAIN_TOLERANCE = LoveOptions().error
MOST_OF_A_BATCH = 256  # rows of a batch at which its error is measured
ADAPTED = 1e-3  # what the exact variance may be off by there, in units of the noise variance


def judged(surrogate: Surrogate) -> Surrogate:
    """The surrogate with the error of I measured, where that was left open: training has no time for it at each epoch.

    Args:
        surrogate: of any kind; only the sparse kinds and blocks may have left it open.
    """
    recipe = surrogate.recipe
    if not isinstance(recipe, (Sparse, Blocks)) or recipe.error is not None:
        return surrogate
    if isinstance(recipe, Blocks):
        posterior = surrogate.of_rows
        assert isinstance(posterior, BlocksPosterior)
        error, reference = blocks_gain_error(posterior, surrogate.gp, surrogate.data)
        larger = gain_of_larger(posterior, recipe.sums)
        found = replace(surrogate, recipe=replace(recipe, error=error, reference=reference, larger=larger))
        vars(found)["of_rows"] = posterior  # with the blocks that it has made
        return found
    error, reference = sparse_gain_error(surrogate.of_rows, surrogate.gp, surrogate.data, _entered_with(surrogate))
    return replace(surrogate, recipe=replace(recipe, error=error, reference=reference))


def _entered_with(surrogate: Surrogate) -> Tensor | None:
    """Noise variances of the rows held out in q(v), None where they are those of the process."""
    if surrogate.likelihood == "gaussian":
        return None
    H = surrogate.data.take(held_out_rows(len(surrogate.data)).flatten())
    with torch.no_grad():
        mean, variance = surrogate.of_rows.mean_and_variance(H.X)
        s2 = surrogate.gp.noise_of(H)
        return (site_precision(H.y, mean, variance, s2) + 1e-6 / s2).reciprocal()


def batch_gain_error(
    surrogate: Surrogate, X: Tensor, pending: Tensor | None = None, device: torch.device | None = None
) -> tuple[float, str]:
    """Relative error of I of a batch, I / I_reference - 1, and what the reference is, in words.

    Args:
        surrogate: of any kind; an exact one has no error.
        X: q x d encoded inputs; of more than `MOST_OF_A_BATCH`, so many are looked at.
        pending: p x d inputs that the batch was chosen given.
        device: where LOVE's root is adapted to the batch.
    """
    posterior, recipe, q = surrogate.posterior(), surrogate.recipe, len(X)
    if not isinstance(recipe, (Love, Sparse, Blocks)):
        return 0.0, ""
    part = "" if q <= MOST_OF_A_BATCH else f", at {MOST_OF_A_BATCH} of its rows"
    X = X[torch.linspace(0, q - 1, min(q, MOST_OF_A_BATCH)).round().long()]
    both = X if pending is None else torch.cat([X, pending.to(X)])
    known: Posterior = posterior
    reference: Posterior
    if isinstance(recipe, Love):
        love = over_centers(posterior) if device is None else over_centers(posterior).to(device)
        known, reference, words = love, love.adapt(both, ADAPTED), "the exact one"
    else:
        prior = with_prior(posterior)
        P, noise = both if prior.warp is None else prior.warp(both), surrogate.of_rows.noise
        rows = torch.arange(len(surrogate.data))
        found, words = reference_at(surrogate.gp, surrogate.data, noise, prior.kernel, P, rows)
        reference = surrogate.design.of_new_points(found)
    if pending is not None and len(pending):
        known, reference = known.augment(pending), reference.augment(pending)
    return excess(known, reference, X.to(known.device).unsqueeze(0)), words + part


def raised(surrogate: Surrogate) -> Surrogate | None:
    """The surrogate with twice the rank, where it is LOVE with a rank that may still grow; else None."""
    recipe = surrogate.recipe
    if not isinstance(recipe, Love) or recipe.report.stopped_by != "tolerance":
        return None
    R = raised_root(surrogate.gp, surrogate.data, recipe.report.rank)
    return None if R is None else replace(surrogate, recipe=recipe.with_root(R))
