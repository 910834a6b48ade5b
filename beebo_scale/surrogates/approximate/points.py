"""Where inducing points lie: spread over the rows, or half of them in the tail of the target."""

from __future__ import annotations

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from ...specs import Fitting
from ..data.observations import Measurements, draw_inputs
from .blocks.sizes import POINTS
from .held_out import held_out_rows
from .inducing import select_inducing_points

POOL_ROWS = 20  # rows for each inducing point, from which they are chosen ...
POOL = 20_000  # ... and at most
SPARSE_POINTS = 512  # inducing points of sgpr and svgp where nobody says
STICKS_OUT = 4.0  # see `tail_rows`


def drawn(data: Measurements, fitting: Fitting, size: int) -> Tensor:
    """Distinct inputs of random measurements, see `draw_inputs`."""
    return draw_inputs(data.count, size, torch.Generator().manual_seed(fitting.seed))


def count_of_points(fitting: Fitting) -> int:
    """Inducing points asked for."""
    m = fitting.approximation.inducing_points
    return m if m != "auto" else POINTS if fitting.kind == "blocks" else SPARSE_POINTS


def inducing_points(kernel: Kernel, data: Measurements, fitting: Fitting) -> Tensor:
    """Inducing points with the hyperparameters of a kernel: spread, or half of them in the tail of the target."""
    m, choice = count_of_points(fitting), fitting.approximation.inducing_choice
    tail, sticks_out = tail_rows(data.y, m // 2)
    if choice == "spread" or (choice == "auto" and not sticks_out):
        return select_inducing_points(kernel, inducing_pool(data, fitting), m, fitting.seed)
    known = data.in_format(torch.float64).take(tail).X
    known = select_inducing_points(kernel, known, len(known), fitting.seed)  # none that repeats others
    pool = inducing_pool(data, fitting)
    spread = select_inducing_points(kernel, pool, max(1, m - len(known)), fitting.seed)
    both = torch.cat([known, spread])
    return select_inducing_points(kernel, both, len(both), fitting.seed)


def tail_rows(y: Tensor, count: int) -> tuple[Tensor, bool]:
    """The rows with the most extreme targets, and whether few of them stick out.

    The tail is the side on which targets reach farther from the median; it sticks out where the 99 % quantile lies
    `STICKS_OUT` times farther than the 84 % one (normal targets: 2.3 times).
    """
    z = y - y.median()
    z = z if float(z.max()) >= -float(z.min()) else -z
    ordered = z.sort(descending=True, stable=True)
    n = len(z)
    near, far = (float(ordered.values[min(n - 1, int(share * n))]) for share in (0.16, 0.01))
    return ordered.indices[: max(1, min(count, n))].sort().values, far > STICKS_OUT * max(near, 1e-12)


def inducing_pool(data: Measurements, fitting: Fitting) -> Tensor:
    """Inputs to choose inducing points from: not those on which the error of I is measured, if enough others remain."""
    m = count_of_points(fitting)
    rows = drawn(data, fitting, max(min(POOL_ROWS * m, POOL), fitting.fit_rows))
    apart = rows[~torch.isin(rows, held_out_rows(len(data)).flatten().to(rows.device))]
    return data.in_format(torch.float64).take(apart if len(apart) >= m else rows).X
