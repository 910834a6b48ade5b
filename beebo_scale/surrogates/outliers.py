"""Say which measured targets lie far from all others, so that somebody looks at them before they rule a fit."""

from __future__ import annotations

import numpy as np
import torch

from ..screening import Table, outliers
from ..screening.places import Place
from .data.observe import few
from .surrogate import Surrogate

RARE = 0.01  # of the rows; where more lie far out, that is the shape of the target


def far_out(surrogate: Surrogate, table: Table) -> str:
    """Name the rows whose target is more than 8 robust standard deviations from the median; empty if there are none.

    |z - median z| > 8 * 1.4826 MAD, with z the target in the standardised (transformed) units of the fit, each of
    several targets by itself. More than one row and one in a hundred are no outliers but the shape of the target, and a
    robust fit has dealt with them: then nothing is said.

    Args:
        surrogate: of the table.
        table: n measured rows.
    """
    if surrogate.likelihood != "gaussian" or table.y is None or table.numbers is None:
        return ""
    scales = [task.scale for task in surrogate.design.tasks] or [surrogate.scale]
    names = list(table.weights) or [""]
    found = []
    for name, scale, y in zip(names, scales, table.y.reshape(len(table), -1).T, strict=True):
        known = np.flatnonzero(~np.isnan(y))
        if few(torch.tensor(y[known])):
            continue
        far = known[outliers(scale.standardise(torch.tensor(y[known])).numpy())]
        if 0 < len(far) <= 1 + RARE * len(known):
            where = Place(table.source, name, table.numbers).where(np.isin(np.arange(len(table)), far))
            of = f" for {name}" if name else ""
            found.append(f"{len(far)} of {len(known)} results{of} lie far from all others, {where} of {table.source}")
    return "; ".join(found)


def few_values(table: Table) -> tuple[str, ...]:
    """A note for each target with two or three different values.

    Args:
        table: n measured rows.
    """
    notes = []
    assert table.y is not None
    for name, y in zip(table.weights or [str(table.target)], table.y.reshape(len(table), -1).T, strict=True):
        known = y[~np.isnan(y)]
        values = np.unique(known)
        if few(torch.from_numpy(known)):
            listed = ", ".join(f"{value:g}" for value in values)
            notes.append(
                f"{name!r} has {len(values)} different values ({listed}) in {len(known)} rows: its scale and noise are "
                "guesses, what is predicted is a number between them and no chance, and no value counts as an outlier"
            )
    return tuple(notes)
