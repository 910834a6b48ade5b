"""Every surrogate on measured data: error, calibration, time and memory.

    python scripts/benchmark_uci.py --data FOLDER     # NAME.csv.gz and NAME_test_mask.csv.gz in FOLDER
    python scripts/benchmark_uci.py --report          # only write the page again

Writes scripts/results/benchmark_uci.json and .md. One case (set, split, kind) runs in a process of its own and is
written when it is done; cases that are there already are left out, so that a run can be stopped at any time and started
again. Last column: the target; the mask is n x splits, 1 = test. Inputs and target are standardised on the training
rows, the target's errors are in those units. Hyperparameters come from `fit` with its defaults for the exact surrogate;
the other kinds start from them, and their time includes the time for finding them.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd
import torch

import beebo_scale as bs
from beebo_scale import Posterior
from beebo_scale.roots import DenseRoot
from beebo_scale.screening import atomic_write
from beebo_scale.surrogates import Surrogate
from beebo_scale.surrogates.love import down_root
from beebo_scale.surrogates.products import KernelMatrix
from beebo_scale.surrogates.rank import Probes, excess

RESULTS = Path(__file__).parent / "results" / "benchmark_uci.json"
SMALL, LARGE = ("bike", "elevators", "pol"), ("kin40k", "keggdirected")
KINDS = ("exact", "svgp", "sgpr", "love")
BARS = {  # a plain Cholesky GP on split 0, most with published hyperparameters: RMSE, NLPD, coverage
    "pol": (0.0834, -1.214, 0.934),
    "elevators": (0.3566, 0.392, 0.942),
    "bike": (0.0431, -2.709, 0.979),
    "kin40k": (0.0688, -1.275, 0.943),
    "keggdirected": (0.0872, -0.712, 0.944),
}
RANKS = (512, 128)  # of LOVE; the first is the one that is adapted and compared
ADAPTED = 500  # test points
TOLERANCE = 1e-3  # of the variance there, in units of the noise variance
SGPR_ITERATIONS = 8  # of L-BFGS over all rows, from the hyperparameters of the exact surrogate
EPOCHS = {"bike": 20, "elevators": 20, "pol": 20, "kin40k": 10, "keggdirected": 20}  # of SVGP, from there too
CHUNK = 1024  # rows predicted at once


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
    table = bs.read_table(train, "y", features)
    first, before = hyperparameters(options.work / f"{name}_{split}", table)
    start = time.process_time()
    surrogate = first
    if kind != "exact":
        size = bs.Approximation(inducing_points=options.m, rank=RANKS[0], epochs=EPOCHS[name])
        iterations = 0 if kind == "love" else SGPR_ITERATIONS
        surrogate = bs.fit(table, kind, transform="none", warm_start=first, maxiter=iterations, approximation=size)
    posterior = surrogate.posterior()
    seconds = before + time.process_time() - start
    X, y = surrogate.encoder.encode(bs.read_library(test, features)), torch.tensor(test["y"].to_numpy())
    figures: dict[str, Any] = {"rows": len(train), "distinct": len(surrogate.data), "d": len(features)}
    figures |= {"fit_seconds": seconds, **score(posterior, surrogate, X, y)}
    figures["peak_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
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

    The exact gain at the probes, beside which the smaller ranks are judged, comes from the same adapted root.
    """
    columns = list(range(X.shape[-1]))
    probes = Probes().draw(surrogate.data.X, columns)
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


def finished() -> dict[str, dict[str, Any]]:
    """All cases so far, by 'set split kind'."""
    return json.loads(RESULTS.read_text())["cases"] if RESULTS.exists() else {}


def write(done: dict[str, dict[str, Any]]) -> None:
    """Both files, whole or not at all."""
    machine = {"cpu": platform.processor() or platform.machine(), "threads": torch.get_num_threads()}
    content = {"machine": machine, "torch": torch.__version__, "cases": done}
    RESULTS.parent.mkdir(exist_ok=True)
    atomic_write(RESULTS, lambda path: Path(path).write_text(json.dumps(content, indent=1) + "\n"))
    atomic_write(RESULTS.with_suffix(".md"), lambda path: Path(path).write_text(page(content)))


