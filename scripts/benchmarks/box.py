"""Choice of a batch from a box: value and time against botorch, two workers against one, and a batch of 10,000.

    python scripts/benchmarks/box.py quality workers large

Each part can be run alone; results are merged into scripts/benchmarks/results/box.json and .md. One thread per process,
except `large`, which takes --threads.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from dataclasses import asdict
from typing import Any

import pandas as pd
import torch
import torch.distributed as dist
from botorch.optim import optimize_acqf
from botorch.test_functions import Ackley, Hartmann, Levy, Rosenbrock, StyblinskiTang, SyntheticTestFunction
from common import machine_words, peak_gigabytes, read_results, write_results

import beebo_scale as bs
from beebo_scale.kernels.screen import screen_kernel
from beebo_scale.proposal.box.blocks import ranked
from beebo_scale.proposal.box.conditioned import joint_gains
from beebo_scale.proposal.box.multistart import BoxSearch, optimize_box
from beebo_scale.proposal.box.repeats import replace_repeats
from beebo_scale.proposal.box.space import Space
from beebo_scale.proposal.jobs.chunks import ChunkRunner
from beebo_scale.surrogates.approximate.inducing import select_inducing_points
from beebo_scale.surrogates.approximate.sgpr import sgpr_posterior
from beebo_scale.surrogates.data.observations import Observations
from beebo_scale.surrogates.gaussian_process.gaussian_process import GaussianProcess
from beebo_scale.workers import Workers

N, Q = 500, 100
PROBLEMS = ("Hartmann", "Ackley", "Rosenbrock", "Levy", "StyblinskiTang")
TEMPERATURES = (0.05, 0.5)
SEARCH = bs.BoxSearch(restarts=1)
WARM_UP = bs.BoxSearch(restarts=1, polish=2)
SHARED = bs.BoxSearch(restarts=32)  # of two workers
SETTINGS = [(name, d) for name in PROBLEMS for d in (6, 20)]


def unit_box(d: int) -> Space:
    return Space(torch.stack([torch.zeros(d), torch.ones(d)]).double())


def target(name: str, X: torch.Tensor) -> torch.Tensor:
    """The negative of a test function over the unit cube; Hartmann takes the first six columns."""
    d = 6 if name == "Hartmann" else X.shape[-1]
    kinds: dict[str, type[SyntheticTestFunction]] = {kind.__name__: kind for kind in (Hartmann, Ackley, Rosenbrock)}
    kinds |= {"Levy": Levy, "StyblinskiTang": StyblinskiTang}
    function = kinds[name](dim=d, negate=True).double()
    return function(torch.lerp(function.bounds[0], function.bounds[1], X[:, :d]))


def surrogate(name: str, d: int) -> bs.Posterior:
    """The exact posterior of 500 random points, fitted."""
    X = torch.rand(N, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    frame = pd.DataFrame(X.numpy(), columns=[f"x{i}" for i in range(d)]).assign(y=target(name, X).numpy())
    return bs.fit(bs.read_table(frame, "y"), "exact", transform="none").posterior()


def botorch_restarts(acqf: bs.BatchedEnergyEntropy, space: Space) -> float:
    """The best of ten restarts of L-BFGS-B from Sobol batches."""
    starts = torch.stack([space.sample(Q, torch.Generator().manual_seed(seed)) for seed in range(10)])
    _, value = optimize_acqf(acqf, space.bounds, q=Q, num_restarts=10, batch_initial_conditions=starts)
    return float(value)


def quality(options: argparse.Namespace) -> dict[str, Any]:
    """Value and time of both on every problem, at two temperatures."""
    rows = []
    for name, d in SETTINGS:
        posterior, space = surrogate(name, d), unit_box(d)
        optimize_box(bs.BatchedEnergyEntropy(posterior), space, Q, WARM_UP)
        for temperature in TEMPERATURES:
            acqf = bs.BatchedEnergyEntropy(posterior, temperature)
            start = time.perf_counter()
            _, ours, record = optimize_box(acqf, space, Q, SEARCH, seed=0)
            middle = time.perf_counter()
            theirs = botorch_restarts(acqf, space)
            seconds = (middle - start, time.perf_counter() - middle)
            row = {"problem": name, "d": d, "temperature": temperature, "value": ours, "botorch_value": theirs}
            row |= {"seconds": seconds[0], "botorch_seconds": seconds[1], "times_faster": seconds[1] / seconds[0]}
            rows.append(row | record)
            print(json.dumps(rows[-1]), flush=True)
    return {"search": asdict(SEARCH), "rows": rows}


def distributed() -> None:
    """What each process of `workers` runs: one search, all restarts shared out."""
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    workers = Workers.current()
    acqf = bs.BatchedEnergyEntropy(surrogate("Hartmann", 6), 0.5)
    optimize_box(acqf, unit_box(6), Q, WARM_UP)
    runner = ChunkRunner(workers)
    runner.deal("ready", workers.size, lambda chunks: ((chunk, None) for chunk in chunks))
    start = time.perf_counter()
    X, value, _ = optimize_box(acqf, unit_box(6), Q, SHARED, 0, runner)
    seconds = time.perf_counter() - start
    if workers.rank == 0:
        digest = hashlib.sha256(X.numpy().tobytes()).hexdigest()
        print(json.dumps({"seconds": seconds, "sha256": digest, "value": value}), flush=True)
    if dist.is_initialized():
        dist.destroy_process_group()


def workers(options: argparse.Namespace) -> dict[str, Any]:
    """One process against two, in turn, medians of three."""
    alone = [sys.executable, __file__, "--worker"]
    pair = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *alone[1:]]
    environment = {name: value for name, value in os.environ.items() if name != "RANK"} | {"OMP_NUM_THREADS": "1"}
    runs: dict[str, list[dict[str, Any]]] = {"one": [], "two": []}
    for _ in range(3):
        for key, command in (("one", alone), ("two", pair)):
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            runs[key].append(json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1]))
            print(key, runs[key][-1], flush=True)
    seconds = {key: statistics.median(run["seconds"] for run in found) for key, found in runs.items()}
    digests = {run["sha256"] for found in runs.values() for run in found}
    all_seconds = {key: [run["seconds"] for run in found] for key, found in runs.items()}
    return {
        "seconds": seconds,
        "all_seconds": all_seconds,
        "times_faster": seconds["one"] / seconds["two"],
        "same_bytes": len(digests) == 1,
    }


def sparse(d: int, m: int) -> bs.Posterior:
    """SGPR over 20,000 rows with m inducing points."""
    X = torch.rand(20_000, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y = torch.sin(4 * X[:, : d // 2]).sum(-1) + X[:, d // 2 :].square().sum(-1)
    y = (y - y.mean()) / y.std() + 0.1 * torch.randn(len(y), generator=torch.Generator().manual_seed(1)).double()
    gp = GaussianProcess(screen_kernel({"x": "continuous"}, {"x": slice(0, d)}))
    gp.kernel.lengthscale, gp.likelihood.noise = 1.5, 0.01
    data = Observations(X, y, None, torch.ones_like(y), torch.zeros_like(y))
    return sgpr_posterior(gp, select_inducing_points(gp.kernel, X, m), data)


def large(options: argparse.Namespace) -> dict[str, Any]:
    """A batch of many thousands, d = 10, 512 inducing points."""
    torch.set_num_threads(options.threads)
    acqf, space = bs.BatchedEnergyEntropy(sparse(10, 512), 0.5), unit_box(10)
    start = time.perf_counter()
    X, value, record = optimize_box(acqf, space, options.q, BoxSearch(), 0)
    seconds, processor = time.perf_counter() - start, time.process_time()
    start = time.perf_counter()
    final, replaced = replace_repeats(acqf, X, space, acqf.posterior.centers[:0])
    _, gains = ranked(acqf, final)
    after = time.perf_counter() - start
    spread = space.sample(options.q, torch.Generator().manual_seed(0))
    return {
        "q": options.q,
        "threads": options.threads,
        "seconds": seconds,
        "processor_seconds_so_far": processor,
        "peak_gib": peak_gigabytes(),
        "value": value,
        "value_of_sobol_points": float(joint_gains(acqf.posterior, spread, acqf.temperature).sum()),
        "replaced_repeats": replaced,
        "value_without_repeats": float(gains.sum()),
        "seconds_of_repeats_and_ranks": after,
        **record,
    }


def botorch_excess(row: dict[str, Any]) -> float:
    """By how much botorch's value is above ours, relative to it."""
    return (row["botorch_value"] - row["value"]) / abs(row["botorch_value"])


