"""Types of options, and what the parser says about wrong ones in the words of someone who did not write it."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InputError

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
    (r"argument (?:-\w/)?--([\w-]+):", r"\1:"),
    (r"(?s)Unexpected config: .*", r"this is no configuration; write lines such as 'target: yield'"),
    (r'in "<unicode string>", ', r"in "),
    (r"'utf-8' codec .*", r"this is not UTF-8 text"),
    (r"Expected a <class 'str'>\. Got value: (.*)", r"\1 is not text; put it in quotation marks"),
)


class _TypeError(ArgumentTypeError, ValueError):
    """Both parsers, of the command line and of the configuration file, pass its text on."""


@dataclass(frozen=True)
class _Type:
    """A type of options that the help calls by its name."""

    name: str
    parse: Callable[[Any], Any]

    def __call__(self, value: Any) -> Any:
        try:
            return self.parse(value)
        except (TypeError, ValueError, OverflowError):
            raise _TypeError(f"{value!r} is not a {self.name}") from None

    def __repr__(self) -> str:
        return self.name


def _whole(value: Any) -> int:
    """96, also if written 96.0."""
    if isinstance(value, bool) or float(value) != int(float(value)):
        raise ValueError
    return int(value) if isinstance(value, str) and "." not in value and "e" not in value else int(float(value))


whole_number = _Type("whole number", _whole)
number = _Type("number", float)  # also inf and nan, which commands refuse with their reason


def plain_words(message: str, arguments: Sequence[str], commands: Collection[str]) -> str:
    """The parser's message as one line that names the configuration file, if one was given, and where to find help."""
    for pattern, words in PLAIN_WORDS:
        message = re.sub(pattern, words, message)
    config = re.search(r"--config[= ](\S+)", " ".join(arguments))
    source = f"{config[1]}: " if config and config[1] not in message else ""
    command = " ".join(["beebo-scale", *(word for word in arguments[:1] if word in commands)])
    return f"{source}{message.strip()} (see {command} --help)"


def parse_features(features: Any) -> dict[str, str | None]:
    """`variant:protein temp` or `variant:protein,temp` (or a mapping in a configuration file) to column -> kind.

    A bare column has the kind None, which is inferred from its cells.
    """
    if isinstance(features, dict):
        return features
    parsed: dict[str, str | None] = {}
    for text in _parts(features):
        name, _, kind = text.rpartition(":") if ":" in text else (text, "", "")
        if not name:
            raise InputError(f"--features {text!r}: write COLUMN:KIND, such as variant:protein")
        if name in parsed:
            raise InputError(f"--features names {name!r} twice; name it once")
        parsed[name] = kind or None
    return parsed


def parse_bounds(bounds: Any) -> dict[str, Any]:
    """`temp:20:80 ph:7 acid:HCl|HBr` (or a mapping in a configuration file) to a range, a fixed value or levels."""
    if isinstance(bounds, dict):
        return bounds
    parsed: dict[str, Any] = {}
    for text in _parts(bounds):
        name, *rest = text.split(":")
        if not name or len(rest) not in (1, 2):
            raise InputError(
                f"--bounds {text!r}: write COLUMN:LOW:HIGH, such as temp:20:80, COLUMN:VALUE, or COLUMN:A|B|C"
            )
        if name in parsed:
            raise InputError(f"--bounds names {name!r} twice; name it once")
        parsed[name] = _range(text, rest) if len(rest) == 2 else _value(rest[0])
    return parsed


def _range(text: str, ends: list[str]) -> tuple[float, float]:
    try:
        return float(ends[0]), float(ends[1])
    except ValueError:
        raise InputError(f"--bounds {text!r}: write COLUMN:LOW:HIGH, such as temp:20:80") from None


def _value(text: str) -> Any:
    """A number, a label, or a list of labels."""
    if "|" in text:
        return text.split("|")
    try:
        return float(text)
    except ValueError:
        return text


def parse_names(names: Any) -> tuple[str, ...]:
    """`a b` or `a,b` to names; none for None."""
    return () if names is None else tuple(_parts(names))


def parse_counts(counts: Any) -> dict[str, int]:
    """`scaffold:3` (or a mapping in a configuration file) to column -> count; empty for None."""
    if counts is None or isinstance(counts, dict):
        return counts or {}
    parsed = {}
    for text in _parts(counts):
        name, _, count = text.rpartition(":")
        try:
            parsed[name] = int(count)
        except ValueError:
            name = ""
        if not name:
            raise InputError(f"--at-most {text!r}: write COLUMN:COUNT, such as scaffold:3")
    return parsed


def _parts(texts: Any) -> list[str]:
    """The parts of 'a,b' or of ['a', 'b,c']."""
    return [part.strip() for text in ([texts] if isinstance(texts, str) else texts) for part in str(text).split(",")]
