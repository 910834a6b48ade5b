"""Surrogates at size, on synthetic rows (d = 10): SVGP at one million, the exact one at what a laptop holds.

    python scripts/benchmarks/sparse.py --size 1000000              # one epoch of SVGP and its posterior
    python scripts/benchmarks/sparse.py --exact 45000 [--factor float32]

Writes scripts/benchmarks/results/sparse.json and .md; each run replaces only its own rows. Both start from
hyperparameters of an exact fit to 2,000 random rows (its time counts). For measured data see uci.py.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from typing import Any

import torch
from common import cpu_name, peak_gigabytes, read_results, table, write_results
from gpytorch.kernels import MaternKernel, ScaleKernel

from beebo_scale import Posterior
from beebo_scale.surrogates.approximate.inducing import select_inducing_points
from beebo_scale.surrogates.approximate.svgp import SVGP, fit_svgp
from beebo_scale.surrogates.data.observations import Observations
from beebo_scale.surrogates.gaussian_process.gaussian_process import (
    GaussianProcess,
    exact_posterior,
    fit_hyperparameters,
)

SVGP_BARS, EXACT_BAR = (600.0, 8.0), 20.0  # seconds and GB; GB
TEST = 2_000  # rows held out
CHUNK = 512  # rows predicted at once


def problem(n: int) -> tuple[Observations, torch.Tensor, torch.Tensor]:
    """Standardised rows, no two alike; inputs and targets of the test rows."""
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(n + TEST, 10, generator=generator, dtype=torch.float64)
    f = torch.sin(6 * X[:, 0]) + 2 * X[:, 1] * X[:, 2] + torch.cos(4 * X[:, 3]) * X[:, 4]
    y = f + 0.1 * torch.randn(n + TEST, generator=generator, dtype=torch.float64)
    y = (y - y.mean()) / y.std()
    once = torch.ones(n, dtype=torch.float64)
    return Observations(X[TEST:], y[TEST:], None, once, torch.zeros_like(once)), X[:TEST], y[:TEST]


def started(data: Observations, rows: int) -> GaussianProcess:
    """Matern-3/2 with a lengthscale for each column and an outputscale, fitted to some of the rows."""
    gp = GaussianProcess(ScaleKernel(MaternKernel(nu=1.5, ard_num_dims=data.X.shape[-1])))
    part = data.take(torch.randperm(len(data), generator=torch.Generator().manual_seed(0))[:rows])
    fit_hyperparameters(gp, part, maxiter=50)
    return gp


def score(posterior: Posterior, X: torch.Tensor, y: torch.Tensor) -> dict[str, float]:
    """RMSE, mean negative log predictive density and coverage of the central 95 % interval of measurements."""
    start = time.perf_counter()
    with torch.no_grad():
        moments = [posterior.mean_and_variance(rows) for rows in X.split(CHUNK)]
        mean, variance = (torch.cat(parts) for parts in zip(*moments, strict=True))
        variance = variance + posterior.noise(X)
    error = y - mean
    return {
        "rmse": float(error.square().mean().sqrt()),
        "nlpd": float(0.5 * (torch.log(2 * math.pi * variance) + error.square() / variance).mean()),
        "coverage": float((error.abs() < 1.959964 * variance.sqrt()).double().mean()),
        "predict_seconds": time.perf_counter() - start,
    }


def svgp(n: int, options: argparse.Namespace) -> dict[str, Any]:
    """One epoch of SVGP, m = 512, and a posterior."""
    data, X, y = problem(n)
    start = time.perf_counter()
    gp = started(data, options.fit_rows)
    Z = select_inducing_points(gp.kernel, data.X, 512)
    ready = time.perf_counter()
    model = SVGP(gp, Z, len(data), getattr(torch, options.dtype))
    report = fit_svgp(model, data, epochs=1, batch_size=4096)
    posterior = model.posterior()
    end = time.perf_counter()
    figures = {"rows": n, "m": len(Z), "dtype": options.dtype, "steps": report.iterations}
    figures |= {"start_seconds": ready - start, "epoch_and_posterior_seconds": end - ready, "seconds": end - start}
    figures |= {**score(posterior, X, y), "peak_gigabytes": peak_gigabytes()}
    seconds, gigabytes = SVGP_BARS
    return figures | {"passes": figures["seconds"] < seconds and figures["peak_gigabytes"] < gigabytes}


def exact(n: int, options: argparse.Namespace) -> dict[str, Any]:
    """The exact posterior, its factor in either number format."""
    data, X, y = problem(n)
    start = time.perf_counter()
    gp = started(data, options.fit_rows)
    ready = time.perf_counter()
    posterior = exact_posterior(gp, data, dtype=getattr(torch, options.factor))
    end = time.perf_counter()
    figures = {"rows": n, "factor": options.factor, "start_seconds": ready - start, "posterior_seconds": end - ready}
    figures |= {**score(posterior, X, y), "peak_gigabytes": peak_gigabytes()}
    return figures | {"passes": figures["peak_gigabytes"] < EXACT_BAR}


def write(part: str, row: dict[str, Any], key: tuple[str, ...]) -> None:
    """Replace the row of the same key, keep the others, write both files."""
    content = read_results("sparse")
    row["threads"] = torch.get_num_threads()
    kept = [other for other in content.get(part, []) if any(other[k] != row[k] for k in key)]
    content[part] = sorted([*kept, row], key=lambda row: tuple(row[k] for k in key))
    content["machine"] = cpu_name()
    titles = {"size": "SVGP: one epoch and the posterior", "exact": "Exact: the posterior of all rows"}
    lines = ["# Surrogates at size", "", f"By `scripts/benchmarks/sparse.py`, on a shared {content['machine']}.", ""]
    for name, title in titles.items():
        if content.get(name):
            lines += [f"**{title}**", "", *table(content[name]), ""]
    write_results("sparse", content, "\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, help="rows of SVGP")
    parser.add_argument("--exact", type=int, help="rows of the exact surrogate")
    parser.add_argument("--fit-rows", type=int, default=2000, help="rows of the exact fit to start from")
    parser.add_argument("--dtype", choices=("float64", "float32"), default="float64", help="of SVGP's minibatches")
    parser.add_argument("--factor", choices=("float64", "float32"), default="float64", help="of the exact surrogate")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message=".*torch.jit.script.*", category=DeprecationWarning)
    if options.size is None and options.exact is None:
        parser.error("give --size, --exact or both")
    if options.size is not None:
        write("size", svgp(options.size, options), ("rows", "dtype"))
    if options.exact is not None:
        write("exact", exact(options.exact, options), ("rows", "factor"))


if __name__ == "__main__":
    main()
