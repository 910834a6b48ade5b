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

import copy
import math
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from ...errors import InputError
from ...kernel_posterior import KernelPosterior
from ...protocols import Noise
from ...workers import Workers
from ..data.observations import Measurements, Observations
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
    passes = 1  # of `collapse`

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
        rows = rows.in_format(self.dtype)
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

    def collapse(self, data: Measurements) -> float:
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
        """One step; a closure, as Lightning gives one, is called before parameters become logarithms."""
        if closure is not None:
            closure()
        moving = [p for group in self.param_groups for p in group["params"] if p in self.bounds and p.grad is not None]
        with torch.no_grad():
            for p in moving:
                p.grad.mul_(p)
                p.log_()
            super().step()
            for p in moving:
                p.exp_().clamp_(*self.bounds[p])


class SvgpTrainee(nn.Module):
    """A model in training, by whatever loop: natural gradients for q(v), Adam for hyperparameters and inducing points.

    Args:
        model: where it starts.
        data: all n observations.
        lr: of `HyperAdam`.
        natural_lr: of q(v).
    """

    full_batch = False

    def __init__(self, model: SVGP, data: Measurements, lr: float = 0.03, natural_lr: float = 0.1) -> None:
        super().__init__()
        self.model, self.lr, self.natural_lr = model, lr, natural_lr
        self.data = data.in_format(model.dtype)
        if data.noise is not None:
            model.gp.likelihood.requires_grad_(False)  # sigma^2 is not used: its prior alone would carry it away
        self.warm, self.bound = WARM_STEPS, -math.inf
        self._settled = (model,)  # in a tuple: no part of the state that training goes on from
        self.losses: deque[float] = deque(maxlen=0)

    @property
    def gp(self) -> GaussianProcess:
        """Prior and noise."""
        return self.model.gp

    @property
    def settled(self) -> SVGP:
        """The model as it was when it was last to be judged."""
        return self._settled[0]

    def optimizers(self, steps: int, each: int) -> tuple[HyperAdam, LambdaLR]:
        """Adam, its step size falling to zero along a cosine over so many steps, `each` of them in an epoch."""
        self.warm, self.losses = min(WARM_STEPS, steps // 2), deque(maxlen=2 * each)
        adam = HyperAdam(self.model, self.lr)
        return adam, LambdaLR(adam, lambda step: 0.5 * (1 + math.cos(math.pi * min(step / max(1, steps), 1))))

    def step(self, optimizer: Any, rows: Observations, step: int, backward: Callable[[Tensor], object]) -> Tensor:
        """One minibatch, its loss per row; hyperparameters wait until q(v) knows something."""
        optimizer.zero_grad()
        loss = self.model.loss_of(rows)
        self.losses.append(float(loss.detach()))
        if step >= self.warm:
            backward(loss)
        self.model.natural_step(max(self.natural_lr, 1 / (step + 1)))
        optimizer.step()
        return loss.detach()

    def settle(self, passes: int | None = None) -> None:
        """Before it is judged: q(v) takes its optimum for all rows in a copy, so that training goes on as it was.

        Args:
            passes: over all rows, where more than one may be needed; None takes as many as are.
        """
        self.data = self.data.to(self.model.P.device)
        settled = copy.deepcopy(self.model)
        if passes is not None:
            settled.passes = passes
        self.bound, self._settled = settled.collapse(self.data), (settled,)

    def report(self, steps: int) -> FitReport:
        """Its `log_likelihood` is the bound over all rows; converged is who gained almost nothing in the last epoch."""
        each, losses = (self.losses.maxlen or 0) // 2, list(self.losses)
        gain = math.inf
        if each and len(losses) == 2 * each:
            gain = sum(losses[:each]) / each - sum(losses[each:]) / each
        return FitReport(len(self.data), steps, gain < SETTLED, self.bound)


def fit_svgp(
    model: SVGP,
    data: Measurements,
    epochs: int = 20,
    batch_size: int = 1024,
    lr: float = 0.03,
    natural_lr: float = 0.1,
    seed: int = 0,
    on_step: Callable[[], object] = lambda: None,
) -> FitReport:
    """Train in minibatches, in place; q(v) ends at its optimum for all rows (`SVGP.collapse`).

    Args:
        model: where it starts.
        data: n observations.
        epochs: passes over them.
        batch_size: rows in a minibatch.
        lr: of `HyperAdam`, falling to zero along a cosine.
        natural_lr: of q(v).
        seed: of the order of the rows.
        on_step: called after every step.

    Raises:
        InputError: the loss is not finite.
    """
    trainee = SvgpTrainee(model, data, lr, natural_lr)
    each = max(1, len(data) // batch_size)
    optimizer, schedule = trainee.optimizers(epochs * each, each)
    rows = (rows for epoch in range(epochs) for rows in minibatches(len(data), batch_size, seed, epoch))
    for step, some in enumerate(rows):
        trainee.step(optimizer, trainee.data.take(some.to(data.y.device)), step, lambda loss: loss.backward())
        schedule.step()
        on_step()
    model.gp.likelihood.requires_grad_(True)
    trainee.bound = model.collapse(data)
    return trainee.report(epochs * each)


def minibatches(n: int, size: int, seed: int, epoch: int) -> Iterator[Tensor]:
    """Rows of each minibatch of an epoch; their order depends on seed and epoch alone.

    A last, smaller minibatch is left out, unless all rows together are fewer than one.
    """
    order = torch.randperm(n, generator=torch.Generator().manual_seed((seed << 20) + epoch))
    return iter(order[: max(n // size, 1) * min(size, n)].split(min(size, n)))
