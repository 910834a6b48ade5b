r"""Local penalisation (Gonzalez et al. 2016): points push those after them away, as far as a Lipschitz constant tells.

If f has the Lipschitz constant L and the maximum M, the maximum is no nearer to x_j than (M - f(x_j)) / L. With f(x_j)
as the posterior has it, the probability that a point x lies outside of that ball is

    phi(x; x_j) = Phi((L |x - x_j| - M + mean(x_j)) / std(x_j)),

and the next point maximises log EI(x) + sum_j log phi(x; x_j) over the points x_j of the batch so far. M is the best
value measured, L the largest slope of the posterior mean in the box. Distances are in encoded units, in which each
input's measured range is 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from botorch.acquisition import AcquisitionFunction, LogExpectedImprovement
from botorch.utils.transforms import t_batch_mode_transform
from scipy.optimize import minimize
from torch import Tensor
from torch.quasirandom import SobolEngine

from ..posterior import Posterior
from ..surrogates import Surrogate
from .sequential import Filling, Maker, MarginalModel, Sequential
from .strategies import cube_of
from .world import State

SLOPES = 500  # Sobol points at which the slope is looked at, beside the measured ones
STEP = 1e-5  # of the difference that a second derivative is taken from
FLAT = 1e-7  # a mean with smaller slopes says nothing about L ...
FLAT_LIPSCHITZ = 10.0  # ... which is then this, as in the authors' code
LEAST_STD = 1e-12


@dataclass(frozen=True)
class LocalPenalisation(Sequential):
    """Log EI, penalised around the points of the batch so far."""

    def acquisition(self, state: State, model: Surrogate) -> Maker:
        """The penalised log EI of the next point."""
        best = model.data.y.max()
        space = cube_of(state, model).space
        lipschitz = lipschitz_constant(model.posterior(), space.bounds, state.seed)
        return lambda filling: PenalisedLogEI(filling, best, lipschitz)


class PenalisedLogEI(AcquisitionFunction):
    """log EI(x) + sum_j log phi(x; x_j)."""

    def __init__(self, filling: Filling, best: Tensor, lipschitz: float) -> None:
        wrapped = MarginalModel(filling.start)
        super().__init__(wrapped)
        self.log_ei = LogExpectedImprovement(wrapped, best_f=best)
        self.X, self.best, self.lipschitz = filling.X, best, lipschitz
        with torch.no_grad():
            mean, variance = filling.start.mean_and_variance(filling.X)
        self.mean, self.std = mean, variance.sqrt().clamp_min(LEAST_STD)  # k

    @t_batch_mode_transform(expected_q=1)
    def forward(self, X: Tensor) -> Tensor:
        """B x 1 x d -> b."""
        distance = (X - self.X).square().sum(-1).clamp_min(LEAST_STD**2).sqrt()  # b x k
        z = (self.lipschitz * distance - self.best + self.mean) / self.std
        return self.log_ei(X) + torch.special.log_ndtr(z).sum(-1)


def lipschitz_constant(posterior: Posterior, bounds: Tensor, seed: int) -> float:
    """The largest slope |grad mean(x)| in a box: the largest of many points, moved on by L-BFGS-B.

    Args:
        posterior: whose mean it is.
        bounds: 2 x d.
        seed: of the points.
    """
    lo, hi = bounds
    some = SobolEngine(len(lo), scramble=True, seed=seed).draw(SLOPES, dtype=bounds.dtype)
    X = torch.cat([torch.lerp(lo, hi, some), posterior.points])
    slopes = gradient(posterior, X).norm(dim=-1)

    def negative_square(x: np.ndarray) -> tuple[float, np.ndarray]:
        """-|g|^2 / 2 and its slope -H g, the product with the second derivative by a central difference."""
        here = torch.from_numpy(x).to(bounds)
        g = gradient(posterior, here.unsqueeze(0)).squeeze(0)
        step = STEP / g.norm().clamp_min(FLAT)
        ahead, behind = gradient(posterior, torch.stack([here + step * g, here - step * g]))
        return -0.5 * float(g @ g), ((behind - ahead) / (2 * step)).cpu().numpy()

    start, box = X[slopes.argmax()].cpu().numpy(), list(zip(lo.tolist(), hi.tolist(), strict=True))
    found = minimize(negative_square, start, jac=True, method="L-BFGS-B", bounds=box, options={"maxiter": 100})
    largest = max(float(slopes.max()), (-2.0 * found.fun) ** 0.5)
    return largest if largest > FLAT else FLAT_LIPSCHITZ


def gradient(posterior: Posterior, X: Tensor) -> Tensor:
    """Slope of the posterior mean at each of p points, p x d -> p x d."""
    X = X.detach().clone().requires_grad_(True)
    (slope,) = torch.autograd.grad(posterior.mean(X).sum(), X)
    return slope
