"""Small screens and trainers for the tests of training."""

import numpy as np
import pandas as pd
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger

from beebo_scale.training.callbacks import AtomicCheckpointIO
from beebo_scale.training.data import ScreeningDataModule
from beebo_scale.training.module import SurrogateModule

KINDS = {"x": "continuous", "z": "continuous", "c": "categorical"}
SMALL = {"inducing_points": 80, "iterations": 15, "rank": 40}


def screen(path, n=240, seed=0, **columns):
    """A file with two continuous columns, one categorical one and noise of 0.1."""
    g = np.random.default_rng(seed)
    x, z, c = g.uniform(0, 10, n), g.uniform(-1, 1, n), g.choice(list("abc"), n)
    y = np.sin(x) + z**2 + (c == "b") + 0.1 * g.standard_normal(n)
    pd.DataFrame({"id": [f"r{i}" for i in range(n)], "x": x, "z": z, "c": c, "y": y, **columns}).to_csv(
        path, index=False
    )
    return str(path)


def data(file, **changes):
    return ScreeningDataModule(
        **{"file": file, "target": "y", "features": KINDS, "id": "id", "batch_size": 64} | changes
    )


def module(kind="svgp", **changes):
    return SurrogateModule(**{"kind": kind} | SMALL | changes)


def trainer(folder, epochs=2, callbacks=(), **changes):
    last = ModelCheckpoint(folder, filename="last", enable_version_counter=False)
    return Trainer(
        **{
            "max_epochs": epochs,
            "default_root_dir": str(folder),
            "accelerator": "cpu",
            "logger": CSVLogger(folder, name="logs"),
            "callbacks": [*callbacks, last],
            "plugins": [AtomicCheckpointIO()],
            "num_sanity_val_steps": 0,
            "enable_progress_bar": False,
            "enable_model_summary": False,
        }
        | changes
    )
