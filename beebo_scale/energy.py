r"""Energies: the value of a batch before information counts (paper, section 3 and the softmax appendix).

An energy maps the posterior at a batch, mean (... q) and covariance (... q x q), to q E[summary] (...): it grows
with q as the information gain does, so that the temperature means the same at any batch size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from .posterior import Posterior
from .protocols import Noise


class Energy(Protocol):
    """What `BatchedEnergyEntropy` asks of an energy."""

    def __call__(self, mean: Tensor, covar: Tensor, amplitude: float) -> Tensor:
        """Q E[summary].

        Args:
            mean: ... q.
            covar: ... q x q.
            amplitude: prior variance A, the scale of f.

        Returns:
            ...
        """
        ...


@runtime_checkable
class PointEnergy(Protocol):
    """An energy that is a sum over points."""

    def per_point(self, mean: Tensor, variance: Tensor, amplitude: float) -> Tensor:
        """The energy of each point, ... q and ... q -> ... q."""
        ...


@dataclass(frozen=True)
class MeanEnergy:
    """meanBEEBO: q E = sum_i mean_i."""

    def __call__(self, mean: Tensor, covar: Tensor, amplitude: float) -> Tensor:
        """Sum of the batch's posterior means, ... q -> ... ."""
        return mean.sum(-1)


@dataclass(frozen=True)
class TargetEnergy:
    r"""Hit a value c: q E = sum_i E[-(f_i - c)^2] / sqrt(A) = -sum_i ((mu_i - c)^2 + C_ii) / sqrt(A).

    Minus the squared distance from a value is not Gaussian, so the surrogate learns the target as it is and the
    distance is taken here. C is today's covariance: a point whose value nobody knows may well miss c. The energy
    therefore counts against what is unknown and T I(X) for it, and T' = 0 takes the points that are sure to hit. The
    square root of the prior variance A brings the square back to the unit of f, so that T' means what it always does.

    It is a sum over points, so the greedy gain of a row of a library is its own value plus T times its marginal gain,
    and only the second shrinks: see `valued`.

    Attributes:
        value: c, in the units of the posterior (`TargetScale.standardise` brings it there); `maximize` must be true.
    """

    value: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise ValueError(f"value = {self.value}: give a finite number to hit")

    def __call__(self, mean: Tensor, covar: Tensor, amplitude: float) -> Tensor:
        """Sum over the batch, ... q and ... q x q -> ... ."""
        return self.per_point(mean, covar.diagonal(dim1=-2, dim2=-1), amplitude).sum(-1)

    def per_point(self, mean: Tensor, variance: Tensor, amplitude: float) -> Tensor:
        """The energy of each point, ... q and ... q -> ... q."""
        return -((mean - self.value).square() + variance) * amplitude**-0.5


def valued(posterior: Posterior, energy: Energy) -> Posterior:
    """A posterior whose mean is the energy of a point, for an energy that is a sum over points; others are left alone.

    With the mean energy on it, all that holds for the mean energy holds for the other one: certified greedy choice,
    blocks, gains that never rise. Value and covariance given pending points both come from `augment`.
    """
    if not isinstance(energy, PointEnergy):
        return posterior
    return ValuedPosterior(posterior, energy)


