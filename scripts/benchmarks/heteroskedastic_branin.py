"""BEEBO under heteroskedastic noise: the three optima of Branin, two of them noisy (paper, section 4 and appendix).

    python scripts/benchmarks/heteroskedastic_branin.py --seeds 5 --workers 2

The inverted Branin function has three equal optima. The variance is sigma^2_max exp(-lambda d), d the distance to the
nearer of optima 2 and 3, sigma^2_max = 100; every measurement comes with its variance, a second process learns
sigma^2(x). lambda = 0.05 is the paper's, which leaves 73 at the quiet optimum 1; lambda = 0.5 leaves 4. The control
has the constant variance 77.5, not known to the surrogate. Ten rounds of q = 10 after 10 or 50 random points. A
method that minds noise moves to the quiet optimum 1 and has no favourite in the control. Writes
scripts/benchmarks/results/heteroskedastic_branin.{json,md,png}.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from botorch.test_functions import Branin
from common import RESULTS, write_results

import beebo_scale as bs
from beebo_scale.simulation.problems import synthetic

OPTIMA = np.vstack([synthetic.QUIET, synthetic.NOISY])
BOUNDS = {"x1": (-5.0, 10.0), "x2": (0.0, 15.0)}
SIGMA2_CONSTANT = 77.5
Q, ROUNDS = 10, 10


@dataclass(frozen=True)
class Case:
    """Noise, temperature and start: `decay` is lambda, None the constant variance; `start` random points in round 0."""

    decay: float | None
    temperature: float
    start: int

    @property
    def name(self) -> str:
        """For tables and titles."""
        noise = "constant noise" if self.decay is None else f"noise with lambda = {self.decay:g}"
        return f"{noise}, T' = {self.temperature:g}, {self.start} to start"


CASES = tuple(Case(decay, T, start) for T, start in ((0.1, 10), (0.1, 50), (0.5, 50)) for decay in (0.05, 0.5, None))


def distances(X: np.ndarray) -> np.ndarray:
    """Distance of every point to each optimum, n x 3."""
    return np.linalg.norm(X[:, None] - OPTIMA, axis=-1)


def noise_variance(X: np.ndarray, decay: float | None) -> np.ndarray:
    """Variance of a measurement at each point, n."""
    if decay is None:
        return np.full(len(X), SIGMA2_CONSTANT)
    return synthetic.noise_variance(X, decay)


def measure(X: np.ndarray, decay: float | None, generator: np.random.Generator) -> pd.DataFrame:
    """Noisy measurements of the inverted function."""
    f = Branin(negate=True)(torch.from_numpy(X)).numpy()
    variance = noise_variance(X, decay)
    y = f + np.sqrt(variance) * generator.standard_normal(len(X))
    return pd.DataFrame({"x1": X[:, 0], "x2": X[:, 1], "y": y, "variance": variance})


def run(job: tuple[Case, int]) -> list[list[float]]:
    """One seed: for every round the mean distance of the batch to each optimum, rounds x 3."""
    case, seed = job
    known = case.decay is not None
    torch.set_num_threads(1)
    generator = np.random.default_rng(seed)
    low, high = np.array(list(BOUNDS.values())).T
    X = low + (high - low) * generator.random((case.start, 2))
    measured, history, surrogate = measure(X, case.decay, generator), [], None
    for step in range(ROUNDS):
        columns = measured if known else measured.drop(columns="variance")
        noise = "variance" if known else None
        table = bs.read_table(columns, target="y", features=["x1", "x2"], noise_variance=noise)
        surrogate = bs.fit(table, transform="none")
        batch = bs.propose(surrogate, Q, bounds=BOUNDS, temperature=case.temperature, seed=1000 * seed + step)
        X = batch.frame[["x1", "x2"]].to_numpy()
        history.append(distances(X).mean(axis=0).tolist())
        measured = pd.concat([measured, measure(X, case.decay, generator)], ignore_index=True)
    return history


def plot(path: Path, results: np.ndarray) -> None:
    """Mean distance of the batch to each optimum over the rounds, mean and standard deviation over seeds."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(3, 3, figsize=(11, 9), sharex=True, sharey=True, layout="constrained")
    rounds = np.arange(1, ROUNDS + 1)
    for axis, case, values in zip(axes.flat, CASES, results, strict=True):  # values: seeds x rounds x 3
        mean, std = values.mean(axis=0), values.std(axis=0)
        quiet = ("", "", "") if case.decay is None else (" (quiet)", " (noisy)", " (noisy)")
        for j, colour in enumerate(("tab:blue", "tab:orange", "tab:red")):
            axis.plot(rounds, mean[:, j], color=colour, label=f"optimum {j + 1}{quiet[j]}")
            axis.fill_between(rounds, mean[:, j] - std[:, j], mean[:, j] + std[:, j], color=colour, alpha=0.12)
        axis.set_title(case.name, fontsize=10)
        axis.legend(frameon=False, fontsize=8)
    for axis in axes[-1]:
        axis.set(xlabel="round", xticks=rounds)
    for axis in axes[:, 0]:
        axis.set_ylabel("mean distance of the batch")
    figure.savefig(path, dpi=150)


def report(results: np.ndarray) -> str:
    """The result page."""
    seeds = results.shape[1]
    lines = [
        "# BEEBO on Branin with noise that depends on x",
        "",
        f"Mean distance of the batch to each optimum in the last three rounds, mean over {seeds} seeds (standard "
        f"deviation over seeds); q = {Q}, {ROUNDS} rounds. Optimum 1 is the quiet one. Written by "
        "`scripts/benchmarks/heteroskedastic_branin.py`.",
        "",
        "| noise and temperature | optimum 1 | optimum 2 | optimum 3 | seeds whose batches lie nearest to 1, 2, 3 |",
        "|---|---|---|---|---|",
    ]
    for case, values in zip(CASES, results, strict=True):
        last = values[:, -3:].mean(axis=1)  # seeds x 3
        cells = " | ".join(f"{m:.2f} ({s:.2f})" for m, s in zip(last.mean(axis=0), last.std(axis=0), strict=True))
        nearest = np.bincount(last.argmin(axis=1), minlength=3)
        lines.append(f"| {case.name} | {cells} | {', '.join(map(str, nearest))} |")
    return "\n".join([*lines, "", "![mean distances over the rounds](heteroskedastic_branin.png)"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    options = parser.parse_args()
    jobs = [(case, seed) for case in CASES for seed in range(options.seeds)]
    with multiprocessing.get_context("spawn").Pool(options.workers) as pool:
        results = np.array(pool.map(run, jobs, chunksize=1)).reshape(len(CASES), options.seeds, ROUNDS, 3)
    by_case = {case.name: values.tolist() for case, values in zip(CASES, results, strict=True)}
    write_results("heteroskedastic_branin", by_case, report(results))
    plot(RESULTS / "heteroskedastic_branin.png", results)
    print(report(results))


if __name__ == "__main__":
    main()
