"""A real primary screen from raw file to checkpoint: 325,567 molecules, SVGP with a Tanimoto kernel.

    python scripts/benchmarks/gpcr.py --data GPCR.csv.xz [--threads 2] [--epochs 3] [--inducing 512]

The file (PubChem, a GPCR screen) has the columns SMILES, Score (the target, % activity) and Primary (called a hit or
not). Runs `beebo-scale fit` and `predict` as a modeller would, with a random 10 % of the rows for validation and 10 %
for the test, and writes scripts/benchmarks/results/gpcr.json and .md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from common import cpu_name, write_results

from beebo_scale.training.splits import TEST, TRAIN
from beebo_scale.training.store import Screen, Split, load

BARS = {"seconds": 1200.0, "gigabytes": 10.0, "enrichment": 5.0}


def timed(command: list[str], threads: int) -> tuple[float, float]:
    """Run `beebo-scale ...`; seconds and peak memory in GB."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    start = time.monotonic()
    with subprocess.Popen([sys.executable, "-m", "beebo_scale", *command], env=environment) as job:
        _, status, usage = os.wait4(job.pid, 0)
        job.returncode = os.waitstatus_to_exitcode(status)
    if job.returncode:
        raise SystemExit(f"beebo-scale {command[0]} failed")
    return time.monotonic() - start, usage.ru_maxrss / 2**20


def enrichment(score: np.ndarray, hit: np.ndarray, share: float) -> float:
    """Rate of hits among the best-scored share of the rows, over their rate among all."""
    best = np.argsort(-score, kind="stable")[: max(1, int(share * len(score)))]
    return float(hit[best].mean() / hit.mean())


def measure(file: str, run: Path, threads: int, epochs: int, inducing: int) -> dict:
    common = ["--data.file", file, "--data.target", "Score", "--data.features.SMILES", "smiles"]
    common += ["--data.batch_size", "4096", "--trainer.default_root_dir", str(run), "--trainer.accelerator", "cpu"]
    model = [
        "--model.inducing_points",
        str(inducing),
        "--model.precision",
        "float32",
        "--model.fit_rows",
        "2000",
        "--model.iterations",
        "30",
    ]
    options = ["--trainer.max_epochs", str(epochs), "--trainer.enable_progress_bar", "false"]
    fit_seconds, memory = timed(["fit", *common, *model, *options], threads)
    best = str(run / "best.ckpt")
    out = run / "predictions.parquet"
    predict = ["--ckpt_path", best, "--data.file", file, "--out", str(out), "--trainer.enable_progress_bar", "false"]
    predict_seconds, predict_memory = timed(["predict", *predict], threads)
    screen = Screen(file, "Score", {"SMILES": "smiles"}, None, None, "auto", Split())
    part = load(screen, run / "cache").part.numpy()
    raw, predicted = pd.read_csv(file), pd.read_parquet(out)
    test, train = part == TEST, part == TRAIN
    score, y, hit = predicted["mean"].to_numpy()[test], raw["Score"].to_numpy()[test], raw["Primary"].to_numpy()[test]
    logs = pd.concat(pd.read_csv(path) for path in run.glob("logs/version_*/metrics.csv")).groupby("epoch").last()
    return {
        "rows": len(raw),
        "training_rows": int(train.sum()),
        "test_rows": int(test.sum()),
        "inducing_points": inducing,
        "epochs": len(logs),
        "fit_seconds": fit_seconds,
        "fit_gigabytes": memory,
        "predict_seconds_all_rows": predict_seconds,
        "predict_gigabytes": predict_memory,
        "checkpoint_megabytes": os.path.getsize(best) / 2**20,
        "test_rmse": float(np.sqrt(np.mean((score - y) ** 2))),
        "mean_predictor_rmse": float(np.sqrt(np.mean((y - raw["Score"][train].mean()) ** 2))),
        "test_hits": int(hit.sum()),
        "enrichment_top_1_percent": enrichment(score, hit, 0.01),
        "enrichment_top_5_percent": enrichment(score, hit, 0.05),
        "validation": {name: logs[name].iloc[-1] for name in logs if name.startswith("val_")},
    }


def report(found: dict) -> str:
    lines = [
        "# A real primary screen, from raw file to checkpoint",
        "",
        f"{found['rows']:,} molecules: {found['training_rows']:,} to learn from, {found['test_rows']:,} test rows with",
        f"{found['test_hits']:,} hits. SVGP with {found['inducing_points']:,} molecules as inducing points, Tanimoto",
        f"kernel on 2,048 Morgan counts, {found['epochs']} epochs, {found['threads']} thread(s) of {found['machine']}.",
        "",
        "| what | measured | bar |",
        "|---|---|---|",
        f"| `fit`, seconds | {found['fit_seconds']:.0f} | {BARS['seconds']:.0f} |",
        f"| `fit`, peak memory, GB | {found['fit_gigabytes']:.2f} | {BARS['gigabytes']:.0f} |",
        f"| RMSE on test rows | {found['test_rmse']:.4f} | below {found['mean_predictor_rmse']:.4f}, the mean's |",
        f"| enrichment of hits in the best 1 % | {found['enrichment_top_1_percent']:.2f} | {BARS['enrichment']:.0f} |",
        f"| enrichment of hits in the best 5 % | {found['enrichment_top_5_percent']:.2f} | |",
        f"| validation NLPD; coverage of 95 % | {found['validation']['val_nlpd']:.4f}; "
        f"{found['validation']['val_coverage95']:.3f} | |",
        f"| `predict` for all rows, seconds | {found['predict_seconds_all_rows']:.0f} | |",
        f"| `predict`, peak memory, GB | {found['predict_gigabytes']:.2f} | |",
        f"| checkpoint, MB | {found['checkpoint_megabytes']:.0f} | |",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--inducing", type=int, default=512)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(options.data, Path(folder), options.threads, options.epochs, options.inducing)
    found |= {"threads": options.threads, "machine": cpu_name()}
    write_results("gpcr", found, report(found))
    print(report(found))


if __name__ == "__main__":
    main()
