r"""The BEEBO acquisition function (paper, section 3), as a botorch acquisition function.

    a(X) = q E[summary] + T I(X),      T = T' sqrt(A)

T' is what users set; A is the prior variance, so that T' means the same for every kernel and every unit of the
target. T' = 0 is pure exploitation; T' = sqrt(kappa) / 2 explores as q-UCB does with kappa (paper, UCB appendix).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
import wrapt
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.objective import PosteriorTransform, ScalarizedPosteriorTransform
from botorch.models import MultiTaskGP
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior
from botorch.utils.transforms import t_batch_mode_transform
from gpytorch.distributions import MultivariateNormal
from torch import Tensor

from .energy import Energy, MeanEnergy
from .errors import InputError
from .information import information_gain
from .posterior import Posterior
from .surrogates.botorch_models import posterior_of
from .surrogates.scalarize import scalarize
from .temperature import check_temperature


class BatchedEnergyEntropy(AcquisitionFunction):
    """a(X) = q E[summary] + T' sqrt(A) I(X), to be maximised over whole batches X (b x q x d).

    Args:
        model: the surrogate's `Posterior`, or a fitted botorch model that `posterior_of` understands.
        temperature: T', 0 or more.
        energy: `MeanEnergy()` (meanBEEBO) or `SoftmaxEnergy()` (maxBEEBO).
        X_pending: p x d points whose measurements are running: they count in I, as I(X | X_pending).
        maximize: False if small values of the target are good.
        posterior_transform: botorch's `ScalarizedPosteriorTransform`: one weight (-1 minimises), or for a MultiTaskGP
            one for each of its outputs, X then coming without the task column.
        weights: w(x), ... q x d -> ... q: the energy is that of w f (several outputs as (input, task) pairs, see
            `TaskWeights`); the information gain stays that of f.

    Raises:
        InputError: an unusable temperature, model or transform.
    """

    def __init__(
        self,
        model: Posterior | Model,
        temperature: float = 0.5,
        energy: Energy | None = None,
        X_pending: Tensor | None = None,
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        weights: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        posterior = model if isinstance(model, Posterior) else posterior_of(model)
        posterior = _scalarized(posterior, model, posterior_transform)
        plain = posterior_transform is None and not isinstance(model, Posterior)
        super().__init__(model=model if plain else PosteriorModel(posterior))
        self.posterior = posterior
        self.maximize = maximize  # botorch looks for these two when it samples around the best of the measured points
        self.X_baseline = _measured(model, posterior_transform)
        self.temperature = check_temperature(temperature) * math.sqrt(self.posterior.amplitude)  # T
        self.energy = MeanEnergy() if energy is None else energy
        self.sign = 1.0 if maximize else -1.0
        self.weights = weights
        self.set_X_pending(X_pending)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Condition the covariance on points that are being measured (p x d), or on none."""
        self.X_pending = None if X_pending is None else X_pending.detach().clone()
        self.conditioned = self.posterior if self.X_pending is None else self.posterior.augment(self.X_pending)

    def adapted(self, X: Tensor) -> BatchedEnergyEntropy:
        """This function with a posterior that is exact at X (... q x d); itself where it is exact everywhere."""
        conditioned = self.conditioned.adapt(X)
        if conditioned is self.conditioned:
            return self
        acqf = copy.copy(self)
        acqf.conditioned = conditioned
        return acqf

    @t_batch_mode_transform()
    def forward(self, X: Tensor) -> Tensor:
        """Value of each batch.

        Args:
            X: b x q x d.

        Returns:
            b.
        """
        return self.of_moments(X, *self.conditioned.mean_and_covar(X))

    def of_moments(self, X: Tensor, mean: Tensor, covar: Tensor) -> Tensor:
        """Value of batches (... q x d) whose posterior mean (... q) and covariance (... q x q) are known, ... ."""
        energy = self._energy(X, mean, covar)
        if self.temperature == 0.0:
            return energy
        return energy + self.temperature * information_gain(covar, self.conditioned.noise(X))

    def _energy(self, X: Tensor, mean: Tensor, covar: Tensor) -> Tensor:
        mean = self.sign * mean
        if self.weights is not None:
            w = self.weights(X)  # b x q
            mean, covar = w * mean, w.unsqueeze(-1) * covar * w.unsqueeze(-2)
        return self.energy(mean, covar, self.posterior.amplitude)


