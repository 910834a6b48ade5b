"""Say which measured targets lie far from all others, so that somebody looks at them before they rule a fit."""

from __future__ import annotations

import numpy as np
import torch

from ..screening import Table, outliers
from ..screening.places import Place
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
        far = known[outliers(scale.standardise(torch.tensor(y[known])).numpy())]
        if 0 < len(far) <= 1 + RARE * len(known):
            where = Place(table.source, name, table.numbers).where(np.isin(np.arange(len(table)), far))
            of = f" for {name}" if name else ""
            found.append(f"{len(far)} of {len(known)} results{of} lie far from all others, {where} of {table.source}")
    return "; ".join(found)
