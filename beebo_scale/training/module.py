"""`SurrogateModule`: trains any surrogate under a Lightning trainer; its checkpoints are surrogates."""

from __future__ import annotations

import copy
import math
from dataclasses import fields
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import lightning.pytorch as pl
import torch
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR

from ..errors import InputError
from ..posterior import Posterior
from ..screening import Encoder, atomic_write
from ..screening.packing import Packing
from ..surrogates.approximate.svgp import WARM_STEPS
from ..surrogates.fit import check_likelihood
from ..surrogates.predictive import PREDICTIVE
from ..surrogates.surrogate import FILE_FORMAT, FILE_KEY, Surrogate, log_variance_of, new_gp, surrogate_of
from ..surrogates.trainees import FullTrainee, Options, SvgpTrainee, starting_point
from .data import ScreeningDataModule
from .metrics import Metrics
from .store import DATA_KEY, Store

FITTED = ("kind", "priors", "inducing_points", "likelihood")  # settings in which a fit that goes on must agree
JUDGED = ("likelihood",)  # with the checkpoint, and one that is judged


class SurrogateModule(pl.LightningModule):
    """A surrogate in training.

    Args:
        kind: "svgp" trains by minibatches; "sgpr", "exact" and "love" by runs of L-BFGS, one an epoch. "exact" and
            "love" fit hyperparameters to at most `fit_rows` rows, the posterior always uses all.
        priors: of the hyperparameters, "botorch" or "paper".
        inducing_points: of the sparse kinds, at most.
        learn_inducing: move the inducing points of SVGP too (never those that are molecules).
        precision: number format of the work on a minibatch of SVGP, "float64" or "float32".
        lr: step size of Adam (SVGP), falling to zero along a cosine.
        natural_lr: length of the natural-gradient steps (SVGP), in (0, 1].
        iterations: L-BFGS iterations in an epoch (the other kinds).
        fit_rows: rows that the exact likelihood sees.
        start_iterations: L-BFGS iterations on those rows from which the sparse kinds start.
        rank: of LOVE's root, a number or "auto".
        likelihood: "gaussian", or "student-t" (SVGP): outliers among the targets count little, see `fit`.
        seed: of all that is drawn.
    """

    def __init__(
        self,
        kind: Literal["exact", "love", "sgpr", "svgp"] = "svgp",
        priors: Literal["botorch", "paper"] = "botorch",
        inducing_points: int = 512,
        learn_inducing: bool = True,
        precision: Literal["float32", "float64"] = "float64",
        lr: float = 0.03,
        natural_lr: float = 0.1,
        iterations: int = 20,
        fit_rows: int = 3000,
        start_iterations: int = 100,
        rank: int | Literal["auto"] = "auto",
        likelihood: Literal["gaussian", "student-t"] = "gaussian",
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.save_hyperparameters()
        check_likelihood(likelihood, kind, noise_known=False)
        if not 0 < natural_lr <= 1:
            raise InputError(f"model.natural_lr = {natural_lr:g}: give a length above 0, at most 1")
        for name in ("inducing_points", "iterations", "fit_rows"):
            if self.hparams[name] < 1:
                raise InputError(f"model.{name} = {self.hparams[name]}: give a number above 0")
        self.automatic_optimization = False
        self.options = Options(**{field.name: self.hparams[field.name] for field in fields(Options)})
        self.metrics = Metrics()
        self._losses: list[Tensor] = []
        self._surrogate: Surrogate | None = None
        self._posterior: Posterior | None = None

    # --- before training ---------------------------------------------------------------------------------

    @property
    def full_batch(self) -> bool:
        """Whether an epoch is one step on all rows."""
        return self.hparams["kind"] != "svgp"

    @property
    def robust(self) -> bool:
        """Whether outliers among the targets count little."""
        return self.options.robust

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
        path = self._start_path()
        if not path.exists():
            start = starting_point(
                self.hparams["kind"], self._store.encoder, self._store.design, self.data.training, self.options
            )
            atomic_write(path, lambda temporary: torch.save(start, temporary))

    def setup(self, stage: str) -> None:
        """Build what is trained, the same on all processes, before the strategy wraps it."""
        if stage != "fit":
            return
        self.start = torch.load(self._start_path(), weights_only=True)
        store, data = self._store, self.data.training
        gp = new_gp(store.encoder, self.options.priors, store.design)
        gp.load_state_dict(self.start["hyperparameters"])
        if self.hparams["kind"] == "svgp":
            self.trainee: Any = SvgpTrainee(gp, self.start["Z"], data, store.encoder, self.options)
        else:
            self.trainee = FullTrainee(self.hparams["kind"], gp, self.start["Z"], data, store.encoder, self.options)

    @property
    def _store(self) -> Store:
        return self.data.store

    def _start_path(self) -> Path:
        names = ("kind", "priors", "inducing_points", "fit_rows", "start_iterations", "likelihood", "seed")
        text = repr([self._store.identity, *(self.hparams[name] for name in names)])
        return self.data.folder / f"start-{sha256(text.encode()).hexdigest()[:16]}.pt"

    # --- training ----------------------------------------------------------------------------------------

    def configure_optimizers(self) -> Any:
        """The trainee's optimizer; Adam's step size falls along a cosine over the whole fit."""
        if self.full_batch:
            return self.trainee.optimizer()
        steps = max(1, int(self.trainer.estimated_stepping_batches))
        self.trainee.warm = min(WARM_STEPS, steps // 2)
        optimizer = self.trainee.optimizer()
        return [optimizer], [LambdaLR(optimizer, lambda step: 0.5 * (1 + math.cos(math.pi * min(step / steps, 1))))]

    def training_step(self, batch: tuple[Tensor, ...], index: int) -> None:
        """One step of the trainee."""
        loss = self.trainee.step(self.optimizers(), batch, self.global_step, self.manual_backward)
        schedule = self.lr_schedulers()
        if schedule is not None:
            schedule.step()  # type: ignore[union-attr]
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
        store, start = self._store, self.start
        encoder, priors = store.encoder, self.options.priors
        return Surrogate(
            kind=self.hparams["kind"],
            target=store.target,
            encoder=encoder,
            scale=store.scale,
            priors=priors,
            gp=copy.deepcopy(self.trainee.gp).cpu().requires_grad_(True),
            data=self.data.training,
            report=self.trainee.report(self.global_step),
            recipe=self.trainee.recipe(),
            log_variance=log_variance_of(start["log_variance"], encoder, priors),
            reason="asked for",
            design=store.design,
            likelihood=self.options.likelihood,
        )

    def _posterior_here(self) -> Posterior:
        if self._posterior is None:
            self._posterior = self.surrogate.posterior().to(self.device)
        return self._posterior

    # --- judging -----------------------------------------------------------------------------------------

    def on_validation_start(self) -> None:
        """During a fit, the trainee settles first."""
        if hasattr(self, "trainee"):
            self.trainee.settle()
            self._forget()

    def validation_step(self, batch: tuple[Tensor, ...], index: int) -> None:
        """Count a batch of validation rows in."""
        self._judge(batch, "val")

    def test_step(self, batch: tuple[Tensor, ...], index: int) -> None:
        """Count a batch of test rows in."""
        self._judge(batch, "test")

    def predict_step(self, batch: tuple[int, Tensor], index: int) -> tuple[int, Tensor, Tensor]:
        """First row, mean and standard deviation in the target's own units."""
        first, rows = batch
        mean, variance, _ = self._predict(rows)
        return first, *self.surrogate.scale.moments(mean, variance)

    def _judge(self, batch: tuple[Tensor, ...], stage: str) -> None:
        rows, y, *known = batch
        mean, variance, noise = self._predict(rows)
        scale = self.surrogate.scale
        own, _ = scale.moments(mean, variance)
        variance, noise = variance + self.surrogate.batch_variance, known[0] if known else noise
        judge = PREDICTIVE[self.surrogate.likelihood]
        self.metrics.update((own, y), judge(scale.standardise(y), mean, variance, noise))
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
        given = {"likelihood": "gaussian"} | given  # older checkpoints know no other
        for name in names:
            if given[name] != self.hparams[name]:
                raise InputError(
                    f"the checkpoint was trained with model.{name} = {given[name]}, not {self.hparams[name]}; give the "
                    "same, or start anew in another folder"
                )
