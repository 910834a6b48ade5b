r"""What every posterior answers, whatever surrogate it comes from.

A posterior is a Gaussian process given the measurements, as an immutable cache that is differentiable in x only.
Surrogates build one; acquisition, choice and simulation ask it no more than what stands here. The covariance between
two points follows from the points and their features F(x), a row of length r for each point, so that a search computes
features once and combines them as often as it likes.

Shapes: n known points, r rank, q batch points. `KernelPosterior` is that of the exact and all approximate processes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .protocols import Noise


class Posterior(ABC):
    """A Gaussian process posterior of the latent function f; a new one defines what is abstract here.

    Attributes:
        noise: sigma^2(x) of a new measurement, ... q x d -> ... q.
    """

    noise: Noise

    @property
    @abstractmethod
    def points(self) -> Tensor:
        """Measured or inducing points as callers give them, none (0 x d) if unknown; a search starts from the best."""

    @property
    @abstractmethod
    def rank(self) -> int:
        """Number of features r."""

    @property
    @abstractmethod
    def amplitude(self) -> float:
        """Prior variance A, the scale of f (paper, section on the temperature)."""

    @abstractmethod
    def mean_variance_and_features(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, variance of f (... q, never below zero) and features (... q x r) at X, ... q x d."""

    @abstractmethod
    def cross_covar(self, X1: Tensor, F1: Tensor, X2: Tensor, F2: Tensor) -> Tensor:
        """Covariance of f between two sets of points whose features are known.

        Args:
            X1: ... p x d.
            F1: its `features`, ... p x r.
            X2: ... q x d.
            F2: its `features`, ... q x r.

        Returns:
            ... p x q.
        """

    @abstractmethod
    def augment(self, X: Tensor, noise: Tensor | float | None = None, Y: Tensor | None = None) -> Posterior:
        """This posterior conditioned on measurements at X.

        Args:
            X: q x d points.
            noise: their variance, a number or q; None takes the posterior's own `noise(X)`.
            Y: measured values, q; None conditions the covariance only and leaves the mean.
        """

    @abstractmethod
    def to(self, *args: Any, **kwargs: Any) -> Posterior:
        """The same posterior with another dtype or on another device (arguments as in `torch.Tensor.to`)."""

    @property
    def outputs(self) -> int:
        """How many values a point stands for: one, but where all targets of a point are asked for at once."""
        return 1

    @property
    def exact(self) -> bool:
        """Whether the features leave nothing out, so that `adapt` has nothing to add."""
        return True

    def adapt(self, X: Tensor) -> Posterior:
        """This posterior with features that are exact at X (... q x d), in value and gradient."""
        return self

    def parts(self, X: Tensor) -> Tensor | None:
        """Which part of the cache each of p points (p x d) needs, p whole numbers; None where all need all of it.

        Of many points, those of a part are best asked for together.
        """
        return None

    @property
    def points_together(self) -> int:
        """Points out of which those of a part are worth collecting, because a part takes long to get; else 1."""
        return 1

    @property
    def dtype(self) -> torch.dtype:
        """Number format of the cache."""
        return self.points.dtype

    @property
    def device(self) -> torch.device:
        """Where the cache lies."""
        return self.points.device

    def checked(self, X: Tensor, noise: Tensor | float | None, Y: Tensor | None) -> tuple[Tensor, Tensor]:
        """What `augment` is given, in the format of the cache: q x d points, and q noise variances.

        Raises:
            ValueError: X is no matrix, shapes disagree, or a noise variance is negative.
        """
        if X.dim() != 2:
            raise ValueError(f"augment takes a matrix, q x d points, got shape {tuple(X.shape)}")
        if Y is not None and Y.numel() != len(X):
            raise ValueError(f"Y is one value for each of {len(X)} points, got shape {tuple(Y.shape)}")
        with torch.no_grad():
            X = X.to(self.device, self.dtype)
            sigma2 = torch.as_tensor(self.noise(X) if noise is None else noise, dtype=self.dtype, device=self.device)
        if sigma2.dim() > 0 and sigma2.shape != X.shape[:-1]:
            raise ValueError(f"noise is a number or one for each of {len(X)} points, got {tuple(sigma2.shape)}")
        if not bool((sigma2 >= 0).all()):
            raise ValueError("noise variances must not be negative or NaN")
        return X, sigma2.expand(len(X))

    def mean(self, X: Tensor) -> Tensor:
        """Posterior mean, ... q x d -> ... q."""
        return self.mean_variance_and_features(X)[0]

    def variance(self, X: Tensor) -> Tensor:
        """The diagonal of `covar` without forming it, ... q x d -> ... q."""
        return self.mean_variance_and_features(X)[1]

    def features(self, X: Tensor) -> Tensor:
        """F(x), ... q x d -> ... q x r."""
        return self.mean_variance_and_features(X)[2]

    def covar(self, X: Tensor) -> Tensor:
        """Posterior covariance of f (no measurement noise), ... q x d -> ... q x q."""
        return self.mean_and_covar(X)[1]

    def mean_and_variance(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """`mean` and `variance`, both ... q."""
        return self.mean_variance_and_features(X)[:2]

    def mean_and_covar(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """`mean` (... q) and `covar` (... q x q)."""
        mean, _, F = self.mean_variance_and_features(X)
        return mean, self.cross_covar(X, F, X, F)

    def cross_covar_product(self, S: Tensor, F_S: Tensor, W: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
        """The function (X, F) -> C(X, S) W, for points S that stay while X moves.

        Args:
            S: s x d.
            F_S: its `features`, s x r.
            W: s x c.

        Returns:
            From ... q x d points and their features, ... q x r, to ... q x c.
        """
        return lambda X, F: self.cross_covar(X, F, S, F_S) @ W


def factor_of(A: Tensor) -> Tensor:
    """Cholesky factor of C + Sigma without jitter, which would enter C and bias the information gain.

    Raises:
        ValueError: A is not positive definite.
    """
    L, info = torch.linalg.cholesky_ex(A)
    if info.any():
        raise ValueError(
            "C + Sigma is not positive definite in this number format: the points repeat each other and the noise "
            "variance is too small for it; raise the noise variance or use float64"
        )
    return L
