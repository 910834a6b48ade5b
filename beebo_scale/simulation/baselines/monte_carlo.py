"""Batch acquisition functions of botorch over a cube: all q points move together, by Adam, as in the paper's q-UCB.

L-BFGS-B does poorly here: most of the batch hardly moves, and on Levy in 100 inputs it ended at 0.2 of the way to
the optimum where Adam ends at 0.96, as published.

Point after point (GIBBON, Kriging believer and the like): see `sequential.py`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal

import torch
from botorch.acquisition import qLogExpectedImprovement, qUpperConfidenceBound
from botorch.generation import gen_candidates_torch
from botorch.models.model import Model
from botorch.optim import optimize_acqf
from botorch.posteriors import GPyTorchPosterior
from botorch.sampling import SobolQMCNormalSampler
from gpytorch.distributions import MultivariateNormal
from linear_operator import to_linear_operator
from linear_operator.utils.warnings import NumericalWarning
from torch import Tensor

from ...posterior import Posterior
from ...specs.setting import check_least
from ...surrogates import Surrogate
from ..strategies import Learned, check_kappa, cube_of, kappa_of
from ..world import Points, State

SAMPLES = 128  # of the batch's values
LIMITS = {"stopping_criterion_options": {"maxiter": 300}, "init_batch_limit": 16}


@dataclass(frozen=True)
class MonteCarlo(Learned):
    """q-UCB or q-LogEI of the same surrogate that BEEBO has.

    Attributes:
        acquisition: which of the two.
        kappa: of q-UCB.
        restarts: batches that are moved.
        raw_samples: Sobol batches that the restarts are drawn from.
        last_kappa: kappa of the last round, if that is another.
    """

    acquisition: Literal["ucb", "log-ei"] = "ucb"
    kappa: float = 4.0
    restarts: int = 4
    raw_samples: int = 100
    last_kappa: float | None = None

    def __post_init__(self) -> None:
        check_kappa(self.kappa, self.last_kappa or 0.0)
        check_least(self, restarts=1)

    def choose(self, state: State, model: Surrogate) -> Points:
        """The best batch of `optimize_acqf`; botorch's starts come from torch's global generator."""
        settings = cube_of(state, model)
        with warnings.catch_warnings():  # points of the batch that come together take jitter
            warnings.simplefilter("ignore", NumericalWarning)
            X, _ = optimize_acqf(
                self._acquisition(model, state),
                settings.space.bounds,
                q=state.q,
                num_restarts=self.restarts,
                raw_samples=max(self.raw_samples, self.restarts),
                gen_candidates=gen_candidates_torch,
                options={**LIMITS, "batch_limit": self.restarts, "seed": state.seed},
            )
        return state.world.chosen(settings.frame(X))

    def _acquisition(self, model: Surrogate, state: State) -> Any:
        wrapped = JointPosteriorModel(model.posterior())
        sampler = SobolQMCNormalSampler(torch.Size([SAMPLES]), seed=state.seed)
        if self.acquisition == "ucb":
            return qUpperConfidenceBound(wrapped, beta=kappa_of(self.kappa, self.last_kappa, state), sampler=sampler)
        return qLogExpectedImprovement(wrapped, best_f=model.data.y.max(), sampler=sampler)


class JointPosteriorModel(Model):
    """Our posterior as a botorch model."""

    num_outputs = 1
    batch_shape = torch.Size()

    def __init__(self, posterior: Posterior) -> None:
        super().__init__()
        self.of = posterior

    def posterior(self, X: Tensor, *args: Any, **kwargs: Any) -> GPyTorchPosterior:
        """The noise-free target at ... q x d points."""
        mean, C = self.of.mean_and_covar(X)
        # As an operator it is factored where it is sampled, with jitter if points of the batch have come together.
        return GPyTorchPosterior(MultivariateNormal(mean, to_linear_operator(C)))
