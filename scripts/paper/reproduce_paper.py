"""The experiments of the BEEBO paper, ours beside the published figures.

    python scripts/paper/reproduce_paper.py --processes 2    # run what is missing, then write the page
    python scripts/paper/reproduce_paper.py --report         # only write the page again
    python scripts/paper/reproduce_paper.py --smoke          # tiny, in a folder of its own: does everything run?

reproduce_paper.yaml says what is run: problems x methods (x T') x seeds; options override it. A run that is
finished is a line of scripts/paper/results/paper_runs.jsonl and is not run again; one that was stopped goes on from its
folder in --work. Writes scripts/paper/results/paper_tables.md and paper_FAMILY.png (paper_PRIORS_... with other
--priors).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import yaml
from paper_curves import draw_families
from paper_page import DEFAULT, page
from paper_problems import TABLES, published

from beebo_scale.energy import SoftmaxEnergy
from beebo_scale.errors import InputError
from beebo_scale.kernels.screen import PRIORS
from beebo_scale.progress import track
from beebo_scale.proposal.jobs.run_folder import Stopped, stopping_on_sigterm
from beebo_scale.simulation import Options
from beebo_scale.simulation.loop import Plan, Run, read_run
from beebo_scale.simulation.processes import run_all
from beebo_scale.simulation.results import judge
from beebo_scale.simulation.simulate import MAKERS
from beebo_scale.simulation.strategies import MaxBeebo
from beebo_scale.specs import BoxSearch, Fitting
from beebo_scale.specs.choice import STARTS
from beebo_scale.temperature import Constant, ExploitLast

ROOT = Path(__file__).parents[2]
TEMPERED = ("mean-beebo", "max-beebo", "q-ucb", "gp-bucb")  # methods that have a T', or the kappa = (2 T')^2 it equals
METHODS = (
    *("default", "mean-beebo", "max-beebo", "q-ucb", "random", "thompson", "q-logei", "kb-logei", "gp-bucb"),
    *("local-penalisation", "gibbon", "gibbon-scaled", "turbo"),
)
PROBLEMS = tuple(f"{name}-{d}" for name, d in TABLES)
PAPER = SoftmaxEnergy(normalised=False)


@dataclass(frozen=True)
class Setting:
    """All that a figure depends on beside problem, method, T' and seed.

    Attributes:
        start: points measured before any choice.
        q: batch size.
        rounds: batches that are chosen.
        priors: of the hyperparameters.
        transform: of the target.
        iterations: of a fit, at most.
        restarts: batches that move, of those methods that move whole batches.
        search_start: where those of BEEBO start; a round that exploits starts greedily.
    """

    start: int
    q: int
    rounds: int
    priors: str
    transform: str
    iterations: int
    restarts: int
    search_start: str


@dataclass(frozen=True)
class Case:
    """One run: a line of the results."""

    problem: str
    d: int
    method: str
    temperature: float | None
    seed: int

    def run(self, setting: Setting, softmax: SoftmaxEnergy = PAPER) -> Run:
        """The closed loop, in a folder with the name of the case; maxBEEBO has the paper's form of its energy."""
        tempered = self.temperature if self.temperature is not None else DEFAULT
        options = Options(
            Fitting("exact", setting.transform, setting.priors, iterations=setting.iterations),
            ExploitLast(Constant(tempered)),
            kappa=(2.0 * tempered) ** 2,
            search=BoxSearch(setting.restarts, start=setting.search_start),  # type: ignore[arg-type]
        )
        strategy = MAKERS["mean-beebo" if self.method == "default" else self.method](options)
        if isinstance(strategy, MaxBeebo):
            strategy = replace(strategy, energy=softmax)
        suffix = "" if self.temperature is None else f"_{tempered:g}"
        name, world = f"{self.problem}-{self.d}_{self.method}{suffix}", published(self.problem, self.d)
        return Run(world, strategy, name, self.seed, Plan(setting.q, setting.rounds, setting.start))


def cases(plan: argparse.Namespace) -> list[Case]:
    """What is to be run, the first seed of everything first."""
    found = []
    for seed in range(plan.seeds):
        for problem in plan.problems:
            name, d = problem.rsplit("-", 1)
            for method in plan.methods:
                for temperature in plan.temperatures if method in TEMPERED else [None]:
                    found.append(Case(name, int(d), method, temperature, seed))
    return found


def place(case: Case) -> tuple[Any, ...]:
    """Where a case stands in tables."""
    problem = PROBLEMS.index(f"{case.problem}-{case.d}")
    return case.d, problem, METHODS.index(case.method), case.temperature or 0.0, case.seed


