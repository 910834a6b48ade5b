"""`beebo-scale simulate`: closed loops on a fully measured file or a test function, beside what has to be beaten."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jsonargparse import ArgumentParser, Namespace

from ..errors import InputError
from ..kernels.screen import PRIORS
from ..proposal import BoxSearch
from ..proposal.box.ascent import STARTS
from ..proposal.jobs.run_folder import Stopped, stopping_on_sigterm
from ..simulation import (
    FUNCTION_STRATEGIES,
    LANDSCAPE_STRATEGIES,
    MORE_FUNCTION_STRATEGIES,
    NOISE_STRATEGIES,
    Fitting,
    Landscape,
    Options,
    Results,
    Steps,
    TestFunction,
    simulate,
)
from ..simulation.landscape import GB1
from ..simulation.problems.functions import FUNCTIONS
from ..surrogates import KINDS
from ..surrogates.data.target import TRANSFORMS
from ..temperature import ExploitLast
from . import temperatures
from .arguments import number, parse_features, parse_names, whole_number

HELP = "Play whole campaigns on a fully measured file or a test function, with BEEBO and with baselines."
ABOUT = {  # option -> what it is about
    "target": "landscape",
    "features": "landscape",
    "noise_variance": "landscape",
    "minimize": "landscape",
    "top": "landscape",
    "dimension": "function",
    "noise": "function",
    "effective": "function",
}


def build_parser() -> ArgumentParser:
    """Options of the command."""
    parser = ArgumentParser(description=HELP, exit_on_error=False, allow_abbrev=False)
    parser.add_argument("--config", action="config", help="a YAML file with any of these options")
    add = parser.add_argument_group("what is measured").add_argument
    add("--landscape", type=str, help="a file in which every candidate is measured, or gb1, which comes along")
    add("--target", type=str, help="column to improve; rows without it are left out")
    add("--features", nargs="+", metavar="COLUMN:KIND", help="as in suggest; without it every other column")
    add("--noise-variance", type=str, help="column with the known variance of each target")
    add("--minimize", action="store_true", help="small targets are good")
    add("--top", type=whole_number, help="recall is of so many best rows; default: one in a hundred")
    add("--function", type=str, help=f"a function instead: {_of(tuple(FUNCTIONS))}")
    add("--dimension", type=whole_number, help="its number of inputs, where it has several")
    add("--effective", type=whole_number, help="of these, the first so many matter: the function is embedded")
    add("--noise", type=number, help="standard deviation of the noise of its measurements")
    add = parser.add_argument_group("the loop").add_argument
    add("--strategies", nargs="+", metavar="NAME", help=f"for a landscape {_of(LANDSCAPE_STRATEGIES)}; {_functions()}")
    add("--start", type=whole_number, help="points measured before any choice; default: as many as in a batch")
    add("-q", "--q", type=whole_number, default=96, help="points of a batch")
    add("--rounds", type=whole_number, default=4, help="batches that are chosen")
    add("--seeds", type=whole_number, default=1, help="how often each strategy runs, from how many starts")
    add("--first-seed", type=whole_number, default=0, help="of the seeds, which are counted up from it")
    add = parser.add_argument_group("the surrogate").add_argument
    add("--kind", choices=KINDS, default=Fitting.kind, help="surrogate")
    add("--transform", choices=TRANSFORMS, default=Fitting.transform, help="of the target")
    add("--priors", choices=PRIORS, default=Fitting.priors, help="of the hyperparameters")
    add("--iterations", type=whole_number, default=Fitting.iterations, help="of a fit, at most")
    add("--cold", action="store_true", help="do not start a fit from the hyperparameters of the round before")
    add = parser.add_argument_group("the choice").add_argument
    temperatures.add_options(add, "T' and kappa = 0")
    add("--kappa", type=number, default=Options.kappa, help="of ucb, q-ucb, gp-bucb, rahbo: mean + sqrt(kappa) std")
    add("--risk", type=number, default=Options.risk, help="of rahbo: what a unit of variance costs")
    add("--restarts", type=whole_number, default=BoxSearch.restarts, help="batches that move side by side in a cube")
    add("--steps", type=whole_number, default=BoxSearch.steps, help="steps that they move")
    add("--search-start", choices=STARTS, default=BoxSearch.start, help="where they start")
    add = parser.add_argument_group("the job").add_argument
    add("--run-dir", type=str, required=True, help="folder of all runs; the same command goes on with what is there")
    add("--processes", type=whole_number, default=1, help="runs that go on at a time")
    add("--threads", type=whole_number, default=1, help="of each; rounding depends on it")
    return parser


def _of(names: tuple[str, ...]) -> str:
    return ", ".join(names)


def _functions() -> str:
    return (
        f"for a function {_of(FUNCTION_STRATEGIES)}; default: all of these; for a function also "
        f"{_of(MORE_FUNCTION_STRATEGIES)}; where the noise depends on the inputs {_of(NOISE_STRATEGIES)}"
    )


def run(options: Namespace) -> Results:
    """Check, run what is not finished, print the page."""
    _check(options)
    world = _world(options)
    strategies = parse_names(options.strategies) or (
        LANDSCAPE_STRATEGIES if isinstance(world, Landscape) else FUNCTION_STRATEGIES
    )
    made = _options(options)
    with stopping_on_sigterm(), _told(options):
        results = simulate(
            world,
            list(strategies),
            options.run_dir,
            q=options.q,
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
    for flag in ("minimize", "cold", "exploit_last"):
        if not isinstance(options[flag], bool):  # from a configuration file
            raise InputError(f"{flag}: {options[flag]!r} is neither true nor false")
    if (options.landscape is None) == (options.function is None):
        raise InputError("give either --landscape FILE (or gb1) or --function NAME")
    for name, world in ABOUT.items():
        if options[name] not in (None, False) and options[world] is None:
            raise InputError(f"--{name.replace('_', '-')} goes with --{world} only")
    if options.seeds < 1:
        raise InputError(f"--seeds {options.seeds}: give 1 or more")


def _world(options: Namespace) -> Landscape | TestFunction:
    """What is measured, and a line about it."""
    if options.function is not None:
        return TestFunction(options.function, options.dimension, options.noise or 0.0, options.effective)
    if options.target is None and options.landscape != GB1:
        raise InputError("--landscape needs --target, the column to improve")
    landscape = Landscape.read(
        options.landscape,
        options.target,
        None if options.features is None else parse_features(options.features),
        minimize=options.minimize,
        noise_variance=options.noise_variance,
        top=options.top,
    )
    left_out = f", {landscape.dropped} without a target left out" if landscape.dropped else ""
    left_out += f", {landscape.repeats} repeats averaged" if landscape.repeats else ""
    kinds = ", ".join(f"{name} ({kind})" for name, kind in landscape.rows.kinds.items())
    print(f"{options.landscape}: {len(landscape)} distinct inputs{left_out}; features: {kinds}", flush=True)
    return landscape


def _options(options: Namespace) -> Options:
    """What the strategies are made with."""
    steps = Steps(temperatures.written_out(options))
    return Options(
        fitting=Fitting(options.kind, options.transform, options.priors, options.iterations, not options.cold),
        schedule=ExploitLast(steps) if options.exploit_last else steps,
        kappa=options.kappa,
        search=BoxSearch(options.restarts, options.steps, start=options.search_start),
        risk=options.risk,
    )


@contextmanager
def _told(options: Namespace) -> Iterator[None]:
    """Say what is kept when the job is stopped or interrupted."""
    try:
        yield
    except Stopped:
        print(f"beebo-scale: stopped, {_kept(options)}", file=sys.stderr)
        raise
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_kept(options)) from None


def _kept(options: Namespace) -> str:
    count = len(list(Path(options.run_dir).glob("*/round-*.csv")))
    return f"{count} finished rounds are kept in {options.run_dir}; the same command goes on with them"
