"""The command line: `beebo-scale COMMAND ...`.

What the user can put right ends in one line on standard error and exit code 2, an interrupt in exit code 130.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from jsonargparse import ArgumentError, ArgumentParser, Namespace

from ..errors import InputError, WorkerError
from ..screening.batch import written
from ..screening.places import WAY, reworded
from .arguments import plain_words
from .configs import limit_yaml, with_own_configs
from .ends import CLOSED_PIPE, FULL, Printed, closed, complain, interrupted, printed

COMMANDS = {  # each in a module of its own, which is imported when the command is called
    "suggest": "Fit a surrogate to a measured screen and choose the next batch from a library or a box.",
    "propose": "Choose the next batch of a fitted surrogate from a library or a box; can be stopped and relaunched.",
    "campaign": "Keep a campaign of several rounds in one folder: init, suggest, record, status.",
    "simulate": "Play whole campaigns on a fully measured file or a test function, with BEEBO and with baselines.",
    "report": "Write one HTML page about a run: learning curves, held-out predictions, calibration, inputs, the batch.",
}
TRAINING = {  # Lightning's commands, which have a parser of their own
    "fit": "Train a surrogate from a screening file, with checkpoints and learning curves.",
    "validate": "Judge a checkpoint on the validation rows.",
    "test": "Judge a checkpoint on the test rows.",
    "predict": "Write mean and standard deviation for every row of a file.",
}
DESCRIPTION = "Choose the next batch of experiments from the measurements of the batches before."


def build_parser(command: str | None = None) -> ArgumentParser:
    """The parser of all commands; only the one that is called has its options."""
    parser = ArgumentParser(prog="beebo-scale", description=DESCRIPTION, exit_on_error=False, allow_abbrev=False)
    from .. import __version__

    version = f"beebo-scale {__version__}"
    parser.add_argument("--version", action="version", version=version, help="print the version and exit")
    commands = parser.add_subcommands(required=True, dest="command")
    for name, help in (COMMANDS | TRAINING).items():
        own = ArgumentParser(description=help, exit_on_error=False, allow_abbrev=False)
        if name == command and name in COMMANDS:
            _module(name).add_options(own)
        commands.add_subcommand(name, own, help=help)
        if name == command == "campaign":
            _module(name).add_actions(own)  # jsonargparse takes these only once the command has its place
    return parser


def _module(command: str) -> Any:
    return importlib.import_module(f".{command}", __package__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    arguments = with_own_configs(sys.argv[1:] if arguments is None else arguments)
    limit_yaml()
    with written(), printed() as output:
        try:
            return _printed(_run(arguments), output)
        except SystemExit:  # of the parsers' --help
            if code := _printed(0, output):
                return code
            raise
        except OSError as error:
            if output is None or output.error is not error:
                raise
            return _printed(0, output)


def _printed(code: int, output: Printed | None) -> int:
    """The exit code once all that was printed is out; a full device is said, a pipe that was closed is not."""
    if output is None or code:
        return code
    with suppress(OSError):
        output.flush()
    if output.error is None:
        return 0
    if closed(output):
        return CLOSED_PIPE
    complain(f"standard output cannot be written ({output.error.strerror}); {interrupted('')}")
    return 2


def _run(arguments: Sequence[str]) -> int:
    try:
        if arguments and arguments[0] in TRAINING:
            from . import training  # takes seconds

            training.run(arguments)
            return 0
        options = _parse(arguments)
        _module(options.command).run(options[options.command])
    except InputError as error:
        # An error that all workers have is printed by the first one; an error of one worker by that worker.
        if _first_process() or isinstance(error, WorkerError):
            complain(" ".join(reworded(str(error), _way(arguments)).split()))
        return 2
    except KeyboardInterrupt as interrupt:
        complain(f"interrupted, {interrupted(str(interrupt))}")
        return 130
    except OSError as error:
        if error.errno not in FULL or error is getattr(sys.stdout, "error", None):
            raise
        complain(f"{error.filename or 'a file'} cannot be written ({error.strerror}); free the place")
        return 2
    return 0


def _way(arguments: Sequence[str]) -> str:
    """How a command leaves out rows that cannot be read; empty if it does not."""
    command = next(iter(arguments), "")
    if command in TRAINING:
        return "--data.drop_invalid true"
    if command == "campaign" and "suggest" in arguments[1:2]:
        return "drop_invalid: true in campaign.yaml"
    return "" if "status" in arguments[1:2] or any(word.startswith("--give-up") for word in arguments) else WAY


def _first_process() -> bool:
    """Whether this is the first of the processes that torchrun, or Lightning by trainer.devices, started."""
    return os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")) == "0"


def _parse(arguments: Sequence[str]) -> Namespace:
    try:
        return build_parser(next(iter(arguments), None)).parse_args(arguments)
    except (ArgumentError, UnicodeDecodeError) as error:  # the second from a configuration file
        raise InputError(plain_words(str(error), arguments, COMMANDS)) from error
