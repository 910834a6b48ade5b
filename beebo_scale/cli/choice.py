"""Options that say what to choose from and how, shared by `suggest` and `propose`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser, Namespace

from ..energy import MeanEnergy, SoftmaxEnergy
from ..errors import InputError
from ..proposal import Box, BoxSearch, Limits, Request
from ..proposal.box.ascent import STARTS
from ..screening import check_folder, check_output, run_path
from ..screening.files.opening import open_source
from .arguments import number, parse_bounds, parse_counts, parse_names, whole_number

FILES = ("library", "pending", "exclude")  # options that name a file to read
ENERGIES = ("mean", "softmax")
DROP_INVALID = "leave out rows with a feature that cannot be read, and list them in a file beside the batch"
TARGET = (
    "column to improve; rows without it are left out. Several columns with their weights, in units of their standard "
    "deviations, are written as ic50:0.7,solubility:-0.3"
)
BATCH = "column of the plate or day that a row was measured in; its effect is told apart from that of the features"
ROBUST = "fit by svgp with a Student-t likelihood, for which outliers count little"
GOES_WITH = {  # option -> what it is about
    "integer": "bounds",
    "constraint": "bounds",
    "shared": "bounds",
    "at_most": "library",
    "min_distance": "library",
}


def add_options(parser: ArgumentParser) -> None:
    """The options, in groups."""
    add = parser.add_argument_group("what to choose from").add_argument
    add("--library", type=str, help="candidates: CSV, Excel or Parquet, or a folder of Parquet files")
    add(
        "--bounds",
        nargs="+",
        metavar="COLUMN:LOW:HIGH",
        help="a box instead of a library; COLUMN:VALUE fixes a column, COLUMN:A|B|C names the levels to choose from",
    )
    add("--integer", nargs="+", metavar="COLUMN", help="columns of the box that take whole numbers only")
    add("--constraint", nargs="+", metavar="TEXT", help="linear limits in the box, such as 'acid + 2*base <= 80'")
    add("--shared", nargs="+", metavar="COLUMN", help="columns that are the same in the whole batch, as on one plate")
    add("--pending", type=str, help="experiments that are running: a file with their ids or their feature columns")
    add("--exclude", type=str, help="candidates that must not be proposed: a file with their ids or feature columns")
    add("--at-most", nargs="+", metavar="COLUMN:COUNT", help="no more rows of the library than COUNT with one value")
    add("--min-distance", type=number, help="least distance between proposed rows of the library (see the guide)")
    add("--allow-repeats", action="store_true", help="also propose inputs that were measured already")
    add("--drop-invalid", action="store_true", help=DROP_INVALID)
    add = parser.add_argument_group("how to choose").add_argument
    add("-q", "--q", type=whole_number, default=96, help="experiments in the batch")
    add("--temperature", type=number, default=0.5, help="T': 0 exploits, 0.5 balances, 2 explores")
    add("--energy", choices=ENERGIES, default="mean", help="softmax values the best of the batch more")
    add("--minimize", action="store_true", help="small targets are good")
    add("--restarts", type=whole_number, default=BoxSearch.restarts, help="batches that move side by side in a box")
    add("--steps", type=whole_number, default=BoxSearch.steps, help="steps that they move")
    add("--search-start", choices=STARTS, default=BoxSearch.start, help="where they start")
    add("--seed", type=whole_number, default=0, help="the same seed and input give the same batch")


def check_options(options: Namespace, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Request:
    """What can be refused before any file is opened.

    Args:
        options: of the command.
        inputs: options beside FILES that name a file to read.
        outputs: options beside "out" that name a file to write.
    """
    _check_files(options, (*inputs, *FILES), outputs)
    for flag in ("minimize", "allow_repeats", "drop_invalid"):
        if not isinstance(options[flag], bool):  # from a configuration file
            raise InputError(f"{flag}: {options[flag]!r} is neither true nor false")
    if (options.library is None) == (options.bounds is None):
        raise InputError("give either --library FILE or --bounds COLUMN:LOW:HIGH ... to choose from")
    for name, other in GOES_WITH.items():
        if options[name] is not None and options[other] is None:
            raise InputError(f"--{name.replace('_', '-')} goes with --{other} only")
    return Request(options.q, options.temperature, not options.minimize, options.allow_repeats, options.seed)


def _check_files(options: Namespace, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> None:
    """Refuse to write over what is read, and to write two things to one name."""
    for path in filter(None, (options[name] for name in ("out", *outputs))):
        for name in inputs:
            if options[name] is not None and Path(options[name]).resolve() == Path(path).resolve():
                raise InputError(f"{path} is also --{name.replace('_', '-')} and would be lost; write to another name")
    check_output(options.out)
    batch = (Path(options.out).resolve(), run_path(options.out).resolve())
    for name in outputs:
        if options[name] is not None:
            check_folder(options[name])
            if Path(options[name]).resolve() in batch:
                flag = name.replace("_", "-")
                raise InputError(f"{options[name]} is also written as the batch; give --{flag} another name")


def measured_id(options: Namespace) -> str | None:
    """The id column of the measured rows, if it has to be told from features: a library has ids, these need none."""
    id: str | None = options.id
    if options.library is None or id is None:
        return id
    return id if options.features is None and id in open_source(options.measured).columns else None


def box_of(options: Namespace) -> Box | None:
    """The box to choose from, if there is one."""
    if options.bounds is None:
        return None
    constraints = options.constraint or []
    return Box(
        parse_bounds(options.bounds),
        integer=parse_names(options.integer),
        constraints=tuple([constraints] if isinstance(constraints, str) else constraints),
        shared=parse_names(options.shared),
    )


def choice_arguments(options: Namespace) -> dict[str, Any]:
    """Arguments of `propose` that the options stand for, beside those of `Request`, the library and the box."""
    limits = Limits(at_most=parse_counts(options.at_most), min_distance=options.min_distance)
    return {
        "energy": SoftmaxEnergy() if options.energy == "softmax" else MeanEnergy(),
        "pending": options.pending,
        "exclude": options.exclude,
        "limits": limits,
        "search": BoxSearch(options.restarts, options.steps, start=options.search_start),
    }
