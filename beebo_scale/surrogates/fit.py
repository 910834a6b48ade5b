"""`fit`: from a table of measurements to a surrogate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from ..errors import InputError
from ..progress import track
from ..screening import EncodedTable, Encoder, Table
from ..specs import Fitting, keywords_of
from ..specs.fitting import HELD_OUT, fitting_of
from .approximate.judged import judged
from .approximate.rank import free_memory
from .approximate.svgp import fit_svgp
from .data.choose_transform import automatic_transform, choose_transform
from .data.observations import Measurements
from .data.observe import few, observe
from .data.tasks_and_batches import Design
from .factors import Recipe
from .gaussian_process.gaussian_process import FitReport, GaussianProcess
from .gaussian_process.hyperparameters import limits
from .surrogate import Surrogate, log_variance_of
from .trainees import FullTrainee, StartingPoint, process_at, rows_at, sparse_recipe, starting_point, svgp_at, triangle

EXACT_ROWS = (
    45_000  # beyond, the n^3 / 3 products of the exact factor take more than ten minutes (590 s measured, one core)
)
EPOCHS, STEPS = 20, 1000  # of SVGP: so many passes over the rows, and at least so many steps
BATCH, LARGE_BATCH, MANY = 1024, 4096, 200_000  # rows of a minibatch, below and from so many rows on


@keywords_of(Fitting)
def fit(
    table: Table | EncodedTable,
    kind: str | None = None,
    *,
    warm_start: Surrogate | None = None,
    minimize: bool | None = None,
    fitting: Fitting | None = None,
    **settings: Any,
) -> Surrogate:
    """Fit a surrogate to measured rows.

    Rows with the same features are merged exactly. Where the table has known noise variances, a second process learns
    sigma^2(x) for new points from them; where they are rather estimates from few replicates, it takes their place.

    Args:
        table: from `read_table`.
        kind: of the surrogate, see `Fitting`; None is that of `fitting`, "auto" without.
        warm_start: an earlier surrogate over the same columns, whose hyperparameters the fit starts from.
        minimize: whether small values are good, which then count where a transform is chosen; None counts both ends.
        fitting: all settings as one value, instead of ...
        settings: ... or changed by some of them, see `Fitting`.

    Raises:
        InputError: no target, unknown kind, transform or priors, or a warm start over other columns.
    """
    asked = fitting_of(fitting, settings | ({} if kind is None else {"kind": kind}))
    measured = EncodedTable.of(table)
    asked.check_noise(measured.table.noise_variance is not None)
    asked = replace(asked, transform=_transform(measured, asked, minimize))
    if asked.robust and not measured.table.weights and few(torch.tensor(measured.table.y)):
        asked = replace(asked, likelihood="gaussian")  # to a Student-t the rarer value would be an outlier
    data: Measurements
    encoder, scale, design, data = observe(measured, asked.transform, asked.robust)
    kind, reason = "svgp" if asked.robust else asked.kind, "asked for"
    if kind == "auto":
        kind, reason = choose_kind(len(data), free_memory(data.X.device))
    combine = asked.combine
    if combine == "auto":
        combine = "combinations" if measured.lists else "product"
    if combine == "likelihood" and warm_start is not None:
        combine = warm_start.design.combine
    asked, design = replace(asked, kind=kind), replace(design, combine=combine)
    if warm_start is not None:
        _check_warm_start(warm_start, measured, design, asked.priors)
    with track(None, "fitting the surrogate") as bar:
        warm = None if warm_start is None else warm_start.gp
        start, design = _start(encoder, design, data, asked, warm, bar.update)
        data = rows_at(start, encoder, data, asked)
        gp = process_at(start, encoder, design, data, asked)
        recipe, last = train(start, gp, data, encoder, asked, bar.update)
    known = {name: start.report[name] for name in ("starts", "notes")}
    report = replace(last, limits=limits(gp, data), **known)
    found = Surrogate(
        kind=kind,
        target=str(measured.table.target),
        encoder=encoder,
        scale=scale,
        priors=asked.priors,
        gp=gp,
        data=data,
        report=report,
        recipe=recipe,
        log_variance=log_variance_of(start.log_variance, encoder, asked.priors),
        reason=reason,
        design=design,
        likelihood=asked.likelihood,
    )
    return judged(found)


def _start(
    encoder: Encoder,
    design: Design,
    data: Measurements,
    asked: Fitting,
    warm: GaussianProcess | None,
    on_step: Callable[[], object],
) -> tuple[StartingPoint, Design]:
    """Where training starts; where the likelihood chooses how kernels combine, by the larger one."""
    if design.combine != "likelihood":
        return starting_point(encoder, design, data, asked, warm, on_step), design
    ways = [replace(design, combine=combine) for combine in ("product", "combinations")]
    starts = [starting_point(encoder, way, data, asked, None, on_step) for way in ways]
    return max(zip(starts, ways, strict=True), key=lambda found: found[0].report["log_likelihood"])


def _transform(measured: EncodedTable, asked: Fitting, minimize: bool | None) -> str:
    """The transform asked for; of "auto" and "held-out" the one that held-out rows choose, where they do."""
    if asked.transform == HELD_OUT:
        return choose_transform(measured, priors=asked.priors, seed=asked.seed, minimize=minimize)
    if asked.transform == "auto" and not asked.robust:
        return automatic_transform(measured, asked.priors, asked.seed, minimize)
    return asked.transform


def train(
    start: StartingPoint,
    gp: GaussianProcess,
    data: Measurements,
    encoder: Encoder,
    fitting: Fitting,
    on_step: Callable[[], object],
) -> tuple[Recipe, FitReport]:
    """The plain driver: all steps of a trainee, one after the other; hyperparameters of `gp` move in place."""
    if fitting.kind != "svgp":
        trainee = FullTrainee(start, gp, data, fitting)
        trainee.run(0, on_step)
        return trainee.recipe(), trainee.last
    n, size = len(data), fitting.approximation
    batch = min(n, BATCH if n < MANY else LARGE_BATCH)
    epochs = max(EPOCHS, -(-STEPS // (n // batch))) if size.epochs == "auto" else size.epochs
    model = svgp_at(start, gp, data, encoder, fitting)
    report = fit_svgp(model, data, epochs, batch, size.lr, size.natural_lr, fitting.seed, on_step)
    return sparse_recipe(model.posterior()), report


def choose_kind(n: int, memory: int) -> tuple[str, str]:
    """The kind for n distinct inputs and so many bytes of memory, and why."""
    needed = triangle(n, 8 if triangle(n, 8) <= memory else 4)
    sizes = f"{n:,} distinct inputs; the exact surrogate takes {needed / 2**30:.1f} of {memory / 2**30:.1f} GB"
    if needed <= memory and n <= EXACT_ROWS:
        return "exact", sizes
    if needed <= memory:
        sizes = f"{n:,} distinct inputs; the exact surrogate would take more than ten minutes beyond {EXACT_ROWS:,}"
    return "blocks", f"{sizes}; blocks of near rows take minutes"


def _check_warm_start(warm_start: Surrogate, measured: EncodedTable, design: Design, priors: str) -> None:
    """Refuse hyperparameters of other columns or priors."""
    encoder, source = measured.encoder, measured.table.source
    if warm_start.encoder.kinds != encoder.kinds or warm_start.encoder.width != encoder.width:
        raise InputError(
            f"the warm start was fitted on {_described(warm_start.encoder)}, but {source} has "
            f"{_described(encoder)}; use the same features, or leave the warm start out"
        )
    if warm_start.priors != priors:
        raise InputError(f"the warm start has priors {warm_start.priors!r}, this fit {priors!r}; use the same")
    if not warm_start.design.same_columns(design):
        raise InputError(
            f"the warm start was fitted on {warm_start.design.words}, but {source} was read with {design.words}; "
            "use the same, or leave the warm start out"
        )


def _described(encoder: Encoder) -> str:
    return ", ".join(f"{c.name} ({c.kind}{f' of {c.width}' if c.width > 1 else ''})" for c in encoder.columns)
