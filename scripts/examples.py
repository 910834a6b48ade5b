"""Two worked examples on shipped data, run through the command line as a user would: molecules and reactions.

Of each screen a few random rows count as measured. A campaign of a few rounds proposes the next rows; their true values
are looked up and recorded. The pictures go to docs/images.
"""

from __future__ import annotations

import argparse
import shlex
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import beebo_scale as bs
from beebo_scale.cli.main import main as beebo_scale

IMAGES = Path(__file__).parents[1] / "docs" / "images"
TOP = 100  # the rows that one would like to find


@dataclass(frozen=True)
class Example:
    """A fully known screen and how it is played.

    Attributes:
        name: of the example.
        screen: all rows, with the target.
        target: its name.
        good: 1 if large is good, -1 if small is.
        start: random rows that are measured at first.
        q: rows of a round.
        rounds: how many.
        options: of `campaign init`.
        label: of the target, with its unit.
    """

    name: str
    screen: pd.DataFrame
    target: str
    good: int
    start: int
    q: int
    rounds: int
    options: str
    label: str


def examples() -> list[Example]:
    molecules = bs.datasets.enamine10k().drop_duplicates("smiles").reset_index(drop=True)
    reactions = bs.datasets.buchwald_hartwig()
    exploit = "--temperatures 0.5 0.5 0.5 0"
    return [
        Example("molecules", molecules, "score", -1, 192, 96, 4, f"--features smiles:smiles --minimize {exploit}",
                "docking score (kcal/mol, low is good)"),
        Example("reactions", reactions, "yield", 1, 96, 96, 4, exploit, "yield (%)"),
    ]  # fmt: skip


def run(command: str) -> None:
    print(f"$ beebo-scale {command}")
    if beebo_scale(shlex.split(command)) != 0:
        raise SystemExit(1)


def play(example: Example, folder: Path, seed: int) -> list[np.ndarray]:
    """Rows of the screen that were measured: first those by chance, then those of each round."""
    folder.mkdir(parents=True)
    screen, features = example.screen, [name for name in example.screen if name != example.target]
    chosen = [np.random.default_rng(seed).permutation(len(screen))[: example.start]]
    screen.iloc[chosen[0]].to_csv(folder / "screen.csv", index=False)
    screen[features].to_csv(folder / "library.csv", index=False)
    run(
        f"campaign init {folder}/campaign --measured {folder}/screen.csv --target {example.target} "
        f"--library {folder}/library.csv -q {example.q} {example.options}"
    )
    for number in range(1, example.rounds + 1):
        run(f"campaign suggest {folder}/campaign")
        batch = pd.read_csv(folder / f"campaign/rounds/round-{number:03d}.csv")
        found = batch[features].merge(screen.reset_index(names="row"), on=features, how="left", validate="1:1")
        results = folder / f"results-{number}.csv"
        found[[*features, example.target]].to_csv(results, index=False)
        run(f"campaign record {folder}/campaign --results {results}")
        chosen.append(found["row"].to_numpy())
    run(f"campaign status {folder}/campaign")
    return chosen


def shares(example: Example, chosen: list[np.ndarray]) -> np.ndarray:
    """Share of the best `TOP` rows (ties at their end count) that are found after each round."""
    y = example.good * example.screen[example.target].to_numpy()
    top = np.flatnonzero(y >= np.sort(y)[-TOP])
    return np.cumsum([np.isin(rows, top).sum() for rows in chosen]) / len(top)


def draw(example: Example, chosen: list[np.ndarray], path: Path) -> None:
    """Left: values of all rows and of each round. Right: share of the best rows found, against that by chance."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    y = example.screen[example.target].to_numpy()
    names = ["whole\nscreen", f"{example.start} by\nchance", *(f"round {i}" for i in range(1, len(chosen)))]
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for place, values in enumerate([y, *(y[rows] for rows in chosen)]):
        body = left.violinplot(values, [place], widths=0.85, showextrema=False)["bodies"][0]
        body.set(facecolor="0.6" if place < 2 else "tab:red", alpha=0.35, edgecolor="none")
        jitter = np.random.default_rng(0).uniform(-0.25, 0.25, len(values))
        if place:
            left.scatter(place + jitter, values, s=5, color="0.4" if place < 2 else "tab:red", linewidth=0)
        left.hlines(np.median(values), place - 0.4, place + 0.4, color="k", linewidth=1.2)
    left.set_xticks(range(len(names)), names)
    left.set(ylabel=example.label, title="What each round held (line: median)")
    count = np.cumsum([len(rows) for rows in chosen])
    found = shares(example, chosen)
    right.plot(count, 100 * found, "o-", color="tab:red", label="beebo-scale")
    right.plot(count, 100 * count / len(y), "o--", color="0.5", label="by chance")
    for x, share in zip(count, found, strict=True):
        right.annotate(f"{100 * share:.0f}", (x, 100 * share), (-4, 6), textcoords="offset points", ha="right")
    right.set(xlabel=f"rows measured, of {len(y):,}", ylabel=f"share of the best {TOP} found (%)", ylim=(0, 105))
    right.set_title(f"The best {TOP} of the screen")
    right.legend(loc="upper left", frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="molecules, reactions; default: both")
    parser.add_argument("--out", type=Path, default=Path("examples_out"), help="new folder for the files")
    parser.add_argument("--images", type=Path, default=IMAGES, help="folder for the pictures")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for example in examples():
        if not options.names or example.name in options.names:
            chosen = play(example, options.out / example.name, options.seed)
            draw(example, chosen, options.images / f"{example.name}.png")
            found = ", ".join(f"{share:.0%}" for share in shares(example, chosen))
            print(f"{example.name}: found of the best {TOP} after each round: {found}\n")


if __name__ == "__main__":
    main()
