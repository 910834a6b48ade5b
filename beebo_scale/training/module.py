"""`SurrogateModule`: trains any surrogate under a Lightning trainer; its checkpoints are surrogates."""

from __future__ import annotations

import copy
import inspect
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import lightning.pytorch as pl
import torch
from torch import Tensor

from .. import archives
from ..errors import InputError
from ..posterior import Posterior
from ..screening import Encoder
from ..screening.packing import Packing
from ..specs import Fitting, make, settings_of
from ..specs.setting import plain, takes
from ..surrogates.approximate.points import SPARSE_POINTS
from ..surrogates.data.observations import PackedObservations
from ..surrogates.data.target import Prediction
from ..surrogates.predictive import PREDICTIVE
from ..surrogates.surrogate import FILE_FORMAT, FILE_KEY, Surrogate, log_variance_of, surrogate_of
from ..surrogates.trainees import (
    FullTrainee,
    StartingPoint,
    SvgpTrainee,
    process_at,
    recipe_of,
    rows_at,
    starting_point,
    svgp_at,
)
from .data import ScreeningDataModule
from .metrics import Metrics
from .store import DAMAGED, DATA_KEY, Store

START = 4  # format of the files of starting points
SETTLING = 3  # passes over all rows, each time that a robust fit is judged: more gain less than they cost
# Settings in which a fit that goes on must agree with the checkpoint ...
FITTED = ("kind", "priors", "inducing_points", "block_rows", "inducing_choice", "likelihood")
JUDGED = ("likelihood",)  # ... and one that is judged
EARLIER = {"likelihood": "gaussian", "block_rows": "auto", "inducing_choice": "auto"}  # what earlier versions did

WITHOUT = {
    "transform": "the data module standardises the target: data.transform",
    "epochs": "the trainer counts them: trainer.max_epochs",
    "combine": "a training job takes the product of the features' kernels; for combinations take suggest or fit",
}
GONE = {"start_iterations": "the search that training starts from has model.iterations, too; leave it out"}
DEFAULT_KIND = "svgp"
NUMBER = int | Literal["auto"]
TYPES = {
    "kind": Literal["exact", "blocks", "love", "sgpr", "svgp"],  # a job names its kind
    "rank": NUMBER,
    "inducing_points": NUMBER,
    "block_rows": NUMBER,
}


