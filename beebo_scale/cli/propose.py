"""`beebo-scale propose`: the next batch of a fitted surrogate, by one process or by all that torchrun started."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from jsonargparse import ArgumentParser, Namespace

from ..errors import InputError
from ..specs import Choice
from .arguments import COUNT
from .faces import FACES
from .guards import check_batch
from .outputs import add_plate_options, announce, layout_of, picks_of, told_when_stopped, write_batch

if TYPE_CHECKING:
    from ..proposal import Prepared
    from ..proposal.jobs.chunks import Ledger
    from ..screening import Batch
    from ..workers import Workers

IRRELEVANT = ("config", "out", "run_dir", "workers")  # options that do not decide what the batch is
DEVICES = ("auto", "cpu", "cuda")
FACE = FACES["propose"]


def add_options(parser: ArgumentParser) -> None:
    """Options of the command."""
    add = parser.add_argument
    add("--config", action="config", help="a YAML file with any of these options")
    add("--surrogate", type=str, required=True, help="model file of suggest --save-model, or a checkpoint of fit")
    add("--out", type=str, help="the batch: .csv, .csv.gz or .parquet; default: batch.csv in the run folder")
    FACE.add_to(parser)
    add_plate_options(parser)
    add = parser.add_argument_group("the job").add_argument
    add("--run-dir", type=str, help="folder that keeps what is finished, so that the same command goes on after a stop")
    add("--workers", type=COUNT, help="how many there should be; start them with torchrun")
    add("--threads", type=COUNT, default=1, help="of each worker; rounding depends on it")
    add("--device", choices=DEVICES, default="auto", help="auto takes a GPU if there is one")


def run(options: Namespace) -> Batch:
    """Check, load, prepare, choose in chunks that survive, write."""
    from ..proposal import choose, prepare
    from ..proposal.jobs.chunks import ChunkRunner, on_first
    from ..proposal.jobs.processes import device_of, join
    from ..proposal.jobs.run_folder import stopping_on_sigterm
    from ..surrogates import load_surrogate

    columns, choice = FACE.read(options)
    _check(options, choice)
    layout, picks = layout_of(options, choice.seed), picks_of(options, columns.id)
    with (
        stopping_on_sigterm(),
        join(options.workers, options.threads) as workers,
        told_when_stopped(lambda: _kept(options), partial(_say, workers)),
    ):
        device = device_of(options.device)
        surrogate = load_surrogate(options.surrogate)
        kinds = ", ".join(f"{name} ({kind})" for name, kind in surrogate.encoder.kinds.items())
        id = "" if columns.id is None else f"; id: {columns.id}"
        _say(workers, f"{options.surrogate}: {surrogate.kind} surrogate of {surrogate.target}; features: {kinds}{id}")
        prepared = prepare(choice, surrogate.encoder, surrogate.measured_rows, columns.id, columns.drop_invalid)
        if prepared.described:
            _say(workers, prepared.described)
        with _ledger(options, prepared, workers, device.type) as ledger:
            batch = choose(prepared, surrogate, ChunkRunner(workers, ledger), device)
            _record(batch, options, workers, device.type)
            maps = on_first(workers, lambda: write_batch(batch, options.out, layout, picks))
    announce(batch, options.out, maps, partial(_say, workers))
    return batch


def _check(options: Namespace, choice: Choice) -> None:
    from ..proposal.jobs.run_folder import make_folder

    choice.check_source()
    if options.run_dir is None and options.out is None:
        raise InputError("give --out FILE, or --run-dir FOLDER for a job that can be stopped and relaunched")
    if options.out is None:
        options.out = str(make_folder(options.run_dir) / "batch.csv")
    for name in ("workers", "threads"):
        if options[name] is not None and options[name] < 1:
            raise InputError(f"--{name} {options[name]}: give 1 or more")
    check_batch(options)


@contextmanager
def _ledger(options: Namespace, prepared: Prepared, workers: Workers, device: str) -> Iterator[Ledger | None]:
    """The ledger of the run folder, if there is one."""
    if options.run_dir is None:
        yield None
        return
    from ..proposal.jobs.chunks import on_first
    from ..proposal.jobs.run_folder import open_run

    identity = on_first(workers, lambda: _identity(options, prepared, device))
    with open_run(options.run_dir, identity, workers) as ledger:
        yield ledger


def _identity(options: Namespace, prepared: Prepared, device: str) -> dict[str, Any]:
    """All that decides what the batch is."""
    from ..proposal.provenance import input_hashes, versions

    given = {name: value for name, value in options.as_dict().items() if name not in IRRELEVANT}
    hashes = input_hashes(options.surrogate) | prepared.inputs
    contents = {f"content of {name}": digest for name, digest in hashes.items()}
    return given | {"device": device} | contents | versions()


def _record(batch: Batch, options: Namespace, workers: Workers, device: str) -> None:
    """Add to the batch's record what the choice cannot know."""
    from ..proposal.provenance import input_hashes

    given = {name: value for name, value in options.as_dict().items() if name not in ("config", "bounds")}
    batch.run["configuration"] = given | batch.run["configuration"]
    batch.run["inputs"] |= input_hashes(options.surrogate)
    batch.run["job"] = {"workers": workers.size, "threads": options.threads, "device": device}


def _kept(options: Namespace) -> str:
    """What a relaunch finds."""
    if options.run_dir is None:
        return "no chunks are kept (give --run-dir to keep them)"
    count = len(list((Path(options.run_dir) / "chunks").glob("*.pt")))
    return f"{count} finished chunks are kept in {options.run_dir}; the same command goes on with them"


def _say(workers: Workers, text: str, file: IO[str] | None = None) -> None:
    if workers.rank == 0:
        print(text, file=file, flush=True)
