"""What a command writes: batches with their plate maps, and what a stopped job keeps."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from jsonargparse import ArgumentParser, Namespace

from ..errors import InputError
from ..screening import Batch, Layout, write_plates
from ..screening.batch import dropped_path
from ..screening.invalid import told
from .arguments import COUNT, parse_names


def add_plate_options(parser: ArgumentParser) -> None:
    """Options that put a batch on plates, in a group; of `suggest`, `propose` and `campaign suggest`."""
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


def write_batch(batch: Batch, out: str, layout: Layout | None) -> list[str]:
    """Write a batch and its plate maps, and return the names of these. The batch is last: it stands for a whole run."""
    maps = [] if layout is None else [str(path) for path in write_plates(batch.frame, out, layout)]
    batch.write(out)
    return maps


def announce(batch: Batch, out: str, maps: Iterable[str], say: Callable[[str], object] = print) -> None:
    """Say what a user should know of the batch, and what was written."""
    for note in batch.notes:
        say(f"note: {note}")
    say(f"{out}: {len(batch.frame)} rows to measure next")
    if batch.invalid:
        say(told(batch.invalid, dropped_path(out)))
    for path in maps:
        say(path)


@contextmanager
def told_when_stopped(kept: Callable[[], str], say: Callable[..., Any] = print) -> Iterator[None]:
    """Say what is kept when a job is stopped or interrupted."""
    from ..proposal.jobs.run_folder import Stopped

    try:
        yield
    except Stopped:
        say(f"beebo-scale: stopped, {kept()}", file=sys.stderr)
        raise
    except KeyboardInterrupt:
        raise KeyboardInterrupt(kept()) from None
