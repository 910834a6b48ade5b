"""What a training job writes: checkpoints and predictions, each whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
from lightning.pytorch.callbacks import BasePredictionWriter
from lightning.pytorch.plugins.io import TorchCheckpointIO

from .. import archives
from ..screening.batch import atomic_write, check_output, write_frame
from ..screening.files.opening import open_source
from ..surrogates.approximate.judged import judged
from ..surrogates.data.target import Prediction
from ..surrogates.surrogate import FILE_KEY, surrogate_of
from .data import ScreeningDataModule
from .store import load_checkpoint

ROUNDING = 1e-9  # of their size: predictions that differ by less are the same


class AtomicCheckpointIO(TorchCheckpointIO):
    """Checkpoints written under another name, flushed to the disk, then renamed: no kill leaves half of one."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | os.PathLike[str], storage_options: Any = None
    ) -> None:
        """Write a checkpoint.

        Raises:
            InputError: the system refuses to write there.
        """
        folder, name = Path(path).parent, Path(path).name
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob(f".????????.{name}"):  # by a kill; only the first process of a job writes here
            left.unlink()
        archives.save(path, checkpoint)

    def load_checkpoint(self, path: str | os.PathLike[str], *args: Any, **options: Any) -> dict[str, Any]:
        """Read a checkpoint after its sums were checked, onto the CPU; of a saved surrogate, what Lightning asks for.

        Raises:
            InputError: a damaged file, or one of another kind.
        """
        content = load_checkpoint(path)
        return {"state_dict": {}, "pytorch-lightning_version": pl.__version__} | content


class GainError(pl.Callback):
    """When a fit has ended: how wrong the information gain of the best checkpoint is, put into the checkpoint."""

    def on_fit_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Measure it once, on the first process."""
        best: Any = trainer.checkpoint_callback
        if not trainer.is_global_zero or best is None or not Path(best.best_model_path).is_file():
            return
        checkpoint = load_checkpoint(best.best_model_path)
        checkpoint[FILE_KEY] = judged(surrogate_of(checkpoint[FILE_KEY])).to_dict()
        AtomicCheckpointIO().save_checkpoint(checkpoint, best.best_model_path)


class PredictionWriter(BasePredictionWriter):
    """One file with row, id (if named) and the `Prediction` of every row, in the order of the file.

    Every worker keeps what it predicted (40 bytes a row) and leaves it beside the output; the first one puts it
    together.

    Args:
        out: .csv, .csv.gz or .parquet.
    """

    def __init__(self, out: str) -> None:
        super().__init__("batch")
        self.out = check_output(out)
        self.parts = [np.empty((1 + len(Prediction.names()), 0))]  # rows, then what is predicted

    def write_on_batch_end(self, trainer: pl.Trainer, module: pl.LightningModule, prediction: Any, *rest: Any) -> None:
        """Keep the predictions of a batch."""
        first, found = prediction[0], list(prediction[1].columns().values())
        self.parts.append(np.stack([np.arange(first, first + len(found[0]), dtype=np.float64), *found]))

    def on_predict_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Put the parts of all workers together, on the first."""
        mine = np.concatenate(self.parts, axis=1)
        atomic_write(self._part(trainer.global_rank), lambda temporary: np.save(temporary, mine))
        trainer.strategy.barrier("predictions")
        if trainer.is_global_zero:
            data: ScreeningDataModule = trainer.datamodule  # type: ignore[attr-defined]
            self._merge(trainer.world_size, data.file, data.id)

    def _merge(self, workers: int, file: str, id: str | None) -> None:
        import pandas as pd

        paths = [self._part(rank) for rank in range(workers)]
        row, *found = np.concatenate([np.load(path) for path in paths], axis=1)
        for path in paths:
            path.unlink()
        order = np.argsort(row)
        columns = {name: values[order] for name, values in zip(Prediction.names(), found, strict=True)}
        frame = pd.DataFrame({"row": row[order].astype(np.int64) + 1, **columns})
        if id is not None:
            source = open_source(file)
            frame.insert(1, id, source.load([source.require(id, "id")])[id].to_numpy())
        write_frame(self.out, frame)
        if len(row) > 1 and all(np.ptp(values) <= ROUNDING * np.abs(values).max() for values in found):
            print(f"note: all {len(row):,} rows of {file} have the same prediction: has a feature an effect?")

    def _part(self, rank: int) -> Path:
        return self.out.with_name(f".{self.out.name}.part-{rank}.npy")
