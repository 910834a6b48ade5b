"""What is trained, by kind: SVGP by minibatches, the others by a search and runs of L-BFGS on some rows.

Training starts at a `StartingPoint`, goes on by steps of a trainee, and ends in what a `Surrogate` keeps. Two drivers
take the same steps: the plain one behind `fit`, and Lightning's trainer (`training.module`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..kernel_posterior import KernelPosterior
from ..kernels.screen import bound_lengthscales
from ..kernels.stationary import freeze
from ..linalg.partition import divided
from ..screening import Encoder
from ..specs import Fitting
from ..workers import Workers
from .approximate.blocks.fit import added
from .approximate.blocks.posterior import LARGE
from .approximate.blocks.sizes import block_rows
from .approximate.love import LoveOptions, love_posterior
from .approximate.points import drawn, inducing_points
from .approximate.rank import free_memory
from .approximate.sgpr import sgpr_posterior
from .approximate.student_t import StudentSVGP
from .approximate.svgp import SVGP, SvgpTrainee
from .data.observations import Measurements, Observations
from .data.observe import without_extremes
from .data.tasks_and_batches import Design
from .factors import Blocks, Exact, Love, Recipe, Sparse
from .gaussian_process.exact import ROWS_OF_FACTOR
from .gaussian_process.gaussian_process import FitReport, GaussianProcess, fit_hyperparameters
from .gaussian_process.hyperparameters import find_hyperparameters
from .gaussian_process.learned_noise import LogVariance, learn_noise
from .surrogate import log_variance_of, new_gp, new_noise_gp

ITERATED = 1e-3  # standard deviations of a prediction that the mean of kind exact may be off by, without a factor
KERNEL_COPIES = 3  # of a block of rows of k(Z, Z), alive at once


@dataclass(frozen=True)
class StartingPoint:
    """Where training starts, in plain types and tensors: found once, so that all workers and relaunches agree.

    Attributes:
        hyperparameters: found on some rows.
        report: how they were found.
        Z: m x d inducing points chosen with them, None where the kind has none.
        log_variance: what known variances say about sigma^2(x), None without.
        heads: h x d of the blocks, None where the kind has none.
        labels: block of each row, n.
    """

    hyperparameters: dict[str, Any]
    report: dict[str, Any]
    Z: Tensor | None
    log_variance: dict[str, Any] | None
    heads: Tensor | None = None
    labels: Tensor | None = None


def starting_point(
    encoder: Encoder,
    design: Design,
    data: Measurements,
    fitting: Fitting,
    warm: GaussianProcess | None = None,
    on_step: Callable[[], object] | None = None,
) -> StartingPoint:
    """Search hyperparameters on some rows, and choose inducing points with them.

    Args:
        encoder: of the features.
        design: what a row says beside them.
        data: the rows.
        fitting: of a kind other than "auto".
        warm: an earlier fit, whose hyperparameters the search starts from first.
        on_step: called after every evaluation.
    """
    gp, some = new_gp(encoder, fitting.priors, design), subset(data, fitting)
    fresh = None if warm is None else new_gp(encoder, fitting.priors, design)
    if warm is not None:
        gp.load_state_dict(warm.state_dict())
    bound(gp, some, fitting)
    if fresh is not None:
        bound(fresh, some, fitting)
    seen = without_extremes(some) if fitting.robust else some
    noise = Z = None
    if data.noise is not None:
        features = replace(some, X=some.X[:, : encoder.width])
        noise = learn_noise(new_noise_gp(encoder), features, fitting.iterations, on_step)
    report, noise = _search(gp, fresh, seen, noise, fitting.iterations, on_step)
    if fitting.kind in ("sgpr", "svgp", "blocks"):
        Z = inducing_points(gp.kernel, data, fitting)
    start = StartingPoint(gp.state_dict(), asdict(report), Z, None if noise is None else noise.to_dict())
    if fitting.kind != "blocks":
        return start
    size = fitting.approximation.block_rows
    size = block_rows(len(data), free_memory(data.y.device)) if size == "auto" else size
    found = divided(freeze(gp.kernel), lambda rows: data.take(rows).X, len(data), size, fitting.seed)
    return replace(start, heads=found.heads, labels=found.labels.int())


def _search(
    gp: GaussianProcess,
    fresh: GaussianProcess | None,
    seen: Observations,
    noise: LogVariance | None,
    iterations: int,
    on_step: Callable[[], object] | None,
) -> tuple[FitReport, LogVariance | None]:
    """Hyperparameters with the variances as given or, where these are rather estimates, smoothed.

    Variances that differ from row to row for other reasons (counts) scatter, too. What tells them apart is the shape of
    the scatter and how well either explains the targets: an estimate near zero claims far too much of its row.
    """
    first = copy.deepcopy(gp.state_dict())
    if noise is None or noise.degrees is None:
        return find_hyperparameters(gp, seen, iterations, on_step, fresh), noise
    smooth = find_hyperparameters(gp, noise.smoothed(seen), iterations, on_step, fresh)
    ended = copy.deepcopy(gp.state_dict())
    gp.load_state_dict(first)
    try:
        given = find_hyperparameters(gp, seen, iterations, on_step, fresh)
    except InputError:  # an estimate near zero
        given = None
    if given is not None and smooth.log_likelihood + noise.log_odds(seen) <= given.log_likelihood:
        return given, replace(noise, degrees=None)
    gp.load_state_dict(ended)
    return replace(smooth, notes=(noise.note,)), noise


def rows_at(start: StartingPoint, encoder: Encoder, data: Measurements, fitting: Fitting) -> Measurements:
    """The rows that training goes on with: their variances smoothed where the start took them for estimates."""
    noise = log_variance_of(start.log_variance, encoder, fitting.priors)
    return data if noise is None else noise.smoothed(data)


def subset(data: Measurements, fitting: Fitting) -> Observations:
    """At most `fit_rows` inputs of random measurements, float64."""
    return data.in_format(torch.float64).take(drawn(data, fitting, fitting.fit_rows))


def bound(gp: GaussianProcess, some: Measurements, fitting: Fitting) -> None:
    """Bound lengthscales from below where the priors say so, in place."""
    if fitting.priors == "search":
        bound_lengthscales(gp.kernel, len(some))


def process_at(
    start: StartingPoint, encoder: Encoder, design: Design, data: Measurements, fitting: Fitting
) -> GaussianProcess:
    """The process with the hyperparameters of a start."""
    gp = new_gp(encoder, fitting.priors, design)
    if fitting.priors == "search":
        bound(gp, subset(data, fitting), fitting)
    gp.load_state_dict(start.hyperparameters)
    return gp


def svgp_at(start: StartingPoint, gp: GaussianProcess, data: Measurements, encoder: Encoder, fitting: Fitting) -> SVGP:
    """An SVGP model with the inducing points of a start; those that are molecules stay where they are."""
    size = fitting.approximation
    assert start.Z is not None
    model = (StudentSVGP if fitting.robust else SVGP)(gp, start.Z, len(data), getattr(torch, size.precision))
    model.Z.requires_grad_(size.learn_inducing and "smiles" not in encoder.kinds.values())
    return model


class FullTrainee(nn.Module):
    """A step is a run of L-BFGS on the exact likelihood of some rows; the posterior has all.

    The first run is the search that found the start; runs after it go on from there. SGPR keeps these hyperparameters,
    too: where its points cannot explain the target, its own bound makes up for that by more noise and longer
    lengthscales, which costs accuracy in the mean and in the noise (scripts/benchmarks/results/sparse_attempts.md).

    Args:
        start: of a kind other than "svgp".
        gp: with the hyperparameters of the start.
        data: all rows.
        fitting: how.
        saved: file in which blocks that are finished wait for a relaunch; None keeps nothing.
    """

    full_batch = True
    Z: Tensor | None
    heads: Tensor | None
    labels: Tensor | None

    def __init__(
        self,
        start: StartingPoint,
        gp: GaussianProcess,
        data: Measurements,
        fitting: Fitting,
        saved: Path | None = None,
    ) -> None:
        super().__init__()
        self.gp, self.data, self.fitting, self.saved = gp, data, fitting, saved
        for name in ("Z", "heads", "labels"):
            self.register_buffer(name, getattr(start, name))
        self.last = FitReport(**start.report)

    def optimizer(self) -> Runs:
        """A run of L-BFGS, within the bounds of the hyperparameters."""
        return Runs(self.gp, self.run)

    def run(self, number: int, on_step: Callable[[], object] | None = None) -> None:
        """Run number 0, 1, ..."""
        device, iterations = self.gp.likelihood.noise.device, self.fitting.iterations
        self.data = self.data.to(device)
        if number > 0:
            self.last = fit_hyperparameters(self.gp, subset(self.data, self.fitting), iterations)
        for p in self.gp.parameters():  # other workers may have rounded otherwise
            Workers.current().first(p.data)

    @property
    def loss(self) -> Tensor:
        """Minus the log likelihood per row, at the end of the last run."""
        return torch.tensor(-self.last.log_likelihood / self.last.rows, dtype=torch.float64)

    def recipe(self) -> Recipe:
        """What a surrogate keeps of the posterior, by kind."""
        if self.heads is not None:
            return self._blocks()
        if self.Z is not None:
            return sparse_recipe(sgpr_posterior(self.gp, self.Z, self.data))
        size = self.fitting.approximation
        love = LoveOptions(rank=size.rank, seed=self.fitting.seed)
        if self.fitting.kind == "exact":
            fits = factor_that_fits(len(self.data), free_memory(self.data.y.device))
            factor = fits if size.factor == "auto" else size.factor
            if factor != "none":
                return Exact(factor)
            love = replace(love, mean_tolerance=ITERATED)
        data = self.data.take(torch.arange(len(self.data)))
        posterior, report = love_posterior(self.gp, data, love, workers=Workers.current())
        return Love(root_of(posterior).cpu(), posterior.weights.cpu(), report)

    def _blocks(self) -> Blocks:
        """Sums over all blocks, and their factors where they fit into memory."""
        assert self.Z is not None
        assert self.heads is not None
        assert self.labels is not None
        asked = self.fitting.approximation.factor
        precision = "auto" if asked == "none" else asked
        recipe = Blocks(self.Z, self.heads, self.labels, self.Z, self.Z, 0.0, precision)
        rows, workers = recipe.rows(self.gp, self.data), Workers.current()
        keep = recipe.made if workers.size == 1 and rows.bytes <= min(LARGE, free_memory(self.Z.device)) else None
        sums = added(rows, workers, self.saved, keep)
        moved = {name: getattr(self, name).cpu() for name in ("Z", "heads", "labels")}
        return replace(recipe, **moved, A=sums.A.cpu(), c=sums.c.cpu(), log_likelihood=sums.log_likelihood)


class Runs(torch.optim.Optimizer):
    """An optimizer whose step is a whole run: Lightning counts steps of optimizers, and keeps the number of the run.

    Args:
        gp: whose hyperparameters a run moves.
        run: moves them, given the number of the run.
    """

    def __init__(self, gp: GaussianProcess, run: Callable[[int], object]) -> None:
        super().__init__(gp.parameters(), {"number": 0})
        self.run = run

    def step(self, closure: Any = None) -> Any:
        """One run; a closure, as Lightning gives one, does nothing."""
        if closure is not None:
            closure()
        group = self.param_groups[0]
        number = group.get("number", 1)  # an optimizer of an earlier version has gone on from its start
        self.run(number)
        group["number"] = number + 1


def triangle(n: int, itemsize: int) -> int:
    """Bytes of the exact factor, half of n x n numbers, and of the rows of the kernel beside it."""
    return itemsize * n**2 // 2 + 8 * KERNEL_COPIES * ROWS_OF_FACTOR * n


def factor_that_fits(n: int, memory: int) -> Literal["float64", "float32", "none"]:
    """Number format of an exact factor of n rows in so many bytes."""
    if triangle(n, 4) > memory:
        return "none"
    return "float64" if triangle(n, 8) <= memory else "float32"


def recipe_of(trainee: SvgpTrainee | FullTrainee) -> Recipe:
    """What a surrogate keeps of the posterior as it was when the trainee settled, with tensors on the CPU."""
    return trainee.recipe() if isinstance(trainee, FullTrainee) else sparse_recipe(trainee.settled.posterior())


def sparse_recipe(posterior: KernelPosterior) -> Sparse:
    """What a file keeps of a posterior over inducing points."""
    return Sparse(posterior.centers.cpu(), root_of(posterior).cpu(), posterior.weights.cpu())


def root_of(posterior: KernelPosterior) -> Tensor:
    """The root R as a matrix, n x r."""
    return posterior.down.expand(torch.eye(posterior.rank, dtype=posterior.dtype, device=posterior.device))
