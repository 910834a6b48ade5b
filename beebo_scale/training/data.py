"""`ScreeningDataModule`: from a screening file to minibatches of packed rows.

Every dataset here deals its rows out among the workers by itself, so that validation, test and prediction see each row
exactly once for any number of workers, and a training step sees the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import lightning.pytorch as pl
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from ..errors import InputError
from ..screening.encoding import Encoder
from ..screening.files.opening import open_source
from ..screening.packing import pack
from ..screening.table import Table, feature_frame, wanted_kinds
from ..surrogates.data.packed import PackedObservations
from ..workers import Workers
from .splits import TEST, VALIDATION, Split
from .store import Screen, Store, load, prepare

EVALUATED = 2048  # rows predicted at once

Rows = tuple[Tensor, ...]


class ScreeningDataModule(pl.LightningDataModule):
    """A measured screen, split, encoded once and dealt out in minibatches.

    Args:
        file: CSV, TSV (also .gz, .xz), Excel or Parquet; for `predict`, the rows to predict.
        target: measured column; rows without a value are left out. `predict` needs none.
        features: column -> kind, or a list of columns (kinds are then inferred), or None for every other column.
            `predict` takes those of the checkpoint.
        id: column that names the rows.
        noise_variance: column with the known variance of each target.
        transform: of the target: "auto", "none" or "sqrt".
        split_by: "random", "group", "scaffold" or "column"; see `Split`.
        split_column: that holds the groups, or the words train, validation and test.
        validation: share of the rows that choose the checkpoint.
        test: share of the rows that judge it.
        batch_size: rows of a training step, those of all workers together.
        seed: of the split and of the order of the rows.
        batch: column with the batch (plate, day) of each row, see `read_table`; held-out rows are judged as rows of a
            new batch.
        drop_invalid: leave out rows with a feature that cannot be read (the most frequent length of sequences is the
            right one), and list them in the cache; otherwise the file is refused.
        cache: folder for the encoded rows; None is `cache` in the trainer's root folder.
    """

    def __init__(
        self,
        file: str,
        target: str | None = None,
        features: dict[str, str | None] | list[str] | None = None,
        id: str | None = None,
        noise_variance: str | None = None,
        transform: Literal["auto", "none", "sqrt"] = "auto",
        split_by: Literal["random", "group", "scaffold", "column"] = "random",
        split_column: str | None = None,
        validation: float = 0.1,
        test: float = 0.1,
        batch_size: int = 1024,
        seed: int = 0,
        drop_invalid: bool = False,
        batch: str | None = None,
        cache: str | None = None,
    ) -> None:
        super().__init__()
        self.file, self.id, self.batch_size, self.seed, self.cache = file, id, batch_size, seed, cache
        self._loaded = ""
        split = Split(split_by, split_column, validation, test, seed)
        self._screen = None
        if target is not None:
            options = (noise_variance, transform, split, drop_invalid, batch)
            self._screen = Screen(file, target, features, id, *options)

    @property
    def folder(self) -> Path:
        """Where encoded rows are kept."""
        assert self.trainer is not None
        return Path(self.cache or Path(self.trainer.default_root_dir) / "cache")

    @property
    def screen(self) -> Screen:
        """What is read, and how, for the likelihood of the module.

        Raises:
            InputError: no target was named, or known noise does not go with the likelihood.
        """
        if self._screen is None:
            raise InputError(f"{self.file}: name the measured column by data.target")
        module: Any = None if self.trainer is None else self.trainer.lightning_module
        if module is None or not module.robust:
            return self._screen
        if self._screen.noise_variance is not None:
            raise InputError("model.likelihood student-t learns the noise; leave data.noise_variance out")
        return replace(self._screen, robust=True)

    def prepare_data(self) -> None:
        """Encode the file, on the first process of each machine."""
        assert self.trainer is not None
        if self.trainer.state.fn != "predict":
            prepare(self.screen, self.folder)

    def setup(self, stage: str) -> None:
        """Map the encoded rows and merge the replicates of the training part."""
        if stage == "predict":
            return
        if self._loaded != self.screen.digest:
            self.store: Store = load(self.screen, self.folder)
            self.training: PackedObservations = self.store.training()
            self._loaded = self.screen.digest

    def train_dataloader(self) -> DataLoader[Rows]:
        """Minibatches of merged training rows, or one empty batch where the module takes all rows at once."""
        trainer = self.trainer
        assert trainer is not None
        if trainer.lightning_module.full_batch:
            return _loader(_Once())
        workers = Workers(trainer.global_rank, trainer.world_size)
        self._check_batch(len(self.training), workers.size)
        return _loader(Minibatches(self.training, self.batch_size, self.seed, workers, lambda: trainer.current_epoch))

    def val_dataloader(self) -> DataLoader[Rows]:
        """Each validation row once."""
        return self._judged(VALIDATION, "validation")

    def test_dataloader(self) -> DataLoader[Rows]:
        """Each test row once."""
        return self._judged(TEST, "test")

    def predict_dataloader(self) -> DataLoader[Any]:
        """The rows of the file piece by piece, with the columns and kinds of the module's surrogate."""
        trainer = self.trainer
        assert trainer is not None
        workers = Workers(trainer.global_rank, trainer.world_size)
        module: Any = trainer.lightning_module
        return _loader(FileRows(self.file, module.surrogate.encoder, workers))

    def _judged(self, part: int, name: str) -> DataLoader[Rows]:
        trainer = self.trainer
        assert trainer is not None
        rows = self.store.members(part)
        if len(rows) < trainer.world_size:
            raise InputError(
                f"{self.file}: {len(rows)} {name} rows for {trainer.world_size} processes; raise data.{name}, or start "
                "fewer processes"
            )
        return _loader(Judged(self.store, rows[trainer.global_rank :: trainer.world_size]))

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