class PosteriorModel(Model):
    """A `Posterior` with the face of a botorch model, for what looks into `acqf.model`."""

    num_outputs = 1
    batch_shape = torch.Size()

    def __init__(self, posterior: Posterior) -> None:
        super().__init__()
        self._posterior = posterior

    @property
    def train_inputs(self) -> tuple[Tensor]:
        """The points that the posterior knows, n x d."""
        if not len(self._posterior.points):
            raise AttributeError("the inputs of this posterior are known in transformed form only")
        return (self._posterior.points,)

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> GPyTorchPosterior:
        """Joint posterior at X, ... q x d, of the latent function or (observation_noise) of measurements."""
        mean, covar = self._posterior.mean_and_covar(X)
        if observation_noise is not False:
            sigma2 = self._posterior.noise(X) if observation_noise is True else observation_noise.squeeze(-1)
            covar = covar + torch.diag_embed(sigma2)
        posterior = GPyTorchPosterior(MultivariateNormal(mean, covar))
        return posterior if posterior_transform is None else posterior_transform(posterior)


def _scalarized(posterior: Posterior, model: Posterior | Model, transform: PosteriorTransform | None) -> Posterior:
    """The posterior that a botorch posterior transform makes of it."""
    if transform is None:
        return posterior
    if not isinstance(transform, ScalarizedPosteriorTransform):
        raise InputError(f"{type(transform).__name__} is not supported; use a ScalarizedPosteriorTransform")
    weights, offset = transform.weights, float(transform.offset)
    if len(weights) == 1:
        return scalarize(posterior, weights, offset)
    outputs = model._output_tasks if isinstance(model, MultiTaskGP) else [0]
    if not isinstance(model, MultiTaskGP) or len(weights) != len(outputs):
        raise InputError(
            f"the posterior transform has {len(weights)} weights, the model {len(outputs)} "
            f"output{'' if len(outputs) == 1 else 's'}"
        )
    by_task = weights.new_zeros(model.num_tasks)
    by_task[outputs] = weights
    return scalarize(posterior, by_task, offset, model._task_feature)


def _measured(model: Any, transform: PosteriorTransform | None) -> Tensor:
    """The measured inputs of a botorch model as X has them, none (0 x 0) if it does not tell."""
    if getattr(model, "_has_transformed_inputs", False):
        inputs = model._original_train_inputs
    else:
        inputs = next(iter(getattr(model, "train_inputs", None) or ()), None)
    if inputs is None:
        return torch.empty(0, 0)
    if transform is None or len(transform.weights) == 1:
        return inputs
    column = model._task_feature
    return torch.cat([inputs[..., :column], inputs[..., column + 1 :]], dim=-1)


def construct_inputs(
    model: Model,
    temperature: float = 0.5,
    energy: Energy | None = None,
    X_pending: Tensor | None = None,
    maximize: bool = True,
    posterior_transform: PosteriorTransform | None = None,
) -> dict[str, Any]:
    """Arguments of `BatchedEnergyEntropy` as botorch's and Ax's modular generators ask for them."""
    return {
        "model": model,
        "temperature": temperature,
        "energy": energy,
        "X_pending": X_pending,
        "maximize": maximize,
        "posterior_transform": posterior_transform,
    }


@wrapt.when_imported("botorch.acquisition.input_constructors")
def _register(registry: ModuleType) -> None:
    """Tell botorch how this acquisition function is made; its registry takes a second to import and most never ask."""
    registry.acqf_input_constructor(BatchedEnergyEntropy)(construct_inputs)
