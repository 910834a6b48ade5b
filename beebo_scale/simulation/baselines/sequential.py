"""Batches put together point after point: each is the best of an acquisition function of a single point.

After each point x the posterior is conditioned on a measurement there whose value is believed to be mean(x). That
leaves every mean as it is and takes variance away, `Posterior.augment` without values: O(n r) a point, no refit.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction, LogExpectedImprovement, UpperConfidenceBound
from botorch.exceptions.warnings import BotorchWarning
from botorch.optim import optimize_acqf
from botorch.posteriors import GPyTorchPosterior
from botorch.utils.sampling import manual_seed
from gpytorch.distributions import MultivariateNormal
from linear_operator.operators import DiagLinearOperator
from torch import Tensor

from ...posterior import Posterior
from ...proposal.box.starts import restart_seeds
from ...specs.setting import check_least
from ...surrogates import Surrogate
from ..strategies import Learned, check_kappa, cube_of, kappa_of
from ..world import UNPACKED_AT_ONCE, Points, State
from .monte_carlo import JointPosteriorModel

POINT_ITERATIONS = 100  # of L-BFGS-B for a point, at most


@dataclass(frozen=True, eq=False)
class Filling:
    """A batch on its way.

    Attributes:
        start: posterior before the batch.
        now: the same, conditioned on measurements at the points chosen so far.
        X: these points, k x d.
    """

    start: Posterior
    now: Posterior
    X: Tensor

    @classmethod
    def of(cls, posterior: Posterior) -> Filling:
        """No point chosen yet."""
        return cls(posterior, posterior, posterior.points[:0])

    def add(self, x: Tensor) -> Filling:
        """One more point, 1 x d."""
        return replace(self, now=self.now.augment(x), X=torch.cat([self.X, x]))


Maker = Callable[[Filling], AcquisitionFunction]


@dataclass(frozen=True)
class Sequential(Learned, ABC):
    """Each point of a batch maximises an acquisition function of one point, given those before it.

    Attributes:
        restarts: points that are moved for each point of the batch; 10 of 100 in the paper.
        raw_samples: Sobol points that the restarts are drawn from.
    """

    restarts: int = 10
    raw_samples: int = 100

    def __post_init__(self) -> None:
        check_least(self, restarts=1, raw_samples=1)

    @abstractmethod
    def acquisition(self, state: State, model: Surrogate) -> Maker:
        """The acquisition function of the next point, made once a batch."""

    def choose(self, state: State, model: Surrogate) -> Points:
        """In the order of choice; botorch's starts come from torch's global generator, which is seeded here."""
        settings = cube_of(state, model)
        filling = Filling.of(model.posterior())
        with manual_seed(state.seed), warnings.catch_warnings():
            warnings.simplefilter("ignore", BotorchWarning)  # flat or ending early: the point counts as it is
            acquisition = self.acquisition(state, model)
            for seed in restart_seeds(state.seed, state.q):
                filling = filling.add(self._best(acquisition(filling), settings.space.bounds, seed))
        return state.world.chosen(settings.frame(filling.X))

    def _best(self, acquisition: AcquisitionFunction, bounds: Tensor, seed: int) -> Tensor:
        """The best point found, 1 x d."""
        x, _ = optimize_acqf(
            acquisition,
            bounds,
            q=1,
            num_restarts=self.restarts,
            raw_samples=max(self.raw_samples, self.restarts),
            options={"maxiter": POINT_ITERATIONS, "seed": seed},
        )
        return x


@dataclass(frozen=True)
class KrigingBeliever(Sequential):
    """log EI over the best value measured or believed (Ginsbourger et al. 2010, with the log EI of Ament et al. 2023).

    log E max(f(x) - f*, 0) under the believed posterior, f* = max(y, mean of the points chosen so far).
    """

    def acquisition(self, state: State, model: Surrogate) -> Maker:
        """Log EI of the next point."""
        measured = model.data.y.max()

        def log_ei(filling: Filling) -> AcquisitionFunction:
            with torch.no_grad():
                known = torch.cat([measured.reshape(1), filling.start.mean(filling.X)])
            return LogExpectedImprovement(MarginalModel(filling.now), best_f=known.max())

        return log_ei


@dataclass(frozen=True)
class BatchUpperConfidence(Sequential):
    """GP-BUCB (Desautels et al. 2014): mean(x) + sqrt(kappa) std(x), the std given the points chosen so far.

    Attributes:
        kappa: weight of the variance.
        last_kappa: kappa of the last round, if that is another.
    """

    kappa: float = 4.0
    last_kappa: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_kappa(self.kappa, self.last_kappa or 0.0)

    def acquisition(self, state: State, model: Surrogate) -> Maker:
        """UCB of the next point."""
        kappa = model.data.y.new_tensor(kappa_of(self.kappa, self.last_kappa, state))  # botorch keeps floats in float32
        return lambda filling: UpperConfidenceBound(MarginalModel(filling.now), beta=kappa)


class MarginalModel(JointPosteriorModel):
    """Our posterior as a botorch model that knows each point for itself, which is all that a single point needs."""

    def posterior(self, X: Tensor, *args: Any, **kwargs: Any) -> GPyTorchPosterior:
        """The noise-free target at ... q x d points, as if these had nothing in common."""
        parts = [self.of.mean_and_variance(some) for some in X.split(UNPACKED_AT_ONCE, dim=-2)]
        mean, variance = (torch.cat(values, dim=-1) for values in zip(*parts, strict=True))
        return GPyTorchPosterior(MultivariateNormal(mean, DiagLinearOperator(variance)))
