"""`beebo-scale simulate`: closed loops on a fully measured file or a test function, beside what has to be beaten."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from jsonargparse import ArgumentParser, Namespace

from ..errors import InputError
from ..specs import Choice, Columns
from ..specs.setting import number
from .arguments import COUNT, Typed, parse_names
from .faces import FACES
from .guards import check_simulation
from .outputs import told_when_stopped

if TYPE_CHECKING:
    from ..simulation import Landscape, ProductLandscape, TestFunction
    from ..simulation.results import Results

FACE = FACES["simulate"]
ABOUT = {  # option -> what it is about
    **dict.fromkeys(
        ("target", "features", "noise_variance", "drop_invalid", "minimize", "top", "choices", "incompatible"),
        "landscape",
    ),
    **dict.fromkeys(("dimension", "noise", "effective"), "function"),
}


def add_options(parser: ArgumentParser) -> None:
    """Options of the command."""
    from ..simulation.problems.functions import FUNCTIONS

    parser.add_argument("--config", action="config", help="a YAML file with any of these options")
    add, amount = parser.add_argument_group("what is measured").add_argument, Typed(number)
    add("--landscape", type=str, help="a file in which every candidate is measured, or gb1, which comes along")
    add("--top", type=COUNT, help="recall is of so many best rows; default: one in a hundred")
    add("--function", type=str, help=f"a function instead: {', '.join(FUNCTIONS)}")
    add("--dimension", type=COUNT, help="its number of inputs, where it has several")
    add("--effective", type=COUNT, help="of these, the first so many matter: the function is embedded")
    add("--noise", type=amount, help="standard deviation of the noise of its measurements")
    add = parser.add_argument_group("the loop").add_argument
    add("--strategies", nargs="+", metavar="NAME", help=_strategies())
    add("--start", type=COUNT, help="points measured before any choice; default: as many as in a batch")
    add("--seeds", type=COUNT, default=1, help="how often each strategy runs, from how many starts")
    add("--first-seed", type=COUNT, default=0, help="of the seeds, which are counted up from it")
    add("--cold", action="store_true", help="do not start a fit from the hyperparameters of the round before")
    add("--kappa", type=amount, default=4.0, help="of ucb, q-ucb, gp-bucb, rahbo: mean + sqrt(kappa) std")
    add("--risk", type=amount, default=1.0, help="of rahbo: what a unit of variance costs")
    FACE.add_to(parser)
    add = parser.add_argument_group("the job").add_argument
    add("--run-dir", type=str, required=True, help="folder of all runs; the same command goes on with what is there")
    add("--processes", type=COUNT, default=1, help="runs that go on at a time")
    add("--threads", type=COUNT, default=1, help="of each; rounding depends on it")


def _strategies() -> str:
    from .. import simulation as known

    names = (known.LANDSCAPE_STRATEGIES, known.FUNCTION_STRATEGIES, known.MORE_FUNCTION_STRATEGIES)
    landscape, function, more, noise = map(", ".join, (*names, known.NOISE_STRATEGIES))
    return (
        f"for a landscape {landscape}; for a function {function}; default: all of these; for a function also {more}; "
        f"where the noise depends on the inputs {noise}"
    )


def run(options: Namespace) -> Results:
    """Check, run what is not finished, print the page."""
    from ..proposal.jobs.run_folder import make_folder, stopping_on_sigterm
    from ..screening.batch import dropped_path, write_text
    from ..screening.invalid import listed, told
    from ..simulation import (
        FUNCTION_STRATEGIES,
        LANDSCAPE_STRATEGIES,
        PRODUCT_STRATEGIES,
        Landscape,
        Options,
        TestFunction,
        simulate,
    )
    from ..simulation.simulate import TRADEOFF_STRATEGIES

    columns, fitting, choice, rounds = FACE.read(options)
    choice.check_aims(columns.aims, False)
    _check(options)
    world = _world(options, columns, choice)
    usual: tuple[str, ...] = FUNCTION_STRATEGIES if isinstance(world, TestFunction) else LANDSCAPE_STRATEGIES
    usual = TRADEOFF_STRATEGIES if columns.aims else usual
    usual = usual if choice.choices is None else PRODUCT_STRATEGIES
    strategies = parse_names(options.strategies or ()) or usual
    check_simulation(options, [f"{name}-{options.first_seed + i}" for i in range(options.seeds) for name in strategies])
    if isinstance(world, Landscape) and world.invalid:
        path = dropped_path(make_folder(options.run_dir) / "rounds.csv")
        write_text(path, listed(world.invalid))
        print(told(world.invalid, path))
    made = Options(fitting, rounds.by_round, options.kappa, choice.search, options.risk, not options.cold)
    with stopping_on_sigterm(), told_when_stopped(lambda: _kept(options)):
        results = simulate(
            world,
            list(strategies),
            options.run_dir,
            q=choice.q,
            rounds=options.rounds,
            start=options.start,
            seeds=range(options.first_seed, options.first_seed + options.seeds),
            options=made,
            processes=options.processes,
            threads=options.threads,
        )
    print(results.markdown())
    print(f"{options.run_dir}: rounds.csv, summary.csv, summary.md and curves.png")
    return results


def _check(options: Namespace) -> None:
    """What can be refused before any file is opened."""
    if not isinstance(options.cold, bool):  # from a configuration file
        raise InputError(f"cold: {options.cold!r} is neither true nor false")
    if (options.landscape is None) == (options.function is None):
        raise InputError("give either --landscape FILE (or gb1) or --function NAME")
    for name, world in ABOUT.items():
        if options[name] not in (None, False) and options[world] is None:
            raise InputError(f"--{name.replace('_', '-')} goes with --{world} only")
    if options.seeds < 1:
        raise InputError(f"--seeds {options.seeds}: give 1 or more")


def _world(options: Namespace, columns: Columns, choice: Choice) -> Landscape | ProductLandscape | TestFunction:
    """What is measured, and a line about it."""
    from ..simulation import Landscape, ProductLandscape, TestFunction
    from ..simulation.landscape import GB1

    if options.function is not None:
        return TestFunction(options.function, options.dimension, options.noise or 0.0, options.effective)
    if columns.aims:
        return _tradeoffs(options, columns, choice)
    if isinstance(columns.target, Mapping):
        raise InputError("--landscape takes one --target, the column to improve, or several with max or min each")
    if columns.target is None and options.landscape != GB1:
        raise InputError("--landscape needs --target, the column to improve")
    if choice.choices is not None:
        if columns.noise_variance is not None:
            raise InputError("a landscape over lists knows one noise variance; leave noise_variance out")
        known = columns.features if isinstance(columns.features, Mapping) else None
        about = {"kinds": known, "minimize": choice.minimize, "top": options.top}
        products = ProductLandscape.read(options.landscape, str(columns.target), choice.choices, **about)
        print(f"{options.landscape}: {products.product.describe()}", flush=True)
        return products
    landscape = Landscape.read(
        options.landscape,
        columns.target,
        columns.features,
        minimize=choice.minimize,
        noise_variance=columns.noise_variance,
        drop_invalid=columns.drop_invalid,
        top=options.top,
    )
    left_out = f", {landscape.dropped} without a target left out" if landscape.dropped else ""
    left_out += f", {landscape.repeats} repeats averaged" if landscape.repeats else ""
    kinds = ", ".join(f"{name} ({kind})" for name, kind in landscape.rows.kinds.items())
    print(f"{options.landscape}: {len(landscape)} distinct inputs{left_out}; features: {kinds}", flush=True)
    for note in landscape.notes:
        print(f"note: {note}")
    return landscape


def _tradeoffs(options: Namespace, columns: Columns, choice: Choice) -> Landscape:
    """Several targets with directions, and a line about them."""
    from ..simulation.tradeoffs import TradeoffLandscape

    if columns.noise_variance is not None or options.top is not None:
        raise InputError("--top and --noise-variance go with one target; leave them out")
    landscape = TradeoffLandscape.of(options.landscape, columns.aims, columns.features, choice.reference)
    left_out = f", {landscape.dropped} without all targets left out" if landscape.dropped else ""
    point = ", ".join(f"{name} {value:g}" for name, value in landscape.reference.items())
    print(f"{options.landscape}: {len(landscape)} distinct inputs{left_out}; reference point: {point}", flush=True)
    return landscape


def _kept(options: Namespace) -> str:
    count = len(list(Path(options.run_dir).glob("*/round-*.csv")))
    return f"{count} finished rounds are kept in {options.run_dir}; the same command goes on with them"
