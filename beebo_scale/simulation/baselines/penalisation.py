r"""Local penalisation (Gonzalez et al. 2016): each point is penalised in a ball that a Lipschitz constant gives.

If f has the Lipschitz constant L and the maximum M, the maximum is no nearer to x_j than (M - f(x_j)) / L. With f(x_j)
as the posterior has it, the probability that a point x lies outside of that ball is

    phi(x; x_j) = Phi((L |x - x_j| - M + mean(x_j)) / std(x_j)),

and the next point maximises log EI(x) + sum_j log phi(x; x_j) over the points x_j of the batch so far. M is the largest
posterior mean in the box (with the best value measured, which some take, phi(x_j; x_j) is one and penalises nothing
where the mean promises more than that), L its largest slope. Distances are in encoded units, in which each input's
measured range is 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from botorch.acquisition import AcquisitionFunction, LogExpectedImprovement
from botorch.utils.transforms import t_batch_mode_transform
from scipy.optimize import minimize
from torch import Tensor
from torch.quasirandom import SobolEngine

from ...posterior import Posterior
from ...surrogates import Surrogate
from ..strategies import cube_of
from ..world import State
from .sequential import Filling, Maker, MarginalModel, Sequential

POINTS = 500  # of a Sobol sequence that are looked at, beside the measured ones
STEP = 1e-5  # of the difference that a second derivative is taken from
FLAT = 1e-7  # largest slope of the mean below which L cannot be estimated
FLAT_LIPSCHITZ = 10.0  # L in that case, as in the authors' code
LEAST_STD = 1e-12


@dataclass(frozen=True)
class LocalPenalisation(Sequential):
    """Log EI, penalised around the points of the batch so far."""

    def acquisition(self, state: State, model: Surrogate) -> Maker:
        """The penalised log EI of the next point."""
        measured, posterior = model.data.y.max(), model.posterior()
        bounds = cube_of(state, model).space.bounds
        largest, lipschitz = largest_mean_and_slope(posterior, bounds, state.seed)
        return lambda filling: PenalisedLogEI(filling, measured, largest, lipschitz)


class PenalisedLogEI(AcquisitionFunction):
    """log EI(x) + sum_j log phi(x; x_j); EI over the best value measured, phi with M and L."""

    def __init__(self, filling: Filling, measured: Tensor, largest: float, lipschitz: float) -> None:
        wrapped = MarginalModel(filling.start)
        super().__init__(wrapped)
        self.log_ei = LogExpectedImprovement(wrapped, best_f=measured)
        self.X, self.lipschitz = filling.X, lipschitz
        with torch.no_grad():
            mean, variance = filling.start.mean_and_variance(filling.X)  # k, k
        self.short = max([largest, *mean.tolist()]) - mean  # of the maximum, k; never below zero
        self.std = variance.sqrt().clamp_min(LEAST_STD)

    @t_batch_mode_transform(expected_q=1)
    def forward(self, X: Tensor) -> Tensor:
        """Value of each single point: b x 1 x d -> b."""
        distance = (X - self.X).square().sum(-1).clamp_min(LEAST_STD**2).sqrt()  # b x k
        z = (self.lipschitz * distance - self.short) / self.std
        return self.log_ei(X) + torch.special.log_ndtr(z).sum(-1)


def largest_mean_and_slope(posterior: Posterior, bounds: Tensor, seed: int) -> tuple[float, float]:
    """Bounds M and L: the largest posterior mean and the largest |grad mean| in a box.

    Both are the largest of many points, moved on by L-BFGS-B.

    Args:
        posterior: whose mean it is.
        bounds: 2 x d.
        seed: of the points.
    """
    lo, hi = bounds
    some = SobolEngine(len(lo), scramble=True, seed=seed).draw(POINTS, dtype=bounds.dtype)
    X = torch.cat([torch.lerp(lo, hi, some), posterior.points])

    def mean(X: Tensor) -> tuple[Tensor, Tensor]:
        return posterior.mean(X).detach(), gradient(posterior, X)

    def half_square_slope(X: Tensor) -> tuple[Tensor, Tensor]:
        """|g|^2 / 2 and its slope H g, the product with the second derivative by a central difference."""
        g = gradient(posterior, X)
        step = STEP / g.norm(dim=-1, keepdim=True).clamp_min(FLAT)
        ahead, behind = gradient(posterior, X + step * g), gradient(posterior, X - step * g)
        return 0.5 * g.square().sum(-1), (ahead - behind) / (2 * step)

    largest, steepest = (largest_of(function, X, bounds) for function in (mean, half_square_slope))
    slope = (2.0 * steepest) ** 0.5
    return largest, slope if slope > FLAT else FLAT_LIPSCHITZ


def largest_of(function: Callable[[Tensor], tuple[Tensor, Tensor]], X: Tensor, bounds: Tensor) -> float:
    """The largest value of a function in a box, from the best of p points on.

    Args:
        function: p x d -> its values, p, and slopes, p x d.
        X: p x d.
        bounds: 2 x d.
    """

    def negative(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = function(torch.from_numpy(x).to(bounds).unsqueeze(0))
        return -float(value), -slope.squeeze(0).cpu().numpy()

    values = function(X)[0]
    box = list(zip(*bounds.tolist(), strict=True))
    start = X[values.argmax()].cpu().numpy()
    found = minimize(negative, start, jac=True, method="L-BFGS-B", bounds=box, options={"maxiter": 100})
    return max(float(values.max()), -float(found.fun))


def gradient(posterior: Posterior, X: Tensor) -> Tensor:
    """Slope of the posterior mean at each of p points, p x d -> p x d."""
    X = X.detach().clone().requires_grad_(True)
    (slope,) = torch.autograd.grad(posterior.mean(X).sum(), X)
    return slope
