"""`beebo-scale suggest`: a measured screen in, the next plate out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser, Namespace

from ..errors import InputError
from ..proposal import Request, check_request, propose
from ..proposal.record import input_hashes
from ..screening import Batch, Table, check_folder, check_output, read_library, read_table, run_path
from ..surrogates import KINDS, Surrogate, fit, load_surrogate
from ..surrogates.kernels import PRIORS
from ..surrogates.target import TRANSFORMS
from .arguments import number, parse_bounds, parse_features, whole_number

HELP = "Fit a surrogate to a measured screen and choose the next batch from a library or a box."
INPUTS = ("measured", "library", "warm_start")  # options that name a file to read


def build_parser() -> ArgumentParser:
    """Options of the command."""
    parser = ArgumentParser(description=HELP, exit_on_error=False, allow_abbrev=False)
    add = parser.add_argument
    add("--config", action="config", help="a YAML file with any of these options")
    add("--measured", type=str, required=True, help="measured rows: CSV, TSV (also .gz, .xz) or Parquet")
    add("--target", type=str, required=True, help="column to improve; rows without it are left out")
    add(
        "--features",
        nargs="+",
        metavar="COLUMN:KIND",
        help="kinds: continuous, categorical, protein, dna; a bare COLUMN is continuous if it holds numbers, else "
        "categorical; without this option every other column is a feature",
    )
    add("--id", type=str, help="column that names the rows, in the library too")
    add("--noise-variance", type=str, help="column with the known variance of each target")
    add("--library", type=str, help="candidates to choose from: a file with the feature columns")
    add("--bounds", nargs="+", metavar="COLUMN:LOW:HIGH", help="a box to choose from instead of a library")
    add("-q", "--q", type=whole_number, default=96, help="experiments in the batch")
    add("--temperature", type=number, default=0.5, help="T': 0 exploits, 0.5 balances, 2 explores")
    add("--minimize", action="store_true", help="small targets are good")
    add("--allow-repeats", action="store_true", help="also propose inputs that were measured already")
    add("--kind", choices=KINDS, default="auto", help="surrogate")
    add("--transform", choices=TRANSFORMS, default="auto", help="of the target; auto looks at its distribution")
    add("--priors", choices=PRIORS, default="botorch", help="of the hyperparameters")
    add("--warm-start", type=str, help="model file of the last round, to start the fit from")
    add("--save-model", type=str, help="also write the fitted surrogate to this file")
    add("--seed", type=whole_number, default=0, help="the same seed and input give the same batch")
    add("--out", type=str, required=True, help="the batch: .csv, .csv.gz or .parquet; a .run.json comes beside it")
    return parser


def run(options: Namespace) -> Batch:
    """Check everything that can be checked at once, fit, choose, write."""
    request = _check_options(options)
    features = None if options.features is None else parse_features(options.features)
    bounds = None if options.bounds is None else parse_bounds(options.bounds)
    table = read_table(options.measured, options.target, features, options.id, options.noise_variance)
    library = None if options.library is None else read_library(options.library, table.kinds, options.id)
    check_request(request, table, library, bounds)
    warm_start = None if options.warm_start is None else load_surrogate(options.warm_start)
    kinds = ", ".join(f"{name} ({kind})" for name, kind in table.kinds.items())
    left_out = f", {table.dropped} without {table.target} left out" if table.dropped else ""
    print(f"{table.source}: {len(table)} measured rows{left_out}; features: {kinds}", flush=True)
    started = time.monotonic()
    surrogate = fit(
        table,
        options.kind,
        transform=options.transform,
        priors=options.priors,
        warm_start=warm_start,
        seed=options.seed,
    )
    fit_seconds = round(time.monotonic() - started, 3)
    batch = propose(surrogate, library=library, bounds=bounds, **vars(request))
    _record(batch, options, table, fit_seconds)
    _write(batch, surrogate, options)
    print(f"{options.out}: {options.q} rows to measure next")
    return batch


def _check_options(options: Namespace) -> Request:
    """What can be refused before any file is opened."""
    for path in filter(None, (options.out, options.save_model)):
        for name in INPUTS:
            if options[name] is not None and Path(options[name]).resolve() == Path(path).resolve():
                raise InputError(f"{path} is also --{name.replace('_', '-')} and would be lost; write to another name")
    check_output(options.out)
    if options.save_model is not None:
        check_folder(options.save_model)
        if Path(options.save_model).resolve() in (Path(options.out).resolve(), run_path(options.out).resolve()):
            raise InputError(f"{options.save_model} is also written as the batch; give --save-model another name")
    for flag in ("minimize", "allow_repeats"):
        if not isinstance(options[flag], bool):  # from a configuration file
            raise InputError(f"{flag}: {options[flag]!r} is neither true nor false")
    if (options.library is None) == (options.bounds is None):
        raise InputError("give either --library FILE or --bounds COLUMN:LOW:HIGH ... to choose from")
    return Request(options.q, options.temperature, not options.minimize, options.allow_repeats, options.seed)


def _record(batch: Batch, options: Namespace, table: Table, fit_seconds: float) -> None:
    """Add to the batch's record what `propose` cannot know."""
    given: dict[str, Any] = {name: value for name, value in vars(options).items() if name not in ("config", "bounds")}
    batch.run["configuration"] = given | batch.run["configuration"]
    batch.run["measured"] = {"source": table.source, "rows": len(table), "dropped": table.dropped}
    batch.run["inputs"] |= input_hashes(*(options[name] for name in INPUTS if options[name] is not None))
    batch.run["timings"] = {"fit_seconds": fit_seconds} | batch.run["timings"]


def _write(batch: Batch, surrogate: Surrogate, options: Namespace) -> None:
    """The batch last: where it stands, everything else does."""
    if options.save_model is not None:
        surrogate.save(options.save_model)
    batch.write(options.out)
