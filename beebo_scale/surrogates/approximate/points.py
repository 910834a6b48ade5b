"""Where inducing points lie: spread over the rows, or half of them in the tail of the target."""

from __future__ import annotations

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from ...specs import Fitting
from ..data.observations import Measurements, draw_inputs
from .blocks.sizes import points_of_blocks
from .held_out import held_out_rows
from .inducing import select_inducing_points

POOL_ROWS = 20  # rows for each inducing point, from which they are chosen ...
POOL = 20_000  # ... and at most
SPARSE_POINTS = 512  # inducing points of sgpr and svgp where nobody says
STICKS_OUT = 4.0  # see `tail_rows`


def drawn(data: Measurements, fitting: Fitting, size: int) -> Tensor:
    """Distinct inputs of random measurements, see `draw_inputs`."""
    return draw_inputs(data.count, size, torch.Generator().manual_seed(fitting.seed))


def count_of_points(fitting: Fitting, n: int) -> int:
    """Inducing points asked for, of n rows."""
    m = fitting.approximation.inducing_points
    return m if m != "auto" else points_of_blocks(n) if fitting.kind == "blocks" else SPARSE_POINTS


def inducing_points(kernel: Kernel, data: Measurements, fitting: Fitting) -> Tensor:
    """Inducing points with the hyperparameters of a kernel: spread, or half of them in the tail of the target.

    None of the rows on which the error of I is measured, if enough others remain.
    """
    m, choice = count_of_points(fitting, len(data)), fitting.approximation.inducing_choice
    spread, tail = drawn(data, fitting, max(min(POOL_ROWS * m, POOL), fitting.fit_rows, m)), None
    held = held_out_rows(len(data)).flatten().to(spread.device)
    apart = spread[~torch.isin(spread, held)]
    spread = apart if len(apart) >= m else spread
    ordered, sticks_out = tail_rows(data.y)
    if choice == "tail" or (choice == "auto" and sticks_out):
        tail = ordered[~torch.isin(ordered, held)][: m // 2]
        spread, m = spread[~torch.isin(spread, tail)], m - len(tail)
    rows = data.in_format(torch.float64)
    if fitting.kind == "blocks":  # they carry only what blocks leave over, and random ones cost nothing to find
        spread = spread[torch.randperm(len(spread), generator=torch.Generator().manual_seed(fitting.seed))[:m]]
        Z = rows.take(spread).X
    else:
        Z = select_inducing_points(kernel, rows.take(spread).X, m, fitting.seed)
    return Z if tail is None else torch.cat([rows.take(tail).X, Z])


def tail_rows(y: Tensor) -> tuple[Tensor, bool]:
    """All rows, those with the most extreme targets first, and whether few of them stick out.

    The tail is the side on which targets reach farther from the median; it sticks out where the 99 % quantile lies
    `STICKS_OUT` times farther than the 84 % one (normal targets: 2.3 times).
    """
    z = y - y.median()
    z = z if float(z.max()) >= -float(z.min()) else -z
    ordered, n = z.sort(descending=True, stable=True), len(z)
    near, far = (float(ordered.values[min(n - 1, int(share * n))]) for share in (0.16, 0.01))
    return ordered.indices, far > STICKS_OUT * max(near, 1e-12)
