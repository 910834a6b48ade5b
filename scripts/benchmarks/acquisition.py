"""Value and gradient of the acquisition against the reference implementation and against the matrix-product floor.

    pip install -e '.[bench]' && python scripts/benchmarks/acquisition.py

One process, one thread, everything in turn, medians of --repeats; writes scripts/benchmarks/results/acquisition.json
and .md. The reference is the package `beebo` 0.0.2 with its default (svd / naive) and its fastest setting
(cholesky / cholesky). The floor is the two large products of an evaluation, k(X, Z) R and its transpose, by
torch.matmul at the same shapes.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import statistics
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from botorch.models import SingleTaskGP
from common import machine_words, peak_gigabytes, ratio_of_medians, timed, write_results
from gpytorch.kernels import MaternKernel, ScaleKernel

import beebo_scale as bs

Q, B, D = 100, 10, 6  # batch points, restarts, inputs
TEMPERATURE = 0.5


def problem(N: int) -> tuple[SingleTaskGP, torch.Tensor]:
    """A Gaussian process over N rows and b x q x d batches."""
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(N, D, generator=generator, dtype=torch.float64)
    Y = torch.sin(4 * X).sum(-1, keepdim=True)
    kernel = ScaleKernel(MaternKernel(nu=2.5, ard_num_dims=D)).double()
    kernel.base_kernel.lengthscale = 0.6
    model = SingleTaskGP(X, (Y - Y.mean()) / Y.std(), covar_module=kernel, outcome_transform=None)
    model.likelihood.noise = 0.01
    return model, torch.rand(B, Q, D, generator=generator, dtype=torch.float64)


def evaluate(acqf: Callable[[torch.Tensor], torch.Tensor], X: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Values and gradient."""
    X = X.clone().requires_grad_(True)
    values = acqf(X)
    return values.detach(), torch.autograd.grad(values.sum(), X)[0]


def reference(model: SingleTaskGP, logdet: str, augment: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """The reference implementation's acquisition function."""
    from beebo import BatchedEnergyEntropyBO

    model.eval().requires_grad_(False)
    amplitude = float(model.covar_module.outputscale)
    return BatchedEnergyEntropyBO(
        model, temperature=TEMPERATURE, kernel_amplitude=amplitude, logdet_method=logdet, augment_method=augment
    )


def floor(N: int) -> Callable[[], object]:
    """The two large products: (b q x N) (N x N) forward, its transpose backward."""
    K, G, R = (torch.rand(rows, N, dtype=torch.float64) for rows in (B * Q, B * Q, N))
    return lambda: (K @ R, G @ R.mT)


def compare(N: int, repeats: int) -> dict:
    """Medians of every contestant in turn, so that a drift of the machine's speed hits all alike."""
    model, X = problem(N)
    ours = bs.BatchedEnergyEntropy(model, TEMPERATURE)
    default, fastest = reference(model, "svd", "naive"), reference(model, "cholesky", "cholesky")
    values, gradient = evaluate(ours, X)
    theirs, their_gradient = evaluate(fastest, X)
    runs = {
        "ours": lambda: evaluate(ours, X),
        "floor": floor(N),
        "beebo cholesky/cholesky": lambda: evaluate(fastest, X),
        "beebo svd/naive": lambda: evaluate(default, X),
    }
    for name in ("ours", "floor"):  # the others were warmed up above or take seconds
        runs[name]()
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            # a fast contestant runs three times a turn: a single call of some ms is mostly noise
            count = 3 if name in ("ours", "floor") else 1
            seconds[name].append(statistics.median(timed(run) for _ in range(count)))
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    return {
        "N": N,
        "seconds": medians,
        "times_faster_than_default": ratio_of_medians(seconds["beebo svd/naive"], seconds["ours"]),
        "times_faster_than_fastest": ratio_of_medians(seconds["beebo cholesky/cholesky"], seconds["ours"]),
        "times_the_floor": ratio_of_medians(seconds["ours"], seconds["floor"]),
        "value_difference": float((values - theirs).abs().max() / theirs.abs().max()),
        "gradient_difference": float((gradient - their_gradient).abs().max() / their_gradient.abs().max()),
    }


def memory(_: int) -> dict:
    """In a fresh process: memory of one evaluation at N = 4,000 above what the posterior holds, growth over 300."""
    torch.set_num_threads(1)
    model, X = problem(4000)
    acqf = bs.BatchedEnergyEntropy(model, TEMPERATURE)
    before = peak_gigabytes() * 1024
    evaluate(acqf, X)
    peak = peak_gigabytes() * 1024
    small_model, X = problem(1000)
    small = bs.BatchedEnergyEntropy(small_model, TEMPERATURE)
    for _ in range(10):
        evaluate(small, X)
    start = _resident()
    for _ in range(300):
        evaluate(small, X)
    return {"peak_above_start_mb": peak - before, "peak_of_process_mb": peak, "growth_300_mb": _resident() - start}


def _resident() -> float:
    """Resident memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def report(results: list[dict], used: dict, repeats: int) -> str:
    """The result page."""
    lines = [
        "# Value and gradient of the acquisition",
        "",
        f"q = {Q}, b = {B}, d = {D}, float64, one thread, medians of {repeats} in one run; "
        f"{machine_words()}. Written by `scripts/benchmarks/acquisition.py`.",
        "",
        "| N | ours | beebo 0.0.2 default (svd / naive) | beebo fastest (cholesky / cholesky) | two products alone | "
        "faster than default | faster than fastest | times the two products | value agrees to | gradient agrees to |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in results:
        s = r["seconds"]
        lines.append(
            f"| {r['N']:,} | {s['ours']:.4f} s | {s['beebo svd/naive']:.3f} s | {s['beebo cholesky/cholesky']:.3f} s | "
            f"{s['floor']:.4f} s | {r['times_faster_than_default']:.0f}x | {r['times_faster_than_fastest']:.1f}x | "
            f"{r['times_the_floor']:.2f} | {r['value_difference']:.0e} | {r['gradient_difference']:.0e} |"
        )
    lines += [
        "",
        f"Memory: one evaluation at N = 4,000 adds {used['peak_above_start_mb']:.0f} MB to the peak that building the "
        f"posterior had reached (process in all: {used['peak_of_process_mb']:.0f} MB); 300 evaluations at N = 1,000 in "
        f"a loop grow the resident memory by {used['growth_300_mb']:.1f} MB.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[200, 1000, 4000])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of the reference implementation
    torch.set_num_threads(1)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        used = pool.map(memory, [0])[0]
    results = []
    for N in options.sizes:
        results.append(compare(N, options.repeats))
        print(json.dumps(results[-1]), flush=True)
    write_results("acquisition", {"sizes": results, "memory": used}, report(results, used, options.repeats))


if __name__ == "__main__":
    main()
