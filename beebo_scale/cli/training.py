"""`beebo-scale fit | validate | test | predict`: Lightning's command line around our module and data.

Lightning takes seconds to import, so `main` imports this module only for these commands.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentError
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI, SaveConfigCallback
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.utilities.exceptions import MisconfigurationException

from ..errors import InputError
from ..training.callbacks import AtomicCheckpointIO, GainError, PredictionWriter
from ..training.data import ScreeningDataModule
from ..training.module import GONE, SurrogateModule
from ..training.store import load_checkpoint
from .arguments import plain_words
from .guards import SPECIAL, check_training

PLAIN_WORDS = (
    (r'Parser key "([\w.]+)":\s*', r"--\1: "),
    (r"Expected a typing\.Literal\[(.*?)\]", r"choose one of \1"),
    (r"Expected a <class '(\w+)'>", r"expected \1"),
)
GOES_ON = "a fit goes on by the same command with --ckpt_path last"
QUIET = (  # warnings that the user of a command can do nothing about
    r".*does not have many workers.*",
    r".*Your `IterableDataset` has `__len__` defined.*",
    r".*LightningCLI's args parameter is intended.*",
    r".*The number of training batches.*",
    r".*no last checkpoint available.*",
    r"(?s).*The dirpath has changed from.*",
    r".*Couldn't infer the batch indices.*",
    r".*Checkpoint directory .* exists and is not empty.*",
    r".*GPU available but not used.*",
    r".*`max_epochs` was not set.*",
)


class Command(LightningCLI):
    """The four commands with our module and data; what they write lies below `trainer.default_root_dir`."""

    def __init__(self, arguments: Sequence[str]) -> None:
        options = {"exit_on_error": False}
        super().__init__(
            SurrogateModule,
            ScreeningDataModule,
            save_config_callback=SaveConfigCallback if arguments[0] == "fit" else None,
            save_config_kwargs={"overwrite": True},  # a relaunch into the same folder
            trainer_defaults={
                "default_root_dir": "runs/fit",
                "log_every_n_steps": 10,
                "num_sanity_val_steps": 0,
                "enable_model_summary": False,
            },
            seed_everything_default=0,
            parser_kwargs={"prog": "beebo-scale", **options, **{name: dict(options) for name in self.subcommands()}},
            auto_configure_optimizers=False,
            args=list(arguments),
        )

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Checkpoints and early stopping as groups of options; one seed; one folder."""
        parser.add_lightning_class_args(ModelCheckpoint, "checkpoint")
        parser.add_lightning_class_args(EarlyStopping, "early_stopping")
        parser.set_defaults(
            {
                "checkpoint.monitor": "val_nlpd",
                "checkpoint.filename": "best",
                "checkpoint.enable_version_counter": False,
                "early_stopping.monitor": "val_nlpd",
                "early_stopping.patience": 5,
            }
        )
        parser.link_arguments("trainer.default_root_dir", "checkpoint.dirpath")
        parser.link_arguments("seed_everything", "data.seed", compute_fn=int)
        parser.link_arguments("seed_everything", "model.seed", compute_fn=int)

    def _prepare_subcommand_parser(self, klass: type, subcommand: str, **kwargs: Any) -> LightningArgumentParser:
        parser = super()._prepare_subcommand_parser(klass, subcommand, **kwargs)
        if subcommand == "predict":
            parser.add_argument("--out", type=str, required=True, help="predictions: .csv, .csv.gz or .parquet")
            parser.set_defaults({"return_predictions": False})
        return parser

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        """Read the options; refuse at once to write over what is read, or what another run left."""
        super().parse_arguments(parser, args)
        check_training(self.config["subcommand"], self.config[self.config["subcommand"]])

    def _parse_ckpt_path(self) -> None:
        """Take the model's settings from a checkpoint; refuse one that is not there before anything else is read."""
        command = self.config["subcommand"]
        given = self.config[command].get("ckpt_path")
        if given is None and command != "fit":
            raise InputError(f"{command} needs the checkpoint of a fit; give it by --ckpt_path")
        if given is None or given in SPECIAL:
            return
        if not Path(given).is_file():
            raise InputError(f"{given}: no such checkpoint; give a file that beebo-scale fit wrote")
        content = load_checkpoint(given)
        if command != "predict" and "state_dict" not in content:
            raise InputError(
                f"{given} is a model, which predict takes; {command} needs a checkpoint of beebo-scale fit"
            )
        kept = content.get("hyper_parameters", {})
        settings = {name: value for name, value in kept.items() if name not in {"_instantiator", *GONE}}
        if settings:
            self.config = self.parser.parse_object({command: {"model": settings}}, self.config)

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        """The trainer, with the processes that torchrun started and a log of its own."""
        options = self._get(self.config_init, "trainer")
        root = options.default_root_dir
        if options.logger is None:
            kwargs["logger"] = CSVLogger(root, name="logs") if self.subcommand == "fit" else False
        kwargs["plugins"] = [*(options.plugins or []), AtomicCheckpointIO()]
        trainer = super().instantiate_trainer(**kwargs, **_processes(options))
        # Lightning's own `save_last` leaves last.ckpt as it was where the monitored metric got no better.
        last = ModelCheckpoint(root, filename="last", enable_version_counter=False)
        trainer.callbacks += [last, GainError()]  # type: ignore[attr-defined]
        return trainer

    def after_fit(self) -> None:
        """Say where the surrogate is."""
        best = self._get(self.config_init, "checkpoint")
        if self.trainer.is_global_zero and best.best_model_path:
            value = f"{best.monitor} = {float(best.best_model_score):.4g}"
            print(
                f"{best.best_model_path}: {value}; beebo-scale report --run {self.trainer.default_root_dir} shows more"
            )

    def before_predict(self) -> None:
        """Predictions go to a file."""
        self.trainer.callbacks.append(PredictionWriter(self._get(self.config, "out")))  # type: ignore[attr-defined]


