"""The command line: `beebo-scale COMMAND ...`.

What the user can put right ends in one line on standard error and exit code 2, an interrupt in exit code 130.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from jsonargparse import ArgumentError, ArgumentParser

from ..errors import InputError
from . import suggest

COMMANDS = {"suggest": suggest}


def build_parser() -> ArgumentParser:
    """The parser of all commands."""
    parser = ArgumentParser(prog="beebo-scale", description=__doc__.splitlines()[0], exit_on_error=False)
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subcommands(required=True, dest="command")
    for name, module in COMMANDS.items():
        commands.add_subcommand(name, module.build_parser(), help=module.HELP)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    try:
        options = build_parser().parse_args(arguments)
        COMMANDS[options.command].run(options[options.command])
    except ArgumentError as error:
        return _refuse(f"{error} (see beebo-scale --help)")
    except InputError as error:
        return _refuse(str(error))
    except KeyboardInterrupt:
        print("beebo-scale: interrupted, nothing was written", file=sys.stderr)
        return 130
    return 0


def _refuse(message: str) -> int:
    print("beebo-scale: " + " ".join(message.split()), file=sys.stderr)
    return 2


def _version() -> str:
    from .. import __version__

    return f"beebo-scale {__version__}"
