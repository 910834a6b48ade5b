"""Blocks beside inducing points on measured and made data: error, calibration, time and memory.

    python scripts/benchmarks/blocks.py uci --data FOLDER       # as uci.py, beside the stored figures of other kinds
    python scripts/benchmarks/blocks.py gain --data FOLDER      # error of I, and what a batch loses, on 10,000 rows
    python scripts/benchmarks/blocks.py million                 # one million made rows, 384 of a million candidates
    python scripts/benchmarks/blocks.py loop --seeds 0          # closed loop, 250,000 rows, 10 rounds of 1,000

Writes scripts/benchmarks/results/blocks.json and .md after every case; cases that are there are left out, so that a run
can be stopped at any time and started again. Seconds are of the processor, those of the wall clock beside them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import uci
from blocks_page import page
from common import machine, peak_gigabytes, read_results, write_results

import beebo_scale as bs
from beebo_scale.information import information_gain
from beebo_scale.proposal.library.lazy_greedy import greedy
from beebo_scale.surrogates.gaussian_process.gaussian_process import exact_posterior

SETS = ("kin40k", "pol", "bike", "elevators", "keggdirected")
ROWS = 10_000  # at which the exact surrogate says what a batch is worth
BATCHES = (96, 384)


def keep(part: str, key: str, run: Callable[[], dict[str, Any]]) -> None:
    """A case, unless it is there, with its seconds and its peak memory."""
    content = read_results("blocks")
    if key in content.get(part, {}):
        return
    print(part, key, flush=True)
    wall, cpu = time.monotonic(), time.process_time()
    found = run()
    found |= {"cpu_seconds": time.process_time() - cpu, "wall_seconds": time.monotonic() - wall}
    found |= {"peak_gb": peak_gigabytes(), "threads": torch.get_num_threads()}
    content = read_results("blocks")
    content[part] = content.get(part, {}) | {key: found}
    write_results("blocks", content | {"machine": machine()}, page(content, read_results("uci")))
    print({k: v for k, v in found.items() if isinstance(v, (int, float))}, flush=True)


def of_set(options: argparse.Namespace, name: str, split: int) -> tuple[bs.Table, pd.DataFrame, Any, float]:
    """Training table, test rows, the exact surrogate with its hyperparameters and their seconds, as in uci.py."""
    train, test = uci.read(options.data, name, split)
    features = {column: "continuous" for column in train.columns[:-1]}
    table = bs.read_table(train, "y", features=features)
    first, before = uci.hyperparameters(options.work / f"{name}_{split}", table)
    return table, test, first, before


def on_set(options: argparse.Namespace, name: str, split: int) -> dict[str, Any]:
    """One UCI case: hyperparameters of the exact surrogate, sizes by default."""
    table, test, first, before = of_set(options, name, split)
    start = time.process_time()
    size = bs.Approximation(inducing_points=options.m, block_rows=options.rows)
    surrogate = bs.fit(table, "blocks", transform="none", warm_start=first, iterations=0, approximation=size)
    fitted = time.process_time() - start
    features = {column: "continuous" for column in table.frame.columns if column != "y"}
    X, y = surrogate.encoder.encode(bs.read_library(test, features)), torch.tensor(test["y"].to_numpy())
    order = surrogate.posterior().parts(X).argsort(stable=True)
    figures = uci.score(surrogate.posterior(), surrogate, X[order], y[order])
    summary = surrogate.summary()
    sizes = {name: summary[name] for name in ("inducing_points", "blocks", "largest_block", "error_beside_half_blocks")}
    gain = {
        "gain_error": summary["information_gain_error"],
        "gain_error_beside": summary["information_gain_error_beside"],
    }
    return (
        figures | sizes | gain | {"fit_seconds": fitted, "hyperparameter_seconds": before, "rows": len(surrogate.data)}
    )


def gains(options: argparse.Namespace, name: str) -> dict[str, Any]:
    """Error of I of blocks on batches of test rows, and what the batch that they choose is worth, beside exact."""
    table, test, first, _ = of_set(options, name, 0)
    some = np.sort(np.random.default_rng(0).choice(len(table), min(ROWS, len(table)), replace=False))
    surrogate = bs.fit(
        table.take(some), "blocks", transform="none", warm_start=first, iterations=0,
        approximation=bs.Approximation(inducing_points=1024, block_rows=1000),
    )  # fmt: skip
    posterior, exact = surrogate.posterior(), exact_posterior(surrogate.gp, surrogate.data)
    features = {column: "continuous" for column in table.frame.columns if column != "y"}
    X = surrogate.encoder.encode(bs.read_library(test, features))
    found: dict[str, Any] = {"gain_error_estimated": surrogate.summary()["information_gain_error"]}
    found["blocks"] = surrogate.summary()["blocks"]
    near = posterior.prior_covar(X[:1], X).squeeze(0).argsort(descending=True)
    T = 0.5 * posterior.amplitude**0.5
    for q in BATCHES:
        ours, _ = greedy(posterior, X, q, T)
        theirs, _ = greedy(exact, X, q, T)
        for how, batch in (("spread", X[theirs]), ("clustered", X[near[:q]])):
            I, J = (float(information_gain(p.covar(batch), p.noise(batch))) for p in (posterior, exact))
            found[f"error of I, {q} {how}"] = I / J - 1
        acqf = bs.BatchedEnergyEntropy(exact, 0.5)
        with torch.no_grad():
            found[f"value of the batch of {q} over that of exact"] = float(acqf(X[ours]) / acqf(X[theirs]))
    return found


def drawn(
    d: int, nu: float, lengthscale: float, seed: int, features: int = 4096
) -> Callable[[torch.Tensor], torch.Tensor]:
    """A function from a GP prior of variance 1 with a Matern kernel, by random features."""
    generator = torch.Generator().manual_seed(seed)
    normal = torch.randn(features, d, generator=generator, dtype=torch.float64)
    gamma = torch._standard_gamma(torch.full((features,), nu, dtype=torch.float64), generator=generator) / nu
    W = normal / gamma.sqrt().unsqueeze(-1) / lengthscale
    b = 2 * torch.pi * torch.rand(features, generator=generator, dtype=torch.float64)
    w = torch.randn(features, generator=generator, dtype=torch.float64) * (2 / features) ** 0.5
    return lambda X: torch.cat([torch.cos(part @ W.T + b) @ w for part in X.split(4096)])


def uniform(n: int, d: int, seed: int) -> torch.Tensor:
    return torch.rand(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def measured_table(X: torch.Tensor, y: torch.Tensor) -> bs.Table:
    names = [f"x{i}" for i in range(X.shape[1])]
    frame = pd.DataFrame(X.numpy(), columns=names).assign(y=y.numpy())
    return bs.read_table(frame, "y", features=dict.fromkeys(names, "continuous"))


def million(options: argparse.Namespace) -> dict[str, Any]:
    """Fit, posterior and a certified choice from as many candidates."""
    n, d = options.n or 1_000_000, 10
    f, X, L = drawn(d, 2.5, 1.0, 0), uniform(n, d, 1), uniform(n, d, 2)
    names = [f"x{i}" for i in range(d)]
    y = f(X) + 0.1 * torch.randn(n, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    table = bs.read_table(
        pd.DataFrame(X.numpy(), columns=names).assign(y=y.numpy()), "y", features=dict.fromkeys(names, "continuous")
    )
    library = pd.DataFrame(L.numpy(), columns=names)
    cpu, wall = time.process_time(), time.monotonic()
    surrogate = bs.fit(table, "blocks" if options.n else "auto", transform="none", fit_rows=options.fit_rows)
    found: dict[str, Any] = {"rows": n, "kind": surrogate.kind}
    found |= {"fit_cpu_seconds": time.process_time() - cpu, "fit_wall_seconds": time.monotonic() - wall}
    found["fit_gb"] = peak_gigabytes()
    summary = surrogate.summary()
    names = ("inducing_points", "blocks", "largest_block", "error_beside_half_blocks", "information_gain_error")
    found |= {name: summary[name] for name in names}
    cpu, wall = time.process_time(), time.monotonic()
    batch = bs.propose(surrogate, q=384, library=library, temperature=0.5, seed=0)
    found |= {"propose_cpu_seconds": time.process_time() - cpu, "propose_wall_seconds": time.monotonic() - wall}
    certificate = batch.run["certificate"]
    found |= {name: certificate[name] for name in ("certified", "certified_points", "value", "upper_bound")}
    mean, _ = surrogate.predict(bs.read_library(library[:20_000], dict.fromkeys(library.columns, "continuous")))
    return found | {"rmse_of_f": float(np.sqrt(np.square(mean - f(L[:20_000]).numpy()).mean()))}


def loop(options: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Ten rounds of 1,000 points in the box, nothing known but the rows."""
    n, d, q, rounds = options.n or 250_000, 8, options.q, 10
    f = drawn(d, 1.5, 2.0, seed)
    X, generator = uniform(n, d, 10 + seed), torch.Generator().manual_seed(20 + seed)
    names = [f"x{i}" for i in range(d)]

    def measured(X: torch.Tensor) -> torch.Tensor:
        return f(X) + 1e-3 * torch.randn(len(X), generator=generator, dtype=torch.float64)

    y, start = measured(X), float(f(X).max())
    random = max(start, float(f(uniform(q * rounds, d, 30 + seed)).max()))
    surrogate, best = None, [start]
    for number in range(rounds):
        table = bs.read_table(
            pd.DataFrame(X.numpy(), columns=names).assign(y=y.numpy()), "y", features=dict.fromkeys(names, "continuous")
        )
        surrogate = bs.fit(table, "blocks", transform="none", warm_start=surrogate, fit_rows=options.fit_rows)
        T = 0.0 if number == rounds - 1 else 0.05
        batch = bs.propose(surrogate, q=q, bounds=[(0.0, 1.0)] * d, temperature=T, seed=seed)
        more = torch.tensor(batch.frame[names].to_numpy())
        X, y = torch.cat([X, more]), torch.cat([y, measured(more)])
        best.append(max(best[-1], float(f(more).max())))
        print(number, best[-1], random, flush=True)
    found = {"rows": n, "start": start, "random": random, "best": best[-1]}
    return found | {"improvement_percent": 100 * (best[-1] / random - 1), "by_round": best}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("uci", "gain", "million", "loop"))
    parser.add_argument("--data", type=Path, help="folder of the UCI sets")
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--m", type=lambda text: text if text == "auto" else int(text), default="auto")
    parser.add_argument("--rows", type=lambda text: text if text == "auto" else int(text), default="auto")
    parser.add_argument("--n", type=int, help="rows of the made data, where fewer are to be tried")
    parser.add_argument("--fit-rows", type=int, default=3000, help="rows of the hyperparameters of the made data")
    parser.add_argument("--q", type=int, default=1000, help="points of a round of the loop")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "uci")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    options.work.mkdir(parents=True, exist_ok=True)
    if options.part in ("uci", "gain") and options.data is None:
        parser.error("give --data")
    if options.part == "uci":
        tried = "" if options.m == options.rows == "auto" else f" m {options.m} rows {options.rows}"
        for split in options.splits:
            for name in options.sets:
                keep("uci", f"{name} {split}{tried}", lambda name=name, split=split: on_set(options, name, split))
    elif options.part == "gain":
        for name in options.sets[:2]:
            keep("gain", name, lambda name=name: gains(options, name))
    elif options.part == "million":
        keep("million", f"{options.n or 1_000_000:,} rows", lambda: million(options))
    else:
        for seed in options.seeds:
            keep("loop", f"{options.n or 250_000:,} rows, seed {seed}", lambda seed=seed: loop(options, seed))


if __name__ == "__main__":
    main()
