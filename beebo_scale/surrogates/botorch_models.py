r"""`posterior_of`: the `Posterior` of a fitted botorch or gpytorch model.

The posterior lives in the model's own units: inputs before the input transform (its warp), targets after undoing
the outcome transform. An affine outcome transform y = shift + scale z keeps the process Gaussian: it multiplies the
kernel by scale(x) scale(x') and moves the mean. Anything that does not is refused with the reason.
"""

from __future__ import annotations

from typing import Any

import torch
from botorch.models import MultiTaskGP
from botorch.models.transforms.outcome import Standardize, StratifiedStandardize
from gpytorch.distributions import Delta, MultivariateNormal
from gpytorch.kernels import Kernel
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood, GaussianLikelihood, HadamardGaussianLikelihood
from gpytorch.models import ApproximateGP, ExactGP
from gpytorch.variational import UnwhitenedVariationalStrategy, VariationalStrategy
from torch import Tensor, nn

from ..errors import InputError
from ..kernel_posterior import KernelPosterior
from ..kernels.rescaled import OutcomeScale, RescaledMean, TaskMean, rescale
from ..kernels.stationary import freeze, frozen_copy, gram
from ..linalg.roots import DenseRoot
from ..protocols import Noise
from .gaussian_process.exact import condition_exactly
from .gaussian_process.noise import ConstantNoise, TaskNoise

PROBES = 16  # training inputs at which the kernel and mean found here are compared with the model's own prior


def posterior_of(model: nn.Module) -> KernelPosterior:
    """The `Posterior` of a fitted model.

    Args:
        model: botorch SingleTaskGP (with or without train_Yvar, input and affine outcome transforms), MultiTaskGP
            (inputs with the task column), SingleTaskVariationalGP, or a gpytorch ExactGP or ApproximateGP with
            `mean_module`, `covar_module` and a Gaussian `likelihood`.

    Returns:
        The posterior of the latent function, in the model's own units. New measurements have the likelihood's noise;
        with train_Yvar, the mean of the known variances (of each task).

    Raises:
        InputError: the model cannot be represented; the text says why.
    """
    was_training = model.training
    model.eval()
    try:
        if isinstance(model, ExactGP):
            return _exact(model)
        inner = getattr(model, "model", model)
        if isinstance(inner, ApproximateGP):
            return _variational(model, inner)
    finally:
        model.train(was_training)
    raise _refusal(model, "it is neither an exact nor a variational Gaussian process of gpytorch")


def _exact(model: Any) -> KernelPosterior:
    if len(model.train_inputs) != 1 or model.train_inputs[0].dim() != 2 or model.train_targets.dim() != 1:
        raise _refusal(model, "it holds a batch of models (several outputs, or several hyperparameter samples)")
    column = model._task_feature if isinstance(model, MultiTaskGP) else None
    if column is not None and model._task_mapper is not None:
        raise _refusal(model, "its task values are not 0, 1, 2, ..., by which botorch itself looks up their noise")
    if not bool(torch.isfinite(model.train_targets).all()):
        raise _refusal(model, "its training targets are not all finite")
    warp = _warp(model)
    Z = model.train_inputs[0].detach().clone()
    outcome = _outcome_scale(model, column)
    base = freeze(model.covar_module)
    base_mean = frozen_copy(model.mean_module)
    if column is not None and type(base_mean).__name__ == "MultitaskMean":
        base_mean = TaskMean(base_mean, column)
    _compare_prior(model, Z, base, base_mean)
    scale2 = outcome.of(outcome.scale, Z).square()
    y = outcome.of(outcome.shift, Z) + outcome.of(outcome.scale, Z) * model.train_targets.detach()
    sigma2 = scale2 * _training_noise(model, Z, column)
    noise = _new_noise(model, outcome, column, Z, sigma2)
    mean = RescaledMean(base_mean, outcome)
    return condition_exactly(rescale(base, outcome), mean, Z, y, sigma2, noise, warp)


