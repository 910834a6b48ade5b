"""A Pareto batch of 384 from a library of one million rows: two targets, 2,000 measured rows, the exact posterior.

    python scripts/benchmarks/pareto_library.py --rows 1000000 --threads 2

Writes results/pareto_library.md. The hyperparameters are found on 300 of the rows; the choice is what is timed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from common import RESULTS, peak_gigabytes

import beebo_scale as bs
from beebo_scale.surrogates.data.observe import observe

D = 6
AIMS = {"yield": "max", "cost": "min"}


def measured(n: int) -> pd.DataFrame:
    """Smooth targets that trade off, with noise of a tenth of their spread."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n, D))
    y = np.sin(3 * X[:, 0]) + X[:, 1] - (X[:, 2] - 0.5) ** 2 + 0.3 * X[:, 3] * X[:, 4]
    cost = X[:, 1] ** 2 + np.cos(2 * X[:, 0]) + 0.5 * X[:, 5]
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(D)])
    return frame.assign(**{"yield": y + 0.05 * rng.normal(size=n), "cost": cost + 0.05 * rng.normal(size=n)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--q", type=int, default=384)
    parser.add_argument("--measured", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    frame = measured(given.measured)
    features = [f"x{i}" for i in range(D)]
    small = bs.fit(bs.read_table(frame[:300], AIMS, features=features), kind="exact")
    table = bs.read_table(frame, AIMS, features=features)
    encoder, scale, design, data = observe(table, "none")
    surrogate = replace(small, encoder=encoder, scale=scale, design=design, data=data)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "library.parquet"
        X = np.random.default_rng(1).uniform(size=(given.rows, D))
        pd.DataFrame(X, columns=features).to_parquet(path, row_group_size=50_000)
        del X
        start, cpu = time.perf_counter(), time.process_time()
        batch = bs.propose(surrogate, given.q, path, temperature=0.5)
        wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    certificate = {k: v for k, v in batch.run["certificate"].items() if k != "guarantee"}
    lines = [
        f"# {given.q} of {given.rows:,} rows for two targets, {given.measured:,} measured rows, exact\n",
        f"- threads: {given.threads}",
        f"- choice: {wall:.0f} s by the clock, {cpu:.0f} s of CPU; most memory {peak_gigabytes():.2f} GiB",
        *(f"- {name}: {value}" for name, value in certificate.items()),
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    (RESULTS / "pareto_library.md").write_text(text)


if __name__ == "__main__":
    main()