def report(results: dict[str, Any]) -> str:
    """The result page."""
    lines = ["# Choice from a box", "", f"float64; {machine_words()}. Written by "]
    lines[-1] += "`scripts/benchmarks/box.py`."
    if "quality" in results:
        rows = results["quality"]["rows"]
        lines += ["", f"## Against the best of 10 botorch restarts (L-BFGS-B from Sobol batches), N = {N}, q = {Q}", ""]
        most, slow = max(botorch_excess(row) for row in rows), sum(row["times_faster"] < 5 for row in rows)
        lines += [
            "One thread, both in one process in turn, same acquisition function; "
            f"restarts of ours: {SEARCH.restarts}. botorch's value is above ours by at most {most:.1e} of it; on "
            f"{slow} of {len(rows)} rows we are less than 5 times faster."
        ]
        lines += [""]
        lines += ["| problem | d | T' | a(X) ours | a(X) botorch | ours | botorch | times faster |", "|" + "---|" * 8]
        for r in rows:
            lines.append(
                f"| {r['problem']} | {r['d']} | {r['temperature']} | {r['value']:.2f} | {r['botorch_value']:.2f} | "
                f"{r['seconds']:.1f} s | {r['botorch_seconds']:.1f} s | {r['times_faster']:.1f} |"
            )
    if "workers" in results:
        r = results["workers"]
        lines += ["", f"## Two workers against one, one thread each, {SHARED.restarts} restarts", ""]
        lines += [f"{r['seconds']['one']:.1f} s against {r['seconds']['two']:.1f} s (medians of 3): "]
        lines[-1] += f"{r['times_faster']:.2f} times faster, {'the same' if r['same_bytes'] else 'OTHER'} bytes. "
        single = {key: ", ".join(f"{s:.1f}" for s in r["all_seconds"][key]) for key in ("one", "two")}
        lines[-1] += f"All runs, in turn: {single['one']} s and {single['two']} s."
    if "large" in results:
        r = results["large"]
        lines += ["", f"## q = {r['q']:,}, d = 10, sparse posterior with 512 inducing points", ""]
        lines += [f"{r['seconds']:.0f} s and {r['peak_gib']:.1f} GiB on {r['threads']} threads, {r['blocks']} blocks. "]
        lines[-1] += f"a(X) after the first pass and each sweep: {', '.join(f'{v:.1f}' for v in r['values'])}; "
        lines[-1] += f"Sobol points: {r['value_of_sobol_points']:.1f}. "
        lines[-1] += f"Then {r['replaced_repeats']} repeats on the grid of 1/1000 are replaced, the batch ranked: "
        lines[-1] += f"{r['seconds_of_repeats_and_ranks']:.0f} s more, a(X) = {r['value_without_repeats']:.1f}."
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = {"quality": quality, "workers": workers, "large": large}
    parser.add_argument("parts", nargs="*", choices=[*parts, []], default=[])
    parser.add_argument("--q", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--worker", action="store_true", help="internal")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if options.worker:
        distributed()
        return
    for part in options.parts:
        found = parts[part](options)
        print(part, json.dumps(found), flush=True)
        results = read_results("box") | {part: found}
        write_results("box", results, report(results))


if __name__ == "__main__":
    main()
