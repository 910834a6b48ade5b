"""The main job on the shipped screen: 2,000 measured GB1 variants in, the next plate of 96 out, and how good it is.

The other 147,361 variants play the library; their true fitness is looked up afterwards.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd

import beebo_scale as bs

Q, MEASURED = 96, 2000


def compare(fitness: pd.Series, names: dict[str, list[str]]) -> pd.DataFrame:
    """True fitness of each batch: its mean, its best, and how much of the landscape's top it found."""
    top = set(fitness.nlargest(1000).index)
    rows = []
    for name, variants in names.items():
        found = fitness.loc[variants]
        rows.append((name, found.mean(), found.median(), found.max(), len(top & set(variants))))
    return pd.DataFrame(rows, columns=["batch", "mean fitness", "median", "best", "in the true top 1,000"])


def plot(path: Path, library: pd.DataFrame, batch: pd.DataFrame, true: pd.Series) -> None:
    """Left: predicted mean against uncertainty over the library, the batch marked. Right: true fitness of both."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    density = left.hexbin(library["mean"], library["std"], gridsize=70, bins="log", cmap="Greys", mincnt=1)
    figure.colorbar(density, ax=left, label="library variants")
    left.scatter(batch["mean"], batch["std"], s=16, color="tab:red", edgecolor="white", linewidth=0.4, zorder=3)
    left.scatter([], [], s=16, color="tab:red", label=f"the proposed {len(batch)}")
    left.set(xlabel="predicted fitness", ylabel="uncertainty (standard deviation)", title="What the surrogate believes")
    left.legend(loc="lower right", frameon=False)
    edges = np.linspace(0, float(true.max()), 36)
    for values, colour, label in ((true, "0.6", "library"), (true.loc[batch["variant"]], "tab:red", "proposed batch")):
        weights = np.full(len(values), 100 / len(values))
        right.hist(values, bins=edges, weights=weights, color=colour, alpha=0.75, label=label)
    right.set(yscale="log", xlabel="true fitness (wild type = 1)", ylabel="share of variants (%)", title="What is true")
    right.axvline(1.0, color="0.3", linewidth=0.8, linestyle=":", label="wild type")
    right.legend(frameon=False)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo_out"), help="folder for the batch and the plot")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()

    landscape = bs.datasets.gb1()
    fitness = landscape.set_index("variant")["fitness"]
    order = np.random.default_rng(options.seed).permutation(len(landscape))
    measured, rest = landscape.iloc[order[:MEASURED]], landscape.iloc[np.sort(order[MEASURED:])]
    table = bs.read_table(measured, target="fitness", features={"variant": "protein"})
    library = bs.read_library(rest[["variant"]], {"variant": "protein"})
    print(
        f"{MEASURED:,} measured GB1 variants (best {measured['fitness'].max():.2f}), {len(rest):,} left to choose from"
    )

    surrogate = bs.fit(table, seed=options.seed)
    print(f"surrogate fitted after {time.monotonic() - start:.0f} s")
    batch = bs.propose(surrogate, q=Q, library=library, temperature=0.5)
    batch.write(options.out / "next_plate.csv")
    certificate = batch.run["certificate"]
    print(
        f"{Q} proposed after {time.monotonic() - start:.0f} s, certified greedy over the whole library: "
        f"{certificate['certified']}; value {certificate['value']:.1f}, no batch has more than "
        f"{certificate['upper_bound']:.1f}\n"
    )
    print(batch.frame.head(8).to_string(index=False, float_format="{:.3f}".format), "\n")

    greedy_mean = bs.propose(surrogate, q=Q, library=library, temperature=0.0)
    random = rest["variant"].sample(Q, random_state=options.seed)
    batches = {
        "BEEBO, T' = 0.5": list(batch.frame["variant"]),
        "greedy mean, T' = 0": list(greedy_mean.frame["variant"]),
        "random": list(random),
    }
    print("Looked up afterwards, true fitness (wild type 1, best of the landscape 8.76):")
    print(compare(fitness, batches).to_string(index=False, float_format="{:.2f}".format), "\n")

    mean, std = surrogate.predict(library)
    plot(
        options.out / "next_plate.png",
        pd.DataFrame({"mean": mean, "std": std}),
        batch.frame,
        fitness.loc[rest["variant"]],
    )
    print(f"{options.out}/next_plate.csv (with .run.json) and {options.out}/next_plate.png")
    print(f"{time.monotonic() - start:.0f} s in all")


if __name__ == "__main__":
    main()
