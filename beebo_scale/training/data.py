"""`ScreeningDataModule`: from a screening file to minibatches of packed rows.

Every dataset here deals its rows out among the workers by itself, so that validation, test and prediction see each row
exactly once for any number of workers, and a training step sees the same rows.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import lightning.pytorch as pl
import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from ..errors import InputError
from ..screening.encoding import Encoder
from ..screening.files.opening import open_source
from ..screening.invalid import Fault, find_faults
from ..screening.packing import pack
from ..screening.table import Table, feature_frame, wanted_kinds
from ..specs import Columns, Fitting, make, settings_of
from ..specs.setting import takes
from ..surrogates.approximate.svgp import minibatches
from ..surrogates.data.observations import PackedObservations
from ..workers import Workers
from .splits import TEST, VALIDATION, Split
from .store import Screen, Store, encode, load

EVALUATED = 2048  # rows predicted at once

Rows = tuple[Tensor, ...]


WITHOUT = {"require": "a training job learns one target"}
TRANSFORM = [each for each in settings_of(Fitting) if each.name == "transform"]  # the target is standardised here
TYPES = {
    "target": str | None,
    "features": dict[str, str | None] | list[str] | None,
    "units": dict[str, str] | None,
    "transform": Literal["auto", "none", "sqrt", "log", "rank", "held-out"],
}


@takes([*(each for each in settings_of(Columns) if each.name not in WITHOUT), *TRANSFORM], TYPES)
class ScreeningDataModule(pl.LightningDataModule):
    """A measured screen, split, encoded once and dealt out in minibatches.

    `predict` needs no target and takes the features of the checkpoint; held-out rows are judged as rows of a new batch.

    Args:
        file: CSV, TSV (also .gz, .xz), Excel or Parquet; for `predict`, the rows to predict.
        split_by: "random", "group", "scaffold" or "column"; see `Split`.
        split_column: that holds the groups, or the words train, validation and test.
        validation: share of the rows that choose the checkpoint.
        test: share of the rows that judge it.
        batch_size: rows of a training step, those of all workers together.
        seed: of the split and of the order of the rows.
        cache: folder for the encoded rows; None is `cache` in the trainer's root folder.
    """

    def __init__(
        self,
        file: str,
        split_by: Literal["random", "group", "scaffold", "column"] = "random",
        split_column: str | None = None,
        validation: float = 0.1,
        test: float = 0.1,
        batch_size: int = 1024,
        seed: int = 0,
        cache: str | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()
        known = inspect.signature(type(self)).parameters
        for name in settings.keys() - known.keys():
            raise InputError(f"data.{name} is not a setting; choose among {', '.join(known)}")
        columns, transform = make(Columns, settings), make(Fitting, {"transform": settings.get("transform")}).transform
        self.file, self.id, self.batch_size, self.seed, self.cache = file, columns.id, batch_size, seed, cache
        self.drop_invalid = columns.drop_invalid
        self.predicted: FileRows | None = None
        self._loaded = ""
        self._screen = None
        if columns.several:
            raise InputError("data.target: a training job learns one target; several are learned by beebo_scale.fit")
        if columns.target is not None:
            split = Split(split_by, split_column, validation, test, seed)
            self._screen = Screen(file, str(columns.target), columns, transform, split)

    @property
    def folder(self) -> Path:
        """Where encoded rows are kept."""
        return Path(self.cache or Path(self._job.default_root_dir) / "cache")

    @property
    def _job(self) -> pl.Trainer:
        assert self.trainer is not None
        return self.trainer

    @property
    def _workers(self) -> Workers:
        return Workers(self._job.global_rank, self._job.world_size)

    @property
    def screen(self) -> Screen:
        """What is read, and how, for the likelihood of the module.

        Raises:
            InputError: no target was named, or known noise does not go with the likelihood.
        """
        if self._screen is None:
            raise InputError(f"{self.file}: name the measured column by data.target")
        module: Any = None if self.trainer is None else self.trainer.lightning_module
        if module is None or not module.fitting.robust:
            return self._screen
        if self._screen.columns.noise_variance is not None:
            raise InputError("model.likelihood student-t learns the noise; leave data.noise_variance out")
        return replace(self._screen, robust=True)

    def prepare_data(self) -> None:
        """Encode the file, on the first process of each machine."""
        if self._job.state.fn != "predict":
            encode(self.screen, self.folder)

    def setup(self, stage: str) -> None:
        """Map the encoded rows and merge the replicates of the training part."""
        if stage == "predict":
            return
        if self._loaded != self.screen.digest:
            self.store: Store = load(self.screen, self.folder)
            self.training: PackedObservations = self.store.training()
            self._loaded = self.screen.digest

    def train_dataloader(self) -> DataLoader[Any]:
        """The module's training rows in minibatches, or one empty batch where the module takes all rows at once."""
        trainer, workers = self._job, self._workers
        module: Any = trainer.lightning_module
        if module.full_batch:
            return _loader(_FullBatch())
        self._check_batch(len(self.training), workers.size)
        return _loader(Minibatches(module.rows, self.batch_size, self.seed, workers, lambda: trainer.current_epoch))

    def val_dataloader(self) -> DataLoader[Rows]:
        """Each validation row once."""
        return self._judged(VALIDATION, "validation")

    def test_dataloader(self) -> DataLoader[Rows]:
        """Each test row once."""
        return self._judged(TEST, "test")

    def predict_dataloader(self) -> DataLoader[Any]:
        """The rows of the file piece by piece, with the columns and kinds of the module's surrogate."""
        module: Any = self._job.lightning_module
        self.predicted = FileRows(self.file, module.surrogate.encoder, self._workers, self.id, self.drop_invalid)
        return _loader(self.predicted)

    def _judged(self, part: int, name: str) -> DataLoader[Rows]:
        rows, workers = self.store.members(part), self._workers
        if len(rows) < workers.size:
            raise InputError(
                f"{self.file}: {len(rows)} {name} rows for {workers.size} processes; raise data.{name}, or start "
                "fewer processes"
            )
        return _loader(Judged(self.store, rows[workers.rank :: workers.size]))

    def _check_batch(self, n: int, workers: int) -> None:
        if not 1 <= self.batch_size <= n:
            raise InputError(
                f"{self.file}: data.batch_size = {self.batch_size}, but there are {n} distinct training rows; give a "
                f"size from 1 to {n}"
            )
        if self.batch_size % workers:
            raise InputError(
                f"data.batch_size = {self.batch_size} does not divide among {workers} processes; give a multiple"
            )


