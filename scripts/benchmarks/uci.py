"""Every surrogate on measured data: error, calibration, time and memory.

    python scripts/benchmarks/uci.py --data FOLDER     # NAME.csv.gz and NAME_test_mask.csv.gz in FOLDER
    python scripts/benchmarks/uci.py --report          # only write the page again

Writes scripts/benchmarks/results/uci.json and .md. One case (set, split, kind) runs in a process of its own and is
written when it is done; cases that are there already are left out, so that a run can be stopped at any time and started
again. Last column: the target; the mask is n x splits, 1 = test. Inputs and target are standardised on the training
rows, the target's errors are in those units. Hyperparameters come from `fit` with its defaults for the exact surrogate
and wait in the work folder. LOVE and SGPR keep them, SVGP starts from them; their time includes the time for finding
them.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from common import cpu_name, peak_gigabytes, read_results, write_results
from uci_page import KINDS, SETS, page

import beebo_scale as bs
from beebo_scale import Posterior
from beebo_scale.linalg.kernel_matrix import KernelMatrix
from beebo_scale.linalg.roots import DenseRoot
from beebo_scale.surrogates import Surrogate
from beebo_scale.surrogates.approximate.held_out import excess
from beebo_scale.surrogates.approximate.projection import down_root

SMALL, LARGE = SETS[:3], SETS[3:]
RANKS = (512, 128)  # of LOVE; the first is the one that is adapted and compared
ADAPTED = 500  # test points
TOLERANCE = 1e-2  # of the variance there, in units of the noise variance
ITERATIONS = 0  # of L-BFGS: LOVE and SGPR keep the hyperparameters of the exact surrogate, see sparse_attempts.md
EPOCHS = 20  # of SVGP, from there too
CHUNK = 1024  # rows predicted at once
SIZE_TEST, SIZE_NOISE = 2000, 0.1  # points predicted, and standard deviation of the noise, in the case of many rows


def cases(sets: list[str], splits: list[int], kinds: list[str]) -> list[tuple[str, int, str]]:
    """What is to be run, in order: the first split before the others, small sets before large ones."""
    return [
        (name, split, kind)
        for group in ([s for s in splits if s == 0], [s for s in splits if s > 0])
        for size in (SMALL, LARGE)
        for split in group
        for name in size
        if name in sets
        for kind in kinds
    ]


def read(folder: Path, name: str, split: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Standardised training rows and test rows; columns x0, x1, ..., y."""
    table = pd.read_csv(folder / f"{name}.csv.gz", header=None).to_numpy(np.float64)
    test = pd.read_csv(folder / f"{name}_test_mask.csv.gz", header=None).to_numpy()[:, split] == 1
    center, scale = table[~test].mean(0), table[~test].std(0)
    columns = [f"x{i}" for i in range(table.shape[1] - 1)] + ["y"]
    frame = pd.DataFrame((table - center) / np.where(scale > 0, scale, 1.0), columns=columns)
    return frame[~test], frame[test]


def score(posterior: Posterior, surrogate: Surrogate, X: torch.Tensor, y: torch.Tensor) -> dict[str, float]:
    """RMSE, mean negative log predictive density and coverage of the central 95 % interval of measurements."""
    start = time.process_time()
    with torch.no_grad():
        moments = [posterior.mean_and_variance(rows) for rows in X.split(CHUNK)]
        mean, variance = (torch.cat(parts) for parts in zip(*moments, strict=True))
        mean, std = surrogate.scale.moments(mean, variance + posterior.noise(X))
    error, variance = y - mean, std.square()
    return {
        "rmse": float(error.square().mean().sqrt()),
        "nlpd": float(0.5 * (torch.log(2 * math.pi * variance) + error.square() / variance).mean()),
        "coverage": float((error.abs() < 1.959964 * variance.sqrt()).double().mean()),
        "predict_seconds": time.process_time() - start,
    }


def run(options: argparse.Namespace, name: str, split: int, kind: str) -> dict[str, Any]:
    """One case."""
    train, test = read(options.data, name, split)
    features = {column: "continuous" for column in train.columns[:-1]}
    table = bs.read_table(train, "y", features=features)
    first, before = hyperparameters(options.work / f"{name}_{split}", table)
    start, wall = time.process_time(), time.perf_counter()
    surrogate = first
    if kind != "exact":
        size = bs.Approximation(inducing_points=options.m, rank=RANKS[0], epochs=EPOCHS)
        surrogate = bs.fit(table, kind, transform="none", warm_start=first, iterations=ITERATIONS, approximation=size)
    posterior = surrogate.posterior()
    seconds, wall = before + time.process_time() - start, time.perf_counter() - wall
    X, y = surrogate.encoder.encode(bs.read_library(test, features)), torch.tensor(test["y"].to_numpy())
    figures: dict[str, Any] = {"rows": len(train), "distinct": len(surrogate.data), "d": len(features)}
    figures |= {"fit_seconds": seconds, "hyperparameters": before, "posterior_wall_seconds": wall}
    figures |= score(posterior, surrogate, X, y)
    figures["peak_gb"] = peak_gigabytes()
    figures["first_500"] = score(posterior, surrogate, X[:ADAPTED], y[:ADAPTED])
    figures["summary"] = surrogate.summary()
    if kind == "love":
        figures |= by_rank(posterior, surrogate, X, y)
    return figures


