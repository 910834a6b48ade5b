"""LOVE: whether it is conservative, what adapting the root gives, what it costs, and whether it knows its own error.

    python scripts/benchmarks/love.py [--quick] [--threads 1]

Writes scripts/benchmarks/results/love.json and .md in about six minutes. Every case is in float64 and made
of seeded random numbers.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import statistics
import time
from dataclasses import asdict, replace

import torch
from common import machine_words, peak_gigabytes, write_results
from gpytorch.means import ConstantMean

from beebo_scale import KernelPosterior, information_gain
from beebo_scale.kernels.stationary import StationaryKernel
from beebo_scale.linalg.kernel_matrix import KernelMatrix
from beebo_scale.linalg.roots import DenseRoot
from beebo_scale.surrogates.approximate.love import LoveOptions, condition_love
from beebo_scale.surrogates.approximate.projection import down_root
from beebo_scale.surrogates.gaussian_process.exact import condition_exactly
from beebo_scale.surrogates.gaussian_process.noise import ConstantNoise

LENGTHSCALES = {"short": (0.3, 1.0), "long": (1.0, 3.0)}  # from, to, in a unit box


def problem(
    n: int, d: int = 6, noise: str | float = 1e-2, lengthscale: str = "short", clustered: bool = False
) -> tuple:
    """Arguments of `condition_exactly`."""
    g = torch.Generator().manual_seed(0)
    Z = torch.rand(n, d, generator=g, dtype=torch.float64)
    if clustered:
        Z = Z[:20].repeat(-(-n // 20), 1)[:n] + 0.02 * torch.randn(n, d, generator=g, dtype=torch.float64)
    lo, hi = LENGTHSCALES[lengthscale]
    kernel = StationaryKernel(2.5, lo + (hi - lo) * torch.rand(d, generator=g, dtype=torch.float64), 1.0, None)
    y = torch.sin(4 * Z).sum(-1)
    y = (y - y.mean()) / y.std() + 0.1 * torch.randn(n, generator=g, dtype=torch.float64)
    if noise == "by row":
        sigma2 = 10.0 ** (-4 * torch.rand(n, generator=g, dtype=torch.float64))  # 1e-4 to 1
    else:
        sigma2 = torch.full((n,), noise, dtype=torch.float64)
    mean = ConstantMean().double().requires_grad_(False)
    return kernel, mean, Z, y, sigma2, ConstantNoise(sigma2.mean())


def gain(posterior: KernelPosterior, X: torch.Tensor) -> tuple[float, torch.Tensor]:
    """I and its gradient."""
    X = X.clone().requires_grad_(True)
    value = information_gain(posterior.covar(X), posterior.noise(X))
    return float(value.detach()), torch.autograd.grad(value, X)[0].flatten()


def batch(q: int, d: int = 6, seed: int = 1) -> torch.Tensor:
    return torch.rand(q, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def conservative(n: int, ranks: list[int]) -> list[dict]:
    """Smallest eigenvalue of C_r - C and smallest variance, at 150 random and 150 measured points."""
    results = []
    cases = [(v, s, c) for v in (1e-1, 1e-2, 1e-4, "by row") for s in LENGTHSCALES for c in (False, True)]
    for noise, lengthscale, clustered in cases:
        kernel, mean, Z, y, sigma2, new = problem(n, noise=noise, lengthscale=lengthscale, clustered=clustered)
        exact = condition_exactly(kernel, mean, Z, y, sigma2, new)
        X = torch.cat([batch(150), Z[:150]])
        C, true = exact.covar(X), information_gain(exact.covar(X[:100]), new(X[:100]))
        for r in ranks:
            R = down_root(KernelMatrix(kernel, Z), sigma2, r)
            love = replace(exact, down=DenseRoot(R))
            covar = love.covar(X)
            results.append(
                {
                    "noise": noise,
                    "lengthscales": lengthscale,
                    "clustered": clustered,
                    "rank": r,
                    "smallest_eigenvalue": float(torch.linalg.eigvalsh(covar - C)[0]),
                    "smallest_variance": float(covar.diagonal().min()),
                    "excess": float(information_gain(covar[:100, :100], new(X[:100])) / true) - 1,
                }
            )
    return results


def adapted(n: int, r: int) -> list[dict]:
    """Errors of I and its gradient for q = 100 before and after adapting, and after the points have moved."""
    results = []
    for lengthscale in LENGTHSCALES:
        for noise in (1e-1, 1e-2, 1e-4):
            arguments = problem(n, noise=noise, lengthscale=lengthscale)
            exact, X = condition_exactly(*arguments), batch(100)
            love, _ = condition_love(*arguments, LoveOptions(r))
            start = time.perf_counter()
            fixed = love.adapt(X)
            seconds = time.perf_counter() - start
            value, gradient = gain(exact, X)
            found, slope = gain(fixed, X)
            step = torch.randn(100, 6, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
            moved = {
                f"moved_{h}": gain(fixed, X + h * step)[0] / gain(exact, X + h * step)[0] - 1 for h in (0.01, 0.03)
            }
            results.append(
                {
                    "noise": noise,
                    "lengthscales": lengthscale,
                    "rank": r,
                    "gain": value,
                    "error_before": gain(love, X)[0] / value - 1,
                    "error": found / value - 1,
                    "cosine_lacks": 1 - float(torch.cosine_similarity(slope, gradient, dim=0)),
                    **moved,
                    "seconds": seconds,
                }
            )
    return results


def costs(sizes: dict[str, list[int]], repeats: int) -> dict:
    """Seconds of augment + information gain; the root holds small random numbers, as time does not depend on them."""
    base, results = {"N": 16_000, "r": 200, "q": 100}, {}
    if max(sizes["N"]) < base["N"]:
        base["N"] = max(sizes["N"])
    for name, values in sizes.items():
        seconds = []
        for value in values:
            at = base | {name: value}
            kernel, mean, Z, y, _, noise = problem(at["N"])
            root = 1e-6 * torch.randn(at["N"], at["r"], generator=torch.Generator().manual_seed(2), dtype=torch.float64)
            posterior, X = KernelPosterior(kernel, mean, Z, y, DenseRoot(root), noise), batch(at["q"])
            times = []
            for _ in range(repeats + 1):
                start = time.perf_counter()
                with torch.no_grad():
                    information_gain(posterior.covar(X), noise(X))
                    posterior.augment(X)
                times.append(time.perf_counter() - start)
            seconds.append(min(times[1:]))
        results[name] = {"values": values, "seconds": seconds, "slope": _slope(values, seconds)}
    return {"base": base, **results}


def _slope(x: list[int], y: list[float]) -> float:
    """Least-squares slope of log y over log x."""
    a, b = [math.log(v) for v in x], [math.log(v) for v in y]
    return statistics.linear_regression(a, b).slope


def estimates(n: int, ranks: list[int]) -> list[dict]:
    """The estimated error of I, and the true one on batches that the estimate has not seen."""
    results = []
    for lengthscale, noise in (("short", 1e-1), ("short", 1e-2), ("long", 1e-1), ("long", 1e-2), ("long", 1e-4)):
        arguments = problem(n, noise=noise, lengthscale=lengthscale)
        exact = condition_exactly(*arguments)
        for r in ranks:
            love, report = condition_love(*arguments, LoveOptions(r))
            true = {}
            for q in (64, 200):
                X = torch.stack([batch(q, seed=seed) for seed in range(10, 14)])
                ratio = information_gain(love.covar(X), noise) / information_gain(exact.covar(X), noise)
                true[f"true_q{q}"] = float(ratio.mean()) - 1
            estimate = report.information_gain_error
            results.append({"noise": noise, "lengthscales": lengthscale, "rank": r, "estimate": estimate, **true})
    return results


def large(arguments: tuple[int, int, int]) -> dict:
    """In a fresh process: seconds and peak memory of a LOVE posterior."""
    n, r, threads = arguments
    torch.set_num_threads(threads)
    before = peak_gigabytes()
    case = problem(n, d=10, noise=1e-2, lengthscale="long")
    start, cpu = time.perf_counter(), time.process_time()
    posterior, report = condition_love(*case, LoveOptions(r))
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = peak_gigabytes()
    start, cpu_adapt = time.perf_counter(), time.process_time()
    posterior.adapt(batch(100, 10))
    return {
        "N": n,
        "d": 10,
        "threads": threads,
        "seconds": seconds,
        "cpu_seconds": cpu,
        "peak_gb": peak,
        "imports_gb": before,
        "adapt_100_seconds": time.perf_counter() - start,
        "adapt_100_cpu_seconds": time.process_time() - cpu_adapt,
        "report": asdict(report),
    }


def report(results: dict) -> str:
    """The result page."""
    rows = results["conservative"]
    worst = min(rows, key=lambda row: row["smallest_eigenvalue"])
    cost, big = results["costs"], results["large"]
    lines = [
        "# LOVE",
        "",
        f"float64, {results['threads']} thread(s), d = 6, N = {results['N']:,} if not said otherwise; "
        f"{machine_words()}; other work ran on the machine. Written by "
        "`scripts/benchmarks/love.py`.",
        "",
        f"**Conservative.** {len(rows)} cases (noise 1e-1, 1e-2, 1e-4 and by row from 1e-4 to 1; short and long "
        "lengthscales; uniform and clustered inputs; several ranks): smallest eigenvalue of C_r - C "
        f"{worst['smallest_eigenvalue']:.1e}, smallest variance {min(r['smallest_variance'] for r in rows):.1e}. "
        "Excess of I (q = 100, uniform inputs):",
        "",
        *_excess_table(rows),
        "",
        "**Adapted root**, q = 100: relative error of I before and after `adapt`, 1 - cosine of the gradient, error "
        "after all points have moved.",
        "",
        "| lengthscales | noise | r | I | before | after | 1 - cosine | moved 0.01 | moved 0.03 | seconds |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for a in results["adapted"]:
        lines.append(
            f"| {a['lengthscales']} | {a['noise']:g} | {a['rank']} | {a['gain']:.2f} | {a['error_before']:+.1%} | "
            f"{a['error']:.0e} | {a['cosine_lacks']:.0e} | {a['moved_0.01']:+.2%} | {a['moved_0.03']:+.2%} | "
            f"{a['seconds']:.1f} |"
        )
    at = cost["base"]
    lines += ["", f"**Cost** of augment + gain around N = {at['N']:,}, r = {at['r']}, q = {at['q']}:", ""]
    lines += ["| in | values | milliseconds | log-log slope |", "|---|---|---|---|"]
    for name in ("N", "r", "q"):
        c = cost[name]
        milliseconds = ", ".join(f"{1000 * s:.0f}" for s in c["seconds"])
        lines.append(f"| {name} | {', '.join(f'{v:,}' for v in c['values'])} | {milliseconds} | {c['slope']:.2f} |")
    lines += ["", "**The estimated error of I** beside the true one, on other batches of q = 64 and q = 200:", ""]
    lines += ["| lengthscales | noise | r | estimate | true, q = 64 | true, q = 200 |", "|---|---|---|---|---|---|"]
    for e in results["estimates"]:
        lines.append(
            f"| {e['lengthscales']} | {e['noise']:g} | {e['rank']} | {e['estimate']:+.2%} | {e['true_q64']:+.2%} | "
            f"{e['true_q200']:+.2%} |"
        )
    found = big["report"]
    lines += [
        "",
        f"**Size.** N = {big['N']:,}, d = {big['d']}, r = {found['rank']}, long lengthscales, noise 1e-2, "
        f"{big['threads']} threads: root, mean and estimated error ({found['information_gain_error']:+.1%}) in "
        f"{big['seconds']:.0f} s ({big['cpu_seconds']:.0f} CPU seconds), peak {big['peak_gb']:.2f} GB "
        f"(imports alone {big['imports_gb']:.2f} GB), {found['cg_iterations']} iterations to a relative residual of "
        f"{found['cg_residual']:.0e}; adapting to 100 points {big['adapt_100_seconds']:.0f} s "
        f"({big['adapt_100_cpu_seconds']:.0f} CPU seconds).",
    ]
    return "\n".join(lines) + "\n"


def _excess_table(rows: list[dict]) -> list[str]:
    ranks = sorted({row["rank"] for row in rows})
    lines = [
        "| lengthscales | noise | " + " | ".join(f"r = {r}" for r in ranks) + " |",
        "|---" * (2 + len(ranks)) + "|",
    ]
    plain = [row for row in rows if not row["clustered"]]
    for lengthscale, noise in dict.fromkeys((row["lengthscales"], row["noise"]) for row in plain):
        cells = [r["excess"] for r in plain if (r["lengthscales"], r["noise"]) == (lengthscale, noise)]
        lines.append(f"| {lengthscale} | {noise} | " + " | ".join(f"{cell:+.1%}" for cell in cells) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, to try the script; writes nothing")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    quick = options.quick
    n = 400 if quick else 2000
    sizes = {"N": [2000 * 2**i for i in range(6)], "r": [50, 100, 200, 400], "q": [25, 50, 100, 200, 400]}
    if quick:
        sizes = {name: values[:3] for name, values in sizes.items()}
    results: dict = {"threads": options.threads, "N": n}
    for name, run in {
        "large": lambda: _fresh((2000 if quick else 20_000, 200, options.threads)),
        "costs": lambda: costs(sizes, 3),
        "adapted": lambda: adapted(n, 50 if quick else 200),
        "estimates": lambda: estimates(n, [50] if quick else [50, 100, 200, 400]),
        "conservative": lambda: conservative(n, [20, 60] if quick else [50, 200, 500]),
    }.items():
        start = time.perf_counter()
        results[name] = run()
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
    page = report(results)
    print(page)
    if not quick:
        write_results("love", results, page)


def _fresh(arguments: tuple[int, int, int]) -> dict:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.map(large, [arguments])[0]


if __name__ == "__main__":
    main()
