"""Whether a surrogate knows how wrong its information gain I is: its estimate beside the truth, on six kinds of rows.

    python scripts/benchmarks/gain_error.py [--kinds uniform clustered ...] [--surrogates love sgpr svgp] [--rows 2000]

Truth: mean of I / I_exact - 1 over 24 batches of 64 rows that no fit has seen, drawn as the measured ones were, I_exact
from the exact posterior with the same hyperparameters. Estimate: what `Surrogate.summary` says. Where the truth is
above 3 % the two should be within a factor of 1.5, and nothing may be called met whose truth is above twice the
tolerance. `chosen`: a batch of 64 chosen from the fresh rows, its error as the run file has it and the truth there.

Writes scripts/benchmarks/results/gain_error.json and .md; a run replaces only its own rows.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch
from common import machine, read_results, table, write_results

import beebo_scale as bs
from beebo_scale import Posterior, information_gain
from beebo_scale.surrogates.approximate.judged import raised
from beebo_scale.surrogates.approximate.love import LoveOptions
from beebo_scale.surrogates.gaussian_process.gaussian_process import exact_posterior

BATCHES, Q = 24, 64
FACTOR, SMALL = 1.5, 0.03  # the bar, and the truth from which on it counts
TOLERANCE = LoveOptions().error
DATA = "beebo_scale/datasets"


def uniform(draw: np.random.Generator, n: int) -> pd.DataFrame:
    """Five columns, independent and uniform."""
    return smooth(draw, draw.random((n, 5)))


def clustered(draw: np.random.Generator, n: int) -> pd.DataFrame:
    """25 clusters in five columns."""
    c = draw.random((25, 5))
    return smooth(draw, c[draw.integers(0, 25, n)] + 0.02 * draw.standard_normal((n, 5)))


def manifold(draw: np.random.Generator, n: int) -> pd.DataFrame:
    """Eight columns that follow two hidden ones, but for 0.01."""
    hidden, W = draw.random((n, 2)), 3 * draw.standard_normal((2, 8))
    return smooth(draw, np.sin(hidden @ W) + 0.01 * draw.standard_normal((n, 8)))


def smooth(draw: np.random.Generator, Z: np.ndarray) -> pd.DataFrame:
    """Rows with a smooth target, noise a tenth of its deviation."""
    W = draw.standard_normal((Z.shape[1], 6))
    f = np.sin(2 * Z @ W + draw.random(6)).sum(1)
    frame = pd.DataFrame(Z, columns=[f"x{i}" for i in range(Z.shape[1])])
    return frame.assign(y=f + 0.1 * f.std() * draw.standard_normal(len(Z)))


def categorical(draw: np.random.Generator, n: int) -> pd.DataFrame:
    """Yields of Buchwald-Hartwig couplings: four columns of reagents."""
    frame = pd.read_csv(f"{DATA}/buchwald_hartwig.csv.gz")
    names = {c: frame[c].map({v: f"{c[0]}{i}" for i, v in enumerate(frame[c].unique())}) for c in frame.columns[:4]}
    return _some(frame.assign(**names).rename(columns={"yield": "y"}), draw, n)


def sequence(draw: np.random.Generator, n: int) -> pd.DataFrame:
    """Variants of GB1 at four positions."""
    frame = pd.read_parquet(f"{DATA}/gb1.parquet")[["variant", "fitness"]].rename(columns={"fitness": "y"})
    return _some(frame.assign(y=np.log10(frame["y"] + 0.01)), draw, n)


def fingerprint(draw: np.random.Generator, n: int) -> pd.DataFrame:
    """Molecules and their docking scores."""
    return _some(pd.read_csv(f"{DATA}/enamine10k.csv.gz").rename(columns={"score": "y"}), draw, n)


def _some(frame: pd.DataFrame, draw: np.random.Generator, n: int) -> pd.DataFrame:
    return frame.iloc[draw.permutation(len(frame))[:n]].reset_index(drop=True)


ROWS: dict[str, Callable[[np.random.Generator, int], pd.DataFrame]] = {
    f.__name__: f for f in (uniform, clustered, manifold, categorical, sequence, fingerprint)
}
FEATURES = {"sequence": {"variant": "protein"}, "fingerprint": {"smiles": "smiles"}}
SIZES: dict[str, list[dict[str, Any]]] = {
    "love": [{"rank": 32}, {"rank": 128}, {"rank": "auto"}],
    "sgpr": [{"inducing_points": m} for m in (32, 128, 512)],
    "svgp": [{"inducing_points": m, "epochs": 8} for m in (32, 128, 512)],
}


def relative(posterior: Posterior, exact: Posterior, X: torch.Tensor) -> torch.Tensor:
    """I / I_exact - 1 of each batch, b x q x d -> b."""
    with torch.no_grad():
        noise = exact.noise(X)
        return information_gain(posterior.covar(X), noise) / information_gain(exact.covar(X), noise) - 1


def trial(rows: str, kind: str, size: dict[str, Any], n: int, seed: int) -> dict[str, Any]:
    """One fit, what it says of itself, and what is true."""
    frame = ROWS[rows](np.random.default_rng(seed), n + BATCHES * Q)
    fresh = frame[n:].drop(columns="y")
    start = time.process_time()
    approximation = bs.Approximation(**size)
    surrogate = bs.fit(
        bs.read_table(frame[:n], target="y", features=FEATURES.get(rows)),
        kind,
        transform="none",
        approximation=approximation,
        iterations=30,
        fit_rows=600,
    )
    seconds = time.process_time() - start
    said = surrogate.summary()
    exact = exact_posterior(surrogate.gp, surrogate.data, surrogate.posterior().noise)
    X = surrogate.encoder.encode(bs.read_library(fresh, surrogate.encoder.kinds)).reshape(
        BATCHES, -1, surrogate.encoder.width
    )
    errors = relative(surrogate.posterior(), exact, X)
    batch = bs.propose(surrogate, Q, fresh)
    while batch.run["surrogate"].get("rank") != surrogate.summary().get("rank"):
        surrogate = raised(surrogate) or surrogate
    B = surrogate.encoder.encode(bs.read_library(batch.frame, surrogate.encoder.kinds))
    return {
        "rows": rows,
        "n": n,
        "surrogate": kind,
        "size": next(iter(size.values())),
        "rank": said.get("rank") or said["inducing_points"],
        "seed": seed,
        "noise": said["noise_std"],
        "truth": float(errors.mean()),
        "spread": float(errors.std() / math.sqrt(BATCHES)),
        "estimate": said["information_gain_error"],
        "met": said.get("tolerance_met"),
        "chosen_said": batch.run.get("batch_information_gain_error"),
        "chosen_rank": batch.run["surrogate"].get("rank"),
        "chosen_truth": float(relative(surrogate.posterior(), exact, B.unsqueeze(0))),
        "seconds": seconds,
    }


def fails(row: dict[str, Any]) -> bool:
    """Whether a trial misses the bar."""
    truth, estimate = row["truth"], row["estimate"]
    far = abs(truth) > SMALL and not 1 / FACTOR <= estimate / truth <= FACTOR
    return far or bool(row["met"] and truth > 2 * TOLERANCE)


def page(content: dict[str, Any]) -> str:
    """The results in words."""
    found = sorted(content["trials"], key=lambda r: (list(ROWS).index(r["rows"]), r["surrogate"], str(r["size"])))
    lines = [
        {
            "rows": r["rows"],
            "surrogate": r["surrogate"],
            "n": r["n"],
            "asked": r["size"],
            "size": r["rank"],
            "seed": r["seed"],
            "truth": f"{r['truth']:+.3f}",
            "+-": f"{r['spread']:.3f}",
            "estimate": f"{r['estimate']:+.3f}",
            "met": {True: "yes", False: "no", None: None}[r["met"]],
            "bar": "**missed**" if fails(r) else None,
            "chosen: truth": f"{r['chosen_truth']:+.3f}",
            "chosen: said": None if r["chosen_said"] is None else f"{r['chosen_said']:+.3f}",
            "chosen: rank": r["chosen_rank"],
            "CPU s": f"{r['seconds']:.0f}",
        }
        for r in found
    ]
    large = [r for r in found if abs(r["truth"]) > SMALL]
    about = content["machine"]
    said = (
        f"{about['machine']}, {about['threads']} thread(s), torch {about['torch']}. "
        f"{len(found)} trials, {len(large)} with a truth above {SMALL:.0%}; {sum(map(fails, found))} miss the bar."
    )
    title = "# The error of I: what surrogates say of it, and what is true"
    return "\n".join([title, "", *(__doc__ or "").split("\n\n")[2].splitlines(), "", said, "", *table(lines), ""])


def main() -> None:
    """Run what is asked for and write it down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="*", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--surrogates", nargs="*", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--sizes", type=int, nargs="*", default=[0, 1, 2], help="which of the three sizes of each")
    parser.add_argument("--name", default="gain_error", help="of the files of results")
    options = parser.parse_args()
    content = read_results(options.name) or {"trials": []}
    content |= {"machine": machine()}
    for rows in options.kinds:
        for kind in options.surrogates:
            for size, seed in ((SIZES[kind][i], seed) for i in options.sizes for seed in options.seeds):
                row = trial(rows, kind, size, options.rows, seed)
                which = ("rows", "n", "surrogate", "size", "seed")
                others = [r for r in content["trials"] if any(r[name] != row[name] for name in which)]
                content["trials"] = [*others, row]
                print({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
                write_results(options.name, content, page(content))


if __name__ == "__main__":
    main()
