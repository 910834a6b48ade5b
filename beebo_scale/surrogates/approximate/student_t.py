r"""SVGP with a Student-t likelihood: rows that lie far out pull less the farther they lie.

    p(y_i | f_i) = t_nu(y_i; f_i, s^2),  nu = 4,      ELBO = sum_i E_{q(f_i)} log p(y_i | f_i) - KL[q(v) || N(0, 1)],

with s the scale that the process keeps as its noise, s^2 learned, and q(f_i) = N(m_i, v_i) from whitened features a_i:
m_i = m(x_i) + a_i' E v and v_i = k(x_i, x_i) - |a_i|^2 + a_i' S a_i. The expectation is a Gauss-Hermite sum
E_i(m_i, v_i).

The natural-gradient step is the Gaussian one (`svgp`) at rows with precision p_i and a value to go with it (Khan & Lin,
AISTATS 2017, eq. 10):

    p_i = max(0, -2 dE_i/dv_i)      P' = sum_i p_i a_i a_i'      b' = sum_i a_i (p_i a_i' E v + dE_i/dm_i)

The information of such a measurement is that of one with normal noise of variance (nu + 3) / (nu + 1) s^2 = 1.4 s^2:
exactly where f is known well beside s, by the Fisher information of the location, and 0.095 nats less than that at most
(ln sqrt(2 pi e 1.4) against the entropy of t_4), where s^2 itself would be up to 0.26 nats too optimistic.

A t density is not log-concave: far out p_i would be a little below zero, and the bound is then not quite stationary in
S; zero keeps P positive semidefinite.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from ...kernels.stationary import live_gram
from ..data.observations import Measurements, Observations
from .inducing import prior_factor
from .sgpr import add_over_chunks
from .svgp import SVGP

DEGREES = 4.0  # nu: a measurement has a variance, and one of twenty s counts almost nothing
INFORMATIVE = (DEGREES + 3) / (DEGREES + 1)  # variance of normal noise as informative as t noise, in units of s^2
_RULE = np.polynomial.hermite_e.hermegauss(24)
NODES, WEIGHTS = tuple(_RULE[0].tolist()), tuple((_RULE[1] / _RULE[1].sum()).tolist())
PASSES, PASS_LENGTH = 20, 0.5  # over all rows at the end, at most, and the length of their natural-gradient steps
STILL = 1e-5  # nats per row that a pass may still gain
ROWS_OF_PASS = 4096  # rows of a pass whose features are held at once


def expected_log_density(y: Tensor, mean: Tensor, variance: Tensor, s2: Tensor) -> Tensor:
    """Expectation E log t_nu(y; f, s^2) with f ~ N(mean, variance), n each -> n."""
    const = math.lgamma((DEGREES + 1) / 2) - math.lgamma(DEGREES / 2) - 0.5 * math.log(DEGREES * math.pi)
    nodes, weights = y.new_tensor(NODES), y.new_tensor(WEIGHTS)
    far = (y - mean).unsqueeze(-1) - variance.sqrt().unsqueeze(-1) * nodes  # n x nodes
    total = torch.log1p(far.square() / (DEGREES * s2).unsqueeze(-1)) @ weights
    return const - 0.5 * torch.log(s2) - 0.5 * (DEGREES + 1) * total


def site_precision(y: Tensor, mean: Tensor, variance: Tensor, s2: Tensor) -> Tensor:
    """p_i = max(0, -2 dE_i/dv_i) for f ~ N(mean, variance), n each -> n."""
    with torch.enable_grad():
        v = variance.detach().requires_grad_()
        (slope,) = torch.autograd.grad(expected_log_density(y, mean, v, s2).sum(), v)
    return (-2 * slope).clamp_min(0.0)


class StudentSVGP(SVGP):
    """`SVGP` for measurements with outliers; sigma^2 of its process is s^2, the squared scale of all but these.

    A merged observation of n replicates counts as one row with s^2 / n; `fit` merges none.
    """

    passes = PASSES  # of `collapse`, at most

    def elbo(self, rows: Observations) -> Tensor:
        """The ELBO estimated from a minibatch; see `SVGP.elbo`."""
        rows = rows.in_format(self.dtype)
        scale = self.num_data / len(rows)
        with torch.no_grad():
            v, S, divergence = self.moments_of_q()
        A = self._features(rows.X)  # m x B
        value, slopes = self._expected(rows, A, v, S)
        P, b = self._sites(A.detach(), v, *slopes)
        self._target = (scale * P, scale * b)
        return scale * value - divergence

    def _features(self, X: Tensor) -> Tensor:
        """Whitened columns L^-1 k(Z, X), m x B."""
        L = prior_factor(self.gp.kernel, self.Z, self.jitter).to(X.dtype)
        return torch.linalg.solve_triangular(L, live_gram(self.gp.kernel, self.Z.to(X.dtype), X), upper=False)

    def _expected(self, rows: Observations, A: Tensor, v: Tensor, S: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Sum of E_i over rows, and its derivatives in m_i and v_i."""
        s2, prior = self.gp.noise_of(rows).to(A), self.gp.kernel(rows.X, diag=True).to(A)
        mean = self.gp.mean(rows.X).to(A) + v.to(A) @ A
        variance = prior - A.square().sum(0) + (A * (S.to(A) @ A)).sum(0)
        variance = variance.clamp_min(torch.finfo(A.dtype).eps)
        with torch.enable_grad():
            if not mean.requires_grad:  # only the sites are wanted
                mean, variance = mean.requires_grad_(), variance.requires_grad_()
            value = expected_log_density(rows.y, mean, variance, s2).sum()
            slopes = torch.autograd.grad(value, (mean, variance), retain_graph=True)
        return value.double(), (slopes[0], slopes[1])

    @staticmethod
    def _sites(A: Tensor, v: Tensor, dm: Tensor, dv: Tensor) -> tuple[Tensor, Tensor]:
        """The sums P' and b' of some rows."""
        p = (-2 * dv).clamp_min(0.0)
        return ((A * p) @ A.mT).double(), (A @ (p * (v.to(A) @ A) + dm)).double()

    def collapse(self, data: Measurements) -> float:
        """Natural-gradient steps on all rows until the bound is still; the bound there."""
        bound = -math.inf
        with torch.no_grad():
            for _ in range(self.passes):
                before, (bound, P, b) = bound, self._pass(data)
                if bound - before < STILL * len(data) and bound >= before:
                    break
                self.P.lerp_(P, PASS_LENGTH)
                self.b.lerp_(b, PASS_LENGTH)
        return bound

    def _pass(self, data: Measurements) -> tuple[float, Tensor, Tensor]:
        """The bound of all rows, and the sites there; shared among the workers."""
        v, S, divergence = self.moments_of_q()
        m = len(v)

        def part(chunk: Tensor) -> Tensor:
            rows = data.take(chunk).in_format(torch.float64)
            A = self._features(rows.X)
            value, slopes = self._expected(rows, A, v, S)
            P, b = self._sites(A, v, *slopes)
            return torch.cat([P.reshape(-1), b, value.reshape(1)])

        P, b, value = add_over_chunks(part, len(data), ROWS_OF_PASS, v.new_zeros(m * m + m + 1)).split([m * m, m, 1])
        return float(value - divergence), P.reshape(m, m), b