@takes((each for each in settings_of(Fitting) if each.name not in WITHOUT), TYPES, {"kind": DEFAULT_KIND})
class SurrogateModule(pl.LightningModule):
    """A surrogate in training: "svgp" by minibatches; the others by runs of L-BFGS, one an epoch."""

    def __init__(self, **settings: Any) -> None:
        pl.LightningModule.__init__(self)  # super() would let Lightning look for arguments that are not named here
        known = inspect.signature(type(self)).parameters
        for name in settings.keys() - known.keys():
            raise InputError(f"model.{name} is not a setting; choose among {', '.join(known)}")
        self.fitting = make(Fitting, {"kind": DEFAULT_KIND} | settings)
        if self.fitting.kind == "auto":
            raise InputError("model.kind auto: a training job names its kind; choose exact, blocks, love, sgpr or svgp")
        kept = plain(self.fitting)
        self.save_hyperparameters({name: kept[name] for name in known})
        self.automatic_optimization = False
        self.metrics = Metrics()
        self._losses: list[Tensor] = []
        self._surrogate: Surrogate | None = None
        self._posterior: Posterior | None = None

    # --- before training ---------------------------------------------------------------------------------

    @property
    def full_batch(self) -> bool:
        """Whether an epoch is one step on all rows."""
        return self.fitting.kind != "svgp"

    @property
    def data(self) -> ScreeningDataModule:
        """The data module.

        Raises:
            InputError: the trainer was given another one, or none.
        """
        found = self.trainer.datamodule  # type: ignore[attr-defined]
        if not isinstance(found, ScreeningDataModule):
            raise InputError("a SurrogateModule is trained with a ScreeningDataModule: pass it as datamodule")
        return found

    def prepare_data(self) -> None:
        """Find the starting point, on the first process of each machine, unless an earlier run left it there."""
        if self.trainer.state.fn != "fit":
            return
        self.data.setup("fit")
        path, store = self._start_path(), self._store
        if not path.exists():
            start = starting_point(store.encoder, store.design, self.data.training, self.fitting)
            archives.save(path, vars(start))

    def setup(self, stage: str) -> None:
        """Build what is trained, the same on all processes, before the strategy wraps it."""
        if stage != "fit":
            return
        self.start = StartingPoint(**archives.load(self._start_path(), DAMAGED))
        store, how = self._store, self.fitting
        self.rows = data = rows_at(self.start, store.encoder, self.data.training, how)
        gp = process_at(self.start, store.encoder, store.design, data, how)
        if self.full_batch:
            saved = self._start_path().with_suffix(".sums.pt")
            self.trainee: Any = FullTrainee(self.start, gp, data, how, saved)
        else:
            model, size = svgp_at(self.start, gp, data, store.encoder, how), how.approximation
            self.trainee = SvgpTrainee(model, data, size.lr, size.natural_lr)
        self.train()  # Lightning warns of any part that is not in training mode

    @property
    def _store(self) -> Store:
        return self.data.store

    def _start_path(self) -> Path:
        names = (*FITTED, "fit_rows", "iterations", "seed")
        text = repr([START, self._store.identity, *(self.hparams[name] for name in names)])
        return self.data.folder / f"start-{sha256(text.encode()).hexdigest()[:16]}.pt"

    # --- training ----------------------------------------------------------------------------------------

    def configure_optimizers(self) -> Any:
        """The trainee's optimizer; Adam's step size falls along a cosine over the whole fit."""
        if self.full_batch:
            return self.trainee.optimizer()
        optimizer, schedule = self.trainee.optimizers(
            int(self.trainer.estimated_stepping_batches), int(self.trainer.num_training_batches)
        )
        return [optimizer], [schedule]

    def training_step(self, batch: PackedObservations | tuple[()], index: int) -> None:
        """One step of the trainee: a minibatch, or a run on all rows."""
        optimizer: Any = self.optimizers()
        if isinstance(batch, PackedObservations):
            rows = batch.in_format(self.trainee.model.dtype).unpacked()
            loss = self.trainee.step(optimizer, rows, self.global_step, self.manual_backward)
            schedule: Any = self.lr_schedulers()
            schedule.step()
        else:
            optimizer.step()
            loss = self.trainee.loss
        self._forget()
        self._losses.append(loss)
        if self.full_batch and self.trainee.last.converged:
            self.trainer.should_stop = True

    def on_train_epoch_end(self) -> None:
        """Log the mean loss of the epoch: to log every step would cost more than Lightning does otherwise."""
        self.log("train_loss", torch.stack(self._losses).mean(), prog_bar=True, sync_dist=True)
        self._losses.clear()

    def _forget(self) -> None:
        self._surrogate = self._posterior = None

    # --- what came of it ---------------------------------------------------------------------------------

    @property
    def surrogate(self) -> Surrogate:
        """The surrogate as it stands, or that of the checkpoint where nothing is trained.

        Raises:
            InputError: there is neither.
        """
        if self._surrogate is None:
            if not hasattr(self, "trainee"):
                raise InputError("there is no surrogate yet: give the checkpoint of a fit by --ckpt_path")
            self._surrogate = self._build()
        return self._surrogate

    def _build(self) -> Surrogate:
        store, how, trainee = self._store, self.fitting, self.trainee
        return Surrogate(
            kind=how.kind,
            target=store.target,
            encoder=store.encoder,
            scale=store.scale,
            priors=how.priors,
            gp=copy.deepcopy(trainee.gp).cpu().requires_grad_(True),
            data=self.rows,
            report=replace(
                trainee.last if self.full_batch else trainee.report(self.global_step), notes=self.start.report["notes"]
            ),
            recipe=recipe_of(trainee),
            log_variance=log_variance_of(self.start.log_variance, store.encoder, how.priors),
            reason="asked for",
            design=store.design,
            likelihood=how.likelihood,
        )

    def _posterior_here(self) -> Posterior:
        if self._posterior is None:
            self._posterior = self.surrogate.posterior().to(self.device)
        return self._posterior

    # --- judging -----------------------------------------------------------------------------------------

    def on_validation_start(self) -> None:
        """During a fit, the trainee settles first."""
        if hasattr(self, "trainee"):
            if not self.full_batch:
                self.trainee.settle(SETTLING)
            self._forget()

    def validation_step(self, batch: tuple[Tensor, ...], index: int) -> None:
        """Count a batch of validation rows in."""
        self._judge(batch, "val")

    def test_step(self, batch: tuple[Tensor, ...], index: int) -> None:
        """Count a batch of test rows in."""
        self._judge(batch, "test")

    def predict_step(self, batch: tuple[Tensor, Tensor], index: int) -> tuple[Tensor, Prediction]:
        """Numbers of the rows, and what is predicted in the target's own units."""
        numbers, rows = batch
        return numbers, self.surrogate.predicted(*self._predict(rows))

    def _judge(self, batch: tuple[Tensor, ...], stage: str) -> None:
        rows, y, *known = batch
        mean, variance, noise = self._predict(rows)
        noise = known[0] if known and self.surrogate.noise_known else noise
        own = self.surrogate.predicted(mean, variance, noise).mean
        judge, z = PREDICTIVE[self.surrogate.likelihood], self.surrogate.scale.standardise(y)
        self.metrics.update((own, y), judge(z, mean, variance + self.surrogate.batch_variance, noise))
        for name, metric in self.metrics.by_name.items():
            self.log(f"{stage}_{name}", metric, on_step=False, on_epoch=True, prog_bar=name in ("rmse", "nlpd"))

    def _predict(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, variance and noise variance in standardised units."""
        posterior = self._posterior_here()
        X = Packing.of(self.surrogate.encoder).unpack(rows)
        mean, variance = posterior.mean_and_variance(X)
        return mean, variance, posterior.noise(X)

    # --- checkpoints -------------------------------------------------------------------------------------

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """A checkpoint holds the whole surrogate, so that `load_surrogate` needs nothing else."""
        checkpoint[FILE_KEY] = self.surrogate.to_dict()
        checkpoint[DATA_KEY] = self._store.identity

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuse what does not go with the data.

        Raises:
            InputError: no surrogate in it, one of a newer version, one of other rows, or of other settings.
        """
        content = checkpoint.get(FILE_KEY)
        if content is None:
            raise InputError("the checkpoint holds no surrogate; give one that beebo-scale fit wrote")
        if content["format"] > FILE_FORMAT:
            raise InputError(
                f"the checkpoint has format {content['format']}, newer than this version reads; update beebo_scale"
            )
        stage = self.trainer.state.fn
        if stage != "predict":
            self._check_same_settings(checkpoint["hyper_parameters"], FITTED if stage == "fit" else JUDGED)
            self._check_same_rows(content, checkpoint[DATA_KEY])
        if stage != "fit":
            self._surrogate = surrogate_of(content)
        self.strict_loading = stage == "fit"  # elsewhere nothing is trained, so there is nothing to load into

    def _check_same_rows(self, content: dict[str, Any], identity: str) -> None:
        store = self._store
        was = Encoder.from_dict(content["encoder"])
        if was.kinds != store.encoder.kinds or content["target"] != store.target:
            differs = f"it predicts {content['target']} from {', '.join(was.kinds)}"
        elif identity != store.identity:
            differs = "the rows, the split or the seed differ"
        else:
            return
        raise InputError(
            f"the checkpoint was trained on other data than {store.source} ({differs}); give the same file and split, "
            "or start anew in another folder"
        )

    def _check_same_settings(self, given: dict[str, Any], names: tuple[str, ...]) -> None:
        if "block_rows" not in given and given["inducing_points"] == SPARSE_POINTS:
            given = given | {"inducing_points": "auto"}  # the default of earlier versions in numbers
        given = EARLIER | given
        for name in names:
            if given[name] != self.hparams[name]:
                raise InputError(
                    f"the checkpoint was trained with model.{name} = {given[name]}, not {self.hparams[name]}; give the "
                    "same, or start anew in another folder"
                )
