"""maxBEEBO by the package `beebo` on Ackley in 10 inputs: what do the inexact solves of the paper's scripts change?

    pip install -e '.[bench]' && python scripts/paper/reference_maxbeebo.py --cases both

The paper's scripts run under gpytorch's `max_cholesky_size(2)`: fits see estimates of the likelihood by conjugate
gradients and random probes, and so end early; the choices solve by conjugate gradients, also with the matrix
1 + beta^2 C W of the softmax energy, which is not symmetric. Here fits and choices do so or are exact, by --cases;
inexact choices have the package's defaults (svd, naive), exact ones cholesky for both.
T' = 0.05, 100 starting points of a published replicate (--seed), ten rounds of 100, the last one exploits (mean energy,
exact, as in the paper); moved by Adam from --restarts of --raw Sobol batches (the paper: 10 of 100). Writes
reference_maxbeebo.json and .md in scripts/paper/results after every round.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import gpytorch
import numpy as np
import torch
from paper_problems import published
from paper_published import tables

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "benchmarks"))
from hartmann import START, ends, fitted, reference_batch  # noqa: E402

DIMENSION, TEMPERATURE = 10, 0.05
CASES = {  # are the fits inexact, are the choices?
    "both": (True, True),
    "fits": (True, False),
    "choices": (False, True),
    "neither": (False, False),
}


@contextmanager
def inexact(on: bool) -> Iterator[None]:
    """The settings of the paper's scripts."""
    with ExitStack() as stack:
        if on:
            stack.enter_context(gpytorch.settings.max_cholesky_size(2))
            stack.enter_context(gpytorch.settings.fast_computations(solves=True, covar_root_decomposition=False))
        yield


def choose(model: Any, exploit: bool, rough: bool, restarts: int, raw: int) -> np.ndarray:
    """A batch, Q x d; an inexact choice has the package's defaults, an exact one its exact settings."""
    softmax = {
        "energy_function": "softmax",
        "f_max": float(model.train_targets.max()),
        "softmax_beta": float(model.covar_module.outputscale.detach()) ** -0.5,
    }
    methods = ("svd", "naive") if rough else ("cholesky", "cholesky")
    if exploit:
        return reference_batch(model, 0.0, *methods, restarts, raw)
    with inexact(rough):
        return reference_batch(model, TEMPERATURE, *methods, restarts, raw, **softmax)


def rounds_of(case: str, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """What each round came to."""
    rough_fit, rough_choice = CASES[case]
    world = published("ackley", DIMENSION)
    torch.manual_seed(options.seed)
    points = [world.start(START, options.seed)]
    for k in range(1, options.rounds + 1):
        X = np.concatenate(points)
        began = time.perf_counter()
        with inexact(rough_fit and k < options.rounds):
            model = fitted(torch.as_tensor(X), torch.as_tensor(world.truth(X)).unsqueeze(-1))
        fit = time.perf_counter()
        points.append(choose(model, k == options.rounds, rough_choice, options.restarts, options.raw))
        lengthscale = model.covar_module.base_kernel.lengthscale.detach()
        yield {
            "round": k,
            "fit_seconds": round(fit - began, 1),
            "choice_seconds": round(time.perf_counter() - fit, 1),
            "noise_variance": round(float(model.likelihood.noise), 5),
            "lengthscales": [round(float(value), 3) for value in (lengthscale.min(), lengthscale.max())],
            **{name: round(value, 4) for name, value in ends(world, points).items()},
        }


def page(found: dict[str, list[dict[str, Any]]]) -> str:
    """The results as Markdown."""
    lines = ["# maxBEEBO by `beebo` 0.0.2 on Ackley in 10 inputs", "", *__doc__.splitlines()[4:12], ""]
    lines += ["One seed each; best so far after each round (0 the best of the start, 1 the optimum).", ""]
    lines += ["| inexact | rounds | best so far | regret of the last batch | shortest and longest lengthscale |"]
    lines += ["|---|---|---|---|---|"]
    for case, rounds in found.items():
        each = " ".join(f"{line['best_so_far']:.3f}" for line in rounds)
        scales = " ".join("-".join(f"{value:.2f}" for value in line["lengthscales"]) for line in rounds)
        lines.append(f"| {case} | {len(rounds)} | {each} | {rounds[-1]['regret']:.3f} | {scales} |")
    known = tables()["normalised", "ackley", DIMENSION, "max-beebo", TEMPERATURE]
    return "\n".join([*lines, "", f"Published, mean of {known.replicates} replicates: {known.mean:.3f}."]) + "\n"


def main() -> None:
    """Run and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES), help="what is inexact")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--restarts", type=int, default=2)
    parser.add_argument("--raw", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, default=HERE / "results")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    written = options.results / "reference_maxbeebo.json"
    found: dict[str, list[dict[str, Any]]] = json.loads(written.read_text()) if written.exists() else {}
    for case in options.cases:
        found[case] = []
        for line in rounds_of(case, options):
            found[case].append(line)
            print(case, json.dumps(line), flush=True)
            written.write_text(json.dumps(found, indent=1) + "\n")
            (options.results / "reference_maxbeebo.md").write_text(page(found))


if __name__ == "__main__":
    main()
