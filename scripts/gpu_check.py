"""Tests and benchmarks at GPU sizes within ten minutes: one table on the screen, the same as JSON.

    scripts/gpu_check [--small] [--no-tests] [--out FILE.json]

--small takes seconds on a CPU, to show that all of it still runs. A benchmark that cannot start within the budget is
reported as skipped, one that fails with its error; the exit code is 0 only if the tests and all benchmarks ran well.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch

import beebo_scale as bs
from beebo_scale.kernels.screen import screen_kernel
from beebo_scale.kernels.stationary import StationaryKernel
from beebo_scale.linalg.conjugate_gradients import CovarianceSolver
from beebo_scale.linalg.keops import keops_product
from beebo_scale.linalg.kernel_matrix import KernelMatrix
from beebo_scale.linalg.partition import divided
from beebo_scale.proposal.box.ascent import climb
from beebo_scale.proposal.box.space import Space
from beebo_scale.proposal.library.certified import CertifiedBatch, choose_certified
from beebo_scale.proposal.library.encoded import EncodedLibrary
from beebo_scale.proposal.library.exclusion import Rules
from beebo_scale.screening import ContinuousColumn, Encoder
from beebo_scale.screening.library import open_library
from beebo_scale.specs import BoxSearch, Choice, Limits
from beebo_scale.surrogates.approximate.blocks.fit import Rows, added
from beebo_scale.surrogates.approximate.inducing import select_inducing_points
from beebo_scale.surrogates.approximate.love import LoveOptions, condition_love
from beebo_scale.surrogates.approximate.svgp import SVGP, fit_svgp
from beebo_scale.surrogates.data.observations import Observations
from beebo_scale.surrogates.gaussian_process.exact import condition_exactly
from beebo_scale.surrogates.gaussian_process.gaussian_process import GaussianProcess
from beebo_scale.surrogates.gaussian_process.noise import ConstantNoise

ROOT = Path(__file__).resolve().parents[1]
D = 10
NOISE = 0.01
Figures = dict[str, Any]


@dataclass(frozen=True)
class Sizes:
    """How much each benchmark takes on.

    Attributes:
        acquisition: N of the acquisition function (q = 100, 10 restarts).
        exact: N of the exact posterior, in float64 and float32.
        share: of the card's free memory that the largest exact factor in float32 takes.
        largest: N of that at most.
        love: N of LOVE, r = 200.
        iterated: N of an exact mean by conjugate gradients, and rows in a block of its preconditioner, None by N.
        blocks: N of the posterior of blocks, and rows in a block.
        svgp: N of one epoch of SVGP.
        inducing: m of SVGP and of the posterior that scores the library.
        library: rows scored.
        q: chosen from them.
        steps: of the box search.
        budget: seconds after which nothing more is started.
    """

    acquisition: tuple[int, ...] = (1000, 4000, 16_000)
    exact: tuple[int, ...] = (10_000, 45_000)
    share: float = 0.9
    largest: int = 250_000
    love: int = 50_000
    iterated: tuple[int, int | None] = (250_000, None)
    blocks: tuple[int, int] = (1_000_000, 1000)
    svgp: int = 1_000_000
    inducing: int = 512
    library: int = 1_000_000
    q: int = 384
    steps: int = 200
    budget: float = 300.0


SMALL = Sizes((200,), (300,), 0.5, 500, 400, (600, 100), (1500, 100), 2000, 32, 5000, 8, 3)


@dataclass(frozen=True)
class Place:
    """Where and how large."""

    device: torch.device
    sizes: Sizes

    def uniform(self, *shape: int, seed: int = 0) -> torch.Tensor:
        """Numbers in [0, 1), the same on every device."""
        U = torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        return U.to(self.device)

    def wait(self) -> None:
        """Until the device has done what it was asked."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def seconds(self, run: Callable[[], object], repeats: int = 1) -> float:
        """Median wall time of a call."""
        times = []
        for _ in range(repeats):
            self.wait()
            start = time.perf_counter()
            run()
            self.wait()
            times.append(time.perf_counter() - start)
        return statistics.median(times)


def kernel_of(place: Place, dtype: torch.dtype = torch.float64) -> StationaryKernel:
    """A Matern-5/2 kernel with fixed hyperparameters."""
    return StationaryKernel(2.5, torch.full((D,), 1.5, dtype=dtype, device=place.device), 1.0, None)


