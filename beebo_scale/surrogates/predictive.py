r"""How likely a measured target is, given what was predicted, and how far out it lies: by the noise of the surrogate.

Gaussian noise: z ~ N(m, v + s^2). Student-t noise is one of many widths, s^2 / u with u ~ Gamma(nu / 2, nu / 2), so

    p(z) = int N(z; m, v + s^2 / u) Gamma(u) du  ~  sum_k w_k N(z; m, v + s^2 / u_k),

a trapezoidal sum in log u. What it sums is smooth in log u whatever s and v are, and vanishes at both ends, so that the
sum converges as fast as one could wish: with 128 nodes log p(z) is good to 1e-4 even a million s away.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from .approximate.student_t import DEGREES, INFORMATIVE

ENDS, NODES = (-30.0, 5.0), 128  # of log u

Judge = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


def gaussian(z: Tensor, mean: Tensor, variance: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Log density of targets, n, and their errors, n, which are standard normal if the predictions are right.

    Args:
        z: n targets, standardised.
        mean: n predicted means.
        variance: n variances of the prediction, without noise.
        noise: variances of the noise as the posterior has them, n or one.
    """
    error, total = (z - mean) / (variance + noise).sqrt(), variance + noise
    return -0.5 * (error.square() + torch.log(2 * math.pi * total)), error


def student(z: Tensor, mean: Tensor, variance: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """`gaussian` with Student-t noise as informative as `noise`; errors are normal quantiles of P(z' <= z)."""
    s2 = noise / INFORMATIVE
    x = torch.linspace(*ENDS, NODES, dtype=z.dtype, device=z.device)
    log_w = 0.5 * DEGREES * (x - x.exp())
    log_w = log_w - log_w.logsumexp(0)
    width = (variance.unsqueeze(-1) + s2.unsqueeze(-1) / x.exp()).sqrt()  # n x nodes
    far = (z - mean).unsqueeze(-1) / width
    density = (log_w - 0.5 * far.square() - width.log() - 0.5 * math.log(2 * math.pi)).logsumexp(-1)
    tail = (torch.special.ndtr(-far.abs()) @ log_w.exp()).clamp_min(torch.finfo(z.dtype).tiny)  # P(z' beyond z)
    return density, -torch.special.ndtri(tail) * (z - mean).sign()


PREDICTIVE: dict[str, Judge] = {"gaussian": gaussian, "student-t": student}  # by likelihood
