"""What `transform="auto"` costs and loses against the best fixed transform, on data of different kinds.

    python scripts/benchmarks/transform.py --data FOLDER

Each set in its own direction: --rows random rows are fitted exactly with each transform that the target can have and
with auto; the others (up to --pool) are put in the order of the posterior mean. Found: the share of the best 5 % of the
others among as many, and twice as many, of the first, their mean. Seeds share rows between transforms. Loss: of auto
against the fixed transform that is best on average over the seeds, with the standard error of the paired difference.
Seconds are CPU seconds of one thread. Writes transform.json and .md in scripts/benchmarks/results after every set.
FOLDER holds the files named in `sets`.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from common import RESULTS, write_results

import beebo_scale as bs
from beebo_scale.screening import EncodedTable
from beebo_scale.surrogates.data.target import check_transform

FIXED = ("none", "sqrt", "log", "rank")
BEST = 0.05  # of the rows that were not measured


class Set(NamedTuple):
    """A file with its target, what its columns are, and the direction."""

    frame: pd.DataFrame
    target: str
    features: dict[str, str] | None
    minimize: bool


def sets(data: Path) -> dict[str, Set]:
    """All sets, by name."""
    smiles = {"smiles": "smiles"}
    esol = pd.read_csv(data / "molprop" / "ESOL.csv").iloc[:, [-1, -2]].drop_duplicates("smiles")
    esol = pd.DataFrame({"smiles": esol["smiles"], "molar": 10.0 ** esol.iloc[:, 1]})
    free = pd.read_csv(data / "molprop" / "FreeSolv.csv").drop_duplicates("smiles")
    free = pd.DataFrame({"smiles": free["smiles"], "constant": np.exp(free["expt"] / 0.593)})
    dock = pd.read_csv(data / "docking" / "Enamine10k_scores.csv.gz").drop_duplicates("smiles")
    gb1 = pd.read_csv(data / "proteins" / "gb1_slim.csv.gz")[["variant", "fitness"]]
    dna = pd.read_csv(data / "proteins" / "tfbind8_SIX6_REF_R1.txt.gz", sep="\t").iloc[:, [0, 3]]
    suzuki = pd.read_csv(data / "chem_hte" / "suzuki_i.csv.gz").iloc[:, 1:]
    barrel = _means(pd.read_csv(data / "materials" / "Crossed_barrel_dataset.csv"))
    doyle = pd.read_csv(data / "chem_hte" / "DreherDoyle.csv.gz").drop(columns="rxn").dropna()
    silver = _means(pd.read_csv(data / "materials" / "AgNP_dataset.csv"))
    return {
        "an EC50, two settings": Set(_ec50(), "y", None, True),
        "ESOL, solubility in mol/l, minimised": Set(esol, "molar", smiles, True),
        "ESOL, solubility in mol/l, maximised": Set(esol, "molar", smiles, False),
        "FreeSolv, exp(-dG / RT), minimised": Set(free, "constant", smiles, True),
        "docking scores of molecules, minimised": Set(dock, "score", smiles, True),
        "GB1, fitness of proteins": Set(gb1, "fitness", {"variant": "protein"}, False),
        "TFBind8, median intensity of DNA": Set(dna.set_axis(["dna", "y"], axis=1), "y", {"dna": "dna"}, False),
        "Suzuki couplings, turnover": Set(suzuki.drop(columns="yield"), "turnover", None, False),
        "Buchwald-Hartwig, yield": Set(doyle, "yield", None, False),
        "crossed barrels, toughness": Set(barrel, "toughness", None, False),
        "silver particles, loss, minimised": Set(silver, "loss", None, True),
    }


def _means(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.groupby(list(frame.columns[:-1]), as_index=False).mean()


def _ec50() -> pd.DataFrame:
    """Y = 10^(3 z), z smooth in two settings plus noise: six orders of magnitude."""
    rng = np.random.default_rng(0)
    x = rng.random((4000, 2))
    z = np.sin(5 * x[:, 0]) * np.cos(4 * x[:, 1]) + 0.1 * rng.standard_normal(4000)
    return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": 10.0 ** (3 * z)})


def one(given: Set, seed: int, rows: int, pool: int) -> dict[str, Any]:
    """What each transform finds, and what auto takes and costs."""
    order = np.random.default_rng(seed).permutation(len(given.frame))
    rows = min(rows, len(order) // 2)
    part = [given.frame.iloc[some].reset_index(drop=True) for some in (order[:rows], order[rows : rows + pool])]
    measured, rest = (bs.read_table(frame, target=given.target, features=given.features) for frame in part)
    encoded = EncodedTable.of(measured)
    X, y = encoded.encoder.encode(rest), torch.tensor(measured.y)
    goodness = -rest.y if given.minimize else rest.y
    line: dict[str, Any] = {}
    for transform in ("auto", *FIXED):
        try:
            check_transform(y, transform)
        except bs.InputError:
            continue
        began = time.process_time()
        surrogate = bs.fit(encoded, kind="exact", transform=transform, minimize=given.minimize)
        seconds = time.process_time() - began
        with torch.no_grad():
            mean = torch.cat([surrogate.posterior().mean(some) for some in X.split(512)]).numpy()
        found = share(-mean if given.minimize else mean, goodness)
        line[transform] = {"found": found, "seconds": seconds, "transform": surrogate.scale.transform}
    return line


def share(score: np.ndarray, goodness: np.ndarray) -> float:
    """Share of the best rows among as many, and twice as many, with the best scores, their mean."""
    k = max(5, round(BEST * len(goodness)))
    good = (goodness >= np.sort(goodness)[-k])[np.argsort(-score, kind="stable")]
    return float(np.mean([good[:taken].sum() / k for taken in (k, 2 * k)]).clip(max=1.0))


def page(results: dict[str, list[dict[str, Any]]], options: argparse.Namespace) -> str:
    """The results as Markdown."""
    lines = ["# transform auto against fixed ones", "", *__doc__.splitlines()[4:10], ""]
    lines += [f"{options.rows} rows (half of a smaller set), pools of up to {options.pool}, {options.seeds} seeds.", ""]
    lines += ["| set | none | sqrt | log | rank | auto | it took | loss (s.e.) | seconds: auto, the fit alone |"]
    lines += ["|---" * 9 + "|"]
    for name, seeds in results.items():
        means = {t: np.mean([line[t]["found"] for line in seeds]) for t in FIXED if all(t in line for line in seeds)}
        best = max(means, key=lambda t: means[t])
        auto = np.array([line["auto"]["found"] for line in seeds])
        lost = np.array([line[best]["found"] for line in seeds]) - auto
        taken = [line["auto"]["transform"] for line in seeds]
        words = ", ".join(f"{t} {taken.count(t)}" for t in dict.fromkeys(taken))
        alone = np.median([line[line["auto"]["transform"]]["seconds"] for line in seeds])
        cells = [f"**{means[t]:.3f}**" if t == best else f"{means[t]:.3f}" if t in means else "" for t in FIXED]
        error = lost.std(ddof=1) / len(lost) ** 0.5 if len(lost) > 1 else float("nan")
        cells += [f"{auto.mean():.3f}", words, f"{lost.mean():.3f} ({error:.3f})"]
        seconds = np.median([line["auto"]["seconds"] for line in seeds])
        lines.append(f"| {name} | {' | '.join(cells)} | {seconds:.2f}, {alone:.2f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=150)
    parser.add_argument("--pool", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    results: dict[str, list[dict[str, Any]]] = {}
    for name, given in sets(options.data).items():
        results[name] = [one(given, seed, options.rows, options.pool) for seed in range(options.seeds)]
        content = {"rows": options.rows, "pool": options.pool, "results": results}
        write_results("transform", content, page(results, options), options.out)
        print(name, page(results, options).splitlines()[-1], flush=True)


if __name__ == "__main__":
    main()
