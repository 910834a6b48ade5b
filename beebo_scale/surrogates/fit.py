"""`fit`: from a table of measurements to a surrogate."""

from __future__ import annotations

import torch

from ..errors import InputError
from ..progress import track
from ..screening import Encoder, Table
from .gp import fit_hyperparameters
from .kernels import PRIORS
from .learned_noise import learn_noise
from .observations import Observations, merge_replicates
from .surrogate import Surrogate, new_gp
from .target import TargetScale

KINDS = ("auto", "exact")


def fit(
    table: Table,
    kind: str = "auto",
    *,
    transform: str = "auto",
    priors: str = "botorch",
    warm_start: Surrogate | None = None,
    maxiter: int = 100,
    fit_rows: int = 3000,
    seed: int = 0,
) -> Surrogate:
    """Fit a surrogate to measured rows.

    Rows with the same features are merged exactly. Where the table has known noise variances, a second process learns
    sigma^2(x) for new points from them.

    Args:
        table: from `read_table`.
        kind: "exact", or "auto" (which is "exact").
        transform: of the target, "auto", "none" or "sqrt"; see `TargetScale`.
        priors: of the hyperparameters, "botorch" (today's defaults) or "paper" (those of the BEEBO paper).
        warm_start: an earlier surrogate over the same columns, whose hyperparameters the fit starts from.
        maxiter: limit of L-BFGS iterations.
        fit_rows: at most so many distinct inputs, drawn at random, are used for the hyperparameters; the posterior
            always uses all.
        seed: of that draw.

    Raises:
        InputError: no target, unknown kind, transform or priors, or a warm start over other columns.
    """
    if kind not in KINDS:
        raise InputError(f"kind {kind!r} is not known; choose one of {', '.join(KINDS)}")
    if priors not in PRIORS:
        raise InputError(f"priors {priors!r} are not known; choose one of {', '.join(PRIORS)}")
    encoder, scale, data = _observe(table, transform)
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
    return Surrogate("exact", str(table.target), encoder, scale, priors, gp, data, report, log_variance)


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
