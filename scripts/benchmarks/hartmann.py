"""Ten rounds of 100 points on Hartmann-6: this package against `beebo` under the paper's protocol, on the same core.

    pip install -e '.[bench]' && python scripts/benchmarks/hartmann.py

100 starting points at least 0.5 from the optimum (those of the paper's first replicate), meanBEEBO, T' = 0.5, the last
round exploits, Matern-5/2 with the paper's priors, one thread. `beebo` runs as in the paper's script: 10 restarts from
100 raw Sobol batches by botorch's `optimize_acqf` with its torch optimiser (Adam), fits by `fit_gpytorch_mll` from
scratch; once with its defaults (svd, naive) and once with its fastest setting (cholesky, cholesky). Ours runs with as
many restarts, and as in reproduce_paper.yaml, with warm fits and with fits from scratch. Cases run in turn,
ours --repeats times around those of `beebo`; seconds include fits and choices. Writes hartmann.json and .md in
scripts/benchmarks/results after every case; --cases adds runs to what is there.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from common import RESULTS, machine, machine_words, read_results, write_results

from beebo_scale.simulation import TestFunction
from beebo_scale.simulation.loop import Plan, Run, read_run, run_loop
from beebo_scale.simulation.results import judge
from beebo_scale.simulation.strategies import Beebo
from beebo_scale.specs import BoxSearch, Fitting
from beebo_scale.temperature import Constant, ExploitLast

ROOT = Path(__file__).parents[2]
Q, START, TEMPERATURE, RESTARTS, RAW = 100, 100, 0.5, 10, 100
DEFAULT = yaml.safe_load((ROOT / "scripts" / "paper" / "reproduce_paper.yaml").read_text())


def ours(fitting: Fitting, search: BoxSearch, rounds: int, warm: bool) -> dict[str, Any]:
    """A closed loop of this package."""
    strategy = Beebo(fitting, ExploitLast(Constant(TEMPERATURE)), search=search, warm=warm)
    run = Run(TestFunction("hartmann", 6), strategy, "beebo", 0, Plan(Q, rounds, START))
    with tempfile.TemporaryDirectory() as folder:
        run_loop(run, folder)
        points, notes = read_run(run, folder)
    seconds = [note["fit_seconds"] + note["choice_seconds"] for note in notes[1:]]
    return {"seconds": seconds, **ends(run.world, points)}


def same_protocol(rounds: int) -> dict[str, Any]:
    """As many restarts from Sobol batches, fits from scratch without a limit that matters."""
    fitting = Fitting("exact", "none", "paper", iterations=200)
    return ours(fitting, BoxSearch(RESTARTS, start="sobol"), rounds, warm=False)


def default(rounds: int, warm: bool = True) -> dict[str, Any]:
    """As in scripts/paper/reproduce_paper.yaml: fits from the hyperparameters of the round before, one restart."""
    fitting = Fitting("exact", DEFAULT["transform"], DEFAULT["priors"], iterations=DEFAULT["iterations"])
    return ours(fitting, BoxSearch(DEFAULT["restarts"], start=DEFAULT["search_start"]), rounds, warm)


def reference(logdet: str, augment: str, rounds: int, limit: float) -> dict[str, Any]:
    """A closed loop of the package `beebo`; no new round begins after so many seconds."""
    world = TestFunction("hartmann", 6)
    points, seconds = [world.start(START, 0)], []
    for k in range(rounds):
        if sum(seconds) > limit:
            break
        X, y = np.concatenate(points), world.truth(np.concatenate(points))
        began = time.perf_counter()
        model = fitted(torch.as_tensor(X), torch.as_tensor(y).unsqueeze(-1))
        batch = reference_batch(model, TEMPERATURE if k < rounds - 1 else 0.0, logdet, augment)
        seconds.append(time.perf_counter() - began)
        points.append(batch)
        print(f"  {logdet}/{augment} round {k + 1}: {seconds[-1]:.1f} s", flush=True)
    return {"seconds": seconds, **ends(world, points)}


def reference_batch(
    model: Any,
    temperature: float,
    logdet: str,
    augment: str,
    restarts: int = RESTARTS,
    raw: int = RAW,
    **energy: Any,
) -> np.ndarray:
    """A batch of the unit cube by the package `beebo`, Q x d; `energy` are its arguments of another than the mean."""
    from beebo import BatchedEnergyEntropyBO
    from botorch.generation import gen_candidates_torch
    from botorch.optim import optimize_acqf

    acqf = BatchedEnergyEntropyBO(
        model,
        temperature=temperature,
        kernel_amplitude=float(model.covar_module.outputscale.detach()),
        logdet_method=logdet,
        augment_method=augment,
        **energy,
    )
    cube = torch.tensor([[0.0], [1.0]], dtype=torch.float64).repeat(1, model.train_inputs[0].shape[-1])
    batch, _ = optimize_acqf(
        acqf, cube, q=Q, num_restarts=restarts, raw_samples=raw, gen_candidates=gen_candidates_torch
    )
    chosen: np.ndarray = batch.detach().numpy()
    return chosen


def fitted(X: torch.Tensor, Y: torch.Tensor) -> Any:
    """The paper's Gaussian process, fitted from scratch."""
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from gpytorch.constraints import GreaterThan
    from gpytorch.kernels import MaternKernel, ScaleKernel
    from gpytorch.likelihoods import GaussianLikelihood
    from gpytorch.mlls import ExactMarginalLogLikelihood
    from gpytorch.priors import GammaPrior

    base = MaternKernel(nu=2.5, ard_num_dims=X.shape[-1], lengthscale_prior=GammaPrior(3.0, 6.0))
    kernel = ScaleKernel(base, outputscale_prior=GammaPrior(2.0, 0.15))
    likelihood = GaussianLikelihood(
        noise_prior=GammaPrior(1.1, 0.05), noise_constraint=GreaterThan(1e-4, transform=None, initial_value=2.0)
    )
    Z = (Y - Y.mean()) / Y.std()
    model = SingleTaskGP(X, Z, likelihood=likelihood, covar_module=kernel, outcome_transform=None).double()
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model