def load(path: Path, setting: Setting) -> dict[Case, dict[str, Any]]:
    """The finished runs of a setting; half a line at the end, of a kill, is nothing."""
    found = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            figures = json.loads(line)
        except json.JSONDecodeError:
            continue
        if figures.pop("setting") == asdict(setting):
            case = Case(**{field.name: figures.pop(field.name) for field in fields(Case)})
            found[case] = figures
    return found


def figures_of(case: Case, run: Run, base: Path) -> dict[str, Any]:
    """What a finished run came to: by round, the start first; seconds from the first choice on."""
    points, notes = read_run(run, base)
    judged = judge(run.world, points)
    return {
        **asdict(case),
        "normalised": [float(f"{value:.6g}") for value in judged["normalised"]],
        "regret": [float(f"{value:.6g}") for value in judged["relative_regret"]],
        "fit_seconds": [round(note["fit_seconds"], 2) for note in notes[1:]],
        "choice_seconds": [round(note["choice_seconds"], 2) for note in notes[1:]],
    }


def append(path: Path, line: str) -> None:
    """One more line, also after half a line."""
    whole = not path.exists() or path.read_bytes()[-1:] in (b"", b"\n")
    with path.open("a") as file:
        file.write(("" if whole else "\n") + line + "\n")


def run_missing(options: argparse.Namespace, setting: Setting, path: Path) -> None:
    """Run what has no line yet; a line is written as soon as a run is finished."""
    done = load(path, setting)
    waiting = {case: case.run(setting) for case in cases(options) if case not in done}
    base = options.work / setting.priors
    base.mkdir(parents=True, exist_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)

    def write_finished() -> None:
        for case, run in list(waiting.items()):
            if (run.folder(base) / f"round-{setting.rounds:03d}.csv").exists():
                line = figures_of(case, run, base) | {"setting": asdict(setting)}
                append(path, json.dumps(line))
                del waiting[case]

    write_finished()
    runs = list(waiting.values())
    with track(None, "reproducing", total=len(runs) * (setting.rounds + 1)) as bar:

        def on_round() -> None:
            bar.update()
            write_finished()

        if runs:
            run_all(runs, str(base), options.processes, on_round)


def report(options: argparse.Namespace, setting: Setting, path: Path) -> str:
    """Write page and pictures of the finished runs."""
    done = load(path, setting)
    if not done:
        raise InputError(f"{path} has no finished run of this setting; leave out --report")
    rows = [asdict(case) | done[case] for case in sorted(done, key=place)]
    stem = "paper" if setting.priors == options.planned.priors else f"paper_{setting.priors}"
    missing = [asdict(case) for case in cases(options.planned) if case not in done]
    left_out = [problem for problem in PROBLEMS if problem not in options.planned.problems]
    pictures = draw_families(rows, options.results, stem)
    text = page(rows, missing, left_out, asdict(setting), pictures)
    (options.results / f"{stem}_tables.md").write_text(text)
    return text


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Options, those of the configuration where none is given."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", type=Path)
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, metavar="NAME-D")
    parser.add_argument("--methods", nargs="+", choices=METHODS, metavar="NAME")
    parser.add_argument("--temperatures", nargs="+", type=float)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--priors", choices=PRIORS)
    parser.add_argument("--restarts", type=int)
    parser.add_argument("--search-start", choices=STARTS)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--work", type=Path, help="folder of all runs")
    parser.add_argument("--results", type=Path, help="folder of lines, page and pictures")
    parser.add_argument("--report", action="store_true", help="only write the page again")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args(argv)
    name = "reproduce_paper_smoke.yaml" if options.smoke else "reproduce_paper.yaml"
    given = yaml.safe_load((options.config or Path(__file__).parent / name).read_text())
    for key, value in given.items():
        if getattr(options, key, None) is None:
            setattr(options, key, value)
    options.planned = argparse.Namespace(**given)
    options.work = options.work or (Path(tempfile.mkdtemp()) if options.smoke else ROOT / "runs" / "reproduce_paper")
    options.results = options.results or (options.work if options.smoke else ROOT / "scripts" / "paper" / "results")
    return options


def main(argv: list[str] | None = None) -> int:
    """Run and report; what can be put right is said in a line."""
    options = parse(argv)
    setting = Setting(**{field.name: getattr(options, field.name) for field in fields(Setting)})
    path = options.results / "paper_runs.jsonl"
    try:
        if not options.report:
            with stopping_on_sigterm():
                run_missing(options, setting, path)
        print(report(options, setting, path))
    except InputError as error:
        print(f"reproduce_paper: {error}", file=sys.stderr)
        return 2
    except (KeyboardInterrupt, Stopped) as stopped:
        print(f"reproduce_paper: stopped; finished runs are kept in {path}, the same command goes on", file=sys.stderr)
        return 143 if isinstance(stopped, Stopped) else 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
