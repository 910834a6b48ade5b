"""How good predictions are: RMSE, NLPD, coverage and rank correlation, gathered over workers."""

from __future__ import annotations

import math
import warnings

import torch
from torch import Tensor, nn
from torchmetrics import MeanMetric, MeanSquaredError, Metric, SpearmanCorrCoef

INTERVAL = 1.959963984540054  # standard deviations of a 95 % interval


class Metrics(nn.Module):
    """Metrics by name.

    rmse: root mean square error of the predicted mean, in the target's own units.
    nlpd: mean of -log N(z; mean, variance with noise), z the target in standardised units (after its transform).
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

    def update(self, own: tuple[Tensor, Tensor], standardised: tuple[Tensor, Tensor, Tensor]) -> None:
        """Count some rows in.

        Args:
            own: predicted means and targets in own units, p each.
            standardised: predicted means, variances (with noise) and targets in standardised units, p each.
        """
        mean, variance, z = standardised
        error2 = (z - mean).square() / variance
        self.by_name["rmse"].update(*own)
        self.by_name["spearman"].update(*own)
        self.by_name["nlpd"].update(0.5 * (error2 + torch.log(2 * math.pi * variance)))
        self.by_name["coverage95"].update((error2 <= INTERVAL**2).to(mean.dtype))
