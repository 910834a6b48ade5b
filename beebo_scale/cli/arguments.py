"""What the parser says about wrong options, in the words of someone who did not write it."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ..specs.setting import Reader, whole_number
from ..specs.texts import parse_names as parse_names

PLAIN_WORDS = (  # applied in order
    (r"argument command: invalid choice: (\S+)", r"there is no command \1"),
    (r"argument ACTION: invalid choice: (\S+)", r"there is no action \1"),
    (r'expected "campaign.action" to be one of \{(.*)\}, but it was not provided\.', r"give an action: \1"),
    (r'expected "command" to be one of \{(.*)\}, but it was not provided\.', r"give a command: \1"),
    (r"the following arguments are required:", r"missing options:"),
    (r"missing options: campaign\.\w+\.folder", r"give the campaign's FOLDER"),
    (r"\b(?:suggest|propose|simulate|campaign\.\w+)\.(\w+)", r"--\1"),
    (r"unrecognized arguments:", r"not understood:"),
    (r"Subcommand '(\w+)' does not accept option '(.*)'", r"\1 has no option '\2'"),
    (r'Parser key "(\w+)":\s*', r"\1: "),
    (r"argument (?:-\w/)?--([\w-]+)(?:/--[\w-]+)*:", r"\1:"),
    (r"(?s)Unexpected config: .*", r"this is no configuration; write lines such as 'target: yield'"),
    (r'in "<unicode string>", ', r"in "),
    (r"'utf-8' codec .*", r"this is not UTF-8 text"),
    (r"Expected a <class 'str'>\. Got value: (.*)", r"\1 is not text; put it in quotation marks"),
)


class _TypeError(ArgumentTypeError, ValueError):
    """Both parsers, of the command line and of the configuration file, pass its text on."""


@dataclass(frozen=True)
class Typed:
    """A type of options that the help calls by its name."""

    reader: Reader

    def __call__(self, value: Any) -> Any:
        """The value of an option."""
        try:
            return self.reader(value)
        except (TypeError, ValueError, OverflowError):
            raise _TypeError(f"{value!r} is not {self.reader.words}") from None

    def __repr__(self) -> str:
        return self.reader.words


COUNT = Typed(whole_number)


def plain_words(message: str, arguments: Sequence[str], commands: Collection[str]) -> str:
    """The parser's message as one line that names the configuration file, if one was given, and where to find help."""
    for pattern, words in PLAIN_WORDS:
        message = re.sub(pattern, words, message)
    config = re.search(r"--config[= ](\S+)", " ".join(arguments))
    source = f"{config[1]}: " if config and config[1] not in message else ""
    command = " ".join(["beebo-scale", *(word for word in arguments[:1] if word in commands)])
    return f"{source}{message.strip()} (see {command} --help)"
