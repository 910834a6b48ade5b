r"""What a measured row says beside its features: which target it is a value of, and in which batch it was measured.

The rows of the data are [features | task | batch], the last two only where they are needed, and the process is

    k((x, t, p), (x', t', p')) = k(x, x') B[t, t'] + A_b [t = t' and p = p', both known],

with B the covariance between targets, each in standard deviations of its own, and A_b the variance of what all rows of
one batch (a plate, a day) share. Points to predict have features only: the posterior adds the other columns, NONE for
the batch, so that it is one of f without the effect of any batch, and ALL for the task, which stands for the weighted
sum f_w = sum_t w_t f_t. The information gain is therefore that of f_w, measured with noise sum_t w_t^2 sigma_t^2: as if
a new point were known by its weighted sum alone, not by each target.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from gpytorch.kernels import AdditiveKernel, Kernel, ScaleKernel
from gpytorch.priors import GammaPrior
from torch import Tensor, nn

from ...kernel_posterior import PriorPosterior, with_prior
from ...kernels.screen import TaskKernel, icm_kernel
from ...kernels.task_sums import ALL, TaskSum, TaskSumMean, TaskSumNoise
from ...posterior import Posterior
from ..gaussian_process.gaussian_process import GaussianProcess
from .pairs import PairsPosterior
from .target import TargetScale

NONE = -1.0  # in the batch column: no known batch
BATCH_RATE = 5.0  # of the exponential prior of A_b: its mean is 0.2 of the variance of the target, its mode zero
BATCH_START = 0.1


@dataclass(frozen=True)
class Task:
    """One of several targets.

    Attributes:
        name: of the measured column.
        weight: in the sum, per standard deviation of the (transformed) target.
        scale: between its own and standardised units.
        aim: max or min, where the trade-off with others is looked for, else empty.
        limits: the least and the most that it may be, own units.
    """

    name: str
    weight: float
    scale: TargetScale
    aim: str = ""
    limits: tuple[float, float] = (-math.inf, math.inf)

    @property
    def limited(self) -> bool:
        """Whether it has a limit."""
        return self.limits != (-math.inf, math.inf)

    def to_dict(self) -> dict[str, Any]:
        """Plain types, for a file."""
        return asdict(self)


@dataclass(frozen=True)
class Design:
    """Which columns the data have after the features.

    Attributes:
        width: number of feature columns; of no matter where rows have features only.
        tasks: the targets if there are several, else none.
        batch: name of the column of batches, None without.
        levels: number of different batches.
        combine: how the kernels of the features are put together, see `screen_kernel`.
    """

    width: int = 0
    tasks: tuple[Task, ...] = ()
    batch: str | None = None
    levels: int = 0
    combine: str = "product"

    @property
    def plain(self) -> bool:
        """Whether rows have features only."""
        return not self.tasks and self.batch is None

    @property
    def task_column(self) -> int | None:
        """Where the task stands."""
        return self.width if self.tasks else None

    @property
    def batch_column(self) -> int | None:
        """Where the batch stands."""
        return None if self.batch is None else self.width + bool(self.tasks)

    @property
    def weights(self) -> Tensor:
        """Weights of the targets, t."""
        return torch.tensor([task.weight for task in self.tasks], dtype=torch.float64)

    def kernel(self, data: Kernel) -> Kernel:
        """The kernel over whole rows, from one over the features that leaves out the other columns."""
        kernel = icm_kernel(data, len(self.tasks), self.width) if self.tasks else data
        return kernel if self.batch_column is None else AdditiveKernel(kernel, batch_kernel(self.batch_column))

    def rows(self, X: Tensor, task: Tensor | None = None, batch: Tensor | None = None) -> Tensor:
        """[features | task | batch], n x d to n x (d + 0, 1 or 2)."""
        added = [column.unsqueeze(-1).to(X) for column in (task, batch) if column is not None]
        return torch.cat([X, *added], dim=-1)

    def of_new_points(self, posterior: Posterior) -> Posterior:
        """The posterior over points with features only: of f, or of f_w, in no particular batch."""
        if self.plain:
            return posterior
        posterior = with_prior(posterior)
        if not self.tasks:
            return self._added(posterior, ())
        weights = self.weights.to(posterior.centers)
        posterior = posterior.changed(
            kernel=_weighted(posterior.kernel, weights),
            prior_mean=TaskSumMean(posterior.prior_mean, TaskSum(weights, self.width), 0.0),
            noise=TaskSumNoise(posterior.noise, weights, self.width),
        )
        return self._added(posterior, (ALL,))

    def of_task(self, posterior: Posterior, task: int) -> PriorPosterior:
        """The posterior of one target, standardised, over points with features only."""
        posterior = with_prior(posterior)
        one = torch.zeros(len(self.tasks), dtype=torch.float64)
        one[task] = 1.0
        noise = TaskSumNoise(posterior.noise, one.to(posterior.centers), self.width)
        return self._added(posterior.changed(noise=noise), (float(task),))

    @property
    def trades(self) -> bool:
        """Whether targets are weighed against each other point by point: by a front, or by limits that they keep."""
        return any(task.aim or task.limited for task in self.tasks)

    def of_pairs(self, posterior: Posterior) -> PairsPosterior:
        """The posterior of all targets of a point at once, each standardised; in no particular batch."""
        return PairsPosterior(posterior, len(self.tasks), () if self.batch is None else (NONE,))

    def _added(self, posterior: PriorPosterior, task: tuple[float, ...]) -> PriorPosterior:
        """With the columns that points to predict do not have; A is that of what is predicted."""
        values = task if self.batch is None else (*task, NONE)
        warp = Appended(values)
        posterior = posterior.changed(warp=warp)
        with torch.no_grad():
            A = posterior.kernel(warp(posterior.points), diag=True).mean()
        return posterior.changed(prior_variance=float(A))

    def summary(self, gp: GaussianProcess) -> dict[str, Any]:
        """The effect of the batches and the targets of a fitted process, in plain types; nothing where there is none.

        Variances are in squared standardised units.
        """
        found: dict[str, Any] = {}
        if self.batch is not None:
            found["batch"] = {"column": self.batch, "levels": self.levels, "variance": batch_variance(gp)}
        if self.tasks:
            between = next(part for part in gp.modules() if isinstance(part, TaskKernel))
            B = between.covariance.detach()
            size = B.diagonal().sqrt()
            found["targets"] = [
                {"name": t.name, "weight": t.weight, "transform": t.scale.transform, "noise_variance": float(s)}
                for t, s in zip(self.tasks, gp.sigma2.tolist(), strict=True)
            ]
            found["correlation"] = (B / torch.outer(size, size)).tolist()
        return found

    def same_columns(self, other: Design) -> bool:
        """Whether a process over one design's rows is one over the other's."""
        names = [[task.name for task in design.tasks] for design in (self, other)]
        alike = (self.batch is None) == (other.batch is None) and self.combine == other.combine
        return names[0] == names[1] and alike

    @property
    def words(self) -> str:
        """For a message: 'the targets a, b with batches'."""
        targets = f"the targets {', '.join(task.name for task in self.tasks)}" if self.tasks else "one target"
        kernel = "" if self.combine == "product" else f" by a kernel of {self.combine}"
        return targets + (" without batches" if self.batch is None else " with batches") + kernel

    def to_dict(self) -> dict[str, Any]:
        """Plain types, for a file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Design:
        """Inverse of `to_dict`."""
        tasks = tuple(Task(**t | {"scale": TargetScale(**t["scale"])}) for t in content["tasks"])
        return cls(**content | {"tasks": tasks})


