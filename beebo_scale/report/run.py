"""What a run folder holds: learning curves, a surrogate, held-out rows, and a batch if one was proposed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from gpytorch.kernels import Kernel

from ..errors import InputError
from ..screening import Encoder
from ..screening.files.source import reading
from ..surrogates import Surrogate, load_surrogate
from ..surrogates.predictive import PREDICTIVE
from ..training.splits import SPLIT_NAMES, TEST, VALIDATION
from ..training.store import DATA_KEY, Store, find, load_checkpoint

if TYPE_CHECKING:
    import pandas as pd

CHECKPOINTS = ("best.ckpt", "last.ckpt")
PREDICTED_AT_ONCE = 2048  # rows predicted at once


@dataclass(frozen=True)
class HeldOut:
    """Predictions for rows that the surrogate was not trained on.

    Attributes:
        part: "test" or "validation".
        measured: n targets, own units.
        mean: n expected measurements, own units.
        error: n (z - mean) / std in standardised units, std with noise: standard normal if calibrated.
    """

    part: str
    measured: np.ndarray
    mean: np.ndarray
    error: np.ndarray

    @property
    def rmse(self) -> float:
        """Root mean square error, own units."""
        return float(np.sqrt(np.mean((self.mean - self.measured) ** 2)))


@dataclass(frozen=True)
class ProposedBatch:
    """A batch file and its run file."""

    name: str
    frame: pd.DataFrame
    run: dict[str, Any]


@dataclass(frozen=True)
class TrainingRun:
    """Everything that a report shows.

    Attributes:
        folder: of the run.
        checkpoint: file of the surrogate.
        surrogate: the best one, or the last.
        curves: one row for each epoch; metrics by column.
        held_out: predictions, or None where the encoded rows are gone.
        batches: those proposed into the folder.
    """

    folder: Path
    checkpoint: Path
    surrogate: Surrogate
    curves: pd.DataFrame
    held_out: HeldOut | None
    batches: list[ProposedBatch]


def read_training_run(folder: Path) -> TrainingRun:
    """Read a run folder.

    Raises:
        InputError: no such folder, or no checkpoint in it.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give the folder of a beebo-scale fit (trainer.default_root_dir)")
    checkpoint = next((folder / name for name in CHECKPOINTS if (folder / name).exists()), None)
    if checkpoint is None:
        raise InputError(f"{folder} holds no {' or '.join(CHECKPOINTS)}; give the folder of a beebo-scale fit")
    surrogate = load_surrogate(checkpoint)
    identity = load_checkpoint(checkpoint).get(DATA_KEY)
    store = find(folder / "cache", identity)
    held_out = None if store is None else _held_out(surrogate, store)
    return TrainingRun(folder, checkpoint, surrogate, _curves(folder), held_out, list(_batches(folder)))


def relevance(surrogate: Surrogate) -> dict[str, float]:
    """1 / lengthscale of each input that has one: how fast the target changes along it (in encoded units)."""
    names = _input_names(surrogate.encoder)
    found: dict[str, float] = {}
    for part in surrogate.gp.kernel.modules():
        if isinstance(part, Kernel) and part.has_lengthscale:
            columns = range(len(names)) if part.active_dims is None else part.active_dims.tolist()
            scales = part.lengthscale.detach().reshape(-1).tolist()
            found |= {names[column]: 1 / scale for column, scale in zip(columns, scales, strict=True)}
    return found


def _input_names(encoder: Encoder) -> list[str]:
    """A name for each column of X: that of the feature, with the place of a letter in a sequence."""
    return [
        column.name if column.width == 1 else f"{column.name}[{i + 1}]"
        for column in encoder.columns
        for i in range(column.width)
    ]


def _curves(folder: Path) -> pd.DataFrame:
    """Metrics by epoch, over all relaunches; a later one wins where epochs were repeated."""
    import pandas as pd

    paths = sorted(folder.glob("logs/version_*/metrics.csv"), key=lambda path: int(path.parent.name.split("_")[1]))
    if not paths:
        return pd.DataFrame()
    return pd.concat([pd.read_csv(path) for path in paths]).groupby("epoch").last()


def _held_out(surrogate: Surrogate, store: Store) -> HeldOut:
    part = TEST if len(store.members(TEST)) else VALIDATION
    rows, posterior, scale = store.members(part), surrogate.posterior(), surrogate.scale
    means, errors = [], []
    for some in rows.split(PREDICTED_AT_ONCE):
        X = store.packing.unpack(store.rows[some])
        with torch.no_grad():
            mean, variance = posterior.mean_and_variance(X)
            noise = posterior.noise(X) if store.noise is None or not surrogate.noise_known else store.noise[some]
        means.append(surrogate.predicted(mean, variance, noise).mean)
        judge, variance = PREDICTIVE[surrogate.likelihood], variance + surrogate.batch_variance
        errors.append(judge(scale.standardise(store.y[some]), mean, variance, noise)[1])
    return HeldOut(SPLIT_NAMES[part], store.y[rows].numpy(), torch.cat(means).numpy(), torch.cat(errors).numpy())


def _batches(folder: Path) -> Iterator[ProposedBatch]:
    import pandas as pd

    for path in sorted(folder.glob("*.run.json")):
        stem = path.name.removesuffix(".run.json")
        beside = [folder / f"{stem}{suffix}" for suffix in (".csv", ".csv.gz", ".parquet")]
        for batch in filter(Path.exists, beside):
            try:
                with batch.open("rb") as file, reading(str(batch)):
                    packed: Literal["gzip"] | None = "gzip" if batch.suffix == ".gz" else None
                    parquet = batch.suffix == ".parquet"
                    frame = pd.read_parquet(file) if parquet else pd.read_csv(file, compression=packed)
                run = json.loads(path.read_text(encoding="utf-8"))
            except (ValueError, RecursionError) as error:
                raise InputError(f"{path} or {batch.name} is damaged ({error}); move both away") from None
            yield ProposedBatch(batch.name, frame, run)
