"""A fitted surrogate: from a screen's rows to a `Posterior`, and back to the target's own units."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gpytorch.priors import GammaPrior
from torch import Tensor

from .. import archives
from ..errors import InputError
from ..kernels.screen import screen_kernel
from ..kernels.stationary import freeze
from ..posterior import Posterior
from ..progress import track
from ..screening import Encoder, Table, check_folder
from ..screening.packing import Packing
from .approximate.student_t import INFORMATIVE
from .data.observations import Measurements, PackedObservations, measurements_of
from .data.target import Prediction, TargetScale
from .data.tasks_and_batches import Design, batch_variance
from .factors import Blocks, Exact, Love, Recipe, Sparse
from .gaussian_process.gaussian_process import FitReport, GaussianProcess, own_noise
from .gaussian_process.learned_noise import LogVariance
from .gaussian_process.noise import ScaledNoise

if TYPE_CHECKING:
    from numpy.typing import NDArray

FILE_KEY = "beebo_scale_surrogate"  # where a checkpoint, ours or Lightning's, keeps the surrogate
ROBUST = "student-t"
FILE_FORMAT = 3  # 1 knew no packed rows, 2 features only
PREDICTED_AT_ONCE = 2048  # rows predicted at once, fewer ...
CHUNK_NUMBERS = 2**25  # ... where k(rows, centers) would hold more numbers than this: 256 MB in float64
RECIPES: dict[str, Callable[[dict[str, Any]], Recipe]] = {
    "exact": lambda content: (Love if "R" in content else Exact).from_dict(content),
    "blocks": Blocks.from_dict,
    "love": Love.from_dict,
    "sgpr": Sparse.from_dict,
    "svgp": Sparse.from_dict,
}


@dataclass(frozen=True)
class Surrogate:
    """Everything that a fit leaves.

    Attributes:
        kind: "exact", "blocks", "love", "sgpr" or "svgp".
        target: name of the measured column, or the weighted sum of several in words.
        encoder: rows of a table to the inputs of the kernel.
        scale: target to standardised units; the weighted sum of several is in these already.
        priors: one of `kernels.PRIORS`.
        gp: kernel, mean and noise with fitted hyperparameters.
        data: the measured rows, encoded, standardised, replicates merged; columns of the design follow the features.
        report: how the fit went.
        recipe: how the posterior is made from `gp` and `data`.
        log_variance: the learned noise of new points, None where they have the noise of `gp` itself.
        reason: why this kind, where it was chosen automatically.
        design: what a measured row says beside its features.
        likelihood: "gaussian" or "student-t"; noise of the posterior is then that of the same information.
    """

    kind: str
    target: str
    encoder: Encoder
    scale: TargetScale
    priors: str
    gp: GaussianProcess
    data: Measurements
    report: FitReport
    recipe: Recipe = field(default_factory=Exact)
    log_variance: LogVariance | None = None
    reason: str = ""
    design: Design = field(default_factory=Design)
    likelihood: str = "gaussian"

    @cached_property
    def of_rows(self) -> Posterior:
        """The posterior over whole rows of the data, the columns of the design with the features."""
        noise = None if self.log_variance is None else self.log_variance.noise()
        if self.likelihood == ROBUST:
            noise = ScaledNoise(own_noise(self.gp, self.data), INFORMATIVE)
        return self.recipe.posterior(self.gp, self.data, noise)

    @cached_property
    def _posterior(self) -> Posterior:
        return self.design.of_new_points(self.of_rows)

    def posterior(self) -> Posterior:
        """The posterior over encoded inputs, in standardised units of the target.

        Of several targets, that of the weighted sum of the standardised targets; in no particular batch.
        """
        return self._posterior

    @property
    def noise_known(self) -> bool:
        """Whether noise variances of measured rows are what they say; False if they are none or look like estimates."""
        return self.log_variance is not None and self.log_variance.degrees is None

    @property
    def batch_variance(self) -> float:
        """Variance A_b of the shift of a batch, in squared standardised units; 0 without batches."""
        return 0.0 if self.design.batch is None else batch_variance(self.gp)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know of the measurements and of an approximation of them, one line each."""
        found = tuple(column.note for column in self.encoder.constant.values())
        if isinstance(self.recipe, Love):
            solved = self.recipe.note(self.kind == "exact")
            return (*found, solved) if solved else found
        return (*found, *self.recipe.notes) if isinstance(self.recipe, Blocks) else found

    @property
    def lengthscales(self) -> Tensor:
        """Those of a stationary kernel."""
        return freeze(self.gp.kernel).lengthscales

    @property
    def measured(self) -> Tensor:
        """Encoded features of the measured rows, n x d; an input comes once for each target and batch."""
        return self.data.X[:, : self.encoder.width]

    @property
    def measured_rows(self) -> Tensor:
        """`measured` in as few bytes as they are kept in: packed (n x bytes uint8) where the data are, else n x d."""
        if isinstance(self.data, PackedObservations):
            return self.data.rows[:, : Packing.of(self.encoder).size]
        return self.measured

    def predict(self, table: Table, noiseless: bool = False) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and standard deviation of a new measurement of each row, in the target's own units.

        The expectation is over what is believed of f and over the noise (and, with batches, over the shift of a new
        one), taken after the transform is undone. After a Student-t fit the noise is Gaussian with the scale of the
        Student-t: that of a measurement that is no outlier, as those of a Student-t have no mean after a logarithm.

        Args:
            table: rows with the surrogate's features (`read_library` or `read_table`).
            noiseless: of the value without noise instead.

        Returns:
            Two arrays of len(table).
        """
        found = self.predict_encoded(self.encoder.encode(table)).columns()
        return (found["noiseless_mean"], found["noiseless_std"]) if noiseless else (found["mean"], found["std"])

    def predict_encoded(self, X: Tensor) -> Prediction:
        """A measurement, and the value without noise, of encoded rows, p x d."""
        return self.predicted(*_moments(self.posterior(), X))

    def predicted(self, mean: Tensor, variance: Tensor, noise: Tensor) -> Prediction:
        """Own units of what is predicted in standardised ones: mean and variance of f and the variance of the noise."""
        return self.scale.predicted(mean, variance, self._squared_scale(noise) + self.batch_variance)

    def predict_targets(self, X: Tensor) -> dict[str, Prediction]:
        """`predict_encoded` for each of several targets by name."""
        found = {}
        for i, task in enumerate(self.design.tasks):
            mean, variance, noise = _moments(self.design.of_task(self.of_rows, i), X)
            found[task.name] = task.scale.predicted(mean, variance, self._squared_scale(noise) + self.batch_variance)
        return found

    def summary(self) -> dict[str, Any]:
        """What was fitted, in plain types."""
        return {
            "kind": self.kind,
            "target": self.target,
            "features": self.encoder.kinds,
            "transform": self.scale.transform,
            "priors": self.priors,
            "measurements": int(self.data.count.sum()),
            "distinct_inputs": len(self.data),
            "noise_std": self._noise_std(),
            "noise_std_of": self.scale.words,
            "reason": self.reason,
            "likelihood": self.likelihood,
            **self.design.summary(self.gp),
            "fit": asdict(self.report) | {n: list(getattr(self.report, n)) for n in ("limits", "notes")},
            "warning": self.report.warning,
            "notes": list(self.notes),
            **self.recipe.summary(),
        }

    def _noise_std(self) -> float:
        """Root mean square of the noise of a measurement (scale, if robust) at measured inputs, units of g(target)."""
        rows = torch.arange(len(self.data)).split(PREDICTED_AT_ONCE)
        width, noise = self.encoder.width, self.posterior().noise
        total = sum(float(noise(self.data.take(some).X[:, :width]).sum()) for some in rows)
        return float(self._squared_scale(total / len(self.data)) ** 0.5) * self.scale.scale

    def _squared_scale(self, noise: Tensor | float) -> Any:
        """s^2 of the noise, where the posterior has the variance of normal noise that is as informative."""
        return noise / INFORMATIVE if self.likelihood == ROBUST else noise

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the surrogate to one file that `load_surrogate` reads; whole or not at all.

        Raises:
            InputError: the path cannot be written.
        """
        check_folder(path)
        archives.save(path, {FILE_KEY: self.to_dict()})

    def to_dict(self) -> dict[str, Any]:
        """Plain types and tensors: what a file keeps under FILE_KEY."""
        return {
            "format": FILE_FORMAT,
            "kind": self.kind,
            "target": self.target,
            "encoder": self.encoder.to_dict(),
            "scale": self.scale.to_dict(),
            "priors": self.priors,
            "hyperparameters": self.gp.state_dict(),
            "data": self.data.to_dict(),
            "report": asdict(self.report),
            "recipe": self.recipe.to_dict(),
            "reason": self.reason,
            "design": self.design.to_dict(),
            "likelihood": self.likelihood,
            "log_variance": None if self.log_variance is None else self.log_variance.to_dict(),
        }


