"""`simulate`: closed loops of several strategies over several seeds."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..errors import InputError
from ..progress import track
from ..screening.files.opening import did_you_mean
from ..specs import BoxSearch, Fitting
from ..temperature import Constant, ExploitLast, Schedule
from .baselines.block_thompson import BlockThompson
from .baselines.forest import RandomForest
from .baselines.gibbon import Gibbon
from .baselines.monte_carlo import MonteCarlo
from .baselines.penalisation import LocalPenalisation
from .baselines.rahbo import RiskAverse, no_variances
from .baselines.sequential import BatchUpperConfidence, KrigingBeliever
from .baselines.turbo import Turbo
from .landscape import GB1, Landscape
from .loop import Plan, Run
from .problems.functions import TestFunction
from .processes import run_all
from .product import ProductLandscape
from .results import Results, collect
from .strategies import Beebo, Greedy, Learned, MaxBeebo, Random, Thompson, UpperConfidence, WeightedBeebo
from .tradeoffs import TradeoffLandscape
from .world import Strategy


@dataclass(frozen=True)
class Options:
    """What the named strategies are made with.

    Attributes:
        fitting: of the surrogate of all that learn one.
        schedule: T' of BEEBO by round; `ExploitLast` also sets the kappa of q-UCB, GP-BUCB and RAHBO in the last round
            to zero.
        kappa: of UCB, q-UCB, GP-BUCB and RAHBO.
        search: of BEEBO in a cube; its restarts are those of q-UCB and q-LogEI, too.
        risk: of RAHBO: what a unit of variance costs, in units of the target.
        warm: start a fit from the hyperparameters of the round before.
        forest: of rf-greedy.
    """

    fitting: Fitting = field(default_factory=lambda: Fitting(kind="exact"))
    schedule: Schedule = field(default_factory=lambda: Constant(1.0))
    kappa: float = 4.0
    search: BoxSearch = field(default_factory=BoxSearch)
    risk: float = 1.0
    warm: bool = True
    forest: RandomForest = field(default_factory=RandomForest)

    @property
    def last_kappa(self) -> float | None:
        """Zero where the last round exploits, else None."""
        return 0.0 if isinstance(self.schedule, ExploitLast) else None


MAKERS: dict[str, Callable[[Options], Strategy]] = {
    "random": lambda o: Random(),
    "greedy": lambda o: Greedy(o.fitting),
    "ucb": lambda o: UpperConfidence(o.fitting, o.kappa),
    "thompson": lambda o: Thompson(o.fitting),
    "rf-greedy": lambda o: o.forest,
    "q-ucb": lambda o: MonteCarlo(o.fitting, "ucb", o.kappa, o.search.restarts, last_kappa=o.last_kappa),
    "q-logei": lambda o: MonteCarlo(o.fitting, "log-ei", o.kappa, o.search.restarts),
    "mean-beebo": lambda o: Beebo(o.fitting, o.schedule, search=o.search),
    "max-beebo": lambda o: MaxBeebo(o.fitting, o.schedule, search=o.search),
    "weighted-beebo": lambda o: WeightedBeebo(o.fitting, o.schedule, search=o.search),
    "kb-logei": lambda o: KrigingBeliever(o.fitting),
    "gp-bucb": lambda o: BatchUpperConfidence(o.fitting, kappa=o.kappa, last_kappa=o.last_kappa),
    "local-penalisation": lambda o: LocalPenalisation(o.fitting),
    "gibbon": lambda o: Gibbon(o.fitting),
    "gibbon-scaled": lambda o: Gibbon(o.fitting, scaled=True),
    "turbo": lambda o: Turbo(o.fitting),
    "block-thompson": lambda o: BlockThompson(),
    "rahbo": lambda o: RiskAverse(o.fitting, kappa=o.kappa, last_kappa=o.last_kappa, risk=o.risk),
}
LANDSCAPE_STRATEGIES = ("random", "greedy", "ucb", "thompson", "rf-greedy", "mean-beebo", "max-beebo")
PRODUCT_STRATEGIES = ("random", "greedy", "rf-greedy", "block-thompson", "mean-beebo")
TRADEOFF_STRATEGIES = ("random", "greedy", "ucb", "thompson", "weighted-beebo", "mean-beebo")  # all but the last: a sum
FUNCTION_STRATEGIES = ("random", "thompson", "q-ucb", "q-logei", "mean-beebo", "max-beebo")
MORE_FUNCTION_STRATEGIES = ("kb-logei", "gp-bucb", "local-penalisation", "gibbon", "gibbon-scaled", "turbo")
NOISE_STRATEGIES = ("rahbo",)  # for functions whose noise depends on the inputs


def simulate(
    world: Landscape | ProductLandscape | TestFunction | str,
    strategies: Sequence[str] | Mapping[str, Strategy],
    folder: str | os.PathLike[str],
    *,
    q: int = 96,
    rounds: int = 4,
    start: int | None = None,
    seeds: int | Sequence[int] = 1,
    options: Options | None = None,
    processes: int = 1,
    threads: int = 1,
) -> Results:
    """Run closed loops and write what came of them: rounds.csv, summary.csv, summary.md and curves.png.

    Every strategy and seed has a folder of its own; what is finished there is not done again, and a run that was
    stopped at any moment goes on to the same bytes, with any number of processes.

    Args:
        world: what is measured, a `Landscape` (see `Landscape.read`), a `ProductLandscape`, a `TestFunction`, or "gb1".
        strategies: names of MAKERS, or own ones by name.
        folder: of all runs; made if there is none.
        q: batch size.
        rounds: batches that are chosen.
        start: points measured before any choice; None takes q.
        seeds: how many (0, 1, ...), or which. Strategies with the same seed start from the same points.
        options: of the strategies that are given by name.
        processes: runs that go on at a time.
        threads: of each; rounding depends on it.

    Raises:
        InputError: an unknown strategy, more points than a landscape has, a folder of another configuration.
    """
    world = Landscape.read(GB1) if world == GB1 else world
    if isinstance(world, str):
        raise InputError(f"{world!r} is no world; give Landscape.read(file, target), a TestFunction, or 'gb1'")
    plan = Plan(q, rounds, q if start is None else start)
    world.check(plan.total)
    chosen = _strategies(world, strategies, options or Options())
    for name, value in {"processes": processes, "threads": threads}.items():
        if value < 1:
            raise InputError(f"{name} = {value}: give 1 or more")
    runs = [Run(world, own, name, seed, plan, threads) for seed in _seeds(seeds) for name, own in chosen.items()]
    with track(None, "simulating", total=len(runs) * (rounds + 1)) as bar:
        run_all(runs, os.fspath(folder), processes, bar.update)
    results = collect(runs, folder)
    results.write(folder)
    return results


def _strategies(
    world: Landscape | ProductLandscape | TestFunction, given: Sequence[str] | Mapping[str, Strategy], options: Options
) -> dict[str, Strategy]:
    """Strategies by name, in order."""
    others = (*FUNCTION_STRATEGIES, *MORE_FUNCTION_STRATEGIES, *NOISE_STRATEGIES)
    known: tuple[str, ...] = LANDSCAPE_STRATEGIES if isinstance(world, Landscape) else others
    known = TRADEOFF_STRATEGIES if isinstance(world, TradeoffLandscape) else known
    if isinstance(world, ProductLandscape):
        known = (*PRODUCT_STRATEGIES, "ucb", "thompson")
        options = replace(options, forest=RandomForest(summed=True), fitting=_combined(options.fitting))
    if not given or isinstance(given, str):
        raise InputError(f"give a list of strategies, of {', '.join(known)}")
    if isinstance(given, Mapping):
        odd = [name for name in given if not re.fullmatch(r"[\w.+-]+", name)]
        if odd:
            raise InputError(f"strategy {odd[0]!r}: the name is also that of a folder; take letters, digits and - . _")
        return dict(given)
    for i, name in enumerate(given):
        if name in NOISE_STRATEGIES and not getattr(world, "tells_variance", False):
            raise no_variances(world.title)
        if name not in known:
            kind = "function" if isinstance(world, TestFunction) else "landscape"
            near = did_you_mean(name, known)
            raise InputError(f"there is no strategy {name!r} for a {kind}{near}; choose from {', '.join(known)}")
        if name in given[:i]:
            raise InputError(f"the strategy {name!r} is named twice; name it once")
    return {name: _made(name, options) for name in given}


def _combined(fitting: Fitting) -> Fitting:
    """A fitting for rows of blocks."""
    return replace(fitting, combine="combinations") if fitting.combine == "auto" else fitting


def _made(name: str, options: Options) -> Strategy:
    strategy = MAKERS[name](options)
    return replace(strategy, warm=options.warm) if isinstance(strategy, Learned) else strategy


def _seeds(seeds: int | Sequence[int]) -> list[int]:
    """The seeds, each once."""
    if isinstance(seeds, int):
        if seeds < 1:
            raise InputError(f"seeds = {seeds}: give 1 or more")
        return list(range(seeds))
    if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0:
        raise InputError(f"seeds = {list(seeds)}: give whole numbers of 0 or more, each once")
    return list(seeds)
