r"""SVGP: minibatches, natural gradients for q(v), Adam for the hyperparameters and the inducing points.

Whitened (Hensman, Fusi & Lawrence 2013): f(Z) = L v, q(v) = N(B^-1 b, B^-1) with B = 1 + P. A minibatch of share
|batch| / N has the sums (P', b', c') of `inducing`, divided by its share, and

    ELBO = c' + b'' v - 1/2 tr(P' (S + v v' - 1)) - KL[q || N(0, 1)],      v = B^-1 b,  S = B^-1.

For a Gaussian likelihood a natural-gradient step of length rho is a convex combination (Hensman et al. 2013,
section 3; Salimbeni, Eleftheriadis & Hensman 2018):

    P <- (1 - rho) P + rho P'           b <- (1 - rho) b + rho b'

so P stays positive semidefinite, and rho = 1 on all rows is the exact optimum, that of SGPR (`SVGP.collapse`). All that
is m x m is float64; the work on a minibatch is in the model's number format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import CosineAnnealingLR

from ...errors import InputError
from ...kernel_posterior import KernelPosterior
from ...protocols import Noise
from ...workers import Workers
from ..data.observations import Observations
from ..gaussian_process.gaussian_process import FitReport, GaussianProcess
from ..gaussian_process.noise import ConstantNoise, TaskNoise
from .inducing import FLOAT32_JITTER, JITTER, Moments, inducing_posterior, moments, prior_factor
from .sgpr import all_moments, collapse

WARM_STEPS = 10  # of q(v) alone: hyperparameters follow it only once it knows something
SETTLED = 1e-3  # nats per row that the last epoch may still have gained


class SVGP(nn.Module):
    """A sparse variational Gaussian process; nothing in it is initialised late.

    One step of training, in any loop: `loss(X, y).backward()`, `natural_step(rho)`, then a step of `HyperAdam`.

    Args:
        gp: prior and noise, its hyperparameters where they start; held, not copied.
        Z: m x d inducing points, where they start.
        num_data: N, all rows of all workers.
        dtype: number format of the work on a minibatch, float64 or float32.
        jitter: of K_ZZ, relative; None takes JITTER or FLOAT32_JITTER.
    """

    P: Tensor
    b: Tensor

    def __init__(
        self,
        gp: GaussianProcess,
        Z: Tensor,
        num_data: int,
        dtype: torch.dtype = torch.float64,
        jitter: float | None = None,
    ) -> None:
        super().__init__()
        self.gp = gp
        self.Z = nn.Parameter(Z.detach().clone().double())
        self.num_data, self.dtype = num_data, dtype
        self.jitter = (JITTER if dtype == torch.float64 else FLOAT32_JITTER) if jitter is None else jitter
        self.register_buffer("P", self.Z.new_zeros(len(Z), len(Z)))
        self.register_buffer("b", self.Z.new_zeros(len(Z)))
        self._target: tuple[Tensor, Tensor] | None = None

    def loss(self, X: Tensor, y: Tensor, noise: Tensor | None = None) -> Tensor:
        """Minus (ELBO + log prior of the hyperparameters) per row, estimated from a minibatch of single measurements.

        Args:
            X: B x d.
            y: B.
            noise: B known variances, or None if sigma^2 is learned.

        Raises:
            InputError: the loss is not finite.
        """
        return self.loss_of(Observations(X, y, noise, count=torch.ones_like(y), scatter=torch.zeros_like(y)))

    def loss_of(self, rows: Observations) -> Tensor:
        """`loss` of merged observations."""
        loss = -(self.elbo(rows) + self.gp.log_prior()) / self.num_data
        if not bool(loss.isfinite()):
            raise InputError(
                f"the loss of the sparse surrogate became {float(loss.detach()):g} on a minibatch of {len(rows)} rows; "
                "lower the learning rate, use float64, or look for values that are not finite or for extreme outliers"
            )
        return loss

    def elbo(self, rows: Observations) -> Tensor:
        """The ELBO estimated from a minibatch; remembers what the next `natural_step` needs.

        Args:
            rows: B merged observations.

        Returns:
            A scalar, differentiable in the hyperparameters and Z at fixed q(v).
        """
        rows = cast(rows, self.dtype)
        scale = self.num_data / len(rows)
        L = prior_factor(self.gp.kernel, self.Z, self.jitter)
        sums = moments(self.gp, self.Z, L, rows)
        P, b, c = scale * sums.P.double(), scale * sums.b.double(), scale * sums.c.double()
        self._target = (P.detach(), b.detach())
        with torch.no_grad():
            v, S, divergence = self.moments_of_q()
            G = S + torch.outer(v, v) - torch.eye(len(b), dtype=b.dtype, device=b.device)
        return c + b @ v - 0.5 * (G * P).sum() - divergence

    def moments_of_q(self) -> tuple[Tensor, Tensor, Tensor]:
        """Mean E v (m) and covariance S (m x m) of q(v), and KL[q || N(0, 1)]."""
        factor = torch.linalg.cholesky(torch.eye(len(self.b), dtype=self.b.dtype, device=self.b.device) + self.P)
        v = torch.cholesky_solve(self.b.unsqueeze(-1), factor).squeeze(-1)
        S = torch.cholesky_inverse(factor)
        return v, S, 0.5 * (S.diagonal().sum() + v @ v - len(v)) + factor.diagonal().log().sum()

    def natural_step(self, lr: float) -> None:
        """Natural-gradient step of q(v) on the minibatch that `loss` or `elbo` saw last.

        In an initialised `torch.distributed` group the minibatches of all workers count, as if they were one.

        Args:
            lr: length rho in (0, 1].

        Raises:
            ValueError: a length outside (0, 1], or no minibatch since the last step.
        """
        if not 0.0 < lr <= 1.0:
            raise ValueError(f"a natural-gradient step has a length in (0, 1], got {lr:g}")
        if self._target is None:
            raise ValueError("natural_step takes one step for each call of loss")
        workers = Workers.current()
        for value, target in zip((self.P, self.b), self._target, strict=True):
            value.lerp_(workers.gather(target.unsqueeze(0), workers.size).mean(0), lr)
        self._target = None

    def collapse(self, data: Observations) -> float:
        """Set q(v) to its optimum for all rows in one pass, and return the bound there, that of SGPR."""
        with torch.no_grad():
            L = prior_factor(self.gp.kernel, self.Z, self.jitter)
            sums: Moments = all_moments(self.gp, self.Z, L, data)
            self.P.copy_(sums.P)
            self.b.copy_(sums.b)
            return float(collapse(sums)[0])

    def posterior(self, noise: Noise | None = None) -> KernelPosterior:
        """The posterior under q(v), float64, without any jitter in k(x, x).

        Args:
            noise: of a new measurement, None takes the learned sigma^2 (of its task).
        """
        if noise is None:
            sigma2, column = self.gp.sigma2.detach().clone(), self.gp.task_column
            noise = ConstantNoise(sigma2) if column is None else TaskNoise(sigma2, column)
        with torch.no_grad():
            L = prior_factor(self.gp.kernel, self.Z, self.jitter)
        return inducing_posterior(self.gp, self.Z, L, self.P, self.b, noise)


class HyperAdam(torch.optim.Adam):
    """Adam over hyperparameters and Z; positive hyperparameters without a transform of their own move in logarithms.

    A noise variance of 1e-4 and a lengthscale of 10 then take steps of the same relative size, and bounds hold.

    Args:
        model: whose parameters it moves.
        lr: step size: relative for positive hyperparameters, absolute for all else.
    """

    def __init__(self, model: SVGP, lr: float = 0.03) -> None:
        self.bounds: dict[Tensor, tuple[Tensor, Tensor]] = {}
        for _, p, constraint in model.gp.named_parameters_and_constraints():
            if constraint is not None and not constraint.enforced and bool((constraint.lower_bound > 0).all()):
                self.bounds[p] = (constraint.lower_bound, constraint.upper_bound)
        plain = [p for p in model.parameters() if p.requires_grad and p not in self.bounds]
        positive = [p for p in self.bounds if p.requires_grad]
        super().__init__([{"params": group} for group in (plain, positive) if group], lr=lr)

    def step(self, closure: Any = None) -> Any:
        """One step; no closure, since parameters are logarithms while it lasts.

        Raises:
            ValueError: a closure was given.
        """
        if closure is not None:
            raise ValueError("HyperAdam takes no closure")
        moving = [p for group in self.param_groups for p in group["params"] if p in self.bounds and p.grad is not None]
        with torch.no_grad():
            for p in moving:
                p.grad.mul_(p)
                p.log_()
            super().step()
            for p in moving:
                p.exp_().clamp_(*self.bounds[p])


def fit_svgp(
    model: SVGP,
    data: Observations,
    epochs: int = 20,
    batch_size: int = 1024,
    lr: float = 0.03,
    natural_lr: float = 0.1,
    seed: int = 0,
    on_step: Callable[[], object] | None = None,
) -> FitReport:
    """Train in minibatches, in place; q(v) ends at its optimum for all rows (`SVGP.collapse`).

    Args:
        model: where it starts.
        data: n observations.
        epochs: passes over them. Adam's step size falls to zero along a cosine.
        batch_size: rows in a minibatch; the last, smaller one of an epoch is left out.
        lr: of `HyperAdam`.
        natural_lr: of q(v).
        seed: of the order of the rows.
        on_step: called after every step.

    Returns:
        Its `log_likelihood` is the bound over all rows; `converged` says that the last epoch gained almost nothing.

    Raises:
        InputError: the loss is not finite.
    """
    steps = epochs * max(1, len(data) // batch_size)
    optimizer = HyperAdam(model, lr)
    schedule = CosineAnnealingLR(optimizer, max(1, steps))
    losses: list[float] = []
    for step, rows in enumerate(_minibatches(len(data), batch_size, epochs, seed)):
        optimizer.zero_grad()
        loss = model.loss_of(data.take(rows.to(data.X.device)))
        losses.append(float(loss.detach()))
        warm = step < min(WARM_STEPS, steps // 2)
        if not warm:
            loss.backward()
        if data.noise is not None:
            model.gp.likelihood.zero_grad()  # sigma^2 is not used: its prior alone would carry it away
        model.natural_step(max(natural_lr, 1 / (step + 1)))
        optimizer.step()
        schedule.step()
        if on_step is not None:
            on_step()
    bound = model.collapse(data)
    return FitReport(len(data), len(losses), _settled(losses, epochs), bound)


def _minibatches(n: int, size: int, epochs: int, seed: int) -> Iterator[Tensor]:
    """Rows of each minibatch, shuffled anew in each epoch; only full ones, unless all rows together are fewer."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        for rows in torch.randperm(n, generator=generator).split(size):
            if len(rows) == min(size, n):
                yield rows


def _settled(losses: list[float], epochs: int) -> bool:
    """Whether the mean loss of the last epoch is that of the one before."""
    each = len(losses) // epochs if epochs else 0
    if epochs < 2 or each == 0:
        return False
    last, before = sum(losses[-each:]) / each, sum(losses[-2 * each : -each]) / each
    return before - last < SETTLED


def cast(rows: Observations, dtype: torch.dtype) -> Observations:
    """The same rows in another number format."""
    noise = None if rows.noise is None else rows.noise.to(dtype)
    return Observations(rows.X.to(dtype), rows.y.to(dtype), noise, rows.count.to(dtype), rows.scatter.to(dtype))
