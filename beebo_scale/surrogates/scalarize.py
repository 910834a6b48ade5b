r"""The posterior of a weighted sum of outputs, as botorch's `ScalarizedPosteriorTransform` writes them.

g(x) = offset + sum_t w_t f(x, t), over points without a task column (see `kernels.task_sums`): a `Posterior` like any
other, whose centers remain the measured pairs.
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from ..kernel_posterior import KernelPosterior, over_centers
from ..kernels.rescaled import OutcomeScale, RescaledMean, rescale
from ..kernels.task_sums import ALL, AllTasks, TaskSum, TaskSumKernel, TaskSumMean, TaskSumNoise
from ..posterior import Posterior


def scalarize(posterior: Posterior, weights: Tensor, offset: float = 0.0, column: int | None = None) -> KernelPosterior:
    """The posterior of offset + sum_t w_t f(., t).

    Args:
        posterior: over inputs, or over (input, task) pairs with tasks 0, 1, ....
        weights: w, one for each task; one if there are no tasks.
        offset: added to the sum.
        column: where the task stands in the pairs, None if there are no tasks.

    Returns:
        A posterior over inputs without the task column. Its noise is that of the sum of one measurement of each task.

    Raises:
        ValueError: all weights are zero, or the posterior is no `KernelPosterior`.
    """
    posterior = over_centers(posterior)
    if not bool(weights.any()):
        raise ValueError("all weights of the outputs are zero")
    weights = weights.detach().to(posterior.centers)
    if column is not None:
        tasks = TaskSum(weights, column)
        kernel = TaskSumKernel(posterior.kernel, tasks)
        sums = posterior.centers.clone()
        sums[:, column] = ALL
        return replace(
            posterior,
            kernel=kernel,
            prior_mean=TaskSumMean(posterior.prior_mean, tasks, offset),
            noise=TaskSumNoise(posterior.noise, weights, column),
            warp=AllTasks(posterior.warp, column),
            prior_variance=float(kernel(sums, diag=True).mean()),
        )
    outcome = OutcomeScale(weights.new_full((1,), offset), weights)
    return replace(
        posterior,
        kernel=rescale(posterior.kernel, outcome),
        prior_mean=RescaledMean(posterior.prior_mean, outcome),
        weights=posterior.weights / weights,
        down=posterior.down.scaled(1 / float(weights.abs())),
        solver=None if posterior.solver is None else posterior.solver.scaled(float(weights.square())),
        noise=TaskSumNoise(posterior.noise, weights, None),
    )
