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
from ..screening.files.opening import listing
from ..screening.invalid import told
from ..screening.plates.layout import filled_map
from ..screening.plates.picks import FORMS, Picks, Stock, write_picks
from ..screening.plates.wells import SHAPES
from .arguments import COUNT, parse_names

WELLS = " or ".join(", ".join(map(str, SHAPES)).rsplit(", ", 1))


def add_plate_options(parser: ArgumentParser) -> None:
    """Options that put a batch on plates, in a group; of `suggest`, `propose` and `campaign suggest`."""
    add = parser.add_argument_group("plates").add_argument
    add("--plate", type=COUNT, help=f"also write a plate map: {WELLS} wells, as many plates as it takes")
    add(
        "--controls",
        nargs="+",
        metavar="WELL:ROLE",
        help="wells that stay free for controls, on every plate, such as A01:negative A12-H12:positive; 8:negative "
        "takes eight wells by chance, others on each plate",
    )
    add("--shuffle", action="store_true", help="deal the batch out to the wells by chance (with --seed)")
    add("--free-edge", type=COUNT, metavar="N", help="leave the N outer rows and columns empty, but for --controls")
    add("--plate-name", type=str, metavar="NAME", help="plates are called NAME-P1, NAME-P2, ...; a campaign: R2-P1")
    add("--stock", type=str, help="table of stock wells (id, source_plate, source_well): also write a pick list")
    add("--volume", type=float, metavar="UL", help="microlitres of stock into each well, for --stock")
    add("--picks", choices=tuple(FORMS), help="form of the pick list; default: echo")


def layout_of(options: Namespace, seed: int, name: str = "") -> Layout | None:
    """The layout that the options stand for, None without --plate.

    Raises:
        InputError: an unknown plate or well, or options that go with --plate without it.
    """
    if not isinstance(options.shuffle, bool):  # from a configuration file
        raise InputError(f"shuffle: {options.shuffle!r} is neither true nor false")
    if options.plate is None:
        others = ("controls", "shuffle", "free_edge", "plate_name", "stock", "volume", "picks")
        given = [f"--{option.replace('_', '-')}" for option in others if options[option] not in (None, False)]
        if given:
            raise InputError(f"{listing(given)} without --plate; add --plate {WELLS}")
        return None
    words = parse_names(options.controls or ())
    name, edge = options.plate_name or name, options.free_edge or 0
    return Layout.of(options.plate, words, shuffle=options.shuffle, seed=seed, edge=edge, name=name)


def picks_of(options: Namespace, id: str | None) -> Picks | None:
    """What goes on the pick list, None without --stock.

    Raises:
        InputError: a table that is unusable, an option missing, or a volume that the machine cannot move.
    """
    if options.stock is None:
        given = [f"--{name}" for name in ("volume", "picks") if options[name] is not None]
        if given:
            raise InputError(f"{listing(given)} without --stock; give the table of stock wells, too")
        return None
    if id is None:
        raise InputError("--stock: experiments have no id to find their stock by; name the column with --id")
    if options.volume is None:
        raise InputError("--stock: add --volume, the microlitres that go into each well")
    return Picks(Stock.read(options.stock, id), options.volume, options.picks or "echo")


def write_batch(batch: Batch, out: str, layout: Layout | None, picks: Picks | None = None) -> list[str]:
    """Write a batch and its plate maps and pick list, and return the names of these.

    The batch comes after the maps, as it stands for a whole run, and before the pick list: a stock that is too small is
    no reason to lose it.
    """
    maps = [] if layout is None else [str(path) for path in write_plates(batch.frame, out, layout)]
    batch.write(out)
    if layout is not None and picks is not None:
        batch.run["notes"] = [*batch.notes, *picks.stock.notes]
        maps.append(str(write_picks(filled_map(batch.frame, layout), out, picks)))
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
