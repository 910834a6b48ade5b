r"""The Gaussian process behind the exact surrogate: marginal likelihood, hyperparameters, posterior."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from botorch.optim.utils import get_parameters_and_bounds
from gpytorch import Module
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import Kernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.means import ConstantMean
from gpytorch.priors import GammaPrior, LogNormalPrior
from torch import Tensor

from ...kernel_posterior import KernelPosterior
from ...kernels.stationary import freeze, live_gram
from ...protocols import Noise
from ..data.observations import Measurements
from .exact import condition_exactly
from .minimise import minimise
from .noise import ConstantNoise, TaskNoise

NOISE_FLOOR = 1e-4  # of a standardised target, as in botorch


class GaussianProcess(Module):
    """Prior f ~ GP(m, k) and measurement noise sigma^2, with priors on the hyperparameters.

    Args:
        kernel: k.
        priors: one of `kernels.PRIORS`: which prior the noise gets.
        tasks: number of tasks, each with a noise of its own.
        task_column: where the task (0, 1, ...) stands in the inputs, None if there are none.
    """

    def __init__(self, kernel: Kernel, priors: str = "botorch", tasks: int = 1, task_column: int | None = None) -> None:
        super().__init__()
        prior = LogNormalPrior(-4.0, 1.0) if priors == "botorch" else GammaPrior(1.1, 0.05)
        constraint = GreaterThan(NOISE_FLOOR, transform=None, initial_value=1e-2)
        shape = torch.Size() if task_column is None else torch.Size([tasks])
        self.kernel = kernel
        self.mean = ConstantMean()
        self.likelihood = GaussianLikelihood(noise_prior=prior, noise_constraint=constraint, batch_shape=shape)
        self.task_column = task_column
        self.double()

    @property
    def sigma2(self) -> Tensor:
        """Noise variance of one measurement, a scalar or one for each task."""
        return self.likelihood.noise.squeeze(-1)

    def measurement_noise(self, X: Tensor) -> Tensor:
        """Learned noise variance of one measurement at each input, n."""
        if self.task_column is None:
            return self.sigma2.expand(len(X))
        return self.sigma2[X[:, self.task_column].round().long()]

    def noise_of(self, data: Measurements) -> Tensor:
        """Noise variance of each merged observation, n."""
        return self.measurement_noise(data.X) / data.count if data.noise is None else data.noise

    def log_prior(self) -> Tensor:
        """Log density of the hyperparameters under their priors."""
        terms = [prior.log_prob(closure(module)).sum() for _, module, prior, closure, _ in self.named_priors()]
        return torch.stack(terms).sum()


@dataclass(frozen=True)
class FitReport:
    """How the hyperparameters were found.

    Attributes:
        rows: distinct inputs that the fit saw.
        iterations: L-BFGS iterations.
        converged: False if the iteration limit came first.
        log_likelihood: log marginal likelihood of those rows at the end (standardised units).
        starts: how many starts were tried.
        limits: where hyperparameters stopped that could not go on, in words; none if the fit ended well.
        notes: what else a user should know.
    """

    rows: int
    iterations: int
    converged: bool
    log_likelihood: float
    starts: int = 1
    limits: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def warning(self) -> str:
        """What a user should know of the fit in one line; empty if all is well."""
        if not self.limits:
            return "; ".join(self.notes)
        tried = f", from {self.starts} starts" if self.starts > 1 else ""
        limit = (
            f"the fit of the hyperparameters stopped at a limit{tried} ({'; '.join(self.limits)}): look at the "
            "predicted uncertainty before you trust it"
        )
        return "; ".join([*self.notes, limit])


def log_marginal_likelihood(gp: GaussianProcess, data: Measurements) -> Tensor:
    r"""Log density log N(y; m, K + Sigma) plus what replicates say about sigma^2 through their scatter.

    The gradient uses d/dK = 1/2 (alpha alpha' - K^-1) directly: one inverse instead of the derivative of a Cholesky
    factor, and no n x n graph beyond the kernel's own.
    """
    noise = gp.noise_of(data)  # n
    K = live_gram(gp.kernel, data.X, data.X)  # n x n
    residual = data.y - gp.mean(data.X)  # n
    with torch.no_grad():
        A = K.clone()
        A.diagonal().add_(noise)
        L = torch.linalg.cholesky(A)
        alpha = torch.cholesky_solve(residual.unsqueeze(-1), L).squeeze(-1)  # n
        half_logdet = L.diagonal().log().sum()
        G = torch.cholesky_inverse(L).neg_().addr_(alpha, alpha).mul_(0.5)  # d log N / dA
    value = -0.5 * (residual.detach() @ alpha) - half_logdet - 0.5 * len(data) * math.log(2 * math.pi)
    slope = torch.dot(G.reshape(-1), K.reshape(-1)) + G.diagonal() @ noise - alpha @ residual
    value = value + slope - slope.detach()  # a value without a graph, with the gradient of `slope`
    if data.noise is None:
        sigma2, spare = gp.measurement_noise(data.X), data.count - 1  # n, n
        value = value - 0.5 * (spare * torch.log(2 * math.pi * sigma2) + data.scatter / sigma2).sum()
        value = value - 0.5 * data.count.log().sum()
    return value


def fit_hyperparameters(
    gp: GaussianProcess,
    data: Measurements,
    maxiter: int = 200,
    on_step: Callable[[], object] | None = None,
) -> FitReport:
    """Maximise log marginal likelihood + log prior over the hyperparameters of `gp` by L-BFGS, in place.

    Args:
        gp: starts from the values it holds (a warm start, if these come from an earlier fit).
        data: the observations.
        maxiter: iteration limit.
        on_step: called after every evaluation, of which an iteration takes one or a little more.
    """
    parameters, bounds = get_parameters_and_bounds(gp, requires_grad=True)
    if data.noise is not None:
        parameters = {name: p for name, p in parameters.items() if not name.startswith("likelihood.")}

    def loss() -> Tensor:
        return -(log_marginal_likelihood(gp, data) + gp.log_prior()) / len(data)

    result = minimise(loss, parameters, bounds, maxiter, on_step)
    with torch.no_grad():
        final = float(log_marginal_likelihood(gp, data))
    return FitReport(len(data), int(result.step or 0), result.status.name == "SUCCESS", final)


def exact_posterior(
    gp: GaussianProcess, data: Measurements, noise: Noise | None = None, dtype: torch.dtype | None = None
) -> KernelPosterior:
    """The exact posterior of `gp` given the observations.

    Args:
        gp: prior and noise.
        data: n observations.
        noise: of a new measurement; None takes sigma^2 (of its task), or where variances were known for each row,
            the mean of those of single measurements.
        dtype: number format of the triangular factor, see `condition_exactly`.
    """
    gp = copy.deepcopy(gp).requires_grad_(False)
    noise = own_noise(gp, data) if noise is None else noise
    return condition_exactly(freeze(gp.kernel), gp.mean, data.X, data.y, gp.noise_of(data), noise, dtype=dtype)


def own_noise(gp: GaussianProcess, data: Measurements) -> Noise:
    """Noise of a new measurement by the process itself: sigma^2, one for each task, or the mean of known variances."""
    if data.noise is not None:
        return ConstantNoise((data.noise * data.count).mean())
    sigma2 = gp.sigma2.detach().clone()
    return ConstantNoise(sigma2) if gp.task_column is None else TaskNoise(sigma2, gp.task_column)
