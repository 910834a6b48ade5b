"""How good predictions are: RMSE, NLPD, coverage and rank correlation, gathered over workers."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn
from torchmetrics import MeanMetric, MeanSquaredError, Metric, SpearmanCorrCoef

INTERVAL = 1.959963984540054  # standard deviations of a 95 % interval


class Metrics(nn.Module):
    """Metrics by name.

    rmse: root mean square error of the expected measurement, in the target's own units.
    nlpd: mean of -log p(z), z the target in standardised units (after its transform), p with the surrogate's noise.
    coverage95: share of the targets inside their 95 % interval (with noise).
    spearman: rank correlation of predicted mean and target.
    """

    def __init__(self) -> None:
        super().__init__()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that ranks need all values in memory
            spearman = SpearmanCorrCoef()
        metrics: dict[str, Metric] = {"rmse": MeanSquaredError(squared=False), "nlpd": MeanMetric()}
        metrics |= {"coverage95": MeanMetric(), "spearman": spearman}
        for metric in metrics.values():
            metric.set_dtype(torch.float64)
        self.by_name = metrics
        for name, metric in metrics.items():  # so that they move with the module
            self.add_module(name, metric)

    def update(self, own: tuple[Tensor, Tensor], judged: tuple[Tensor, Tensor]) -> None:
        """Count some rows in.

        Args:
            own: predicted means and targets in own units, p each.
            judged: log densities and errors in standardised units, p each, see `surrogates.predictive`.
        """
        density, error = judged
        self.by_name["rmse"].update(*own)
        self.by_name["spearman"].update(*own)
        self.by_name["nlpd"].update(-density)
        self.by_name["coverage95"].update((error.abs() <= INTERVAL).to(density.dtype))
