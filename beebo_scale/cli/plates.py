"""Options that put a batch on plates, shared by `suggest`, `propose` and `campaign suggest`."""

from __future__ import annotations

from jsonargparse import ArgumentParser, Namespace

from ..errors import InputError
from ..screening import Layout
from .arguments import COUNT, parse_names


def add_options(parser: ArgumentParser) -> None:
    """The options, in a group."""
    add = parser.add_argument_group("plates").add_argument
    add("--plate", type=COUNT, help="also write a plate map: 96, 384 or 1536 wells, as many plates as it takes")
    add(
        "--controls",
        nargs="+",
        metavar="WELL:ROLE",
        help="wells that stay free for controls, on every plate, such as A01:negative A12-H12:positive",
    )
    add("--shuffle", action="store_true", help="deal the batch out to the wells by chance (with --seed)")


def layout_of(options: Namespace, seed: int) -> Layout | None:
    """The layout that the options stand for, None without --plate.

    Raises:
        InputError: an unknown plate or well, or --controls or --shuffle without --plate.
    """
    if not isinstance(options.shuffle, bool):  # from a configuration file
        raise InputError(f"shuffle: {options.shuffle!r} is neither true nor false")
    if options.plate is None:
        if options.controls is not None or options.shuffle:
            raise InputError("--controls and --shuffle go with --plate 96, 384 or 1536")
        return None
    return Layout.of(options.plate, parse_names(options.controls or ()), options.shuffle, seed)
