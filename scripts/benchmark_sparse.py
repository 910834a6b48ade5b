"""Sparse surrogates on measured data, and at one million rows.

    python scripts/benchmark_sparse.py --data FOLDER     # UCI sets: NAME.csv.gz and NAME_test_mask.csv.gz in FOLDER
    python scripts/benchmark_sparse.py --size 1000000    # one epoch of SVGP and its posterior

Writes scripts/results/benchmark_sparse.json and .md; each run replaces only its own rows. Last column: the target; the
mask is n x splits, 1 = test. Inputs and target are standardised on the training rows, the target's errors are in those
units. Every surrogate starts from hyperparameters of an exact fit on a random part of the rows (its time counts).
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import resource
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from gpytorch.kernels import MaternKernel, ScaleKernel

from beebo_scale import Posterior
from beebo_scale.surrogates.gp import GaussianProcess, fit_hyperparameters
from beebo_scale.surrogates.inducing import select_inducing_points
from beebo_scale.surrogates.observations import Observations, merge_replicates
from beebo_scale.surrogates.sgpr import fit_sgpr, sgpr_posterior
from beebo_scale.surrogates.svgp import SVGP, fit_svgp

RESULTS = Path(__file__).parent / "results" / "benchmark_sparse.json"
EXACT_RMSE = {"pol": 0.0834, "elevators": 0.3566, "bike": 0.0431, "kin40k": 0.0688, "keggdirected": 0.0872}  # split 0
RMSE_FACTOR, COVERAGE = 1.5, (0.90, 0.98)  # bars
SECONDS, GIGABYTES = 600.0, 8.0  # bars of --size
CHUNK = 4096  # rows predicted at once


def new_process(d: int) -> GaussianProcess:
    """Matern-3/2 with a lengthscale for each column and an outputscale."""
    return GaussianProcess(ScaleKernel(MaternKernel(nu=1.5, ard_num_dims=d)))


def read(folder: Path, name: str, split: int) -> tuple[torch.Tensor, ...]:
    """Standardised X, y of the training rows, X, y of the test rows."""
    table = pd.read_csv(folder / f"{name}.csv.gz", header=None).to_numpy(np.float64)
    test = pd.read_csv(folder / f"{name}_test_mask.csv.gz", header=None).to_numpy()[:, split] == 1
    center, scale = table[~test].mean(0), table[~test].std(0)
    values = torch.from_numpy((table - center) / np.where(scale > 0, scale, 1.0))
    train, rest = values[torch.from_numpy(~test)], values[torch.from_numpy(test)]
    return train[:, :-1], train[:, -1], rest[:, :-1], rest[:, -1]


def random_part(data: Observations, rows: int, seed: int = 0) -> Observations:
    """At most `rows` of the observations."""
    return data.take(torch.randperm(len(data), generator=torch.Generator().manual_seed(seed))[:rows])


def sgpr(gp: GaussianProcess, data: Observations, arguments: argparse.Namespace) -> Posterior:
    """Points for the hyperparameters so far, fit, points for those found, posterior."""
    fit_sgpr(gp, select_inducing_points(gp.kernel, data.X, arguments.m), data, arguments.iterations)
    return sgpr_posterior(gp, select_inducing_points(gp.kernel, data.X, arguments.m), data)


def svgp(gp: GaussianProcess, data: Observations, arguments: argparse.Namespace) -> Posterior:
    """Points for the hyperparameters so far, training, posterior."""
    Z = select_inducing_points(gp.kernel, data.X, arguments.m)
    model = SVGP(gp, Z, len(data), getattr(torch, arguments.dtype))
    fit_svgp(model, data, arguments.epochs, arguments.batch_size)
    return model.posterior()


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


def accuracy(name: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """All surrogates on one set."""
    X, y, X_test, y_test = read(arguments.data, name, arguments.split)
    data = merge_replicates(X, y)
    start = time.perf_counter()
    first = new_process(X.shape[-1])
    fit_hyperparameters(first, random_part(data, arguments.fit_rows), maxiter=50)
    start_seconds = time.perf_counter() - start
    rows = []
    kinds: dict[str, Callable[..., Posterior]] = {"sgpr": sgpr, "svgp": svgp}
    for kind in arguments.kinds:
        gp = new_process(X.shape[-1])
        gp.load_state_dict(first.state_dict())
        start = time.perf_counter()
        posterior = kinds[kind](gp, data, arguments)
        seconds = start_seconds + time.perf_counter() - start
        figures = {"set": name, "kind": kind, "split": arguments.split, "rows": len(X), "m": len(posterior.centers)}
        figures |= {"fit_seconds": seconds, **score(posterior, X_test, y_test), "noise": float(gp.sigma2.detach())}
        low, high = COVERAGE
        if name in EXACT_RMSE and arguments.split == 0:
            figures["times_exact_rmse"] = figures["rmse"] / EXACT_RMSE[name]
            figures["passes"] = figures["times_exact_rmse"] <= RMSE_FACTOR and low <= figures["coverage"] <= high
        print(figures, flush=True)
        rows.append(figures)
    return rows


def size(n: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """One epoch of SVGP over n synthetic rows with d = 10, m = 512, and a posterior; time and peak memory."""
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(n, 10, generator=generator, dtype=torch.float64)
    f = torch.sin(6 * X[:, 0]) + 2 * X[:, 1] * X[:, 2] + torch.cos(4 * X[:, 3]) * X[:, 4]
    y = f + 0.1 * torch.randn(n, generator=generator, dtype=torch.float64)
    y = (y - y.mean()) / y.std()
    test, once = 10_000, torch.ones(n - 10_000, dtype=torch.float64)
    data = Observations(X[test:], y[test:], None, once, torch.zeros_like(once))  # no two rows repeat each other
    start = time.perf_counter()
    gp = new_process(10)
    fit_hyperparameters(gp, random_part(data, arguments.fit_rows), maxiter=50)
    Z = select_inducing_points(gp.kernel, data.X, 512)
    ready = time.perf_counter()
    model = SVGP(gp, Z, len(data), getattr(torch, arguments.dtype))
    report = fit_svgp(model, data, epochs=1, batch_size=4096)
    posterior = model.posterior()
    end = time.perf_counter()
    figures = {"rows": n, "m": len(Z), "dtype": arguments.dtype, "steps": report.iterations}
    figures |= {"start_seconds": ready - start, "epoch_and_posterior_seconds": end - ready, "seconds": end - start}
    figures |= score(posterior, X[:test], y[:test])
    figures["peak_gigabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    figures["passes"] = figures["seconds"] < SECONDS and figures["peak_gigabytes"] < GIGABYTES
    print(figures, flush=True)
    return figures


def write(new: dict[str, list[dict[str, Any]]]) -> None:
    """Replace the rows that were run again, keep the others, write both files."""
    content = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"accuracy": [], "size": []}
    keys = {"accuracy": ("set", "kind", "split", "m"), "size": ("rows", "dtype")}
    for table, rows in new.items():
        done = {tuple(row[key] for key in keys[table]) for row in rows}
        kept = [row for row in content[table] if tuple(row[key] for key in keys[table]) not in done]
        content[table] = sorted(kept + rows, key=lambda row: tuple(row[key] for key in keys[table]))
    content["machine"] = {"cpu": platform.processor() or platform.machine(), "threads": torch.get_num_threads()}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(content, indent=1) + "\n")
    lines = ["# Sparse surrogates", "", f"By `scripts/benchmark_sparse.py`; threads: {torch.get_num_threads()}.", ""]
    for table in ("accuracy", "size"):
        lines += _markdown(content[table]) if content[table] else []
    RESULTS.with_suffix(".md").write_text("\n".join(lines))


def _markdown(rows: list[dict[str, Any]]) -> list[str]:
    """A table of dictionaries."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [
        [f"{v:.4g}" if isinstance(v, float) else str(v) for v in (row.get(c, "") for c in columns)] for row in rows
    ]
    lines = [columns, ["---"] * len(columns), *cells]
    return [f"| {' | '.join(line)} |" for line in lines] + [""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the UCI sets")
    parser.add_argument("--sets", nargs="+", default=list(EXACT_RMSE))
    parser.add_argument("--kinds", nargs="+", choices=("sgpr", "svgp"), default=["sgpr", "svgp"])
    parser.add_argument("--split", type=int, default=0, help="column of the mask")
    parser.add_argument("--m", type=int, default=1024, help="inducing points")
    parser.add_argument("--fit-rows", type=int, default=2000, help="rows of the exact fit to start from")
    parser.add_argument("--iterations", type=int, default=20, help="L-BFGS iterations of SGPR")
    parser.add_argument("--epochs", type=int, default=20, help="of SVGP")
    parser.add_argument("--batch-size", type=int, default=1024, help="of SVGP")
    parser.add_argument("--dtype", choices=("float64", "float32"), default="float64", help="of SVGP's minibatches")
    parser.add_argument("--size", type=int, help="rows of the synthetic run")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", message=".*torch.jit.script.*", category=DeprecationWarning)
    if arguments.data is None and arguments.size is None:
        parser.error("give --data, --size or both")
    if arguments.data is not None:
        for name in arguments.sets:
            write({"accuracy": accuracy(name, arguments)})
    if arguments.size is not None:
        write({"size": [size(arguments.size, arguments)]})


if __name__ == "__main__":
    main()