def exact(place: Place, n: int, dtype: torch.dtype = torch.float64) -> bs.Posterior:
    """The exact posterior of n rows."""
    Z = place.uniform(n, D).to(dtype)
    y = torch.sin(4 * Z).sum(-1)
    mean = GaussianProcess(screen_kernel({"x": "continuous"}, {"x": slice(0, D)})).mean.to(place.device, dtype)
    noise = torch.tensor(NOISE, dtype=dtype, device=place.device)
    return condition_exactly(
        kernel_of(place, dtype), mean.requires_grad_(False), Z, y - y.mean(), noise.expand(n), ConstantNoise(noise)
    )


def measured(place: Place, n: int) -> Observations:
    """Standardised values of a sum of sines at n rows."""
    X = place.uniform(n, D)
    y = torch.sin(4 * X).sum(-1)
    return Observations(X, (y - y.mean()) / y.std(), None, torch.ones_like(y), torch.zeros_like(y))


def sparse(place: Place, n: int = 20_000, epochs: int = 1) -> tuple[bs.Posterior, float]:
    """An SVGP posterior of n rows, and how long its training took."""
    gp = GaussianProcess(screen_kernel({"x": "continuous"}, {"x": slice(0, D)})).to(place.device)
    data = measured(place, n)
    model = SVGP(gp, select_inducing_points(gp.kernel, data.X, place.sizes.inducing), n).to(place.device)
    seconds = place.seconds(lambda: fit_svgp(model, data, epochs, min(4096, n)))
    return model.posterior(), seconds


def acquisition(place: Place) -> list[Figures]:
    """Value and gradient of a(X), against its two large products."""
    rows = []
    for n in place.sizes.acquisition:
        for dtype in (torch.float64, torch.float32):
            acqf = bs.BatchedEnergyEntropy(exact(place, n, dtype))
            X = place.uniform(10, 100, D, seed=1).to(dtype).requires_grad_(True)
            K, R = place.uniform(1000, n).to(dtype), place.uniform(n, n, seed=2).to(dtype)
            ours = place.seconds(lambda acqf=acqf, X=X: torch.autograd.grad(acqf(X).sum(), X), 6)
            floor = place.seconds(lambda K=K, R=R: (K @ R, K @ R.mT), 6)
            name = f"acquisition value and gradient, N = {n:,}, {_name(dtype)}"
            rows.append({"what": name, "seconds": ours, "over_two_products": ours / floor})
    return rows


def exact_posterior(place: Place) -> list[Figures]:
    """Building and asking the exact posterior, in both number formats."""
    rows = []
    for n in place.sizes.exact:
        for dtype in (torch.float64, torch.float32):
            found: list[bs.Posterior] = []
            seconds = place.seconds(lambda n=n, dtype=dtype, found=found: found.append(exact(place, n, dtype)))
            X = place.uniform(2000, D, seed=1).to(dtype)
            with torch.no_grad():
                predict = place.seconds(lambda found=found, X=X: found[0].mean_and_variance(X))
            rows.append(
                {
                    "what": f"exact posterior, N = {n:,}, {_name(dtype)}",
                    "seconds": seconds,
                    "predict_2000_seconds": predict,
                    "gib": _peak(place),
                }
            )
    return rows


