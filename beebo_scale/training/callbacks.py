"""What a training job writes: checkpoints and predictions, each whole or not at all."""

from __future__ import annotations

import json
import os
from dataclasses import astuple
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
from lightning.pytorch.callbacks import BasePredictionWriter
from lightning.pytorch.plugins.io import TorchCheckpointIO

from .. import archives
from ..screening.batch import atomic_write, check_output, dropped_path, write_frame, write_text
from ..screening.files.opening import Source
from ..screening.invalid import Fault, all_invalid, listed, told
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
        numbers, found = prediction[0].cpu().numpy(), list(prediction[1].columns().values())
        self.parts.append(np.stack([numbers.astype(np.float64), *found]))

    def on_predict_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Put the parts of all workers together, on the first."""
        mine, rank = np.concatenate(self.parts, axis=1), trainer.global_rank
        data: ScreeningDataModule = trainer.datamodule  # type: ignore[attr-defined]
        assert data.predicted is not None
        faults = json.dumps([astuple(fault) for fault in data.predicted.faults])
        atomic_write(self._part(rank), lambda temporary: np.save(temporary, mine))
        atomic_write(self._part(rank, "json"), lambda temporary: temporary.write_text(faults, encoding="utf-8"))
        trainer.strategy.barrier("predictions")
        if trainer.is_global_zero:
            self._merge(trainer.world_size, data.predicted.source, data.id)

    def _merge(self, workers: int, source: Source, id: str | None) -> None:
        import pandas as pd

        paths = [(self._part(rank), self._part(rank, "json")) for rank in range(workers)]
        row, *found = np.concatenate([np.load(path) for path, _ in paths], axis=1)
        faults = [Fault(*fault) for _, path in paths for fault in json.loads(path.read_text(encoding="utf-8"))]
        for path in (path for pair in paths for path in pair):
            path.unlink()
        faults.sort(key=lambda fault: fault.row)
        if not len(row):
            raise all_invalid(source.name, faults)
        order = np.argsort(row)
        rows = row[order].astype(np.int64)
        columns = {name: values[order] for name, values in zip(Prediction.names(), found, strict=True)}
        frame = pd.DataFrame({"row": rows, **columns})
        if id is not None:
            frame.insert(1, id, source.load([id])[id].iloc[rows - 1 - source.before].to_numpy())
        if faults:
            write_text(dropped_path(self.out), listed(faults))
        write_frame(self.out, frame)
        for note in source.notes:
            print(f"note: {note}")
        if len(row) > 1 and all(np.ptp(values) <= ROUNDING * np.abs(values).max() for values in found):
            print(f"note: all {len(row):,} rows of {source.name} have the same prediction: has a feature an effect?")
        if faults:
            print(told(faults, dropped_path(self.out)))

    def _part(self, rank: int, ending: str = "npy") -> Path:
        return self.out.with_name(f".{self.out.name}.part-{rank}.{ending}")
