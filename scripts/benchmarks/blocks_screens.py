"""Blocks on two measured screens: GB1 (130,000 variants) and a GPCR screen (325,567 molecules).

    python scripts/benchmarks/blocks_screens.py gb1 --data gb1_slim.csv.gz       # columns variant, fitness
    python scripts/benchmarks/blocks_screens.py gpcr --data GPCR.csv.xz          # columns SMILES, Score, Primary

Cases go to results/blocks.json and .md, see blocks.py. GB1: blocks, SVGP (m = 1,024) and exact on 20,000 rows. GPCR:
`beebo-scale fit` and `predict` from the raw file, and ridge on counts, the nearest hit and a random forest on the same
rows; a fifth of the molecules, drawn at random by the seed, is held out.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from blocks import keep
from gpcr import enrichment, timed
from scipy.sparse import csr_matrix
from scipy.stats import spearmanr

import beebo_scale as bs

HELD_OUT = 19_361  # variants of GB1
FEW = 20_000  # rows of the exact surrogate
FOREST_ROWS = 60_000  # of the random forest, all hits among them
SHARE = 0.2


def gb1(options: argparse.Namespace, kind: str) -> dict[str, Any]:
    """One surrogate."""
    frame = pd.read_csv(options.data)[["variant", "fitness"]]
    order = np.random.default_rng(0).permutation(len(frame))
    test, train = frame.iloc[order[:HELD_OUT]], frame.iloc[order[HELD_OUT:]]
    train = train[: FEW if kind == "exact" else options.n].reset_index(drop=True)
    features = {"variant": "protein"}
    start = time.process_time()
    size = bs.Approximation(inducing_points=1024) if kind == "svgp" else bs.Approximation()
    table = bs.read_table(train, "fitness", features=features)
    surrogate = bs.fit(table, kind, approximation=size, fit_rows=options.fit_rows)
    surrogate.posterior()
    found: dict[str, Any] = {"rows": len(train), "fit_seconds": time.process_time() - start}
    X, y = surrogate.encoder.encode(bs.read_library(test, features)), test["fitness"].to_numpy()
    start = time.process_time()
    predicted = surrogate.predict_encoded(X).columns()
    found["predict_seconds"] = time.process_time() - start
    mean, std = predicted["mean"], predicted["std"]
    found["rmse"] = float(np.sqrt(np.square(mean - y).mean()))
    found["nlpd_normal"] = float(np.mean(0.5 * np.log(2 * np.pi * std**2) + 0.5 * np.square((y - mean) / std)))
    found["spearman"] = float(spearmanr(mean, y).statistic)
    top = len(y) // 100
    found["top_1_percent_in_predicted"] = len(set(np.argsort(-y)[:top]) & set(np.argsort(-mean)[:top])) / top
    summary = surrogate.summary()
    names = (
        "transform",
        "inducing_points",
        "blocks",
        "largest_block",
        "information_gain_error",
        "error_beside_half_blocks",
    )
    return found | {name: summary[name] for name in names if name in summary}


def counts(molecules: bs.Table) -> csr_matrix:
    """Morgan counts as the surrogate sees them, sparse."""
    from beebo_scale.screening import Encoder

    encoder = Encoder.from_table(molecules)
    chunks = [
        molecules.take(part) for part in np.array_split(np.arange(len(molecules)), max(1, len(molecules) // 4096))
    ]
    from scipy.sparse import vstack

    return vstack([csr_matrix(encoder.encode(chunk).numpy().astype(np.float32)) for chunk in chunks]).tocsr()


def nearest_hit(train: csr_matrix, test: csr_matrix) -> np.ndarray:
    """Largest Tanimoto similarity of counts (by products) to a hit."""
    a, b = np.asarray(test.multiply(test).sum(1)).ravel(), np.asarray(train.multiply(train).sum(1)).ravel()
    best = []
    for first in range(0, test.shape[0], 2048):
        dot = (test[first : first + 2048] @ train.T).toarray()
        best.append((dot / (a[first : first + 2048, None] + b - dot)).max(1))
    return np.concatenate(best)


def gpcr(options: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Blocks and the baselines for one split."""
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.linear_model import Ridge

    frame = pd.read_csv(options.data)[["SMILES", "Score", "Primary"]].dropna()
    order = np.random.default_rng(seed).permutation(len(frame))[: options.n]
    cut = int(SHARE * len(order))
    test, train = frame.iloc[order[:cut]].reset_index(drop=True), frame.iloc[order[cut:]].reset_index(drop=True)
    hit, found = test["Primary"].to_numpy(), {"rows": len(train), "held_out": len(test)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train.to_csv(folder / "train.csv", index=False)
        test[["SMILES"]].to_csv(folder / "test.csv", index=False)
        data = ["--data.file", f"{folder}/train.csv", "--data.target", "Score", "--data.features.SMILES", "smiles"]
        quiet = ["--trainer.enable_progress_bar", "false", "--trainer.accelerator", "cpu"]
        fit = ["fit", *data, *quiet, "--data.validation", "0.01", "--data.test", "0", "--model.kind", "blocks"]
        fit += ["--model.fit_rows", "2000", "--model.iterations", "30", "--trainer.max_epochs", "1"]
        fit += ["--model.inducing_choice", options.choice, "--trainer.default_root_dir", f"{folder}/run"]
        if options.m:
            fit += ["--model.inducing_points", str(options.m)]
        if options.rows:
            fit += ["--model.block_rows", str(options.rows)]
        found["fit_seconds"], found["fit_gb"] = timed(fit, options.threads)
        predict = ["predict", "--ckpt_path", f"{folder}/run/best.ckpt", "--data.file", f"{folder}/test.csv", *quiet]
        found["predict_seconds"], found["predict_gb"] = timed(
            [*predict, "--out", f"{folder}/p.parquet"], options.threads
        )
        score = pd.read_parquet(folder / "p.parquet")["mean"].to_numpy()
    found["hits_held_out"] = int(hit.sum())
    scores = {"blocks": score}
    X, T = (counts(bs.read_library(part[["SMILES"]], {"SMILES": "smiles"})) for part in (train, test))
    y, hits = train["Score"].to_numpy(), train["Primary"].to_numpy() == 1
    scores["ridge"] = Ridge(alpha=100.0).fit(X, y).predict(T)
    scores["nearest_hit"] = nearest_hit(X[hits], T)
    some = np.flatnonzero(hits)
    rest = np.random.default_rng(seed).permutation(np.flatnonzero(~hits))[: FOREST_ROWS - len(some)]
    some = np.concatenate([some, rest])
    forest = RandomForestRegressor(100, max_features="sqrt", n_jobs=options.threads, random_state=seed)
    scores["forest"] = forest.fit(X[some], y[some]).predict(T)
    for how, value in scores.items():
        found[f"enrichment_1_percent {how}"] = enrichment(value, hit, 0.01)
        found[f"average_precision {how}"] = average_precision(value, hit)
    return found


def average_precision(score: np.ndarray, hit: np.ndarray) -> float:
    """Mean over the hits of the share of hits among the rows up to it."""
    ranked = hit[np.argsort(-score, kind="stable")]
    return float((np.cumsum(ranked) / np.arange(1, len(ranked) + 1))[ranked == 1].mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("gb1", "gpcr"))
    parser.add_argument("--data", required=True)
    parser.add_argument("--kinds", nargs="+", default=["blocks", "exact", "svgp"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--choice", default="auto", help="model.inducing_choice")
    parser.add_argument("--m", type=int)
    parser.add_argument("--rows", type=int, help="model.block_rows")
    parser.add_argument("--n", type=int, help="fewer rows, to try")
    parser.add_argument("--fit-rows", type=int, default=3000, help="rows of the hyperparameters of GB1")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    less = f" of {options.n:,}" if options.n else ""
    if options.part == "gb1":
        for kind in options.kinds:
            keep("gb1", f"{kind}{less}", lambda kind=kind: gb1(options, kind))
    else:
        tried = (
            f" {options.choice}"
            + (f" m {options.m}" if options.m else "")
            + (f" rows {options.rows}" if options.rows else "")
        )
        for seed in options.seeds:
            keep("gpcr", f"seed {seed}{tried}{less}", lambda seed=seed: gpcr(options, seed))


if __name__ == "__main__":
    main()
