"""`beebo-scale suggest`: a measured screen in, the next plate out."""

from __future__ import annotations

import time

from jsonargparse import ArgumentParser, Namespace

from ..acquisition import check_temperature
from ..errors import InputError
from ..proposal import propose
from ..proposal.record import input_hashes
from ..screening import Batch, check_output, read_library, read_table
from ..surrogates import KINDS, fit, load_surrogate
from ..surrogates.kernels import PRIORS
from ..surrogates.target import TRANSFORMS

HELP = "Fit a surrogate to a measured screen and choose the next batch from a library or a box."


def build_parser() -> ArgumentParser:
    """Options of the command."""
    parser = ArgumentParser(description=HELP, exit_on_error=False)
    add = parser.add_argument
    add("--config", action="config", help="a YAML file with any of these options")
    add("--measured", type=str, required=True, help="measured rows: CSV, TSV (also .gz, .xz) or Parquet")
    add("--target", type=str, required=True, help="column to improve")
    add("--features", nargs="+", metavar="COLUMN:KIND", help="kinds: continuous, categorical, protein, dna")
    add("--id", type=str, help="column that names the rows")
    add("--noise-variance", type=str, help="column with the known variance of each target")
    add("--library", type=str, help="candidates to choose from")
    add("--bounds", nargs="+", metavar="COLUMN:LOW:HIGH", help="a box to choose from instead of a library")
    add("-q", "--q", type=int, default=96, help="experiments in the batch")
    add("--temperature", type=float, default=0.5, help="T': 0 exploits, 0.5 balances, 2 explores")
    add("--minimize", action="store_true", help="small targets are good")
    add("--allow-repeats", action="store_true", help="also propose inputs that were measured already")
    add("--kind", type=str, default="auto", help=f"surrogate: {', '.join(KINDS)}")
    add("--transform", type=str, default="auto", help=f"of the target: {', '.join(TRANSFORMS)}")
    add("--priors", type=str, default="botorch", help=f"of the hyperparameters: {', '.join(PRIORS)}")
    add("--warm-start", type=str, help="model file of the last round, to start the fit from")
    add("--save-model", type=str, help="also write the fitted surrogate to this file")
    add("--seed", type=int, default=0)
    add("--out", type=str, required=True, help="the batch: .csv, .csv.gz or .parquet; a .run.json comes beside it")
    return parser


def run(options: Namespace) -> Batch:
    """Check everything that can be checked at once, fit, choose, write."""
    started = time.monotonic()
    out = check_output(options.out)
    check_temperature(options.temperature)
    if options.q < 1:
        raise InputError(f"-q {options.q}: a batch has at least one point")
    if (options.library is None) == (options.bounds is None):
        raise InputError("give either --library FILE or --bounds COLUMN:LOW:HIGH ... to choose from")
    features = None if options.features is None else parse_features(options.features)
    bounds = None if options.bounds is None else parse_bounds(options.bounds)
    table = read_table(options.measured, options.target, features, options.id, options.noise_variance)
    library = None if options.library is None else read_library(options.library, table.kinds, options.id)
    if library is not None and options.q > len(library):
        raise InputError(f"{library.source}: q = {options.q}, but it has only {len(library)} rows; lower q")
    warm_start = None if options.warm_start is None else load_surrogate(options.warm_start)
    print(
        f"{table.source}: {len(table)} measured rows, {table.dropped} without {table.target} left out; features:",
        ", ".join(f"{name} ({kind})" for name, kind in table.kinds.items()),
        flush=True,
    )
    surrogate = fit(
        table,
        options.kind,
        transform=options.transform,
        priors=options.priors,
        warm_start=warm_start,
        seed=options.seed,
    )
    fitted = time.monotonic()
    batch = propose(
        surrogate,
        options.q,
        library,
        bounds,
        temperature=options.temperature,
        maximize=not options.minimize,
        allow_repeats=options.allow_repeats,
        seed=options.seed,
    )
    batch.run["inputs"] |= input_hashes(table.source)
    batch.run["measured"] = {"source": table.source, "rows": len(table), "dropped": table.dropped}
    batch.run["timings"]["fit_seconds"] = round(fitted - started, 3)
    batch.write(out)
    if options.save_model is not None:
        surrogate.save(options.save_model)
    print(f"{out}: {options.q} rows to measure next")
    return batch


def parse_features(texts: list[str]) -> dict[str, str | None]:
    """`variant:protein temp:continuous` (or a bare name, whose kind is inferred) to a dict."""
    features: dict[str, str | None] = {}
    for text in [part for group in texts for part in group.split(",")]:
        name, _, kind = text.rpartition(":") if ":" in text else (text, "", "")
        if not name:
            raise InputError(f"--features {text!r}: write COLUMN:KIND, such as variant:protein")
        features[name] = kind or None
    return features


def parse_bounds(texts: list[str]) -> dict[str, tuple[float, float]]:
    """`temp:20:80 ph:4:9` to a dict."""
    bounds = {}
    for text in [part for group in texts for part in group.split(",")]:
        try:
            name, low, high = text.rsplit(":", 2)
            bounds[name] = (float(low), float(high))
        except ValueError as error:
            raise InputError(f"--bounds {text!r}: write COLUMN:LOW:HIGH, such as temp:20:80") from error
    return bounds
