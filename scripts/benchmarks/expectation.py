"""Whether what is expected of a plate comes: replayed rounds on measured sets, and how often 90 % intervals hold the truth.

    python scripts/benchmarks/expectation.py --data FOLDER --seeds 0 1

Each set is played for --rounds rounds from random rows: fit, choose q rows (T' = 0.5), say what is expected of them, of
the rest and of one more plate, look, go on. A hit is a value that the best 1 % of the whole set reach. The truth of one
more plate is that of the next round (chosen with T' = 0.5, where the expectation takes T' = 0), so that the last round
has none. Writes expectation.json and .md in scripts/benchmarks/results after every set; what is there is not run again.
FOLDER holds the files named in transform.py.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from common import RESULTS, machine_words, read_results, write_results
from transform import Set, sets

import beebo_scale as bs
from beebo_scale.proposal.expectation import LEVEL, Interval, Pool, expected_samples
from beebo_scale.screening import EncodedTable

SIZES = {  # set -> rows at the start, rows of a plate
    "GB1, fitness of proteins": (192, 96),
    "docking scores of molecules, minimised": (192, 96),
    "TFBind8, median intensity of DNA": (96, 96),
    "Buchwald-Hartwig, yield": (48, 48),
    "Suzuki couplings, turnover": (48, 48),
    "crossed barrels, toughness": (24, 24),
}
KINDS = ("hits", "best", "remaining", "added")
ROWS = 20_000  # of the rest that are looked at


def play(given: Set, start: int, q: int, rounds: int, seed: int) -> list[dict[str, Any]]:
    """Interval and truth of each kind, round by round."""
    rng = np.random.default_rng(seed)
    frame = given.frame.reset_index(drop=True)
    sign = -1.0 if given.minimize else 1.0
    y = sign * frame[given.target].to_numpy()
    good = np.sort(y)[-max(1, len(y) // 100)]
    known = rng.choice(len(frame), start, replace=False)
    lines: list[dict[str, Any]] = []
    for number in range(1, rounds + 1):
        began = time.process_time()
        measured = EncodedTable.of(bs.read_table(frame.iloc[known], target=given.target, features=given.features))
        surrogate = bs.fit(measured, kind="exact", minimize=given.minimize, seed=seed)
        rest = np.setdiff1d(np.arange(len(frame)), known)
        library = frame.iloc[rest].assign(row=rest)
        batch = bs.propose(surrogate, q, library, id="row", minimize=given.minimize, temperature=0.5, seed=seed)
        fit_seconds = time.process_time() - began
        chosen = batch.frame["row"].to_numpy(dtype=int)
        others = rng.permutation(np.setdiff1d(rest, chosen))
        encode = surrogate.encoder.encode
        table = bs.read_table(frame, target=given.target, features=given.features)
        X, pool = (encode(table.take(rows)) for rows in (chosen, others[:ROWS]))
        goal = surrogate.scale.standardise(torch.tensor(sign * good, dtype=torch.float64))
        began = time.process_time()
        found = expected_samples(surrogate.posterior(), X, sign * float(goal), Pool(pool, len(others)), sign, seed)
        seconds = time.process_time() - began
        best = surrogate.scale.standardise(torch.tensor(sign * y[chosen].max(), dtype=torch.float64)) * sign
        truth = {
            "hits": int((y[chosen] >= good).sum()),
            "best": float(best),
            "remaining": int((y[others] >= good).sum()),
        }
        intervals = {kind: Interval.of(getattr(found, kind), whole=kind != "best") for kind in KINDS}
        if lines:
            lines[-1]["truth"]["added"] = truth["hits"]
        lines.append(
            {
                "round": number,
                "intervals": {kind: [i.low, i.median, i.high] for kind, i in intervals.items()},
                "truth": truth,
                "seconds": seconds,
                "fit_seconds": fit_seconds,
            }
        )
        known = np.concatenate([known, chosen])
    return lines


def held(line: dict[str, Any], kind: str) -> bool | None:
    """Whether an interval holds the truth; None where that is not known."""
    if kind not in line["truth"]:
        return None
    low, _, high = line["intervals"][kind]
    return bool(low <= line["truth"][kind] <= high)


def page(results: dict[str, list[dict[str, Any]]]) -> str:
    """The results as Markdown."""
    lines = ["# What to expect of a plate", "", *__doc__.splitlines()[4:9], "", machine_words(), ""]
    lines += ["Share of 90 % intervals that hold the truth; in brackets the rounds.", ""]
    lines += ["| set | " + " | ".join(KINDS) + " | seconds (fit and choice beside) |", "|---" * (len(KINDS) + 2) + "|"]
    every: dict[str, list[bool]] = {kind: [] for kind in KINDS}
    for name, seeds in results.items():
        rounds = [line for line in seeds]
        cells = []
        for kind in KINDS:
            told = [h for line in rounds if (h := held(line, kind)) is not None]
            every[kind] += told
            cells.append(f"{np.mean(told):.2f} ({len(told)})" if told else "")
        seconds = np.median([line["seconds"] for line in rounds])
        cells.append(f"{seconds:.1f} ({np.median([line['fit_seconds'] for line in rounds]):.1f})")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    cells = [f"**{np.mean(told):.2f}** ({len(told)})" for told in every.values()]
    lines.append(f"| all | {' | '.join(cells)} | |")
    lines += ["", "| set | seed, round | hits | truth | best | truth | remaining | truth | one more plate | truth |"]
    lines += ["|---" * 10 + "|"]
    for name, seeds in results.items():
        for line in seeds:
            cells = [name, f"{line['seed']}, {line['round']}"]
            for kind in KINDS:
                low, _, high = line["intervals"][kind]
                truth = line["truth"].get(kind)
                cells += [f"{low:.3g} to {high:.3g}", "" if truth is None else f"{truth:.3g}"]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--name", default="expectation", help="of the files of results")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    assert LEVEL == 0.9
    there = RESULTS / f"{options.name}.json"
    results: dict[str, list[dict[str, Any]]] = read_results(options.name) if there.exists() else {}
    for name, given in sets(options.data).items():
        if name not in SIZES:
            continue
        for seed in options.seeds:
            lines = results.setdefault(name, [])
            if any(line["seed"] == seed for line in lines):
                continue
            lines += [line | {"seed": seed} for line in play(given, *SIZES[name], options.rounds, seed)]
            write_results(options.name, results, page(results))
            print(name, seed, flush=True)


if __name__ == "__main__":
    main()