def hyperparameters(file: Path, table: bs.Table) -> tuple[Surrogate, float]:
    """The exact surrogate and the seconds for its hyperparameters: from the work folder, or fitted and left there."""
    model, seconds = file.with_suffix(".ckpt"), file.with_suffix(".json")
    if not (model.exists() and seconds.exists()):
        start = time.process_time()
        bs.fit(table, "exact", transform="none").save(model)
        seconds.write_text(json.dumps(time.process_time() - start))
    return bs.load_surrogate(model), json.loads(seconds.read_text())


def by_rank(posterior: Posterior, surrogate: Surrogate, X: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
    """The scores of a root adapted to the first points; NLPD and coverage at several ranks, next to the estimate.

    The exact gain at the last test rows, beside which the smaller ranks are judged, comes from the same adapted root.
    """
    probes = X[-128:].reshape(2, 64, -1)
    start = time.process_time()
    fitted = posterior.adapt(torch.cat([X[:ADAPTED], probes.flatten(0, 1)]), TOLERANCE)
    seconds = time.process_time() - start
    adapted = {"adapt_seconds": seconds, **score(fitted, surrogate, X[:ADAPTED], y[:ADAPTED])}
    K, sigma2 = KernelMatrix(posterior.kernel, posterior.centers), surrogate.gp.noise_of(surrogate.data).detach()
    rows = [{"rank": posterior.rank, "estimate": surrogate.summary()["information_gain_error"]}]
    rows[0] |= score(posterior, surrogate, X, y)
    for rank in RANKS[1:]:
        other = replace(posterior, down=DenseRoot(down_root(K, sigma2, rank, sketch=torch.float32)))
        estimate = excess(other, fitted, probes)
        rows.append({"rank": rank, "estimate": estimate, **score(other, surrogate, X, y)})
    return {"adapted": adapted, "ranks": rows}


def at_size(rows: int) -> dict[str, Any]:
    """The exact surrogate of so many distinct synthetic rows, its factor in float32: time and memory."""
    X = torch.rand(rows + SIZE_TEST, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    error = torch.randn(len(X), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    y = torch.sin(4 * X[:, :4]).sum(-1) + X[:, 4:].prod(-1)
    frame = pd.DataFrame(X.numpy(), columns=[f"x{i}" for i in range(8)]).assign(y=(y + SIZE_NOISE * error).numpy())
    features = {f"x{i}": "continuous" for i in range(8)}
    train, test = frame[:rows], frame[rows:]
    start = time.process_time()
    size = bs.Approximation(factor="float32")
    surrogate = bs.fit(bs.read_table(train, "y", features=features), "exact", transform="none", approximation=size)
    surrogate.posterior()
    seconds, start = time.process_time() - start, time.process_time()
    mean, _ = surrogate.predict(bs.read_library(test, features))
    figures = {"rows": len(surrogate.data), "d": 8, "factor": surrogate.summary()["factor"], "noise": SIZE_NOISE}
    figures |= {"fit_seconds": seconds, "predict_seconds": time.process_time() - start, "predicted": SIZE_TEST}
    figures["rmse"] = float(np.sqrt(np.square(mean - y[rows:].numpy()).mean()))
    return figures | {"peak_gb": peak_gigabytes()}


def results() -> dict[str, Any]:
    """All so far: "cases" by 'set split kind', and "size"."""
    return read_results("uci") or {"cases": {}, "size": None}


def write(content: dict[str, Any]) -> None:
    """Both files, whole or not at all."""
    machine = {"cpu": cpu_name(), "threads": torch.get_num_threads()}
    content = {**content, "machine": machine, "torch": torch.__version__}
    write_results("uci", content, page(content, RANKS[0], ADAPTED))


def run_all(options: argparse.Namespace) -> None:
    """Every case that is not there yet, each in a process of its own."""
    options.work.mkdir(parents=True, exist_ok=True)
    for name, split, kind in cases(options.sets, options.splits, options.kinds):
        key = f"{name} {split} {kind}"
        if key in results()["cases"]:
            continue
        print(key, flush=True)
        command = [sys.executable, __file__, "--data", str(options.data), "--work", str(options.work)]
        command += ["--m", str(options.m), "--threads", str(options.threads), "--one", name, str(split), kind]
        child = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if child.returncode == 0:
            figures = json.loads(child.stdout.splitlines()[-1])
            content = results()
            write(content | {"cases": content["cases"] | {key: figures}})
            print({k: v for k, v in figures.items() if isinstance(v, float)}, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the UCI sets")
    parser.add_argument("--report", action="store_true", help="write the page from what is there")
    parser.add_argument("--size", type=int, help="only the exact surrogate of so many synthetic rows")
    parser.add_argument("--sets", nargs="+", default=[*SMALL, *LARGE])
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1, 2], help="columns of the mask")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--m", type=int, default=1024, help="inducing points")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "uci")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)  # a case, as `run_all` starts it
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.size:
        figures = at_size(options.size)  # first: other cases may end meanwhile
        write(results() | {"size": figures})
    elif options.report:
        write(results())
    elif options.data is None:
        parser.error("give --data, --size or --report")
    elif options.one:
        name, split, kind = options.one
        print(json.dumps(run(options, name, int(split), kind)))
    else:
        run_all(options)


if __name__ == "__main__":
    main()