class Appended(nn.Module):
    """Points with the same columns added to each, behind their own.

    Args:
        values: of these columns.
    """

    values: Tensor

    def __init__(self, values: Sequence[float]) -> None:
        super().__init__()
        self.register_buffer("values", torch.tensor(values, dtype=torch.float64))

    def forward(self, X: Tensor) -> Tensor:
        """... q x d -> ... q x (d + added)."""
        return torch.cat([X, self.values.to(X).expand(*X.shape[:-1], len(self.values))], dim=-1)

    def untransform(self, Z: Tensor) -> Tensor:
        """... q x (d + added) -> ... q x d."""
        return Z[..., : Z.shape[-1] - len(self.values)]


class SameBatch(Kernel):
    """[p = p'], zero where a batch is not known."""

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: object) -> Tensor:
        """Kernel matrix, ... p x 1 and ... q x 1 -> ... p x q (diag: ... p)."""
        p1, p2 = x1.squeeze(-1), x2.squeeze(-1)
        if not diag:
            p1, p2 = p1.unsqueeze(-1), p2.unsqueeze(-2)
        return ((p1 == p2) & (p1 >= 0)).to(x1)


def batch_kernel(column: int) -> ScaleKernel:
    """Kernel A_b [p = p']; A_b has an exponential prior, which is weak and prefers none."""
    kernel = ScaleKernel(SameBatch(active_dims=(column,)), outputscale_prior=GammaPrior(1.0, BATCH_RATE))
    kernel.outputscale = BATCH_START
    return kernel


def batch_variance(gp: nn.Module) -> float:
    """Variance A_b of a fitted process, in squared standardised units."""
    scaled = (part for part in gp.modules() if isinstance(part, ScaleKernel))
    return next(float(part.outputscale.detach()) for part in scaled if isinstance(part.base_kernel, SameBatch))


def _weighted(kernel: Kernel, weights: Tensor) -> Kernel:
    """A frozen kernel that knows what the task ALL is."""
    kernel = copy.deepcopy(kernel)
    for part in kernel.modules():
        if isinstance(part, TaskKernel):
            part.weights = weights
    return kernel