@dataclass(frozen=True)
class ValuedPosterior(Posterior):
    """A posterior whose mean is each point's part of an energy, see `valued`; not to be augmented with values.

    Attributes:
        base: the posterior of f.
        energy: a sum over points.
    """

    base: Posterior
    energy: PointEnergy
    noise: Noise = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", self.base.noise)

    @property
    def points(self) -> Tensor:
        """Those of the base."""
        return self.base.points

    @property
    def rank(self) -> int:
        """That of the base."""
        return self.base.rank

    @property
    def amplitude(self) -> float:
        """That of the base."""
        return self.base.amplitude

    @property
    def exact(self) -> bool:
        """Whether the base is exact."""
        return self.base.exact

    @property
    def points_together(self) -> int:
        """That of the base."""
        return self.base.points_together

    def parts(self, X: Tensor) -> Tensor | None:
        """Those of the base."""
        return self.base.parts(X)

    def features(self, X: Tensor) -> Tensor:
        """Those of the base."""
        return self.base.features(X)

    def variance(self, X: Tensor) -> Tensor:
        """That of the base."""
        return self.base.variance(X)

    def covar(self, X: Tensor) -> Tensor:
        """That of the base."""
        return self.base.covar(X)

    def mean_variance_and_features(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The energy of each point, its variance (both ... q) and its features (... q x r)."""
        mean, variance, F = self.base.mean_variance_and_features(X)
        return self.energy.per_point(mean, variance, self.amplitude), variance, F

    def mean_and_covar(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """The energy of each point (... q) and the covariance (... q x q)."""
        mean, covar = self.base.mean_and_covar(X)
        return self.energy.per_point(mean, covar.diagonal(dim1=-2, dim2=-1), self.amplitude), covar

    def cross_covar(self, X1: Tensor, F1: Tensor, X2: Tensor, F2: Tensor) -> Tensor:
        """That of the base."""
        return self.base.cross_covar(X1, F1, X2, F2)

    def cross_covar_product(self, S: Tensor, F_S: Tensor, W: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
        """That of the base."""
        return self.base.cross_covar_product(S, F_S, W)

    def augment(self, X: Tensor, noise: Tensor | float | None = None, Y: Tensor | None = None) -> ValuedPosterior:
        """Energies and covariance given measurements at X (q x d)."""
        return ValuedPosterior(self.base.augment(X, noise, Y), self.energy)

    def adapt(self, X: Tensor) -> ValuedPosterior:
        """With a base that is exact at X."""
        base = self.base.adapt(X)
        return self if base is self.base else ValuedPosterior(base, self.energy)

    def to(self, *args: Any, **kwargs: Any) -> ValuedPosterior:
        """With the base in another dtype or on another device."""
        return ValuedPosterior(self.base.to(*args, **kwargs), self.energy)


def log_softmax_weights(mean: Tensor, beta: float, f_max: float | None = None, alpha: float = 0.05) -> Tensor:
    """Logarithm of the softmax weights of a batch at its mean (paper, softmax appendix, beta_y).

        w_i = exp(beta mu_i) / ( sum_j exp(beta mu_j) + min(exp(beta f_max), (1 - alpha) / alpha sum_j exp(beta mu_j)) )

    Args:
        mean: ... q.
        beta: inverse temperature of the softmax.
        f_max: best value known so far, which takes weight from the batch; None leaves it out.
        alpha: least share of the weight that the batch keeps.

    Returns:
        ... q; the weights sum to one without `f_max` and to at least alpha with it.
    """
    return _log_weights(mean, beta, f_max, alpha)[0]


def _log_weights(mean: Tensor, beta: float, f_max: float | None, alpha: float) -> tuple[Tensor, Tensor]:
    """`log_softmax_weights` (... q) and the logarithm of the weight that goes to f_max (... 1)."""
    log_total = torch.logsumexp(beta * mean, dim=-1, keepdim=True)  # ... 1
    if f_max is None:
        return beta * mean - log_total, torch.full_like(log_total, -math.inf)
    log_cap = math.log((1 - alpha) / alpha) + log_total if alpha < 1 else log_total - math.inf
    log_rest = torch.minimum(log_cap, torch.full_like(log_cap, beta * f_max))
    log_all = torch.logaddexp(log_total, log_rest)
    return beta * mean - log_all, log_rest - log_all


@dataclass(frozen=True)
class SoftmaxEnergy:
    r"""maxBEEBO: q E[sum_i omega_i(f) f_i] with softmax weights omega, in closed form (paper, softmax appendix).

    With w the weights at the mean, W = diag(w) - w w' and C_s = (C^-1 + beta^2 W)^-1,

        E omega_i = det(1 + beta^2 C W)^-1/2 w_i exp(beta^2 / 2 (e_i - w)' C_s (e_i - w)),
        nu_i = mu_i + beta [C_s (e_i - w)]_i,    E = sum_i p_i nu_i,    p_i = E omega_i / sum_j E omega_j.

    Where `f_max` is given it is one more value among those that share the weights and the sum, as it is in expected
    improvement: W and C are as above, its nu is f_max. So E(mu + s, f_max + s) = E(mu, f_max) + s whatever the zero.
    The paper's form (`normalised=False`) has E omega_i in the place of p_i and leaves f_max out of the sum: it counts
    f_max, and all that its sum of weights lacks or has too much, as a value of zero.

    W = V V' has a closed root V, so all goes through the symmetric B = 1 + beta^2 V' C V >= 1:
    det(1 + beta^2 C W) = det B and C_s = C - beta^2 C V B^-1 V' C. (A solve with the non-symmetric 1 + beta^2 C W by a
    method for symmetric matrices is off by up to 1e-2.)

    The closed form expands log sum exp to second order, which fails where beta times the standard deviation of f is
    far above one. Its own normalisation tells: sum_i E omega_i, with the part of f_max, comes out as one only as far
    as the expansion holds. Where it is off by more than `tolerance` the energy is refused. Measured against Monte
    Carlo (scripts/benchmarks/results/softmax_energy.md), with sd the standard deviation of f: the default serves
    beta sd up to 1.5 in all cases, 3 in the best and 4 in none. At the default beta E is off by less than 0.02 sd
    (the paper's form 0.04), inside the tolerance by up to 0.6 sd.

    Attributes:
        beta: inverse temperature; None takes A^-1/2, A the prior variance.
        f_max: best value known so far, None leaves it out. In the units of the posterior (of a `Surrogate` those are
            the standardised ones, `TargetScale.standardise`) and with the sign that makes large values good: where
            small ones are good (maximize=False) minus the smallest.
        alpha: least share of the weight that the batch keeps against `f_max`.
        tolerance: largest accepted error of the normalisation.
        normalised: divide by the normalisation; False is the paper's form, to compare with.
    """

    beta: float | None = None
    f_max: float | None = None
    alpha: float = 0.05
    tolerance: float = 0.2
    normalised: bool = True

    def __post_init__(self) -> None:
        if self.beta is not None and not (math.isfinite(self.beta) and self.beta > 0):
            raise ValueError(f"beta = {self.beta}: give a finite number above zero, or None for A^-1/2")
        if self.f_max is not None and not math.isfinite(self.f_max):
            raise ValueError(f"f_max = {self.f_max}: give a finite number, or None to leave it out")
        if not 0 < self.alpha <= 1:
            raise ValueError(f"alpha = {self.alpha}: the batch keeps a share above 0, at most 1")
        if not self.tolerance > 0:
            raise ValueError(f"tolerance = {self.tolerance}: give a number above zero")

    def __call__(self, mean: Tensor, covar: Tensor, amplitude: float) -> Tensor:
        """Q E, ... q and ... q x q -> ... .

        Raises:
            ValueError: beta is too large for this covariance: the closed form does not hold.
        """
        beta = self._beta(amplitude)
        log_weights, nu = self._moments(mean, covar, beta)
        error = (log_weights.exp().sum(-1) - 1).detach().abs().max()
        if not bool(error <= self.tolerance):  # NaN and inf land here too
            raise ValueError(
                f"the softmax energy does not hold at beta = {beta:g}: its weights sum to one only within "
                f"{float(error):.2g} (tolerance {self.tolerance:g}) with posterior variances up to "
                f"{float(covar.detach().diagonal(dim1=-2, dim2=-1).max()):.3g}; lower beta, or leave it at A^-1/2"
            )
        if self.normalised:
            return mean.shape[-1] * (torch.softmax(log_weights, -1) * nu).sum(-1)
        return mean.shape[-1] * (log_weights.exp() * nu)[..., :-1].sum(-1)

    def normalisation(self, mean: Tensor, covar: Tensor, amplitude: float) -> Tensor:
        """What the closed form makes of E sum_i omega_i = 1, ...: how far it can be trusted."""
        log_weights, _ = self._moments(mean, covar, self._beta(amplitude))
        return log_weights.exp().sum(-1)

    def effective_points(self, mean: Tensor, amplitude: float) -> Tensor:
        """Number of points that carry the softmax, exp(-sum_i w_i ln w_i), from 1 to q, or q + 1 with f_max: ... ."""
        log_w = torch.cat(_log_weights(mean, self._beta(amplitude), self.f_max, self.alpha), dim=-1)  # ... q + 1
        return torch.exp(torch.special.entr(log_w.exp()).sum(-1))

    def _beta(self, amplitude: float) -> float:
        return amplitude**-0.5 if self.beta is None else self.beta

    def _moments(self, mean: Tensor, covar: Tensor, beta: float) -> tuple[Tensor, Tensor]:
        """Log E omega_i and the mean of f_i under the i-th tilted density, both ... (q + 1), those of f_max last."""
        log_w, log_rest = _log_weights(mean, beta, self.f_max, self.alpha)  # ... q, ... 1
        w = log_w.exp()
        C_s, logdet = _tilted_covar(covar, torch.cat([log_w, log_rest], dim=-1), beta)  # ... q x q, ...
        C_w = (C_s @ w.unsqueeze(-1)).squeeze(-1)  # ... q
        w_C_w = (w * C_w).sum(-1, keepdim=True)  # ... 1
        diagonal = C_s.diagonal(dim1=-2, dim2=-1)
        tilt = torch.cat([diagonal - 2 * C_w, torch.zeros_like(w_C_w)], dim=-1) + w_C_w  # ... q + 1
        log_weights = torch.cat([log_w, log_rest], dim=-1) + 0.5 * (beta**2 * tilt - logdet.unsqueeze(-1))
        known = torch.full_like(log_rest, 0.0 if self.f_max is None else self.f_max)  # ... 1
        return log_weights, torch.cat([mean + beta * (diagonal - C_w), known], dim=-1)


def _tilted_covar(C: Tensor, log_w: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    """C_s = (C^-1 + beta^2 W)^-1, ... q x q, and logdet(1 + beta^2 C W), ... ; log_w as in `_weight_root`."""
    V = beta * _weight_root(log_w)  # ... q x (q + 1)
    CV = C @ V
    eye = torch.eye(V.shape[-1], dtype=C.dtype, device=C.device)
    L, info = torch.linalg.cholesky_ex(eye + V.mT @ CV)
    if bool(info.any()):
        raise ValueError("covariance is not finite, or its rounding errors rule at this beta: lower beta")
    half = torch.linalg.solve_triangular(L, CV.mT, upper=False)  # L^-1 V' C
    return C - half.mT @ half, 2 * L.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _weight_root(log_w: Tensor) -> Tensor:
    """V with V V' = diag(w) - w w' for all weights but the last, ... (q + 1) -> ... q x (q + 1).

    All weights, the one of f_max last, sum to one, so s = sqrt(w) is a unit vector, 1 - s s' its own square, and
    diag(s) (1 - s s') a root; its first q rows are V. From log w, since the square root of a weight that underflowed
    to zero has no gradient.
    """
    s = (0.5 * log_w).exp()  # ... q + 1
    eye = torch.eye(s.shape[-1], dtype=s.dtype, device=s.device)
    return (s.unsqueeze(-1) * (eye - s.unsqueeze(-1) * s.unsqueeze(-2)))[..., :-1, :]


@dataclass(frozen=True)
class TaskWeights:
    """w(x, t) = w_t: the weight of each output in the energy of a batch of (input, task) pairs.

    Attributes:
        values: one weight for each value 0, 1, ... of the task column; negative where small values are good.
        column: where the task stands.
    """

    values: Tensor
    column: int = -1

    def __call__(self, X: Tensor) -> Tensor:
        """... q x d -> ... q."""
        task = X[..., self.column].round().long()
        if bool((task < 0).any()):
            raise ValueError(f"tasks are 0, 1, ..., got {int(task.min())} in column {self.column}")
        return self.values[task]