def _variational(model: nn.Module, inner: Any) -> KernelPosterior:
    strategy = inner.variational_strategy
    if type(strategy) not in (VariationalStrategy, UnwhitenedVariationalStrategy):
        raise _refusal(model, f"its variational strategy is {type(strategy).__name__}")
    if not bool(strategy.variational_params_initialized):
        raise _refusal(model, "its variational distribution was never trained")
    Z = strategy.inducing_points.detach().clone()
    outcome = _outcome_scale(model, None)
    base = freeze(inner.covar_module)
    kernel = rescale(base, outcome)
    mean = RescaledMean(frozen_copy(inner.mean_module), outcome)
    q_u = strategy.variational_distribution
    m = q_u.mean.detach()  # of m inducing points
    if Z.dim() != 2 or m.dim() != 1:
        raise _refusal(model, "it holds a batch of models (several outputs)")
    _compare_prior(inner, Z, base, mean.base)
    with torch.no_grad():
        K = gram(kernel, Z, Z)
        K.diagonal().add_(outcome.scale.square() * strategy.jitter_val)  # part of the model that was trained
        L = torch.linalg.cholesky(K.double()).to(K)
        eye = torch.eye(len(Z), dtype=K.dtype, device=K.device)
        root = torch.linalg.solve_triangular(L.mT, eye, upper=True)  # L^-T
        S = m.new_zeros(()) if isinstance(q_u, Delta) else q_u.covariance_matrix  # m x m
        up = torch.linalg.cholesky(S) if bool(S.any()) else None
        if type(strategy) is UnwhitenedVariationalStrategy:
            m = root.mT @ (outcome.shift + outcome.scale * m - mean(Z))
            up = None if up is None else root.mT @ (outcome.scale * up)
    noise, down, warp = _new_noise(model, outcome), DenseRoot(root), _warp(model)
    return KernelPosterior(kernel, mean, centers=Z, weights=root @ m, down=down, noise=noise, up=up, warp=warp)


def _warp(model: Any) -> nn.Module | None:
    """The input transform."""
    transform = getattr(model, "input_transform", None)
    if transform is None:
        return None
    if transform.is_one_to_many:
        raise _refusal(model, f"its input transform {type(transform).__name__} makes several points of one")
    return frozen_copy(transform)


def _outcome_scale(model: Any, column: int | None) -> OutcomeScale:
    """The affine outcome transform, in task indices."""
    transform = getattr(model, "outcome_transform", None)
    example = next(model.parameters())
    if transform is None:
        return OutcomeScale(example.new_zeros(1), example.new_ones(1))
    if isinstance(transform, StratifiedStandardize) and column is not None:
        strata = transform.strata_mapping[: model.num_tasks].long()  # of each task
        return OutcomeScale(transform.means[strata], transform.stdvs[strata], column)
    if type(transform) is Standardize and transform.means.numel() == 1:
        return OutcomeScale(transform.means, transform.stdvs)
    raise _refusal(model, f"its outcome transform {type(transform).__name__} does not keep the posterior Gaussian")


def _training_noise(model: Any, Z: Tensor, column: int | None) -> Tensor:
    """Noise variances of the training rows in the model's standardised units, n."""
    likelihood = model.likelihood
    if isinstance(likelihood, HadamardGaussianLikelihood):
        return likelihood.noise.detach().reshape(-1)[Z[:, column].long()]
    if isinstance(likelihood, GaussianLikelihood | FixedNoiseGaussianLikelihood):
        return likelihood.noise.detach().expand(len(Z))
    raise _refusal(model, f"its likelihood is {type(likelihood).__name__}, not a Gaussian one")


def _new_noise(
    model: Any,
    outcome: OutcomeScale,
    column: int | None = None,
    Z: Tensor | None = None,
    sigma2: Tensor | None = None,
) -> Noise:
    """Noise of new measurements in own units; known variances sigma2 of the rows Z give their mean (of each task)."""
    likelihood = model.likelihood
    if isinstance(likelihood, FixedNoiseGaussianLikelihood) and Z is not None and sigma2 is not None:
        if column is None:
            return ConstantNoise(sigma2.mean())
        rows = [sigma2[Z[:, column] == t] for t in range(model.num_tasks)]
        return TaskNoise(torch.stack([(own if len(own) else sigma2).mean() for own in rows]), column)
    if isinstance(likelihood, GaussianLikelihood | HadamardGaussianLikelihood):
        variance = likelihood.noise.detach().reshape(-1) * outcome.scale.square()
        return ConstantNoise(variance.squeeze()) if len(variance) == 1 else TaskNoise(variance, column or 0)
    raise _refusal(model, f"its likelihood is {type(likelihood).__name__}, not a Gaussian one")


def _compare_prior(model: Any, Z: Tensor, kernel: Kernel, mean: nn.Module) -> None:
    """Refuse a model whose forward does more than evaluate its mean and covariance modules."""
    with torch.no_grad():
        prior = model.forward(Z[:PROBES])
        if not isinstance(prior, MultivariateNormal):
            raise _refusal(model, f"its prior is {type(prior).__name__}")
        same = torch.allclose(prior.mean, mean(Z[:PROBES]), rtol=1e-5, atol=1e-6) and torch.allclose(
            prior.covariance_matrix, gram(kernel, Z[:PROBES], Z[:PROBES]), rtol=1e-5, atol=1e-6
        )
    if not same:
        raise _refusal(model, "its forward does more than evaluate mean_module and covar_module")


def _refusal(model: object, reason: str) -> InputError:
    return InputError(
        f"a {type(model).__name__} cannot be turned into a Posterior: {reason}; use a single-output exact or "
        "variational model with a Gaussian likelihood"
    )