def love(place: Place) -> list[Figures]:
    """A root of rank 200 with the weights by CG, and its error of I."""
    n = place.sizes.love
    Z = place.uniform(n, D)
    y = torch.sin(4 * Z).sum(-1)
    mean = GaussianProcess(screen_kernel({"x": "continuous"}, {"x": slice(0, D)})).mean.to(place.device)
    noise = torch.tensor(NOISE, dtype=torch.float64, device=place.device)
    options, found = LoveOptions(rank=min(200, n // 4)), []
    arguments = (kernel_of(place), mean.requires_grad_(False), Z, y - y.mean(), noise.expand(n), ConstantNoise(noise))
    seconds = place.seconds(lambda: found.append(condition_love(*arguments, options)))
    error = found[0][1].information_gain_error
    return [{"what": f"LOVE, N = {n:,}, r = {options.rank}", "seconds": seconds, "error_of_I": error}]


def iterated(place: Place) -> list[Figures]:
    """The mean's weights of many rows by conjugate gradients: products by chunks with 64 columns, by KeOps with 4."""
    (n, size), rows = place.sizes.iterated, []
    K, noise = KernelMatrix(kernel_of(place), place.uniform(n, D)), torch.tensor(NOISE, dtype=torch.float64)
    y = torch.sin(4 * K.Z).sum(-1, keepdim=True)
    for keops in (False, True):
        solver = CovarianceSolver(replace(K, keops=keops), noise.to(place.device).expand(n), size)
        factors = place.seconds(lambda solver=solver: solver.preconditioner)
        found: list[Any] = []
        seconds = place.seconds(lambda solver=solver, found=found: found.append(solver.solution(y, relative=1e-3)))
        by_keops = keops and keops_product(K.kernel) is not None
        left = y - (K @ found[0].X + NOISE * found[0].X)
        rows.append(
            {
                "what": f"exact mean by iterations, N = {n:,}, products by {'KeOps' if by_keops else 'chunks'}",
                "seconds": seconds,
                "preconditioner_seconds": factors,
                "products": found[0].iterations,
                "estimated_error": float(found[0].share[0]),
                "residual": float(left.norm() / y.norm()),
                "gib": _peak(place),
            }
        )
    return rows


def blocks(place: Place) -> list[Figures]:
    """The sums over all blocks, factors not kept, and moments of points spread over some of them."""
    (n, size), m = place.sizes.blocks, 2 * place.sizes.inducing
    data, gp = measured(place, n), GaussianProcess(screen_kernel({"x": "continuous"}, {"x": slice(0, D)}))
    gp.to(place.device)
    found: list[Any] = []

    def build() -> None:
        cut = divided(kernel_of(place), lambda rows: data.take(rows).X, n, size)
        rows = Rows.of(gp, data.X[:m].clone(), cut, data)
        found.append(rows.posterior(added(rows)))

    seconds = place.seconds(build)
    X = place.uniform(2000, D, seed=1)[torch.arange(2000, device=place.device) % 20]  # of a few blocks
    with torch.no_grad():
        predict = place.seconds(lambda: found[0].mean_and_variance(X))
    what = f"blocks, N = {n:,}, m = {m:,}, {len(found[0].partition):,} blocks"
    return [{"what": what, "seconds": seconds, "predict_2000_seconds": predict, "gib": _peak(place)}]


def largest_exact(place: Place) -> list[Figures]:
    """The exact posterior in float32 of as many rows as the card's memory holds the triangle of."""
    free = torch.cuda.mem_get_info()[0] if place.device.type == "cuda" else 2**40
    n = min(place.sizes.largest, math.isqrt(int(2 * place.sizes.share * free) // 4))
    data, gp, found = measured(place, n), kernel_of(place), []
    mean = GaussianProcess(screen_kernel({"x": "continuous"}, {"x": slice(0, D)})).mean.to(place.device)
    noise = torch.tensor(NOISE, dtype=torch.float64, device=place.device)
    arguments = (gp, mean.requires_grad_(False), data.X, data.y, noise.expand(n), ConstantNoise(noise))
    seconds = place.seconds(lambda: found.append(condition_exactly(*arguments, dtype=torch.float32)))
    X = data.X[:1000]
    with torch.no_grad():
        predict = place.seconds(lambda: found[0].mean_and_variance(X))
    return [
        {
            "what": f"exact posterior, factor in float32, N = {n:,}",
            "seconds": seconds,
            "predict_1000_seconds": predict,
            "gib": _peak(place),
        }
    ]


def svgp(place: Place) -> list[Figures]:
    """One epoch of SVGP and its posterior."""
    n, m = place.sizes.svgp, place.sizes.inducing
    _, seconds = sparse(place, n)
    return [{"what": f"SVGP, one epoch, N = {n:,}, m = {m}", "seconds": seconds, "gib": _peak(place)}]


def library(place: Place) -> list[Figures]:
    """Scoring rows that lie in memory, and the certified choice from the same rows on disk."""
    posterior, _ = sparse(place, min(20_000, place.sizes.svgp))
    X = place.uniform(place.sizes.library, D, seed=3)

    def score() -> None:
        with torch.no_grad():
            for rows in X.split(65_536):
                mean, variance = posterior.mean_and_variance(rows)
                mean.add_(bs.marginal_gain(variance, posterior.noise(rows)), alpha=0.5)

    scan = place.seconds(score, 3)
    names = [f"x{i}" for i in range(D)]
    encoder = Encoder(tuple(ContinuousColumn(name, 0.0, 1.0) for name in names))
    chosen: list[CertifiedBatch] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "library.parquet"
        pd.DataFrame(X.cpu().numpy(), columns=names).to_parquet(path, index=False)
        choice = Choice(place.sizes.q)
        opened = EncodedLibrary(open_library(path, encoder.kinds), encoder, Rules(), Limits())
        seconds = place.seconds(lambda: chosen.append(choose_certified(posterior, opened, choice)))
    rows = f"{len(X):,} rows, m = {len(posterior.centers)}"
    certified = chosen[0].certificate["certified"]
    return [
        {"what": f"scoring {rows}, in memory", "seconds": scan, "rows_per_second": len(X) / scan},
        {"what": f"choosing {choice.q} of {rows}, on disk", "seconds": seconds, "certified": certified},
    ]


def box(place: Place) -> list[Figures]:
    """Moving 8 batches of 100 in a box, whether that gives the same bytes again, and alone what it gives in company."""
    posterior = exact(place, place.sizes.acquisition[0])
    acqf, bounds = bs.BatchedEnergyEntropy(posterior), place.uniform(2, D).mul(0)
    bounds[1] = 1.0
    space = Space(bounds)
    X, search = place.uniform(8, 100, D, seed=4), BoxSearch(steps=place.sizes.steps)
    found: list[tuple[torch.Tensor, torch.Tensor]] = []
    seconds = place.seconds(lambda: found.append(climb(acqf, X, space, search)))
    again, alone = climb(acqf, X, space, search)[0], climb(acqf, X[:1], space, search)[0]
    return [
        {
            "what": f"box search, 8 batches of 100, {search.steps} steps",
            "seconds": seconds,
            "same_bytes_again": bool(torch.equal(found[0][0], again)),
            "alone_differs_by": float((alone - again[:1]).abs().max()),
        }
    ]


BENCHMARKS = (acquisition, library, box, svgp, love, iterated, blocks, exact_posterior, largest_exact)


def tests(command: list[str]) -> Figures:
    """The tests marked gpu (all that a machine without the package index can run)."""
    start = time.perf_counter()
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    last = result.stdout.strip().splitlines()[-1:] or result.stderr.strip().splitlines()[-1:]
    passed = result.returncode == 0
    return {"what": "tests", "seconds": time.perf_counter() - start, "passed": passed, "says": " ".join(last)}


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _peak(place: Place) -> float | None:
    """GiB that tensors took on the device at their peak, where the device keeps count."""
    return torch.cuda.max_memory_allocated() / 2**30 if place.device.type == "cuda" else None


def _clear(place: Place) -> None:
    if place.device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def measure(place: Place, command: list[str]) -> list[Figures]:
    """All rows of the table, printed as they come."""
    start, rows = time.perf_counter(), []

    def add(new: Sequence[Figures]) -> None:
        for row in new:
            rows.append(row)
            print(_line(row), flush=True)

    add([tests(command)] if command else [])
    for benchmark in BENCHMARKS:
        _clear(place)
        if time.perf_counter() - start > place.sizes.budget:
            add([{"what": benchmark.__name__, "skipped": f"after {place.sizes.budget:.0f} s"}])
            continue
        try:
            add(benchmark(place))
        except Exception as error:  # the others shall still be measured
            add([{"what": benchmark.__name__, "error": f"{type(error).__name__}: {error}"}])
    return rows


def _line(row: Figures) -> str:
    rest = ", ".join(f"{key} {_short(value)}" for key, value in row.items() if key != "what" and value is not None)
    return f"{row['what']:<58}  {rest}"


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="seconds on a CPU")
    parser.add_argument("--no-tests", action="store_true", help="benchmarks only")
    parser.add_argument("--budget", type=float, default=Sizes.budget, help="seconds after which nothing is started")
    parser.add_argument("--out", type=Path, help="write the figures here")
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu" and not options.small:
        parser.error("there is no GPU here; --small runs on a CPU")
    sizes = replace(SMALL if options.small else Sizes(), budget=options.budget)
    card = torch.cuda.get_device_name() if device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    print(f"{card}; torch {torch.__version__}, Python {platform.python_version()}", flush=True)
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "-p", "no:cacheprovider", "tests/test_devices.py"]
    rows = measure(Place(device, sizes), [] if options.no_tests else command)
    if options.out is not None:
        content = {"device": card, "torch": torch.__version__, "sizes": asdict(sizes), "rows": rows}
        options.out.write_text(json.dumps(content, indent=2) + "\n")
    return int(any("error" in row or row.get("passed") is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
