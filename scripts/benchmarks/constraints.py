"""Choice from a box with constraints: processor time against the plain box, and the value reached.

    python scripts/benchmarks/constraints.py [--rounds 3] [--base BEFORE.json]

25 rows, three columns, exact posterior, one thread. Every round runs each case once, in turn. `--base` takes the rows
that another version printed (its last line), for the columns of the report that compare with it.
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
from common import machine_words, write_results

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


def screen() -> bs.Table:
    """25 rows of three columns whose good corner the constraints cut off."""
    U = torch.rand(25, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    noise = 0.05 * torch.randn(25, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    y = 2 * U[:, 0] + torch.sin(3 * U[:, 1]) + U[:, 0] * U[:, 1] - (U[:, 2] - 0.6).square() + noise
    own = {name: lo + (hi - lo) * U[:, i].numpy() for i, (name, (lo, hi)) in enumerate(BOUNDS.items())}
    return bs.read_table(pd.DataFrame(own).assign(y=y.numpy()), "y")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--q", type=int, nargs="+", default=[4])
    parser.add_argument("--cases", nargs="+", default=[*CASES, *MIXTURES])
    parser.add_argument("--base", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    surrogate = bs.fit(screen(), "exact", transform="none")
    acqf = bs.BatchedEnergyEntropy(surrogate.posterior(), 0.5)
    boxes = {name: box for name, box in (CASES | MIXTURES).items() if name in options.cases}
    spaces = {name: units_of(surrogate.encoder, box).space for name, box in boxes.items()}
    for space in spaces.values():  # what is done once in a process is not timed
        optimize_box(acqf, space, 4, bs.BoxSearch(restarts=1, steps=2, polish=2))
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
    results = {"rows": rows, "base": json.loads(options.base.read_text()) if options.base else []}
    print(json.dumps(rows), flush=True)
    write_results("constraints", results, report(results))


def report(results: dict[str, Any]) -> str:
    """The result page."""
    lines = ["# Choice from a box with constraints", "", f"float64, one thread; {machine_words()}. Written by"]
    lines[-1] += " `scripts/benchmarks/constraints.py`."
    lines += ["", "25 rows, three columns (20 <= t <= 80, 1 <= p <= 9, 0 <= n <= 12), exact posterior, 4 restarts. "]
    lines[-1] += "Processor time of one choice, all cases in turn in every round, medians; `times plain` is a ratio of "
    lines[-1] += "these. The constraints cut off the good corner. Before: alternating projections and Adam (commit "
    lines[-1] += "d811164), the same cases and seeds; its share of a plain box, timed cold and so too low, in brackets."
    lines += ["", "| q | case | time | times plain | a(X) | a(X) before |", "|" + "---|" * 6]
    before = {(row["q"], row["case"]): row for row in results["base"]}
    for row in results["rows"]:
        old = before.get((row["q"], row["case"]), {"values": []})
        olds = ", ".join(f"{value:.4f}" for value in old["values"])
        olds += f" ({old['ratio']:.1f} times plain)" if "ratio" in old else ""
        values = ", ".join(f"{value:.4f}" for value in row["values"])
        lines.append(
            f"| {row['q']} | {row['case']} | {row['seconds']:.2f} s | {row['ratio']:.2f} | {values} | {olds} |"
        )
    lines += [
        "",
        *(f"- {name}: {', '.join(box.constraints)}" for name, box in (CASES | MIXTURES).items() if box.constraints),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
