"""Choice from a box with constraints: processor time against the plain box, and the value reached.

    python scripts/benchmarks/constraints.py [--rounds 5] [--base RESULTS.json]

25 rows, three columns, exact posterior, one thread. Every round runs each case once, in turn. `--base` takes the values
that another version printed (the last line), for the columns of the report that compare with it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import torch

import beebo_scale as bs
from beebo_scale.proposal.box.multistart import optimize_box
from beebo_scale.proposal.box.units import units_of
from beebo_scale.specs import Box

BOUNDS = {"t": (20, 80), "p": (1, 9), "n": (0, 12)}
TWO = ("t + 3*p <= 83.7", "t >= 9*p")
CASES: dict[str, Box] = {
    "plain": Box(BOUNDS),
    "one constraint": Box(BOUNDS, (), TWO[:1]),
    "one shared, one constraint": Box(BOUNDS, (), TWO[:1], ("t",)),
    "two shared, two constraints": Box(BOUNDS, (), TWO, ("t", "p")),
    "three constraints, a whole number": Box(BOUNDS, ("n",), (*TWO, "t + 2*n >= 40")),
    "shared, three constraints, a whole number": Box(BOUNDS, ("n",), (*TWO, "t + 2*n >= 40"), ("t",)),
}
MIXTURES: dict[str, Box] = {
    "equality": Box(BOUNDS, (), ("t + 3*p + n == 70",)),
    "equality, one shared": Box(BOUNDS, (), ("t + 3*p + n == 70",), ("t",)),
    "equality, a whole number": Box(BOUNDS, ("n",), ("t + 3*p + n == 70",)),
}
BAR = 3.0


def screen() -> bs.Table:
    """25 rows of three columns whose good corner the constraints cut off."""
    U = torch.rand(25, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    noise = 0.05 * torch.randn(25, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    y = 2 * U[:, 0] + torch.sin(3 * U[:, 1]) + U[:, 0] * U[:, 1] - (U[:, 2] - 0.6).square() + noise
    own = {name: lo + (hi - lo) * U[:, i].numpy() for i, (name, (lo, hi)) in enumerate(BOUNDS.items())}
    return bs.read_table(pd.DataFrame(own).assign(y=y.numpy()), "y")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--q", type=int, nargs="+", default=[4, 24])
    parser.add_argument("--cases", nargs="+", default=[*CASES, *MIXTURES])
    parser.add_argument("--base", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    surrogate = bs.fit(screen(), "exact", transform="none")
    acqf = bs.BatchedEnergyEntropy(surrogate.posterior(), 0.5)
    boxes = {name: box for name, box in (CASES | MIXTURES).items() if name in options.cases}
    spaces = {name: units_of(surrogate.encoder, box).space for name, box in boxes.items()}
    rows: list[dict[str, Any]] = []
    for q in options.q:
        seconds: dict[str, list[float]] = {name: [] for name in spaces}
        values: dict[str, list[float]] = {name: [] for name in spaces}
        for number in range(options.rounds):
            for name, space in spaces.items():
                start = time.process_time()
                X, value, _ = optimize_box(acqf, space, q, None, number)
                seconds[name].append(time.process_time() - start)
                assert bool(space.contains(X).all())
                values[name].append(value)
                print(q, number, name, f"{seconds[name][-1]:.2f} s, {value:.6f}", flush=True)
        for name in spaces:
            rows.append({"q": q, "case": name, "seconds": statistics.median(seconds[name]), "values": values[name]})
            if "plain" in seconds:
                rows[-1]["ratio"] = statistics.median(seconds[name]) / statistics.median(seconds["plain"])
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