def page(content: dict[str, Any]) -> str:
    """The result page."""
    done, machine = content["cases"], content["machine"]
    lines = [
        "# Surrogates on measured data",
        "",
        f"By `scripts/benchmark_uci.py`; {machine['threads']} thread(s) of a shared {machine['cpu']}, torch "
        f"{content['torch']}; seconds are CPU seconds, other work ran on the machine. Means over the splits that were "
        f"run; m = 1,024 inducing points, LOVE of rank {RANKS[0]:,}. Errors in standard deviations of the target; NLPD "
        "and coverage (of the 95 % interval) are of measurements, noise included. Split by split figures are in the "
        "JSON file.",
        "",
        "| set | rows | kind | splits | RMSE | / exact | NLPD | coverage | fit s | predict s | GB | error of I |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in (*SMALL, *LARGE):
        for kind in KINDS:
            lines += _row(done, name, kind)
    lines += ["", "**Split 0 beside the bars** (a plain Cholesky GP, most with published hyperparameters):", ""]
    lines += ["| set | RMSE | bar | NLPD | bar | coverage | bar |", "|---|---|---|---|---|---|---|"]
    for name, bar in BARS.items():
        if row := done.get(f"{name} 0 exact"):
            pairs = zip((row["rmse"], row["nlpd"], row["coverage"]), bar, strict=True)
            lines.append(f"| {name} | " + " | ".join(f"{value:.4f} | {b:.4f}" for value, b in pairs) + " |")
    return "\n".join([*lines, "", *_love(done), ""])


def _row(done: dict[str, dict[str, Any]], name: str, kind: str) -> list[str]:
    """One line of the large table, the mean over splits; the ratio only over splits that the exact one ran too."""
    splits = [s for s in range(10) if f"{name} {s} {kind}" in done]
    if not splits:
        return []
    rows = [done[f"{name} {s} {kind}"] for s in splits]
    exact = {s: done[f"{name} {s} exact"]["rmse"] for s in splits if f"{name} {s} exact" in done}
    ratios = [row["rmse"] / exact[s] for row, s in zip(rows, splits, strict=True) if s in exact]
    ratio = f"{fmean(ratios):.3f}" if ratios else ""
    keys = ("fit_seconds", "predict_seconds", "peak_gb")
    fit, predict, peak = (fmean(row[key] for row in rows) for key in keys)
    error = [row["summary"]["information_gain_error"] for row in rows]
    said = "" if None in error else f"{fmean(error):+.1%}"
    return [
        f"| {name} | {rows[0]['rows']:,} | {kind} | {', '.join(map(str, splits))} | "
        f"{fmean(row['rmse'] for row in rows):.4f} | {ratio} | "
        f"{fmean(row['nlpd'] for row in rows):.3f} | {fmean(row['coverage'] for row in rows):.3f} | "
        f"{fit:.0f} | {predict:.1f} | {peak:.1f} | {said} |"
    ]


def _love(done: dict[str, dict[str, Any]]) -> list[str]:
    """LOVE by rank, and adapted to 500 test points beside the exact surrogate there."""
    lines = [
        f"**LOVE**: by rank, next to its own estimate of the error of I; then adapted to {ADAPTED} test points, and "
        "the exact surrogate at the same points.",
        "",
        "| set | split | rank | estimate | NLPD | coverage | NLPD there | adapted | exact | seconds to adapt |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for key, row in done.items():
        name, split, kind = key.split()
        if kind != "love":
            continue
        beside = done.get(f"{name} {split} exact")
        exact = float("nan") if beside is None else beside["first_500"]["nlpd"]
        fixed = row["adapted"]
        for at in row["ranks"]:
            line = f"| {name} | {split} | {at['rank']} | {at['estimate']:+.1%} | {at['nlpd']:.3f} | "
            line += f"{at['coverage']:.3f} | "
            there = f"{row['first_500']['nlpd']:.3f} | {fixed['nlpd']:.3f} | {exact:.3f} | {fixed['adapt_seconds']:.0f}"
            lines.append(line + (there if at is row["ranks"][0] else " | | |") + " |")
    return lines


def run_all(options: argparse.Namespace) -> None:
    """Every case that is not there yet, each in a process of its own."""
    options.work.mkdir(parents=True, exist_ok=True)
    for name, split, kind in cases(options.sets, options.splits, options.kinds):
        key = f"{name} {split} {kind}"
        if key in finished():
            continue
        print(key, flush=True)
        command = [sys.executable, __file__, "--data", str(options.data), "--work", str(options.work)]
        command += ["--m", str(options.m), "--threads", str(options.threads), "--one", name, str(split), kind]
        child = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if child.returncode == 0:
            figures = json.loads(child.stdout.splitlines()[-1])
            write(finished() | {key: figures})
            print({k: v for k, v in figures.items() if isinstance(v, float)}, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the UCI sets")
    parser.add_argument("--report", action="store_true", help="write the page from what is there")
    parser.add_argument("--sets", nargs="+", default=[*SMALL, *LARGE])
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1, 2], help="columns of the mask")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--m", type=int, default=1024, help="inducing points")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "benchmark_uci")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)  # a case, as `run_all` starts it
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.report:
        write(finished())
    elif options.data is None:
        parser.error("give --data or --report")
    elif options.one:
        name, split, kind = options.one
        print(json.dumps(run(options, name, int(split), kind)))
    else:
        run_all(options)


if __name__ == "__main__":
    main()