class Minibatches(IterableDataset[Rows]):
    """This worker's share of each minibatch: packed rows, y, count, scatter and (where known) noise.

    The order depends on the seed and the epoch alone. A last, smaller minibatch is left out.

    Args:
        data: n merged observations.
        size: rows in a minibatch, a multiple of the number of workers.
        seed: of the order.
        workers: this process among its fellows.
        epoch: says the epoch.
    """

    def __init__(
        self, data: PackedObservations, size: int, seed: int, workers: Workers, epoch: Callable[[], int]
    ) -> None:
        self.data, self.size, self.seed, self.workers, self.epoch = data, size, seed, workers, epoch

    def __len__(self) -> int:
        return len(self.data) // self.size

    def __iter__(self) -> Iterator[Rows]:
        generator = torch.Generator().manual_seed((self.seed << 20) + self.epoch())
        order = torch.randperm(len(self.data), generator=generator)
        share, data = self.size // self.workers.size, self.data
        for start in range(0, len(self) * self.size, self.size):
            first = start + self.workers.rank * share
            rows = order[first : first + share]
            known = () if data.noise is None else (data.noise[rows],)
            yield data.rows[rows], data.y[rows], data.count[rows], data.scatter[rows], *known


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


class FileRows(IterableDataset[tuple[int, Tensor]]):
    """The rows of a file in pieces: number of the first row (0-based) and packed rows.

    Every worker reads the file and encodes its own pieces only.

    Args:
        file: CSV, TSV (also .gz, .xz) or Parquet.
        encoder: of the columns.
        workers: this process among its fellows.
    """

    def __init__(self, file: str, encoder: Encoder, workers: Workers) -> None:
        self.file, self.encoder, self.workers = file, encoder, workers

    def __iter__(self) -> Iterator[tuple[int, Tensor]]:
        source = open_source(self.file)
        kinds = wanted_kinds(source, self.encoder.kinds, {})
        start = 0
        for number, raw in enumerate(source.stream(list(kinds), None)):
            if number % self.workers.size == self.workers.rank and len(raw):
                numbers = torch.arange(start + 1, start + len(raw) + 1).numpy()
                frame, found = feature_frame(source, raw, kinds, None, numbers)
                packed = torch.from_numpy(pack(self.encoder, Table(frame, found, None, source.name), numbers))
                for offset in range(0, len(raw), EVALUATED):
                    yield start + offset, packed[offset : offset + EVALUATED]
            start += len(raw)
        if start == 0:
            raise InputError(f"{self.file} has a header but no rows; there is nothing to predict")


class _Once(IterableDataset[Rows]):
    """One empty batch."""

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[Rows]:
        yield ()


def _loader(dataset: Any) -> DataLoader[Any]:
    """The dataset as it is: it makes its own batches, in this process."""
    return DataLoader(dataset, batch_size=None, num_workers=0)
