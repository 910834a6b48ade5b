r"""The target between its own units and the standardised units in which surrogates work.

z = (g(y) - shift) / scale, with g one of

- none: the identity.
- sqrt: for targets that cannot be negative and crowd near zero (enrichment, activity, rates): it tells small values
  apart and keeps a few large ones from ruling the fit. On the GB1 landscape five rounds reach 0.947 of the best with
  it and 0.900 without, standard errors 0.018 and 0.025 (scripts/benchmarks/results/gb1_exchange_kernel.md).
- log: for targets above zero that span orders of magnitude (concentrations, IC50, rate constants).
- rank: the normal score of a value's rank among the measured ones (`quantiles.py`), for targets whose distribution is
  odd in other ways. Only the order of the measured values and the shape between them is left.

`choose_transform` picks by held-out rows, and so does `fit` for "auto" where it can (`automatic_transform`); here
"auto" is a rule that looks at the distribution of y alone.

What is predicted is a measurement, y = g^-1(f + noise), with its mean and standard deviation, and beside it the value
without noise, g^-1(f). Their means differ after a transform: noise of variance s^2 adds s^2 where g is the square root
and multiplies by exp(s^2 / 2) where it is the logarithm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ...errors import InputError
from .quantiles import NODES, WEIGHTS, normal_scores, piecewise

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HELD_OUT = "held-out"  # chosen by `choose_transform`, which needs the inputs too
TRANSFORMS = ("auto", HELD_OUT, "none", "sqrt", "log", "rank")
WORDS = {"none": "target", "sqrt": "square root of target", "log": "logarithm of target", "rank": "normal score"}
SKEWNESS = 1.0  # above it, "auto" takes the square root of a target that is never negative


@dataclass(frozen=True)
class Prediction:
    """What is predicted at p points, in the target's own units; p numbers each.

    Attributes:
        mean: expected measurement, E g^-1(f + noise), the expectation over what is believed of f and over the noise.
        std: standard deviation of a measurement.
        noiseless_mean: expected value without noise, E g^-1(f).
        noiseless_std: standard deviation of what is believed of it.
    """

    mean: Tensor
    std: Tensor
    noiseless_mean: Tensor
    noiseless_std: Tensor

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Columns of a file of predictions, in order."""
        return tuple(each.name for each in fields(cls))

    def columns(self) -> dict[str, NDArray[np.float64]]:
        """Name -> p numbers, to write."""
        return {name: getattr(self, name).cpu().numpy() for name in self.names()}


