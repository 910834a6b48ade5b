"""`beebo-scale propose`: the next batch of a fitted surrogate, by one process or by all that torchrun started."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from jsonargparse import ArgumentParser, Namespace

from ..errors import InputError
from ..proposal import Request, propose
from ..proposal.jobs.chunks import Crew, Ledger, on_first
from ..proposal.jobs.processes import device_of, join
from ..proposal.jobs.run_folder import Stopped, make_folder, open_run, stopping_on_sigterm
from ..proposal.provenance import input_hashes, versions
from ..screening import Batch, Layout, write_plates
from ..screening.invalid import dropped_path, told
from ..surrogates import load_surrogate
from ..workers import Workers
from . import plates
from .arguments import whole_number
from .choice import FILES, add_options, box_of, check_options, choice_arguments

HELP = "Choose the next batch of a fitted surrogate from a library or a box; can be stopped and relaunched."
IRRELEVANT = ("config", "out", "run_dir", "workers")  # options that do not decide what the batch is
DEVICES = ("auto", "cpu", "cuda")


def build_parser() -> ArgumentParser:
    """Options of the command."""
    parser = ArgumentParser(description=HELP, exit_on_error=False, allow_abbrev=False)
    add = parser.add_argument
    add("--config", action="config", help="a YAML file with any of these options")
    add("--surrogate", type=str, required=True, help="model file of suggest --save-model, or a checkpoint of fit")
    add("--id", type=str, help="column of the library that names its rows")
    add("--out", type=str, help="the batch: .csv, .csv.gz or .parquet; default: batch.csv in the run folder")
    add_options(parser)
    plates.add_options(parser)
    add = parser.add_argument_group("the job").add_argument
    add("--run-dir", type=str, help="folder that keeps what is finished, so that the same command goes on after a stop")
    add("--workers", type=whole_number, help="how many there should be; start them with torchrun")
    add("--threads", type=whole_number, default=1, help="of each worker; rounding depends on it")
    add("--device", choices=DEVICES, default="auto", help="auto takes a GPU if there is one")
    return parser


def run(options: Namespace) -> Batch:
    """Check, load, choose in chunks that survive, write."""
    request, layout = _check_options(options), plates.layout_of(options, options.seed)
    with stopping_on_sigterm(), join(options.workers, options.threads) as workers, _told(options, workers):
        device = device_of(options.device)
        surrogate = load_surrogate(options.surrogate)
        kinds = ", ".join(f"{name} ({kind})" for name, kind in surrogate.encoder.kinds.items())
        _say(workers, f"{options.surrogate}: {surrogate.kind} surrogate of {surrogate.target}; features: {kinds}")
        with _ledger(options, workers, device.type) as ledger:
            batch = propose(
                surrogate,
                library=options.library,
                bounds=box_of(options),
                id=options.id,
                drop_invalid=options.drop_invalid,
                crew=Crew(workers, ledger),
                device=device,
                **vars(request),
                **choice_arguments(options),
            )
            _record(batch, options, workers, device.type)
            maps = on_first(workers, lambda: _write(batch, options.out, layout))
    _say(workers, f"{options.out}: {options.q} rows to measure next")
    if batch.invalid:
        _say(workers, told(batch.invalid, dropped_path(options.out)))
    for path in maps:
        _say(workers, path)
    return batch


def _write(batch: Batch, out: str, layout: Layout | None) -> list[str]:
    """The batch last: where it stands, everything else does."""
    maps = [] if layout is None else [str(path) for path in write_plates(batch.frame, out, layout)]
    batch.write(out)
    return maps


def _check_options(options: Namespace) -> Request:
    if options.run_dir is None and options.out is None:
        raise InputError("give --out FILE, or --run-dir FOLDER for a job that can be stopped and relaunched")
    if options.out is None:
        options.out = str(make_folder(options.run_dir) / "batch.csv")
    for name in ("workers", "threads"):
        if options[name] is not None and options[name] < 1:
            raise InputError(f"--{name} {options[name]}: give 1 or more")
    return check_options(options, inputs=("surrogate",), outputs=())


@contextmanager
def _ledger(options: Namespace, workers: Workers, device: str) -> Iterator[Ledger | None]:
    """The ledger of the run folder, if there is one."""
    if options.run_dir is None:
        yield None
        return
    identity = on_first(workers, lambda: _identity(options, device))
    with open_run(options.run_dir, identity, workers) as ledger:
        yield ledger


def _identity(options: Namespace, device: str) -> dict[str, Any]:
    """All that decides what the batch is."""
    given = {name: value for name, value in options.as_dict().items() if name not in IRRELEVANT}
    hashes = input_hashes(*(options[name] for name in ("surrogate", *FILES) if options[name] is not None))
    contents = {f"content of {name}": digest for name, digest in hashes.items()}
    return given | {"device": device} | contents | versions()


def _record(batch: Batch, options: Namespace, workers: Workers, device: str) -> None:
    """Add to the batch's record what `propose` cannot know."""
    given = {name: value for name, value in options.as_dict().items() if name not in ("config", "bounds")}
    batch.run["configuration"] = given | batch.run["configuration"]
    batch.run["inputs"] |= input_hashes(options.surrogate)
    batch.run["job"] = {"workers": workers.size, "threads": options.threads, "device": device}


@contextmanager
def _told(options: Namespace, workers: Workers) -> Iterator[None]:
    """Say what is kept when the job is stopped or interrupted."""
    try:
        yield
    except Stopped:
        _say(workers, f"beebo-scale: stopped, {_kept(options)}", file=sys.stderr)
        raise
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_kept(options)) from None


def _kept(options: Namespace) -> str:
    """What a relaunch finds."""
    if options.run_dir is None:
        return "nothing is kept (give --run-dir to keep it)"
    count = len(list((Path(options.run_dir) / "chunks").glob("*.pt")))
    return f"{count} finished chunks are kept in {options.run_dir}; the same command goes on with them"


def _say(workers: Workers, text: str, file: IO[str] | None = None) -> None:
    if workers.rank == 0:
        print(text, file=file, flush=True)
