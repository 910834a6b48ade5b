"""`beebo-scale suggest`: a measured screen in, the next plate out."""

from __future__ import annotations

import sys
import time
from dataclasses import replace

from jsonargparse import ArgumentParser, Namespace

from ..errors import InputError
from ..kernels.screen import PRIORS
from ..proposal import check_request, propose
from ..proposal.provenance import input_hashes
from ..screening import Batch, Encoder, Table, read_table, write_plates
from ..screening.invalid import dropped_path, told
from ..screening.library import open_library
from ..screening.targets import parse_target
from ..surrogates import KINDS, Surrogate, fit, load_surrogate
from ..surrogates.data.target import TRANSFORMS
from ..surrogates.fit import check_likelihood
from ..surrogates.outliers import far_out
from . import plates
from .arguments import parse_features
from .choice import BATCH, FILES, ROBUST, TARGET, add_options, box_of, check_options, choice_arguments, measured_id

HELP = "Fit a surrogate to a measured screen and choose the next batch from a library or a box."
INPUTS = ("measured", "warm_start")  # options that name a file to read, beside those of a choice


def build_parser() -> ArgumentParser:
    """Options of the command."""
    parser = ArgumentParser(description=HELP, exit_on_error=False, allow_abbrev=False)
    add = parser.add_argument
    add("--config", action="config", help="a YAML file with any of these options")
    add(
        "--measured",
        type=str,
        required=True,
        help="measured rows: CSV, TSV (also .gz, .xz), Excel (FILE.xlsx#SHEET) or Parquet",
    )
    add("--target", type=str, required=True, help=TARGET)
    add(
        "--features",
        nargs="+",
        metavar="COLUMN:KIND",
        help="kinds: continuous, categorical, protein, dna, smiles; a bare COLUMN is continuous if it holds numbers, "
        "else categorical; without this option all other columns but dates, places on a plate and names are features",
    )
    add("--id", type=str, help="column that names the rows of the library; measured rows need none")
    add("--noise-variance", type=str, help="column with the known variance of each target")
    add("--batch", type=str, help=BATCH)
    add("--robust", action="store_true", help=ROBUST)
    add("--kind", choices=KINDS, default="auto", help="surrogate")
    add("--transform", choices=TRANSFORMS, default="auto", help="of the target; auto looks at its distribution")
    add("--priors", choices=PRIORS, default="botorch", help="of the hyperparameters")
    add("--warm-start", type=str, help="model file of the last round, to start the fit from")
    add("--save-model", type=str, help="also write the fitted surrogate to this file")
    add("--out", type=str, required=True, help="the batch: .csv, .csv.gz or .parquet; a .run.json comes beside it")
    add_options(parser)
    plates.add_options(parser)
    return parser


def run(options: Namespace) -> Batch:
    """Check everything that can be checked at once, fit, choose, write."""
    if not isinstance(options.robust, bool):  # from a configuration file
        raise InputError(f"robust: {options.robust!r} is neither true nor false")
    check_likelihood("student-t" if options.robust else "gaussian", options.kind, options.noise_variance is not None)
    request = check_options(options, INPUTS, ("save_model",))
    layout = plates.layout_of(options, options.seed)
    features = None if options.features is None else parse_features(options.features)
    box, choice = box_of(options), choice_arguments(options)
    drop = options.drop_invalid
    target = parse_target(options.target)
    id, noise = measured_id(options), options.noise_variance
    table = read_table(options.measured, target, features, id, noise, drop, options.batch)
    left_out = f", {table.dropped} without {table.target} left out" if table.dropped else ""
    print(f"{table.source}: {len(table)} measured rows{left_out}\n{table.describe()}", flush=True)
    library = None
    if options.library is not None:
        lengths = Encoder.from_table(table).lengths if drop else None
        library = open_library(
            options.library, table.kinds, options.id, list(choice["limits"].at_most), lengths=lengths
        )
    check_request(request, table, library, box, options.pending, options.exclude)
    warm_start = None if options.warm_start is None else load_surrogate(options.warm_start)
    started = time.monotonic()
    surrogate = fit(
        table,
        options.kind,
        transform=options.transform,
        likelihood="student-t" if options.robust else "gaussian",
        priors=options.priors,
        warm_start=warm_start,
        seed=options.seed,
    )
    fit_seconds = round(time.monotonic() - started, 3)
    _remark(surrogate, table)
    batch = propose(surrogate, library=library, bounds=box, id=options.id, **vars(request), **choice)
    batch = replace(batch, invalid=(*table.invalid, *batch.invalid))
    _record(batch, options, table, fit_seconds)
    if options.save_model is not None:
        surrogate.save(options.save_model)
    maps = () if layout is None else write_plates(batch.frame, options.out, layout)
    batch.write(options.out)  # last: where it stands, everything else does
    print(f"{options.out}: {options.q} rows to measure next")
    if batch.invalid:
        print(told(batch.invalid, dropped_path(options.out)))
    for path in maps:
        print(path)
    return batch


def _remark(surrogate: Surrogate, table: Table) -> None:
    """Say what a user should know of the fit."""
    if surrogate.report.warning:
        print(f"beebo-scale: {surrogate.report.warning}", file=sys.stderr)
    far = far_out(surrogate, table)
    if far:
        ways = ", or take --robust or --transform rank" if table.noise_variance is None else ""
        print(f"note: {far}: look at them{ways}")


def _record(batch: Batch, options: Namespace, table: Table, fit_seconds: float) -> None:
    """Add to the batch's record what `propose` cannot know."""
    given = {name: value for name, value in options.as_dict().items() if name not in ("config", "bounds")}
    batch.run["configuration"] = given | batch.run["configuration"]
    batch.run["measured"] = {"source": table.source, "rows": len(table), "dropped": table.dropped}
    if options.drop_invalid:
        batch.run["measured"]["invalid"] = len(table.invalid)
    batch.run["inputs"] |= input_hashes(*(options[name] for name in (*INPUTS, *FILES) if options[name] is not None))
    batch.run["timings"] = {"fit_seconds": fit_seconds} | batch.run["timings"]