@dataclass(frozen=True)
class TargetScale:
    """Affine standardisation after an optional transform.

    Attributes:
        shift: mean of g(y) over the measured rows.
        scale: standard deviation of g(y).
        transform: "none", "sqrt", "log" or "rank".
        knots: of "rank" alone: some measured values, rising, and their normal scores.
    """

    shift: float
    scale: float
    transform: str = "none"
    knots: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())

    @classmethod
    def of(cls, y: Tensor, transform: str = "auto", noise_known: bool = False) -> TargetScale:
        """Choose the scale for measured targets.

        Args:
            y: N targets, own units.
            transform: "none", "sqrt", "log", "rank", or "auto": "sqrt" if no target is negative, their skewness is
                above 1 and their noise is not known (a known variance at y = 0 has no counterpart after a transform).
            noise_known: whether variances come with the targets.

        Raises:
            InputError: unknown transform, or one that these targets cannot have.
        """
        check_transform(y, transform, noise_known)
        if transform == "auto":
            z = (y - y.mean()) / y.std()
            rootable = bool((y >= 0).all()) and not noise_known
            transform = "sqrt" if rootable and float(z.pow(3).mean()) > SKEWNESS else "none"
        knots = normal_scores(y) if transform == "rank" else ((), ())
        g = cls(0.0, 1.0, transform, knots).standardise(y)
        return cls(float(g.mean()), float(g.std()), transform, knots)

    @property
    def words(self) -> str:
        """What z is linear in, for a report: 'square root of target'."""
        return WORDS[self.transform]

    def standardise(self, y: Tensor) -> Tensor:
        """Own units to standardised units."""
        return (self._g(y) - self.shift) / self.scale

    def own(self, z: Tensor) -> Tensor:
        """Standardised units to own units, of a value without noise; inverse of `standardise`, rising."""
        g = self.shift + self.scale * z
        if self.transform == "rank":
            return piecewise(g, self.knots[1], self.knots[0])
        if self.transform == "sqrt":
            return g.clamp_min(0.0).square()
        return g.exp() if self.transform == "log" else g

    def _g(self, y: Tensor) -> Tensor:
        if self.transform == "rank":
            return piecewise(y, *self.knots)
        functions: dict[str, Callable[[Tensor], Tensor]] = {"sqrt": torch.sqrt, "log": torch.log}
        return functions[self.transform](y) if self.transform in functions else y

    def standardise_variance(self, variance: Tensor) -> Tensor:
        """Variances of measurements, squared own units to squared standardised units (no transform)."""
        return variance / self.scale**2

    def moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation in own units of what is Gaussian in standardised units.

        Exact without a transform, for the square root (`square_moments`) and for the logarithm, whose y = exp f is
        log-normal: E y = exp(mu + v / 2), var y = (E y)^2 (exp v - 1). Ranks go by quadrature, which is
        good to 1 % of the standard deviation.
        """
        mu, v = self.shift + self.scale * mean, self.scale**2 * variance
        if self.transform == "sqrt":
            return square_moments(mu, v)
        if self.transform == "log":
            first = (mu + 0.5 * v).exp()
            return first, first * v.expm1().sqrt()
        if self.transform == "rank":
            return self._rank_moments(mu, v.sqrt())
        return mu, v.sqrt()

    def predicted(self, mean: Tensor, variance: Tensor, noise: Tensor) -> Prediction:
        """What is Gaussian in standardised units, with (mean + noise) and without noise, in own units.

        Args:
            mean: p means of f.
            variance: p variances of f.
            noise: variances of all that a measurement adds to f, p or one.

        A root g is measured with mean c = max(f, 0) and variance s^2, so E[y | f] = c^2 + s^2 whatever the noise looks
        like; the roots of many zeros are no Gaussian, and to cut one at zero loses up to a third of E y. The variance
        of y, 4 c^2 s^2 + 2 s^4 where f is known, is that of Gaussian noise.
        """
        first, std = self.moments(mean, variance)
        if self.transform != "sqrt":
            return Prediction(*self.moments(mean, variance + noise), first, std)
        s2 = self.scale**2 * noise
        return Prediction(first + s2, (std.square() + 4 * s2 * first + 2 * s2.square()).sqrt(), first, std)

    def _rank_moments(self, mu: Tensor, sd: Tensor) -> tuple[Tensor, Tensor]:
        """Moments of h(f), h the piecewise linear way back, about h(mu): no difference of large numbers."""
        values, scores = self.knots
        center = piecewise(mu, scores, values)
        first, second = torch.zeros_like(mu), torch.zeros_like(mu)
        for node, weight in zip(NODES, WEIGHTS, strict=True):  # one at a time, or memory grows with their number
            d = piecewise(mu + node * sd, scores, values) - center
            first += weight * d
            second += weight * d.square()
        return center + first, (second - first.square()).clamp_min(0.0).sqrt()

    def to_dict(self) -> dict[str, Any]:
        """Plain types, for a file."""
        return asdict(self)


def check_transform(y: Tensor, transform: str, noise_known: bool = False) -> None:
    """Refuse a transform that these targets cannot have.

    Raises:
        InputError: unknown; "held-out", which has to be chosen first; a root of negative targets, a logarithm of
            targets that are not above zero, or any transform of targets with known noise.
    """
    if transform not in TRANSFORMS:
        raise InputError(f"transform is one of {', '.join(TRANSFORMS)}, got {transform!r}")
    if transform == HELD_OUT:
        raise InputError(f"transform {HELD_OUT!r} needs the inputs, too; take what choose_transform(table) returns")
    if transform in ("auto", "none"):
        return
    if noise_known:
        raise InputError(f"transform {transform!r} needs targets without known noise variances; take 'none'")
    if transform == "sqrt" and not bool((y >= 0).all()):
        raise InputError("transform 'sqrt' needs targets without negative values; take 'none' or 'rank'")
    if transform == "log" and not bool((y > 0).all()):
        raise InputError(f"transform 'log' needs targets above zero, the least is {float(y.min()):g}; take 'rank'")


def square_moments(mu: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    r"""Mean and standard deviation of y = max(f, 0)^2 with f ~ N(mu, v), exact.

    With n = f^2 on the less likely side of zero and nothing elsewhere, a = |mu| / sqrt(v) and q = Phi(-a):

        E n = v ((a^2 + 1) q - a phi(a)),    E n^2 = v^2 ((a^4 + 6 a^2 + 3) q - (a^3 + 5 a) phi(a)),

    and y = n if mu < 0, else y = f^2 - n. Neither way a small moment is the difference of two large ones.
    """
    a = mu.abs() / v.sqrt().clamp_min(torch.finfo(v.dtype).tiny)
    a = a.clamp_max(40.0)  # phi(40) is zero in any number format
    q, phi = 0.5 * torch.special.erfc(a / 2**0.5), torch.exp(-0.5 * a.square()) / (2 * torch.pi) ** 0.5
    n1 = v * ((a.square() + 1) * q - a * phi)  # E n
    n2 = v.square() * ((a**4 + 6 * a**2 + 3) * q - (a**3 + 5 * a) * phi)  # E n^2
    f2, var_f2 = mu.square() + v, 4 * mu.square() * v + 2 * v.square()  # mean and variance of f^2
    first = torch.where(mu < 0, n1, f2 - n1)
    second = torch.where(mu < 0, n2 - n1.square(), var_f2 - n2 + 2 * f2 * n1 - n1.square())  # central
    return first.clamp_min(0.0), second.clamp_min(0.0).sqrt()
