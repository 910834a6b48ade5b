"""`fit`: from a table of measurements to a surrogate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from ..errors import InputError
from ..kernel_posterior import KernelPosterior
from ..kernels.screen import PRIORS, bound_lengthscales
from ..progress import track
from ..screening import Encoder, Table
from .approximate.gain_error import sparse_gain_error
from .approximate.inducing import select_inducing_points
from .approximate.love import LoveOptions, love_posterior
from .approximate.rank import free_memory
from .approximate.sgpr import fit_sgpr, sgpr_posterior
from .approximate.student_t import StudentSVGP
from .approximate.svgp import SVGP, fit_svgp
from .data.choose_transform import choose_transform
from .data.observations import Observations, draw_inputs
from .data.observe import observe, without_extremes
from .data.target import HELD_OUT
from .data.tasks_and_batches import Design
from .factors import Exact, Love, Recipe, Sparse
from .gaussian_process.exact import BLOCK
from .gaussian_process.gaussian_process import FitReport, GaussianProcess
from .gaussian_process.hyperparameters import find_hyperparameters, limits
from .gaussian_process.learned_noise import learn_noise
from .surrogate import Surrogate, new_gp

KINDS = ("auto", "exact", "love", "sgpr", "svgp")
LIKELIHOODS = ("gaussian", "student-t")
EXACT_ROWS = 60_000  # beyond, the n^3 / 3 products of the exact factor take more than half an hour on a few cores
KERNEL_COPIES = 3  # of a block of rows of k(Z, Z), alive at once
LOVE_ROWS = 50_000  # beyond, one epoch of SVGP is cheaper than the products of LOVE with the n x n matrix
EPOCHS, STEPS = 20, 1000  # of SVGP: so many passes over the rows, and at least so many steps
BATCH, LARGE_BATCH, MANY = 1024, 4096, 200_000  # rows of a minibatch, below and from so many rows on


@dataclass(frozen=True)
class Approximation:
    """How large the approximate surrogates are.

    Attributes:
        rank: of LOVE, a number, or "auto" for one whose estimated error of the information gain is at most 5 %.
        inducing_points: of SGPR and SVGP, at most.
        epochs: of SVGP, a number, or "auto" for 20, more where the rows are so few that these make no 1,000 steps.
        factor: number format of the exact factor; "auto" is float64 if the triangle fits into the free memory, else
            float32, which leaves about 1e-6 of the prior in the variance and nothing in the mean.
    """

    rank: int | Literal["auto"] = "auto"
    inducing_points: int = 512
    epochs: int | Literal["auto"] = "auto"
    factor: Literal["auto", "float64", "float32"] = "auto"

    def __post_init__(self) -> None:
        if self.factor not in ("auto", "float64", "float32"):
            raise InputError(f"factor {self.factor!r} is not known; choose one of auto, float64, float32")
        if self.inducing_points < 1:
            raise InputError(f"inducing_points = {self.inducing_points!r}: give a whole number, 1 or more")
        if self.epochs != "auto" and self.epochs < 1:
            raise InputError(f"epochs = {self.epochs!r}: give a whole number, 1 or more, or 'auto'")


def fit(
    table: Any,
    kind: str = "auto",
    *,
    transform: str = "auto",
    priors: str = "botorch",
    warm_start: Surrogate | None = None,
    maxiter: int = 100,
    fit_rows: int = 3000,
    approximation: Approximation | None = None,
    likelihood: str = "gaussian",
    seed: int = 0,
    fitting: Any = None,
    iterations: int = 100,
) -> Surrogate:
    """Fit a surrogate to measured rows.

    Rows with the same features are merged exactly. Where the table has known noise variances, a second process learns
    sigma^2(x) for new points from them.

    Args:
        table: from `read_table`.
        kind: "exact"; "love" (hyperparameters from `fit_rows` rows, a root of low rank over all); "sgpr" or "svgp"
            (inducing points); or "auto": exact as long as half of an n x n matrix fits into the free memory and can
            be factored in half an hour, see `choose_kind`.
        transform: of the target, "none", "sqrt", "log" or "rank"; "auto" looks at its distribution (see `TargetScale`),
            "held-out" tries all on held-out rows (see `choose_transform`).
        priors: of the hyperparameters, "botorch" (today's defaults), "paper" (those of the BEEBO paper) or "search"
            (those of the paper with a lower bound on the lengthscales, for closed loops over a box).
        warm_start: an earlier surrogate over the same columns, whose hyperparameters the fit starts from.
        maxiter: limit of L-BFGS iterations; 0 keeps the hyperparameters of the warm start (SVGP trains on).
        fit_rows: at most so many distinct inputs, those of random measurements, are used for the hyperparameters
            (SGPR and SVGP start from what these give and go on with all rows); the posterior always uses all.
        approximation: rank, inducing points and epochs of the approximate kinds.
        likelihood: "gaussian", or "student-t" for targets with outliers: an SVGP for which a row counts less the
            farther out it lies (`robust.py`). Its noise is the squared scale of the bulk of the rows, the target is
            centered and scaled by medians, and transform "auto" is "none", as outliers would decide it.
        seed: of all that is drawn.

    Raises:
        InputError: no target, unknown kind, transform or priors, or a warm start over other columns.
    """
    if iterations != 100:
        maxiter = iterations
    if fitting is not None:
        kind, transform, priors, maxiter = fitting.kind, fitting.transform, fitting.priors, fitting.iterations
        fit_rows, likelihood, seed, a = fitting.fit_rows, fitting.likelihood, fitting.seed, fitting.approximation
        approximation = Approximation(a.rank, a.inducing_points, a.epochs, a.factor)
    measured, table = table, getattr(table, "table", table)
    if kind not in KINDS:
        raise InputError(f"kind {kind!r} is not known; choose one of {', '.join(KINDS)}")
    if priors not in PRIORS:
        raise InputError(f"priors {priors!r} are not known; choose one of {', '.join(PRIORS)}")
    if transform == HELD_OUT:
        transform = choose_transform(measured, priors=priors, seed=seed)
    robust = check_likelihood(likelihood, kind, table.noise_variance is not None)
    kind = "svgp" if robust else kind
    encoder, scale, design, data = observe(measured, transform, robust)
    kind, reason = choose_kind(len(data), free_memory(data.X.device)) if kind == "auto" else (kind, "asked for")
    gp = new_gp(encoder, priors, design)
    if warm_start is not None:
        _check_warm_start(warm_start, table, encoder, priors)
        _check_design(warm_start, table, design)
        gp.load_state_dict(warm_start.gp.state_dict())
    generator = torch.Generator().manual_seed(seed)
    some = (without_extremes(data) if robust else data).take(draw_inputs(data.count, fit_rows, generator))
    with track(None, "fitting the surrogate") as bar:
        fresh = None if warm_start is None else new_gp(encoder, priors, design)
        if priors == "search":
            for each in (gp, fresh) if fresh is not None else (gp,):
                bound_lengthscales(each.kernel, len(some))
        report = find_hyperparameters(gp, some, maxiter, bar.update, fresh)
        log_variance = None
        if data.noise is not None:
            features = replace(some, X=some.X[:, : encoder.width])
            log_variance = learn_noise(new_gp(encoder, priors), features, maxiter, on_step=bar.update)
        size = approximation or Approximation()
        request = _Request(gp, data, size, encoder, report, maxiter, seed, bar.update, robust)
        recipe, last = BUILDERS[kind](request)
    report = replace(last, starts=report.starts, limits=limits(gp, data))
    found = Surrogate(kind, str(table.target), encoder, scale, priors, gp, data, report, recipe, log_variance, reason)
    return replace(found, design=design, likelihood=likelihood)


def check_likelihood(likelihood: str, kind: str, noise_known: bool) -> bool:
    """Whether a likelihood is robust.

    Raises:
        InputError: it is unknown, or does not go with the kind or with known noise variances.
    """
    if likelihood not in LIKELIHOODS:
        raise InputError(f"likelihood {likelihood!r} is not known; choose one of {', '.join(LIKELIHOODS)}")
    if likelihood == "gaussian":
        return False
    if kind not in ("auto", "svgp"):
        raise InputError(f"a robust fit is one by svgp, not by {kind}; take kind svgp or auto, or no robust fit")
    if noise_known:
        raise InputError("a robust fit learns the noise; leave the known noise variances out, or take no robust fit")
    return True


def choose_kind(n: int, memory: int) -> tuple[str, str]:
    """The kind for n distinct inputs and so many bytes of memory, and why."""
    needed = _triangle(n, 8 if _triangle(n, 8) <= memory else 4)
    sizes = f"{n:,} distinct inputs; the exact surrogate takes {needed / 2**30:.1f} of {memory / 2**30:.1f} GB"
    if needed <= memory and n <= EXACT_ROWS:
        return "exact", sizes
    if needed <= memory:
        sizes = f"{n:,} distinct inputs; the exact surrogate would take long beyond {EXACT_ROWS:,}"
    if n <= LOVE_ROWS:
        return "love", f"{sizes}, LOVE a root of low rank"
    return "svgp", f"{sizes}, and LOVE is for up to {LOVE_ROWS:,}"


def _triangle(n: int, itemsize: int) -> int:
    """Bytes of the exact factor, half of n x n numbers, and of the rows of the kernel beside it."""
    return itemsize * n**2 // 2 + 8 * KERNEL_COPIES * BLOCK * n


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
    robust: bool = False


def _exact(request: _Request) -> tuple[Recipe, FitReport]:
    factor = request.size.factor
    if factor == "auto":
        data = request.data
        factor = "float64" if _triangle(len(data), 8) <= free_memory(data.X.device) else "float32"
    return Exact(factor), request.report


def _love(request: _Request) -> tuple[Recipe, FitReport]:
    options = LoveOptions(rank=request.size.rank, seed=request.seed)
    posterior, report = love_posterior(request.gp, request.data, options, continuous=request.encoder.numbers())
    return Love(_root(posterior), posterior.weights, report), request.report


def _sgpr(request: _Request) -> tuple[Recipe, FitReport]:
    Z = _inducing_points(request)
    report = fit_sgpr(request.gp, Z, request.data, request.maxiter, request.on_step)
    return _sparse(request, sgpr_posterior(request.gp, Z, request.data)), report


def _svgp(request: _Request) -> tuple[Recipe, FitReport]:
    n = len(request.data)
    model = (StudentSVGP if request.robust else SVGP)(request.gp, _inducing_points(request), n)
    batch = min(n, BATCH if n < MANY else LARGE_BATCH)
    epochs = max(EPOCHS, -(-STEPS // (n // batch))) if request.size.epochs == "auto" else request.size.epochs
    report = fit_svgp(model, request.data, epochs, batch, seed=request.seed, on_step=request.on_step)
    return _sparse(request, model.posterior()), report


def _inducing_points(request: _Request) -> Tensor:
    return select_inducing_points(request.gp.kernel, request.data.X, request.size.inducing_points, request.seed)


def _sparse(request: _Request, posterior: KernelPosterior) -> Sparse:
    columns = request.encoder.numbers()
    error, reference = sparse_gain_error(posterior, request.gp, request.data, columns, request.seed)
    return Sparse(posterior.centers, _root(posterior), posterior.weights, error, reference)


def _root(posterior: KernelPosterior) -> Tensor:
    """R as a matrix, n x r."""
    return posterior.down.expand(torch.eye(posterior.rank, dtype=posterior.dtype))


BUILDERS: dict[str, Callable[[_Request], tuple[Recipe, FitReport]]] = {
    "exact": _exact,
    "love": _love,
    "sgpr": _sgpr,
    "svgp": _svgp,
}


def _check_warm_start(warm_start: Surrogate, table: Table, encoder: Encoder, priors: str) -> None:
    if warm_start.encoder.kinds != encoder.kinds or warm_start.encoder.width != encoder.width:
        raise InputError(
            f"the warm start was fitted on {_described(warm_start.encoder)}, but {table.source} has "
            f"{_described(encoder)}; use the same features, or leave the warm start out"
        )
    if warm_start.priors != priors:
        raise InputError(f"the warm start has priors {warm_start.priors!r}, this fit {priors!r}; use the same")


def _check_design(warm_start: Surrogate, table: Table, design: Design) -> None:
    if not warm_start.design.same_columns(design):
        raise InputError(
            f"the warm start was fitted on {warm_start.design.words}, but {table.source} was read with {design.words}; "
            "use the same, or leave the warm start out"
        )


def _described(encoder: Encoder) -> str:
    return ", ".join(f"{c.name} ({c.kind}{f' of {c.width}' if c.width > 1 else ''})" for c in encoder.columns)
