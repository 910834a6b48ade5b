"""Greedy choice of 96 out of all 149,361 GB1 variants with 2,000 measured: time and memory.

    python scripts/benchmarks/library.py

Also checks the batch against a plain full greedy (no shortlist, no laziness) over the best 8,000 rows. Writes
scripts/benchmarks/results/library.json.
"""

from __future__ import annotations

import json
import time

import numpy as np
import torch
from common import machine, peak_gigabytes, write_results

import beebo_scale as bs

Q, MEASURED, TEMPERATURE, CHECKED = 96, 2000, 0.5, 8_000


@torch.no_grad()
def plain_greedy(posterior: bs.Posterior, X: torch.Tensor, q: int, T: float) -> list[int]:
    """Every marginal gain of every row anew at every step, from the dense covariance of the rows."""
    C, mean, noise = posterior.covar(X), posterior.mean(X), posterior.noise(X)
    chosen: list[int] = []
    for _ in range(q):
        gain = mean + T / 2 * torch.log1p(C.diagonal() / noise)
        gain[chosen] = -torch.inf
        best = int(gain.argmax())
        chosen.append(best)
        column = C[:, best].clone()
        C -= torch.outer(column, column / (column[best] + noise[best]))
    return chosen


@torch.no_grad()
def score(posterior: bs.Posterior, X: torch.Tensor, T: float) -> torch.Tensor:
    """Gain of each row with nothing chosen."""
    chunks = X.split(2048)
    return torch.cat(
        [posterior.mean(x) + T * bs.marginal_gain(posterior.variance(x), posterior.noise(x)) for x in chunks]
    )


def main() -> None:
    landscape = bs.datasets.gb1()
    rows = np.random.default_rng(0).permutation(len(landscape))[:MEASURED]
    table = bs.read_table(landscape.iloc[rows], target="fitness", features={"variant": "protein"})
    start = time.perf_counter()
    surrogate = bs.fit(table)
    fitted = time.perf_counter()
    library = bs.read_library(landscape[["variant"]], {"variant": "protein"})
    batch = bs.propose(surrogate, Q, library, temperature=TEMPERATURE)
    proposed = time.perf_counter()
    peak = peak_gigabytes()

    posterior, X = surrogate.posterior(), surrogate.encoder.encode(library)
    eligible = ~np.isin(landscape["variant"], landscape["variant"].iloc[rows])
    T = TEMPERATURE * posterior.amplitude**0.5
    kept = (
        score(posterior, X, T).masked_fill(~torch.from_numpy(eligible), -torch.inf).topk(CHECKED).indices.sort().values
    )
    names = landscape["variant"].to_numpy()[kept[plain_greedy(posterior, X[kept], Q, T)]]
    result = {
        "measured": MEASURED,
        "library": len(landscape),
        "q": Q,
        **machine(),
        "fit_seconds": round(fitted - start, 1),
        "choose_seconds": round(proposed - fitted, 1),
        "peak_memory_gb": round(peak, 2),
        "certified": batch.run["certificate"]["certified"],
        "same_as_plain_greedy_over_best_8000": names.tolist() == batch.frame["variant"].tolist(),
    }
    write_results("library", result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