def new_gp(encoder: Encoder, priors: str, design: Design | None = None) -> GaussianProcess:
    """A Gaussian process for encoded rows (and the columns of a design) with its hyperparameters where they start."""
    design = design or Design()
    kernel = design.kernel(screen_kernel(encoder.kinds, encoder.slices(), priors, design.combine, alone=design.plain))
    return GaussianProcess(kernel, priors, max(1, len(design.tasks)), design.task_column)


def new_noise_gp(encoder: Encoder) -> GaussianProcess:
    """A process for log sigma^2, which may be much noise and little signal where the variances are estimates.

    Its signal has a scale of its own, and priors favour no short lengthscale, by which noise would pass for signal.
    """
    gp = new_gp(encoder, "paper")
    gp.kernel.register_prior("outputscale_prior", GammaPrior(1.0, 1.0), "outputscale")
    gp.kernel.outputscale = 0.5
    return gp


def _moments(posterior: Posterior, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, variance and noise variance in standardised units, in chunks, p x d -> p, p, p."""
    with torch.no_grad():
        part = posterior.parts(X)
        order = torch.arange(len(X), device=X.device) if part is None else part.argsort(stable=True)
        known = len(posterior.points) if part is None else posterior.rank
        chunks = order.split(max(1, min(PREDICTED_AT_ONCE, CHUNK_NUMBERS // max(1, known))))
        groups = (X[some] for some in track(chunks, "predicting"))
        found = [(*posterior.mean_and_variance(rows), posterior.noise(rows)) for rows in groups]
        back = order.argsort()
    mean, variance, noise = (torch.cat(parts)[back] for parts in zip(*found, strict=True))
    return mean, variance, noise


def load_surrogate(path: str | os.PathLike[str]) -> Surrogate:
    """Read a surrogate from a file of `Surrogate.save` or a checkpoint of `beebo-scale fit`.

    Raises:
        InputError: no such file, not a surrogate, damaged, or written by a newer version.
    """
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder; give a file written by Surrogate.save")
    if not path.exists():
        raise InputError(f"{path}: no such model file; give a file written by Surrogate.save")
    refusal = "{path}: not a readable surrogate ({why}); give a file written by Surrogate.save"
    whole = archives.load(path, refusal)
    try:
        content = whole[FILE_KEY]
        if content["format"] <= FILE_FORMAT:
            return surrogate_of(content)
    except InputError:
        raise
    except Exception as error:  # what a foreign file holds has no end
        raise InputError(refusal.format(path=path, why="it holds something else")) from error
    raise InputError(f"{path}: format {content['format']} is newer than this version reads; update beebo_scale")


def surrogate_of(content: dict[str, Any]) -> Surrogate:
    """Inverse of `Surrogate.to_dict`."""
    encoder = Encoder.from_dict(content["encoder"])
    design = Design.from_dict(content["design"]) if "design" in content else Design()
    gp = new_gp(encoder, content["priors"], design)
    gp.load_state_dict(content["hyperparameters"])
    return Surrogate(
        kind=content["kind"],
        target=content["target"],
        encoder=encoder,
        scale=TargetScale(**content["scale"]),
        priors=content["priors"],
        gp=gp,
        data=measurements_of(content["data"]),
        report=FitReport(**content["report"]),
        recipe=RECIPES[content["kind"]](content["recipe"]),
        reason=content["reason"],
        design=design,
        likelihood=content.get("likelihood", "gaussian"),
        log_variance=log_variance_of(content["log_variance"], encoder, content["priors"]),
    )


def log_variance_of(content: dict[str, Any] | None, encoder: Encoder, priors: str) -> LogVariance | None:
    """Inverse of `LogVariance.to_dict`."""
    if content is None:
        return None
    gp = new_noise_gp(encoder) if "degrees" in content else new_gp(encoder, priors)  # as earlier versions had it
    gp.load_state_dict(content["hyperparameters"])
    data, degrees = measurements_of(content["data"]), content.get("degrees")
    return LogVariance(gp, data, content["shift"], content["scale"], degrees)
