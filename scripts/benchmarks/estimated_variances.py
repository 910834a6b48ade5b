"""Row variances that are estimates from 2, 3 or 5 replicates, beside replicate rows and the true variances.

    python scripts/benchmarks/estimated_variances.py --seeds 20

A random smooth function of two columns (sums of 30 cosines), 40 inputs, each measured 2, 3 or 5 times with normal noise
whose standard deviation is 0.2 everywhere, or 0.08 exp(1.8 x1). The rows that a fit is given are: every replicate by
itself; the means with the estimated variances of these, s^2 / r; the means with the true variances; the same means and
estimates, taken as exact. RMSE is that of the mean, coverage that of the 95 % interval of f, both at 1,000 points of a
uniform square, means over seeds; the noise is that of a new mean at these points, in units of the true variance (the
variance of a new measurement for replicate rows). Seeds 0, 1, ... are reported. Writes
scripts/benchmarks/results/estimated_variances.{json,md}.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from common import table, write_results

import beebo_scale as bs
from beebo_scale.surrogates import trainees

COLUMNS = ["a", "b"]
ROWS, POINTS, WAVES = 40, 1000, 30
REPLICATES = (2, 3, 5)
NOISE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "constant": lambda X: np.full(len(X), 0.2),
    "depends on x": lambda X: 0.08 * np.exp(1.8 * X[:, 0]),
}
GIVEN = ("replicate rows", "estimates", "true variances", "estimates taken as exact")


SETTINGS = """\
Thresholds of the package were set on seeds 1000 to 1011, but for one: the degrees of freedom from which variances count
as known came down from 20 to 10 for the sake of a test, when seeds 0 to 19 with constant noise had been seen under 20
(RMSE 1.03, 1.01 and 1.00 times that from replicate rows, coverage 0.947, 0.951 and 0.969)."""


def problem(seed: int, replicates: int, noise: str) -> tuple[dict[str, pd.DataFrame], pd.DataFrame]:
    """The rows by what is given, and the points with f and the standard deviation of a measurement."""
    generator = np.random.default_rng(seed)
    X = generator.random((ROWS, 2))
    w, b, a = 2.5 * generator.normal(size=(2, WAVES)), 6.28 * generator.random(WAVES), generator.normal(size=WAVES)

    def f(X: np.ndarray) -> np.ndarray:
        return np.cos(X @ w + b) @ a / np.sqrt(WAVES / 2)

    std = NOISE[noise]
    Y = f(X)[:, None] + std(X)[:, None] * generator.normal(size=(ROWS, replicates))
    points = generator.random((POINTS, 2))
    apart = pd.DataFrame(np.repeat(X, replicates, axis=0), columns=COLUMNS).assign(y=Y.ravel())
    means = pd.DataFrame(X, columns=COLUMNS).assign(y=Y.mean(1))
    estimates = means.assign(v=Y.var(axis=1, ddof=1) / replicates)
    true = means.assign(v=std(X) ** 2 / replicates)
    there = pd.DataFrame(points, columns=COLUMNS).assign(f=f(points), std=std(points))
    return dict(zip(GIVEN, (apart, estimates, true, estimates), strict=True)), there


def scores(rows: pd.DataFrame, points: pd.DataFrame, replicates: int, exact: bool) -> dict[str, Any]:
    """RMSE, coverage and noise of one fit."""
    known = "v" in rows
    measured = bs.read_table(rows, "y", features=COLUMNS, noise_variance="v" if known else None)
    if exact:
        with mock.patch.object(trainees, "learn_noise", lambda *a: replace(learn(*a), degrees=None)):
            surrogate = bs.fit(measured, transform="none")
    else:
        surrogate = bs.fit(measured, transform="none")
    library = bs.read_library(points[COLUMNS], dict.fromkeys(COLUMNS, "continuous"))
    mean, std = surrogate.predict(library)
    noise = surrogate.posterior().noise(surrogate.encoder.encode(library)).detach().numpy() * surrogate.scale.scale**2
    error = mean - points["f"].to_numpy()
    true = points["std"].to_numpy() ** 2 / (replicates if known else 1)
    degrees = None if surrogate.log_variance is None else surrogate.log_variance.degrees
    return {
        "rmse": float(np.sqrt(np.mean(error**2))),
        "coverage": float(np.mean(np.abs(error) < 1.959964 * std)),
        "noise": float(np.mean(noise / true)),
        "degrees": degrees,
    }


learn = trainees.learn_noise


def row(noise: str, replicates: int, given: str, found: list[dict[str, Any]], base: float) -> dict[str, Any]:
    """Means over seeds, for the page."""
    mean = {name: float(np.mean([one[name] for one in found])) for name in ("rmse", "coverage", "noise")}
    degrees = [one["degrees"] for one in found if one["degrees"] is not None]
    return {
        "noise": noise,
        "replicates": replicates,
        "given": given,
        "RMSE": mean["rmse"],
        "/ replicate rows": mean["rmse"] / base,
        "coverage": mean["coverage"],
        "noise / true": mean["noise"],
        "seen as estimates": f"{len(degrees)} of {len(found)}",
        "k, median": float(np.median(degrees)) if degrees else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    page, kept = [], []
    for noise in NOISE:
        for replicates in REPLICATES:
            found: dict[str, list[dict[str, Any]]] = {given: [] for given in GIVEN}
            for seed in range(options.seeds):
                frames, points = problem(seed, replicates, noise)
                for given, rows in frames.items():
                    found[given].append(scores(rows, points, replicates, given == GIVEN[-1]))
            base = float(np.mean([one["rmse"] for one in found[GIVEN[0]]]))
            page += [row(noise, replicates, given, found[given], base) for given in GIVEN]
            kept.append({"noise": noise, "replicates": replicates, "found": found})
            print("\n".join(table(page[-len(GIVEN) :])), flush=True)
    words = [
        "# Row variances that are estimates",
        "",
        f"Means over {options.seeds} seeds; what the columns are, and how it was done: "
        "`scripts/benchmarks/estimated_variances.py`.",
        "",
        SETTINGS,
        "",
        *table(page),
    ]
    write_results("estimated_variances", kept, "\n".join(words) + "\n")


if __name__ == "__main__":
    main()
