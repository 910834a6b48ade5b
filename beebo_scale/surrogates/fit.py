"""`fit`: from a table of measurements to a surrogate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ..errors import InputError
from ..posterior import Posterior
from ..progress import track
from ..screening import Encoder, Table
from .gp import FitReport, GaussianProcess, fit_hyperparameters
from .inducing import select_inducing_points
from .kernels import PRIORS
from .learned_noise import learn_noise
from .love import LoveOptions, love_posterior
from .observations import Observations, merge_replicates
from .rank import free_memory
from .recipes import Exact, Love, Recipe, Sparse
from .sgpr import fit_sgpr, sgpr_posterior
from .surrogate import Surrogate, new_gp
from .svgp import SVGP, fit_svgp
from .target import TargetScale

KINDS = ("auto", "exact", "love", "sgpr", "svgp")
EXACT_COPIES = 3  # n x n matrices alive while the exact posterior is built
LOVE_ROWS = 50_000  # beyond, one epoch of SVGP is cheaper than the products of LOVE with the n x n matrix


@dataclass(frozen=True)
class Approximation:
    """How large the approximate surrogates are.

    Attributes:
        rank: of LOVE, a number, or "auto" for one whose estimated error of the information gain is at most 5 %.
        inducing_points: of SGPR and SVGP, at most.
        epochs: of SVGP.
    """

    rank: int | Literal["auto"] = "auto"
    inducing_points: int = 512
    epochs: int = 20


def fit(
    table: Table,
    kind: str = "auto",
    *,
    transform: str = "auto",
    priors: str = "botorch",
    warm_start: Surrogate | None = None,
    maxiter: int = 100,
    fit_rows: int = 3000,
    approximation: Approximation | None = None,
    seed: int = 0,
) -> Surrogate:
    """Fit a surrogate to measured rows.

    Rows with the same features are merged exactly. Where the table has known noise variances, a second process learns
    sigma^2(x) for new points from them.

    Args:
        table: from `read_table`.
        kind: "exact"; "love" (hyperparameters from `fit_rows` rows, a root of low rank over all); "sgpr" or "svgp"
            (inducing points); or "auto": exact as long as one n x n matrix fits into the free memory, see
            `choose_kind`.
        transform: of the target, "auto", "none" or "sqrt"; see `TargetScale`.
        priors: of the hyperparameters, "botorch" (today's defaults) or "paper" (those of the BEEBO paper).
        warm_start: an earlier surrogate over the same columns, whose hyperparameters the fit starts from.
        maxiter: limit of L-BFGS iterations.
        fit_rows: at most so many distinct inputs, drawn at random, are used for the hyperparameters (SGPR and SVGP
            start from what these give and go on with all rows); the posterior always uses all.
        approximation: rank, inducing points and epochs of the approximate kinds.
        seed: of all that is drawn.

    Raises:
        InputError: no target, unknown kind, transform or priors, or a warm start over other columns.
    """
    if kind not in KINDS:
        raise InputError(f"kind {kind!r} is not known; choose one of {', '.join(KINDS)}")
    if priors not in PRIORS:
        raise InputError(f"priors {priors!r} are not known; choose one of {', '.join(PRIORS)}")
    encoder, scale, data = _observe(table, transform)
    kind, reason = choose_kind(len(data), free_memory(data.X.device)) if kind == "auto" else (kind, "asked for")
    gp = new_gp(encoder, priors)
    if warm_start is not None:
        _check_warm_start(warm_start, table, encoder, priors)
        gp.load_state_dict(warm_start.gp.state_dict())
    generator = torch.Generator().manual_seed(seed)
    some = data.take(torch.randperm(len(data), generator=generator)[:fit_rows].sort().values)
    with track(None, "fitting the surrogate") as bar:
        report = fit_hyperparameters(gp, some, maxiter, on_step=bar.update)
        log_variance = None
        if data.noise is not None:
            log_variance = learn_noise(new_gp(encoder, priors), some, maxiter, on_step=bar.update)
        request = _Request(gp, data, approximation or Approximation(), encoder, report, maxiter, seed, bar.update)
        recipe, report = BUILDERS[kind](request)
    return Surrogate(kind, str(table.target), encoder, scale, priors, gp, data, report, recipe, log_variance, reason)


def choose_kind(n: int, memory: int) -> tuple[str, str]:
    """The kind for n distinct inputs and so many bytes of memory, and why."""
    needed = EXACT_COPIES * 8 * n**2
    sizes = f"{n:,} distinct inputs; the exact surrogate takes {needed / 2**30:.1f} of {memory / 2**30:.1f} GB"
    if needed <= memory:
        return "exact", sizes
    if n <= LOVE_ROWS:
        return "love", f"{sizes}, LOVE a root of low rank"
    return "svgp", f"{sizes}, and LOVE is for up to {LOVE_ROWS:,}"


@dataclass(frozen=True)
class _Request:
    """What the builders of a posterior may need; they go on with the hyperparameters of `gp` in place."""

    gp: GaussianProcess
    data: Observations
    size: Approximation
    encoder: Encoder
    report: FitReport
    maxiter: int
    seed: int
    on_step: Callable[[], object]


def _exact(request: _Request) -> tuple[Recipe, FitReport]:
    return Exact(), request.report


def _love(request: _Request) -> tuple[Recipe, FitReport]:
    slices, kinds = request.encoder.slices(), request.encoder.kinds
    continuous = [i for name, s in slices.items() if kinds[name] == "continuous" for i in range(s.start, s.stop)]
    options = LoveOptions(rank=request.size.rank, seed=request.seed)
    posterior, report = love_posterior(request.gp, request.data, options, continuous=continuous)
    return Love(_root(posterior), posterior.weights, report), request.report


def _sgpr(request: _Request) -> tuple[Recipe, FitReport]:
    Z = _inducing_points(request)
    report = fit_sgpr(request.gp, Z, request.data, request.maxiter, request.on_step)
    return _sparse(sgpr_posterior(request.gp, Z, request.data)), report


def _svgp(request: _Request) -> tuple[Recipe, FitReport]:
    model = SVGP(request.gp, _inducing_points(request), len(request.data))
    batch = min(4096, len(request.data))
    report = fit_svgp(model, request.data, request.size.epochs, batch, seed=request.seed, on_step=request.on_step)
    return _sparse(model.posterior()), report


def _inducing_points(request: _Request) -> Tensor:
    return select_inducing_points(request.gp.kernel, request.data.X, request.size.inducing_points, request.seed)


def _sparse(posterior: Posterior) -> Sparse:
    return Sparse(posterior.centers, _root(posterior), posterior.weights)


def _root(posterior: Posterior) -> Tensor:
    """R as a matrix, n x r."""
    return posterior.down.expand(torch.eye(posterior.rank, dtype=posterior.dtype))


BUILDERS: dict[str, Callable[[_Request], tuple[Recipe, FitReport]]] = {
    "exact": _exact,
    "love": _love,
    "sgpr": _sgpr,
    "svgp": _svgp,
}


def _observe(table: Table, transform: str) -> tuple[Encoder, TargetScale, Observations]:
    """Encoded, standardised rows with replicates merged."""
    if table.y is None or table.target is None:
        raise InputError(f"{table.source}: no target to learn from; read it with read_table(..., target=...)")
    encoder = Encoder.from_table(table)
    y = torch.tensor(table.y)  # copied: pandas may hand out arrays that nobody may write to
    noise = None if table.noise_variance is None else torch.tensor(table.noise_variance)
    scale = TargetScale.of(y, transform, noise_known=noise is not None)
    noise = None if noise is None else scale.standardise_variance(noise)
    return encoder, scale, merge_replicates(encoder.encode(table), scale.standardise(y), noise)


def _check_warm_start(warm_start: Surrogate, table: Table, encoder: Encoder, priors: str) -> None:
    if warm_start.encoder.kinds != encoder.kinds or warm_start.encoder.width != encoder.width:
        raise InputError(
            f"the warm start was fitted on {_described(warm_start.encoder)}, but {table.source} has "
            f"{_described(encoder)}; use the same features, or leave the warm start out"
        )
    if warm_start.priors != priors:
        raise InputError(f"the warm start has priors {warm_start.priors!r}, this fit {priors!r}; use the same")


def _described(encoder: Encoder) -> str:
    return ", ".join(f"{c.name} ({c.kind}{f' of {c.width}' if c.width > 1 else ''})" for c in encoder.columns)
