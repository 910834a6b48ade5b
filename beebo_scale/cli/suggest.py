"""`beebo-scale suggest`: a measured screen in, the next plate out."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jsonargparse import ArgumentParser, Namespace

from .faces import FACES
from .guards import check_batch
from .outputs import add_plate_options, announce, layout_of, picks_of, write_batch

if TYPE_CHECKING:
    from ..screening import Batch, Table
    from ..surrogates import Surrogate

MEASURED = "results so far: CSV, TSV (also .gz, .xz), Excel (FILE.xlsx#SHEET) or Parquet"
FACE = FACES["suggest"]


def add_options(parser: ArgumentParser) -> None:
    """Options of the command."""
    add = parser.add_argument
    add("--config", action="config", help="a YAML file with any of these options")
    add("--measured", type=str, required=True, help=MEASURED)
    add("--out", type=str, required=True, help="the batch: .csv, .csv.gz or .parquet; a .run.json comes beside it")
    add("--warm-start", type=str, help="model file of the last round, to start the fit from")
    add("--save-model", type=str, help="also write the fitted surrogate to this file")
    FACE.add_to(parser)
    add_plate_options(parser)


def run(options: Namespace) -> Batch:
    """Check everything that can be checked at once, fit, choose, write."""
    columns, fitting, choice = FACE.read(options)
    from ..screening.files.opening import open_source
    from ..screening.table import read_columns, read_measured

    fitting.check_noise(columns.noise_variance is not None)
    choice.check_source()
    choice.check_aims(columns.aims, bool(columns.limits))
    check_batch(options)
    layout, picks = layout_of(options, choice.seed), picks_of(options, columns.id)
    if choice.choices is not None:
        from ..proposal import measured_blocks

        table = read_columns(*measured_blocks(choice, columns, open_source(options.measured, columns.named)))
    elif choice.library is None:
        table = read_columns(options.measured, columns)
    else:
        table = read_measured(options.measured, columns, choice.library)
    left_out = f", {table.dropped} without {table.target} left out" if table.dropped else ""
    print(f"{table.source}: {len(table)} measured rows{left_out}\n{table.describe()}", flush=True)

    from ..proposal import choose, encode_measured, prepare_measured  # torch from here on
    from ..surrogates import fit, load_surrogate

    measured = encode_measured(table, choice, columns.drop_invalid)
    prepared = prepare_measured(choice, measured, columns.id, columns.drop_invalid)
    if prepared.described:
        print(prepared.described, flush=True)
    warm_start = None if options.warm_start is None else load_surrogate(options.warm_start)
    started = time.monotonic()
    surrogate = fit(measured, fitting=fitting, warm_start=warm_start, minimize=choice.direction)
    fit_seconds = round(time.monotonic() - started, 3)
    _remark(surrogate, table)
    batch = choose(prepared, surrogate)
    batch = replace(batch, invalid=(*table.invalid, *batch.invalid))
    _record(batch, options, table, fit_seconds)
    if options.save_model is not None:
        surrogate.save(options.save_model)
    announce(batch, options.out, write_batch(batch, options.out, layout, picks))
    return batch


def _remark(surrogate: Surrogate, table: Table) -> None:
    """Say what a user should know of the fit."""
    from ..surrogates.outliers import far_out, few_values

    if surrogate.report.warning:
        print(f"beebo-scale: {surrogate.report.warning}", file=sys.stderr)
    for note in (*few_values(table), *surrogate.notes):
        print(f"note: {note}")
    if surrogate.scale.transform != "none":
        print(f"note: {surrogate.target} is modelled as the {surrogate.scale.words}")
    far = far_out(surrogate, table)
    if far:
        ways = ", or take --robust or --transform rank" if table.noise_variance is None else ""
        print(f"note: {far}: look at them{ways}")


def _record(batch: Batch, options: Namespace, table: Table, fit_seconds: float) -> None:
    """Add to the batch's record what the choice cannot know."""
    from ..proposal.provenance import input_hashes

    given = {name: value for name, value in options.as_dict().items() if name not in ("config", "bounds")}
    batch.run["configuration"] = given | batch.run["configuration"]
    measured: dict[str, Any] = {"source": table.source, "rows": len(table), "dropped": table.dropped}
    told = {"units": dict(table.units), "notes": list(table.notes)}
    measured |= {name: value for name, value in told.items() if value}
    batch.run["measured"] = measured | ({"invalid": len(table.invalid)} if options.drop_invalid else {})
    batch.run["inputs"] |= input_hashes(*filter(None, (options.measured, options.warm_start)))
    batch.run["timings"] = {"fit_seconds": fit_seconds} | batch.run["timings"]
