"""What the commands write, checked against all that they read before any work is done."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jsonargparse import Namespace

from ..errors import InputError
from ..screening.batch import check_output, dropped_path
from ..screening.invalid import COLUMNS
from ..screening.outputs import PREDICTED, Output, batch_outputs, check_outputs, table_form, text_form

READ = ("measured", "warm_start", "surrogate", "library", "pending", "exclude", "stock")  # options that name files
SPECIAL = ("last", "best", "hpc")  # checkpoints that Lightning finds by itself


def check_batch(options: Namespace) -> None:
    """Check all that `suggest` and `propose` write.

    Raises:
        InputError: as in `screening.outputs.check_outputs`.
    """
    outputs = batch_outputs(
        options.out, options.plate is not None, bool(options.drop_invalid), options.get("stock") is not None
    )
    if options.get("save_model") is not None:
        outputs.append(Output(Path(options.save_model), _is_model, "save-model"))
    check_outputs(outputs, [*((name, path) for name in READ for path in _paths(options.get(name))), *configs(options)])
    check_output(options.out)


def check_training(command: str, options: Namespace) -> None:
    """Check what `fit` and `predict` write.

    Raises:
        InputError: as in `screening.outputs.check_outputs`, or the folder holds a fit that does not go on.
    """
    files = [("data.file", options.data.file), ("ckpt_path", options.get("ckpt_path")), *configs(options)]
    if command == "predict":
        form = table_form(["row"], PREDICTED)
        outputs = [Output(check_output(options.out), form, "out")]
        if options.data.drop_invalid:
            outputs.append(Output(dropped_path(options.out), table_form(COLUMNS, ())))
        check_outputs(outputs, files)
    if command == "fit":
        root, given = Path(options.trainer.default_root_dir), options.get("ckpt_path")
        there = [name for name in (f"{options.checkpoint.filename}.ckpt", "last.ckpt") if (root / name).exists()]
        goes_on = given is not None and (given in SPECIAL or Path(given).resolve().parent == root.resolve())
        if there and not goes_on:
            raise InputError(
                f"{root} holds another fit ({there[0]}), which would be lost; go on by --ckpt_path last, or give "
                "another folder by --trainer.default_root_dir"
            )
        if options.trainer.logger is False:  # then the configuration goes there
            check_outputs(
                [Output(root / "config.yaml", text_form("# lightning.pytorch=="))] if root.exists() else [], files
            )


def check_simulation(options: Namespace, runs: Iterable[str]) -> None:
    """Check what `simulate` writes: the tables in its folder, and a folder for each of some runs.

    Raises:
        InputError: as in `screening.outputs.check_outputs`, or a folder that is no run.
    """
    folder = Path(options.run_dir)
    if not folder.is_dir():
        return
    files = [("landscape", options.landscape), *configs(options)]
    summary = table_form(["strategy", "round", "measured", "seeds"], ())
    check_outputs(
        [
            Output(folder / "rounds.csv", table_form(["strategy", "seed", "round", "measured"], ())),
            Output(folder / "summary.csv", summary),
            Output(dropped_path(folder / "rounds.csv"), table_form(COLUMNS, ())),
            Output(folder / "summary.md", text_form("# Closed loops: ")),
            *(Output(folder / n, lambda path: (folder / "summary.csv").exists()) for n in ("curves.png", "front.png")),
        ],
        files,
    )
    for path in (folder / run for run in runs):
        names = {each.name for each in path.iterdir()} if path.is_dir() else set()
        foreign = sorted(name for name in names - {"chunks", "lock", "lock.holder"} if not name.startswith("."))
        if (path.exists() and not path.is_dir()) or (foreign and "job.json" not in names):
            raise InputError(f"{path} is there and is no run of simulate; give another --run-dir")


def configs(options: Namespace) -> list[tuple[str, str]]:
    """The configuration files of a command."""
    return [("config", str(path)) for path in _paths(options.get("config"))]


def _paths(value: Any) -> list[str]:
    """None, one or several."""
    return [str(each) for each in (value if isinstance(value, (list, tuple)) else [value]) if each is not None]


def _is_model(path: Path) -> bool:
    """Whether `suggest --save-model` wrote it; a checkpoint of a fit has more in it."""
    from ..archives import names_of  # torch comes with it
    from ..surrogates.surrogate import FILE_KEY

    return names_of(path) == [FILE_KEY]
