"""What is trained, by kind: SVGP by minibatches, SGPR and the exact likelihood by runs of L-BFGS on all rows at once.

A trainee holds the hyperparameters as a torch module and says how a step goes, what is to be done before it is judged,
and what a `Surrogate` of it is made of.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from ..kernel_posterior import KernelPosterior
from ..screening import Encoder
from ..workers import Workers
from .approximate.inducing import select_inducing_points
from .approximate.love import LoveOptions, love_posterior
from .approximate.sgpr import fit_sgpr, sgpr_posterior
from .approximate.student_t import StudentSVGP
from .approximate.svgp import SETTLED, SVGP, WARM_STEPS, HyperAdam
from .data.observations import Observations, draw_inputs
from .data.observe import without_extremes
from .data.packed import PackedObservations
from .data.tasks_and_batches import Design
from .factors import Exact, Love, Recipe, Sparse
from .gaussian_process.gaussian_process import FitReport, GaussianProcess, fit_hyperparameters
from .gaussian_process.hyperparameters import find_hyperparameters
from .gaussian_process.learned_noise import learn_noise
from .surrogate import new_gp

SETTLING = 3  # passes over all rows, each time that a robust trainee is judged: more gain less than they cost


@dataclass(frozen=True)
class Options:
    """Hyperparameters of training; see `SurrogateModule`."""

    priors: str
    inducing_points: int
    learn_inducing: bool
    precision: str
    lr: float
    natural_lr: float
    iterations: int
    fit_rows: int
    start_iterations: int
    rank: int | Literal["auto"]
    likelihood: str
    seed: int

    @property
    def robust(self) -> bool:
        """Whether outliers among the targets count little."""
        return self.likelihood == "student-t"

    @property
    def dtype(self) -> torch.dtype:
        """Number format of the work on a minibatch."""
        return torch.float32 if self.precision == "float32" else torch.float64


class Trainee(Protocol):
    """What `SurrogateModule` asks of one."""

    full_batch: bool

    @property
    def gp(self) -> GaussianProcess:
        """Prior and noise."""
        ...

    def optimizer(self) -> torch.optim.Optimizer:
        """Moves the hyperparameters."""
        ...

    def step(self, optimizer: Any, batch: tuple[Tensor, ...], step: int, backward: Callable[[Tensor], Any]) -> Tensor:
        """Train on a batch; the loss per row, or minus the log likelihood per row where all rows are seen."""
        ...

    def settle(self) -> None:
        """Called before the trainee is judged."""
        ...

    def recipe(self) -> Recipe:
        """How its posterior is made, with tensors on the CPU."""
        ...

    def report(self, steps: int) -> FitReport:
        """How the fit has gone so far."""
        ...


def starting_point(
    kind: str, encoder: Encoder, design: Design, data: PackedObservations, options: Options
) -> dict[str, Any]:
    """Where training starts, as plain types and tensors: computed once, so that all workers and relaunches agree.

    Sparse kinds: hyperparameters from some rows, and inducing points chosen with them. All kinds: what known variances
    say about sigma^2(x).
    """
    gp, some = new_gp(encoder, options.priors, design), subset(data, options)
    start: dict[str, Any] = {"log_variance": None, "Z": None}
    if kind in ("svgp", "sgpr"):
        find_hyperparameters(gp, without_extremes(some) if options.robust else some, options.start_iterations)
        pool = subset(data, options, max(20 * options.inducing_points, options.fit_rows)).X
        start["Z"] = select_inducing_points(gp.kernel, pool, options.inducing_points, options.seed)
    if data.noise is not None:
        features = replace(some, X=some.X[:, : encoder.width])
        noise = learn_noise(new_gp(encoder, options.priors), features, options.start_iterations)
        start["log_variance"] = noise.to_dict()
    return start | {"hyperparameters": gp.state_dict()}


def subset(data: PackedObservations, options: Options, size: int | None = None) -> Observations:
    """At most `fit_rows` (or `size`) inputs of random measurements, float64."""
    generator = torch.Generator().manual_seed(options.seed)
    return data.in_format(torch.float64).take(draw_inputs(data.count, size or options.fit_rows, generator))


class SvgpTrainee(nn.Module):
    """Minibatches: natural gradients for q(v), Adam for hyperparameters and inducing points.

    Args:
        gp: where it starts.
        Z: m x d inducing points, where they start.
        data: all training rows.
        encoder: of their columns; inducing points that are molecules stay where they are.
        options: of training.
    """

    full_batch = False

    def __init__(
        self, gp: GaussianProcess, Z: Tensor, data: PackedObservations, encoder: Encoder, options: Options
    ) -> None:
        super().__init__()
        self.data, self.options = data.in_format(options.dtype), options
        self.model = (StudentSVGP if options.robust else SVGP)(gp, Z, len(data), options.dtype)
        if isinstance(self.model, StudentSVGP):
            self.model.passes = SETTLING
        self.model.Z.requires_grad_(options.learn_inducing and "smiles" not in encoder.kinds.values())
        if data.noise is not None:
            gp.likelihood.requires_grad_(False)  # sigma^2 is not used
        self.warm = WARM_STEPS  # steps of q(v) alone
        self.bound, self.gain = -math.inf, math.inf  # over all rows, per row since it was judged before

    @property
    def gp(self) -> GaussianProcess:
        """Prior and noise."""
        return self.model.gp

    def optimizer(self) -> torch.optim.Optimizer:
        """Adam, positive hyperparameters in logarithms."""
        return _Adam(self.model, self.options.lr)

    def step(self, optimizer: Any, batch: tuple[Tensor, ...], step: int, backward: Callable[[Tensor], Any]) -> Tensor:
        """One minibatch; hyperparameters wait until q(v) knows something."""
        rows, y, count, scatter, *known = batch
        X = self.data.packing.unpack(rows, self.options.dtype)
        optimizer.zero_grad()
        loss = self.model.loss_of(Observations(X, y, known[0] if known else None, count, scatter))
        if step >= self.warm:
            backward(loss)
        self.model.natural_step(max(self.options.natural_lr, 1 / (step + 1)))
        optimizer.step()
        return loss.detach()

    def settle(self) -> None:
        """q(v) takes its optimum for all rows: one pass over them, some where outliers count little."""
        self.data = self.data.to(self.model.P.device)
        before, self.bound = self.bound, self.model.collapse(self.data)
        self.gain = (self.bound - before) / len(self.data)

    def recipe(self) -> Recipe:
        """Inducing points, root and weights."""
        return sparse_recipe(self.model.posterior())

    def report(self, steps: int) -> FitReport:
        """Its `log_likelihood` is the bound over all rows when it was judged last."""
        return FitReport(len(self.data), steps, self.gain < SETTLED, self.bound)


class _Adam(HyperAdam):
    """`HyperAdam` for Lightning, which always passes a closure, here one that does nothing."""

    def step(self, closure: Any = None) -> Any:
        """Call the closure, then take one step."""
        if closure is not None:
            closure()
        return super().step()


class FullTrainee(nn.Module):
    """All rows at once: one step is a run of L-BFGS, on some rows for the exact likelihood, on all for SGPR's bound.

    Args:
        kind: "exact", "love" or "sgpr".
        gp: where it starts.
        Z: m x d inducing points of SGPR, None for the others.
        data: all training rows.
        encoder: of their columns.
        options: of training.
    """

    full_batch = True
    Z: Tensor | None

    def __init__(
        self,
        kind: str,
        gp: GaussianProcess,
        Z: Tensor | None,
        data: PackedObservations,
        encoder: Encoder,
        options: Options,
    ) -> None:
        super().__init__()
        self.kind, self.gp, self.data, self.encoder, self.options = kind, gp, data, encoder, options
        self.register_buffer("Z", Z)
        self.some = subset(data, options)
        self.last = FitReport(len(self.some), 0, False, float("nan"))

    def optimizer(self) -> torch.optim.Optimizer:
        """A run of L-BFGS, within the bounds of the hyperparameters."""
        return Runs(self.gp, self._run)

    def _run(self) -> None:
        device = self.gp.likelihood.noise.device
        if self.data.rows.device != device:
            self.data = self.data.to(device)
            self.some = subset(self.data, self.options)
        if self.Z is None:
            self.last = fit_hyperparameters(self.gp, self.some, self.options.iterations)
        else:
            self.last = fit_sgpr(self.gp, self.Z, self.data, self.options.iterations)
        for p in self.gp.parameters():  # other workers may have rounded otherwise
            Workers.current().first(p.data)

    def step(self, optimizer: Any, batch: tuple[Tensor, ...], step: int, backward: Callable[[Tensor], Any]) -> Tensor:
        """One run."""
        optimizer.step()
        return torch.tensor(-self.last.log_likelihood / self.last.rows, dtype=torch.float64)

    def settle(self) -> None:
        """Nothing: the posterior is made of the hyperparameters."""

    def recipe(self) -> Recipe:
        """By kind."""
        if self.kind == "exact":
            return Exact()
        if self.Z is not None:
            return sparse_recipe(sgpr_posterior(self.gp, self.Z, self.data))
        continuous = self.encoder.numbers()
        love = LoveOptions(rank=self.options.rank, seed=self.options.seed)
        data = self.data.take(torch.arange(len(self.data)))
        posterior, report = love_posterior(self.gp, data, love, continuous=continuous, workers=Workers.current())
        return Love(_root(posterior).cpu(), posterior.weights.cpu(), report)

    def report(self, steps: int) -> FitReport:
        """Of the last run."""
        return self.last


class Runs(torch.optim.Optimizer):
    """An optimizer whose step is a whole run: Lightning counts steps of optimizers.

    Args:
        gp: whose hyperparameters the run moves.
        run: moves them.
    """

    def __init__(self, gp: GaussianProcess, run: Callable[[], object]) -> None:
        super().__init__(gp.parameters(), {})
        self.run = run

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One run; a closure is not needed."""
        self.run()


def sparse_recipe(posterior: KernelPosterior) -> Sparse:
    """What a file keeps of a posterior over inducing points."""
    return Sparse(posterior.centers.cpu(), _root(posterior).cpu(), posterior.weights.cpu())


def _root(posterior: KernelPosterior) -> Tensor:
    """R as a matrix, n x r."""
    return posterior.down.expand(torch.eye(posterior.rank, dtype=posterior.dtype, device=posterior.device))