def run(arguments: Sequence[str]) -> None:
    """Run one of the commands.

    Raises:
        InputError: what the user can put right.
    """
    logging.getLogger("lightning.pytorch.utilities.rank_zero").addFilter(
        lambda record: "Tip:" not in record.getMessage()
    )
    with warnings.catch_warnings():
        for category in (DeprecationWarning, FutureWarning):  # meant for the authors of libraries
            warnings.simplefilter("ignore", category)
        for message in QUIET:
            warnings.filterwarnings("ignore", message=message)
        try:
            Command(arguments)
        except ArgumentError as error:
            raise InputError(_told(str(error), arguments)) from error
        except SystemExit as leave:
            if isinstance(leave.__context__, KeyboardInterrupt):  # Lightning makes an exit of it
                raise KeyboardInterrupt(GOES_ON if arguments[0] == "fit" else "") from leave
            raise
        except UnicodeDecodeError as error:
            raise InputError("a configuration is not UTF-8 text; give a YAML file by --config") from error
        except (MisconfigurationException, FileNotFoundError) as error:
            raise InputError(str(error)) from error
        except OSError as error:
            if error is getattr(sys.stdout, "error", None) or (error.filename is None and error.strerror is None):
                raise
            raise InputError(f"{error.filename or 'the run folder'}: {error.strerror}; free the place") from error


def _told(message: str, arguments: Sequence[str]) -> str:
    """What the parser says, in words of the command line."""
    for name, advice in GONE.items():
        if f"model.{name}" in message:
            return f"model.{name} is a setting of an earlier version: {advice}"
    for pattern, words in PLAIN_WORDS:
        message = re.sub(pattern, words, message)
    return plain_words(message, arguments, Command.subcommands())


def _processes(options: Any) -> dict[str, Any]:
    """Devices and nodes as torchrun started them; nothing where it did not."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return {}
    world, local = int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_WORLD_SIZE"])
    if options.devices not in ("auto", local, str(local)):
        raise InputError(
            f"trainer.devices = {options.devices}, but torchrun started {local} processes here; leave it out, or give "
            f"{local}"
        )
    strategy = {"strategy": "ddp"} if world > 1 and options.strategy == "auto" else {}
    return {"devices": local, "num_nodes": world // local, **strategy}
