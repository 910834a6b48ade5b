"""Choosing from products of lists that cannot be written down: time, memory and certificate.

    python scripts/benchmarks/products.py quinazolines|thousand|sequences [--measured 5000] [--q 384] [--seed 0]
        [--temperature 0.5] [--fit-rows 1000] [--out FILE.json]

`quinazolines` is 376 x 500 x 500 fingerprints of made-up molecules (94 million products), `thousand` 1000 x 1000 x 1000
(10^9), `sequences` six sites of 20 letters (64 million). The target is a random function of the kernel's own form with
noise. Seconds are CPU seconds of one thread. Beside the choice: the time of a product in the pass over all means, and
that of the N multiplications and additions that a contraction list by list would take, as one matrix product.
"""

import argparse
import itertools
import json
import random
import resource
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch

import beebo_scale as bs
from beebo_scale.proposal import choose, encode_measured, measured_blocks, prepare_measured
from beebo_scale.screening.table import read_columns
from beebo_scale.specs import Choice, Columns
from beebo_scale.surrogates.products.coded import over_products
from beebo_scale.surrogates.products.contraction import Contraction

FRAGMENTS = ["C", "CC", "C(C)C", "OC", "N", "F", "Cl", "C(F)(F)F", "C#N", "S(C)(=O)=O", "C(N)=O", "N(C)C", "OCC", "Br"]
CORES = [
    "c1cc{}ccc1{}",
    "c1cc{}cnc1{}",
    "C1CC{}CNC1{}",
    "c1c{}csc1{}",
    "C1C{}CCC1{}",
    "c1nc{}ncc1{}",
    "C(C(=O)O)C{}C{}",
]


def molecules(count: int, seed: int) -> list[str]:
    """Made-up molecules, all different."""
    draw, found = random.Random(seed), dict[str, None]()
    while len(found) < count:
        core = draw.choice(CORES)
        ends = [f"({draw.choice(FRAGMENTS)})" if draw.random() < 0.8 else "" for _ in range(2)]
        found[draw.choice(["", "C", "N", "O", "CC", "CN"]) + core.format(*ends)] = None
    return list(found)


def lists_of(name: str) -> dict[str, list[str]]:
    """The lists of a case."""
    if name == "sequences":
        return {f"s{i}": list("ACDEFGHIKLMNPQRSTVWY") for i in range(6)}
    sizes = (376, 500, 500) if name == "quinazolines" else (1000, 1000, 1000)
    return {f"block{i}": molecules(size, i) for i, size in enumerate(sizes)}


def measured(lists: dict[str, list[str]], n: int, seed: int) -> pd.DataFrame:
    """Random products with main effects, pairs and noise."""
    draw = np.random.default_rng(seed)
    index = np.stack([draw.integers(0, len(own), n) for own in lists.values()], axis=-1)
    y = 0.3 * draw.standard_normal(n)
    for own, at in zip(lists.values(), index.T, strict=True):
        y += draw.standard_normal(len(own))[at]
    for i, j in itertools.combinations(range(len(lists)), 2):
        rank_one = [draw.standard_normal((len(own), 4)) for own in lists.values()]
        y += 0.3 * (rank_one[i][index[:, i]] * rank_one[j][index[:, j]]).sum(-1)
    columns = {name: np.array(own)[at] for (name, own), at in zip(lists.items(), index.T, strict=True)}
    return pd.DataFrame(columns).drop_duplicates().assign(y=lambda frame: y[frame.index])


def clock() -> float:
    """CPU seconds of this process."""
    return time.process_time()


def means(surrogate: object, lists: list[torch.Tensor], n: int) -> dict[str, float]:
    """Seconds of a product in the pass over means, and in n multiplications and additions alone."""
    tiles = Contraction(over_products(surrogate.posterior(), lists))
    some = range(0, tiles.count, max(1, tiles.count // 20))
    tiles.means(0)
    start = clock()
    products = sum(tiles.means(tile).numel() for tile in some)
    own = (clock() - start) / products
    A, B = torch.rand(tiles.sizes[tiles.last], n, dtype=torch.float64), torch.rand(n, 512, dtype=torch.float64)
    start = clock()
    for _ in range(5):
        A @ B
    return {"seconds_of_a_mean": own, "seconds_of_n_products": (clock() - start) / (5 * len(A) * 512)}


def main() -> None:
    """Fit, choose and write what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=("quinazolines", "thousand", "sequences"))
    parser.add_argument("--measured", type=int, default=5000)
    parser.add_argument("--q", type=int, default=384)
    parser.add_argument("--temperature", type=float, default=0.5)
    parser.add_argument("--fit-rows", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out")
    options = parser.parse_args()
    torch.set_num_threads(1)
    lists = lists_of(options.case)
    kind = "protein" if options.case == "sequences" else "smiles"
    asked = Choice(q=options.q, choices=lists, temperature=options.temperature)
    start = clock()
    frame = measured(lists, options.measured, options.seed)
    columns = Columns("y", dict.fromkeys(lists, kind))
    table = read_columns(*measured_blocks(asked, columns, frame))
    encoded = encode_measured(table, asked)
    prepared = prepare_measured(asked, encoded, None)
    print(prepared.described, flush=True)
    found = {"case": options.case, "products": len(prepared.library), "measured": len(frame), "q": options.q}
    found |= {"temperature": options.temperature, "prepare_cpu_seconds": clock() - start}
    start = clock()
    surrogate = bs.fit(encoded, "exact", transform="none", fit_rows=options.fit_rows)
    found["fit_cpu_seconds"] = clock() - start
    start, wall = clock(), time.perf_counter()
    batch = choose(prepared, surrogate)
    found |= {"choice_cpu_seconds": clock() - start, "choice_wall_seconds": time.perf_counter() - wall}
    found["certificate"] = {k: v for k, v in batch.run["certificate"].items() if k != "guarantee"}
    found |= means(surrogate, prepared.library.lists, len(frame))
    found["gigabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    text = json.dumps(found, indent=2)
    print(text)
    if options.out:
        Path(options.out).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
