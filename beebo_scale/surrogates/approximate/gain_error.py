r"""How wrong the information gain of a sparse posterior is, measured beside an exact one at probe batches.

Up to `REFERENCE_ROWS` rows the reference is the exact posterior itself. Beyond, it is the exact posterior of the rows
nearest to the probes: knowing less it has the larger C and I, so that the error found is a lower bound of the true one.
"""

from __future__ import annotations

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from ...kernel_posterior import over_centers
from ...kernels.stationary import gram
from ...posterior import Posterior
from ..data.observations import Measurements
from ..gaussian_process.gaussian_process import GaussianProcess, exact_posterior
from .rank import Probes, excess

REFERENCE_ROWS = 8000  # of the reference: its factor takes a few seconds and 256 MB
COMPARED_AT_ONCE = 8192  # rows compared with the probes at once


def sparse_gain_error(
    posterior: Posterior,
    gp: GaussianProcess,
    data: Measurements,
    continuous: list[int],
    seed: int = 0,
    rows: int = REFERENCE_ROWS,
) -> tuple[float, str]:
    """Mean relative error of I on probe batches, I / I_reference - 1, and what the reference is, in words.

    Args:
        posterior: a sparse one.
        gp: prior and noise, the hyperparameters that the posterior has.
        data: all n observations.
        continuous: columns of the inputs that probes may fill from the box of the data.
        seed: of the probes.
        rows: of the reference.
    """
    generator = torch.Generator().manual_seed(seed)
    part = torch.randperm(len(data), generator=generator)[:rows].sort().values
    probes = Probes(seed=seed).draw(data.take(part).X, continuous)  # b x q x d
    if len(data) <= rows:
        near, reference = data.take(torch.arange(len(data))), f"the exact one of all {len(data):,} distinct inputs"
    else:
        near = data.take(nearest_rows(over_centers(posterior).kernel, data, probes.flatten(0, 1), rows))
        reference = f"a lower bound, from the {len(near):,} of {len(data):,} distinct inputs that are nearest"
    return excess(posterior, exact_posterior(gp, near, posterior.noise), probes), reference


def nearest_rows(kernel: Kernel, data: Measurements, P: Tensor, rows: int) -> Tensor:
    """The rows with the largest covariance with each of p points (p x d), the same number for each; at most `rows`."""
    each = max(1, rows // len(P))
    best, index = P.new_empty(len(P), 0), torch.empty(len(P), 0, dtype=torch.long, device=P.device)
    with torch.no_grad():
        for chunk in torch.arange(len(data), device=P.device).split(COMPARED_AT_ONCE):
            k = torch.cat([best, gram(kernel, P, data.take(chunk).X)], dim=-1)
            found = torch.cat([index, chunk.expand(len(P), -1)], dim=-1)
            best, place = k.topk(min(each, k.shape[-1]), dim=-1)
            index = found.gather(-1, place)
    return index.unique()