class Minibatches(IterableDataset[PackedObservations]):
    """This worker's share of each minibatch (`svgp.minibatches`), still packed.

    Args:
        data: n merged observations.
        size: rows in a minibatch, a multiple of the number of workers.
        seed: of the order.
        workers: rank of this process and number of all.
        epoch: says the epoch.
    """

    def __init__(
        self, data: PackedObservations, size: int, seed: int, workers: Workers, epoch: Callable[[], int]
    ) -> None:
        self.data, self.size, self.seed, self.workers, self.epoch = data, size, seed, workers, epoch

    def __len__(self) -> int:
        return len(self.data) // self.size

    def __iter__(self) -> Iterator[PackedObservations]:
        share = self.size // self.workers.size
        first = self.workers.rank * share
        for rows in minibatches(len(self.data), self.size, self.seed, self.epoch()):
            yield self.data.packed(rows[first : first + share])


class Judged(IterableDataset[Rows]):
    """Some rows of a store, each once: packed rows, y in own units and (where known) noise.

    Args:
        store: the screen.
        rows: which of its rows.
    """

    def __init__(self, store: Store, rows: Tensor) -> None:
        self.store, self.rows = store, rows

    def __len__(self) -> int:
        return -(-len(self.rows) // EVALUATED)

    def __iter__(self) -> Iterator[Rows]:
        store = self.store
        for rows in self.rows.split(EVALUATED):
            known = () if store.noise is None else (store.noise[rows],)
            yield store.rows[rows], store.y[rows], *known


class FileRows(IterableDataset[Rows]):
    """The rows of a file in pieces: their numbers below the header (from 1) and packed rows.

    Every worker reads the file and encodes its own pieces only.

    Args:
        file: CSV, TSV (also .gz, .xz) or Parquet.
        encoder: of the columns.
        workers: rank of this process and number of all.
        id: column that names the rows.
        drop_invalid: leave out rows that cannot be read.

    Attributes:
        source: the open file.
        faults: rows that this worker left out.
    """

    def __init__(
        self, file: str, encoder: Encoder, workers: Workers, id: str | None = None, drop_invalid: bool = False
    ) -> None:
        self.file, self.encoder, self.workers, self.drop_invalid = file, encoder, workers, drop_invalid
        self.source = open_source(file, [*encoder.kinds, *([] if id is None else [id])])
        if id is not None:
            self.source.require(id, "id")
        self.faults: list[Fault] = []

    def __iter__(self) -> Iterator[Rows]:
        source = self.source
        kinds = wanted_kinds(source, self.encoder.kinds, {})
        start = 0
        for number, raw in enumerate(source.stream(list(kinds), None)):
            count = len(raw)
            if number % self.workers.size == self.workers.rank and count:
                numbers = source.numbers(start + np.arange(len(raw)))
                if self.drop_invalid:
                    bad, faults = find_faults(raw, self.encoder.kinds, source.name, numbers, self.encoder.lengths)
                    self.faults += faults
                    raw, numbers = raw[~bad].reset_index(drop=True), numbers[~bad]
                frame, found, units = feature_frame(source, raw, kinds, None, numbers)
                table = Table(frame, found, None, source.name, units=units)
                packed = torch.from_numpy(pack(self.encoder, table, numbers))
                for part in torch.arange(len(raw)).split(EVALUATED):
                    yield torch.from_numpy(numbers)[part], packed[part]
            start += count
        if start == 0:
            raise InputError(f"{self.file} has a header but no rows; there is nothing to predict")


class _FullBatch(IterableDataset[tuple[()]]):
    """One empty batch: the module takes all rows at once."""

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[tuple[()]]:
        yield ()


def _loader(dataset: Any) -> DataLoader[Any]:
    """The dataset as it is: it makes its own batches, in this process."""
    return DataLoader(dataset, batch_size=None, num_workers=0)
