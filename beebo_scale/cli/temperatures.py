"""T' of each round, from the options that `campaign init` and `simulate` share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jsonargparse import Namespace

from ..errors import InputError
from ..temperature import Geometric, Linear, Schedule
from .arguments import parse_names

SCHEDULES: dict[str, Callable[[float, float], Schedule]] = {"linear": Linear, "geometric": Geometric}


def add_options(add: Callable[..., Any], exploits: str) -> None:
    """The options, by the `add_argument` of a parser or a group; `exploits` is what is zero in the last round."""
    add("--temperatures", nargs="+", metavar="T", help="T' of each round, the last one for all others; default: 1")
    add("--schedule", choices=tuple(SCHEDULES), help="from the first to the last of two temperatures over --rounds")
    add("--exploit-last", action="store_true", help=f"{exploits} in the last round, as in the paper")


def written_out(options: Namespace) -> tuple[float, ...]:
    """T' of each round, the last one for all others, before `--exploit-last`.

    Raises:
        InputError: not numbers, or a schedule without two ends or without rounds.
    """
    given = tuple(_number(text) for text in parse_names(options.temperatures)) or (1.0,)
    if options.schedule is None:
        return given
    if len(given) != 2 or options.rounds is None or options.rounds < 1:
        raise InputError("--schedule leads from the first to the last of two --temperatures over --rounds N")
    schedule = SCHEDULES[options.schedule](*given)
    return tuple(round(schedule(k, options.rounds), 6) for k in range(options.rounds))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"--temperatures {text!r} is not a number") from None
