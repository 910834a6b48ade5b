"""Closed loops for two targets: the four Suzuki sets with yield and turnover, beside botorch's and simple baselines.

    python scripts/benchmarks/pareto.py --data suzuki_i.csv.gz ... --out runs.jsonl --methods beebo qlognehvi ...
    python scripts/benchmarks/pareto.py --out runs.jsonl --page results/pareto.md

One line of runs.jsonl for each set, protocol, method and seed; what stands there is not run again, so that the same
command goes on. Seeds from 100 on choose settings, seeds 0 to 4 are reported. Times are CPU seconds of one thread.
The sets are those of schwallergroup/minerva @ 388a0ed (MIT).
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import torch

import beebo_scale as bs
from beebo_scale.fronts import hypervolume

PROTOCOLS = {"24": (24, 4), "96": (96, 2)}  # start and batch, rounds
TARGETS = ["yield", "turnover"]
FEATURES = ["ligand", "res_time", "temperature", "catalyst_loading"]
SAMPLES = 128  # of botorch's acquisition functions


def read(path: Path) -> pd.DataFrame:
    """Features and targets of a set, the ligand as one column."""
    frame = pd.read_csv(path)
    ligands = [name for name in frame if name.startswith("L")]
    frame["ligand"] = np.array(ligands)[frame[ligands].to_numpy().argmax(1)]
    return frame[FEATURES + TARGETS]


def encoded(frame: pd.DataFrame) -> torch.Tensor:
    """For botorch: the ligand one-hot, numbers scaled to the unit interval."""
    columns = [(frame["ligand"] == name).astype(float) for name in sorted(frame["ligand"].unique())]
    for name in FEATURES[1:]:
        low, high = frame[name].min(), frame[name].max()
        columns.append((frame[name] - low) / (high - low))
    return torch.tensor(np.stack(columns, -1))


def beebo(frame, rows, q, seed, warm, temperature, **settings):
    """Rows of the Pareto energy."""
    return ours(
        frame, rows, q, seed, warm, temperature, dict.fromkeys(TARGETS, "max"), reference=dict.fromkeys(TARGETS, 0)
    )


def weighted(frame, rows, q, seed, warm, temperature):
    """Rows of the weighted sum of both targets, as the project had it before."""
    return ours(frame, rows, q, seed, warm, temperature, dict.fromkeys(TARGETS, 1.0))


def ours(frame, rows, q, seed, warm, temperature, target, **choice):
    table = bs.read_table(frame.iloc[rows], target=target, features=FEATURES)
    start = time.process_time()
    surrogate = bs.fit(table, kind="exact", warm_start=warm, seed=seed)
    fitted = time.process_time()
    library = frame[FEATURES].assign(row=np.arange(len(frame)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        batch = bs.propose(surrogate, q, library, id="row", temperature=temperature, seed=seed, **choice)
    chosen = batch.frame["row"].astype(int).to_numpy()
    return chosen, surrogate, fitted - start, time.process_time() - fitted


def scalarised(frame, rows, q, seed, warm, temperature):
    """Random scalarisations: each point of the batch the best mean of a weighted sum of its own, then augmented I."""
    table = bs.read_table(frame.iloc[rows], target=dict.fromkeys(TARGETS, "max"), features=FEATURES)
    start = time.process_time()
    surrogate = bs.fit(table, kind="exact", warm_start=warm, seed=seed)
    fitted = time.process_time()
    library = frame[FEATURES].assign(row=np.arange(len(frame)))
    candidates = np.setdiff1d(np.arange(len(frame)), rows)
    X = surrogate.encoder.encode(bs.read_library(library.iloc[candidates], surrogate.encoder.kinds, id="row"))
    means = [surrogate.design.of_task(surrogate.of_rows, i).mean_and_variance(X) for i in (0, 1)]
    rng, chosen = np.random.default_rng(seed), []
    with torch.no_grad():
        for _ in range(q):
            w = rng.dirichlet([1.0, 1.0])
            score = sum(w[i] * (means[i][0] + 2 * temperature * means[i][1].sqrt()) for i in (0, 1))
            score[[np.searchsorted(candidates, row) for row in chosen]] = -np.inf
            chosen.append(int(candidates[int(score.argmax())]))
    return np.array(chosen), surrogate, fitted - start, time.process_time() - fitted


def botorch_models(X, Y):
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import ModelListGP, SingleTaskGP
    from botorch.models.transforms import Standardize
    from gpytorch.mlls import SumMarginalLogLikelihood

    model = ModelListGP(
        *[SingleTaskGP(X, Y[:, i : i + 1], outcome_transform=Standardize(1)) for i in range(Y.shape[1])]
    )
    fit_gpytorch_mll(SumMarginalLogLikelihood(model.likelihood, model))
    return model


def botorch_batch(frame, rows, q, seed, parego):
    from botorch.acquisition.multi_objective.logei import qLogNoisyExpectedHypervolumeImprovement
    from botorch.acquisition.multi_objective.parego import qLogNParEGO
    from botorch.optim import optimize_acqf_discrete
    from botorch.sampling import SobolQMCNormalSampler

    torch.manual_seed(seed)
    X, Y = encoded(frame), torch.tensor(frame[TARGETS].to_numpy())
    start = time.process_time()
    model = botorch_models(X[rows], Y[rows])
    fitted = time.process_time()
    candidates = np.setdiff1d(np.arange(len(frame)), rows)
    chosen: list[int] = []
    if parego:
        for i in range(q):  # a new scalarisation for each point, those before it pending
            sampler = SobolQMCNormalSampler(torch.Size([SAMPLES]), seed=seed * 1000 + i)
            pending = X[chosen] if chosen else None
            acqf = qLogNParEGO(model, X[rows], sampler=sampler, X_pending=pending, prune_baseline=True)
            left = np.setdiff1d(candidates, chosen)
            with torch.no_grad():
                value = torch.cat([acqf(part.unsqueeze(1)) for part in X[left].split(1024)])
            chosen.append(int(left[int(value.argmax())]))
        return np.array(chosen), None, fitted - start, time.process_time() - fitted
    sampler = SobolQMCNormalSampler(torch.Size([SAMPLES]), seed=seed)
    acqf = qLogNoisyExpectedHypervolumeImprovement(
        model, [0.0] * len(TARGETS), X[rows], sampler=sampler, prune_baseline=True
    )
    found, _ = optimize_acqf_discrete(acqf, q, X[candidates], max_batch_size=1024, unique=True)
    place = {tuple(x): i for x, i in zip(X[candidates].tolist(), candidates.tolist(), strict=True)}
    return np.array([place[tuple(x)] for x in found.tolist()]), None, fitted - start, time.process_time() - fitted


def batch_of(name, temperature, frame, rows, q, seed, warm):
    if name == "random":
        left = np.setdiff1d(np.arange(len(frame)), rows)
        return np.random.default_rng([seed, 7]).choice(left, q, replace=False), None, 0.0, 0.0
    if name in ("qlognehvi", "qlogparego"):
        return botorch_batch(frame, rows, q, seed, name == "qlogparego")
    own = {"beebo": beebo, "weighted": weighted, "scalarised": scalarised}[name]
    return own(frame, rows, q, seed, warm, temperature)


def share(frame, rows):
    Y = torch.tensor(frame[TARGETS].to_numpy())
    return hypervolume(Y[rows]) / hypervolume(Y)


def run(frame, protocol, method, seed):
    size, rounds = PROTOCOLS[protocol]
    rows = np.random.default_rng(seed).choice(len(frame), size, replace=False)
    shares, fits, choices, warm = [share(frame, rows)], [], [], None
    name, _, temperatures = method.partition("@")  # beebo@0.5,0: T' = 0.5, and 0 in the last round
    first, _, last = temperatures.partition(",")
    for k in range(rounds):
        temperature = float((last if last and k == rounds - 1 else first) or 0.5)
        new, warm, fit, choice = batch_of(name, temperature, frame, rows, size, 1000 * seed + k, warm)
        rows = np.concatenate([rows, new])
        shares.append(share(frame, rows))
        fits.append(round(fit, 2))
        choices.append(round(choice, 2))
    return {"shares": shares, "fit_seconds": fits, "choice_seconds": choices}


def page(lines: list[dict]) -> str:
    """Tables by protocol: share of the hypervolume by round, over the sets; then each set beside the best baseline."""
    frame = pd.DataFrame(lines)
    text = ["# Two targets: share of the full set's hypervolume, reference (0, 0)\n"]
    for protocol, part in frame.groupby("protocol"):
        rounds = PROTOCOLS[protocol][1]
        text.append(f"\n## {protocol} at random, then {rounds} rounds of {protocol}\n")
        heads = [f"round {k}" for k in range(rounds + 1)]
        text += [
            "| method | runs | " + " | ".join(heads) + " | choice, CPU s | fit, CPU s |",
            "|---" * (rounds + 5) + "|",
        ]
        for method, own in part.groupby("method"):
            shares = np.array(own["shares"].tolist())
            means = " | ".join(f"{m:.3f} ({s:.3f})" for m, s in zip(shares.mean(0), _error(shares), strict=True))
            times = [np.median(np.concatenate(own[name].tolist())) for name in ("choice_seconds", "fit_seconds")]
            text.append(f"| {method} | {len(own)} | {means} | {times[0]:.1f} | {times[1]:.1f} |")
        text += ["\nLast round by set, mean (standard error over seeds):\n"]
        names = sorted(part["set"].unique())
        text += ["| method | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
        for method, own in part.groupby("method"):
            cells = []
            for name in names:
                last = np.array([shares[-1] for shares in own[own["set"] == name]["shares"]])
                cells.append(f"{last.mean():.3f} ({_error(last):.3f})" if len(last) else "")
            text.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(text) + "\n"


def _error(values):
    return values.std(0, ddof=1) / len(values) ** 0.5 if len(values) > 1 else 0 * values.mean(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="*", type=Path, default=[])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--methods", nargs="*", default=["beebo", "weighted", "scalarised", "random", "qlogparego"])
    parser.add_argument("--protocols", nargs="*", default=list(PROTOCOLS))
    parser.add_argument("--seeds", nargs="*", type=int, default=list(range(5)))
    parser.add_argument("--page", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    lines = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    done = {(line["set"], line["protocol"], line["method"], line["seed"]) for line in lines}
    for seed in given.seeds:
        for path in given.data:
            name = path.name.split(".")[0]
            frame = read(path)
            for protocol in given.protocols:
                for method in given.methods:
                    if (name, protocol, method, seed) in done:
                        continue
                    found = run(frame, protocol, method, seed)
                    line = {"set": name, "protocol": protocol, "method": method, "seed": seed, **found}
                    with given.out.open("a") as file:
                        file.write(json.dumps(line) + "\n")
                    print(line, flush=True)
    if given.page is not None:
        given.page.write_text(page([json.loads(line) for line in given.out.read_text().splitlines()]))


if __name__ == "__main__":
    main()