def ends(world: Any, points: list[np.ndarray]) -> dict[str, float]:
    """What the loop came to."""
    judged = judge(world, points)
    return {"best_so_far": float(judged["normalised"].iloc[-1]), "regret": float(judged["relative_regret"].iloc[-1])}


CASES: dict[str, Callable[[int, float], dict[str, Any]]] = {  # of rounds and the limit
    "ours, same protocol": lambda rounds, limit: same_protocol(rounds),
    "ours, default": lambda rounds, limit: default(rounds),
    "ours, default, fits from scratch": lambda rounds, limit: default(rounds, warm=False),
    "beebo (svd, naive)": lambda rounds, limit: reference("svd", "naive", rounds, limit),
    "beebo (cholesky, cholesky)": lambda rounds, limit: reference("cholesky", "cholesky", rounds, limit),
}


def page(found: dict[str, list[dict[str, Any]]]) -> str:
    """The results as Markdown."""
    lines = ["# Ten rounds on Hartmann-6 against `beebo` 0.0.2", "", *__doc__.splitlines()[4:14], ""]
    lines += [
        f"{machine_words()}, one thread. Median seconds of all rounds; how many",
        "times as fast is said of the rounds that both have finished.",
        "",
    ]
    lines += ["| case | runs | seconds | rounds 1 to 10 (s) | best so far | regret |", "|---|---|---|---|---|---|"]
    longest = max(len(run["seconds"]) for runs in found.values() for run in runs)
    for name, runs in found.items():
        each = " ".join(f"{value:.1f}" for value in runs[0]["seconds"])
        last = runs[-1]
        stopped = len(last["seconds"]) < longest
        ends_at = "stopped |" if stopped else f"{last['best_so_far']:.3f} | {last['regret']:.4f}"
        lines.append(f"| {name} | {len(runs)} | {median_seconds(runs):.1f} | {each} | {ends_at} |")
    lines += [""]
    for name, runs in found.items():
        for other, theirs in found.items():
            if name.startswith("ours") and other.startswith("beebo"):
                k = len(theirs[0]["seconds"])
                ratio = median_seconds(theirs, k) / median_seconds(runs, k)
                lines.append(f"{name}: {ratio:.1f} times as fast as {other}, {k} rounds.  ")
    return "\n".join(lines) + "\n"


def median_seconds(runs: list[dict[str, Any]], rounds: int | None = None) -> float:
    """Seconds of the first rounds, of all if None; the median over runs."""
    return statistics.median(sum(run["seconds"][:rounds]) for run in runs)


def main() -> None:
    """Run and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=2, help="runs of ours, before and after those of `beebo`")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds after which `beebo` begins no new round")
    parser.add_argument("--cases", nargs="+", choices=CASES, help="only these, once, added to the results")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    own = [name for name in CASES if name.startswith("ours")]
    order = [*own, *(name for name in CASES if name not in own)] + own * (options.repeats - 1)
    found: dict[str, list[dict[str, Any]]] = {}
    if options.cases:
        order = options.cases
        found = read_results("hartmann", options.results).get("cases", {})
    for name in order:
        torch.manual_seed(0)
        found.setdefault(name, []).append(CASES[name](options.rounds, options.limit))
        print(name, f"{sum(found[name][-1]['seconds']):.1f} s", flush=True)
        write_results("hartmann", machine() | {"cases": found}, page(found), options.results)


if __name__ == "__main__":
    main()
