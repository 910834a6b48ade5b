"""Thrombin: 130 x 62 x 62 products, all docked; how many of the best 100 are found, by rounds of a closed loop.

    python scripts/benchmarks/products_thrombin.py FOLDER large|small [--data FOLDER] [--first-seed 0] [--seeds 5]
        [--temperatures 2 2 2 0.5 2 0.5] [--name NAME] [--strategies mean-beebo]

FOLDER keeps the runs; the same command goes on with them. `large` is 500 at random and rounds of 500, `small` 96 and
rounds of 96 up to 960 with baselines. Temperatures are those of the rounds. Writes NAME.md beside the runs.
"""

import argparse
import resource
from pathlib import Path

import torch

from beebo_scale.simulation import Options, ProductLandscape, Steps, simulate
from beebo_scale.specs import Fitting

PLANS = {"large": {"q": 500, "rounds": 6}, "small": {"q": 96, "rounds": 9}}


def main() -> None:
    """Play the loops and print the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("plan", choices=PLANS)
    parser.add_argument("--data", default="data/products")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--temperatures", type=float, nargs="+", default=[1.0])
    parser.add_argument("--strategies", nargs="+", default=["mean-beebo"])
    parser.add_argument("--transform", default="none")
    parser.add_argument("--fit-rows", type=int, default=3000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = Path(options.data)
    lists = {"acid": str(data / "thrombin_acids.csv")}
    lists |= {f"amino_acid_{i}": str(data / "thrombin_amino_acids.csv") for i in (1, 2)}
    world = ProductLandscape.read(data / "thrombin_scores.csv.gz", "score", lists, minimize=True, top=100)
    fitting = Fitting(kind="exact", transform=options.transform, fit_rows=options.fit_rows)
    made = Options(fitting, Steps(tuple(options.temperatures)))
    plan = PLANS[options.plan] | ({} if options.rounds is None else {"rounds": options.rounds})
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    results = simulate(world, options.strategies, options.folder, **plan, seeds=seeds, options=made)
    print(results.markdown())
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(f"CPU {used.ru_utime + used.ru_stime:.0f} s, at most {used.ru_maxrss / 2**20:.2f} GB")


if __name__ == "__main__":
    main()
