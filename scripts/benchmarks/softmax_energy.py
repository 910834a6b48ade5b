"""How far the closed form of the softmax energy holds: against Monte Carlo, for beta times sd from 0.1 to 5.

    python scripts/benchmarks/softmax_energy.py

Cases: the posteriors of tests/golden at their batches, a prior (Matern-5/2, all means zero) and independent points.
Writes scripts/benchmarks/results/softmax_energy.json and .md. About five minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import torch
from common import RESULTS, write_results
from gpytorch.kernels import MaternKernel
from torch import Tensor

from beebo_scale.energy import SoftmaxEnergy

ROOT = Path(__file__).parents[2]
GOLDEN = sorted((ROOT / "tests" / "golden").glob("*.json"))
PRODUCTS = (0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0)  # beta times the largest sd of the batch
CHUNK = 50_000  # draws held at once


def cases() -> dict[str, tuple[Tensor, Tensor, Tensor]]:
    """Name -> means (b x q), covariances (b x q x q), prior variance (a scalar)."""
    found = {}
    for path in GOLDEN:
        golden = json.loads(path.read_text())
        mean, covar, A = (
            torch.tensor(golden[key], dtype=torch.float64)
            for key in ("posterior_mean", "posterior_covar", "outputscale")
        )
        q, d = len(golden["X"][0]), len(golden["lengthscale"])
        found[f"posterior, {golden['kernel']}, d = {d}, q = {q}"] = (mean, covar, A)
    one = torch.tensor(1.0, dtype=torch.float64)
    kernel = MaternKernel(nu=2.5).double()
    kernel.lengthscale = torch.tensor(0.3, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    for q in (3, 10, 100):
        X = torch.rand(q, 2, generator=generator, dtype=torch.float64)
        covar = kernel(X).to_dense().detach() + 1e-10 * torch.eye(q, dtype=torch.float64)
        zero = torch.zeros(1, q, dtype=torch.float64)
        found[f"prior, q = {q}"] = (zero, covar.unsqueeze(0), one)
        found[f"independent, q = {q}"] = (zero, torch.eye(q, dtype=torch.float64).unsqueeze(0), one)
    return found


def monte_carlo(mean: Tensor, covar: Tensor, betas: list[float], draws: int, seed: int) -> tuple[Tensor, Tensor]:
    """E sum_i softmax(beta f)_i f_i and its standard error for each beta, from `draws` draws of f (mean: q)."""
    eigenvalues, Q = torch.linalg.eigh(covar)
    root = Q * eigenvalues.clamp_min(0).sqrt()
    generator = torch.Generator().manual_seed(seed)
    total = torch.zeros(2, len(betas), dtype=torch.float64)
    for _ in range(draws // CHUNK):
        f = mean + torch.randn(CHUNK, len(mean), generator=generator, dtype=torch.float64) @ root.mT
        for i, beta in enumerate(betas):
            value = (torch.softmax(beta * f, -1) * f).sum(-1)
            total[:, i] += torch.stack([value.sum(), value.square().sum()])
    n = draws // CHUNK * CHUNK
    expected = total[0] / n
    return expected, ((total[1] / n - expected.square()) / n).sqrt()


def measure(mean: Tensor, covar: Tensor, A: float, draws: int) -> list[dict[str, float | str]]:
    """Worst errors over the batches of a case, in standard deviations of f, for each beta times sd."""
    q = mean.shape[-1]
    sd = covar.diagonal(dim1=-2, dim2=-1).amax(-1).sqrt()  # b
    names = ["default", *PRODUCTS]
    betas = [[A**-0.5, *(product / float(s) for product in PRODUCTS)] for s in sd]
    rows: list[dict[str, float | str]] = []
    simulated = [
        monte_carlo(m, C, beta, draws, i) for i, (m, C, beta) in enumerate(zip(mean, covar, betas, strict=True))
    ]
    for k, name in enumerate(names):
        worst: dict[str, float | str] = dict.fromkeys(("error", "stderr", "paper", "off"), 0.0) | {"beta sd": name}
        for b, (expected, stderr) in enumerate(simulated):
            energy = SoftmaxEnergy(beta=betas[b][k], tolerance=float("inf"))
            for form, of in (("error", energy), ("paper", replace(energy, normalised=False))):
                error = (float(of(mean[b], covar[b], A) / q) - float(expected[k])) / float(sd[b])
                worst[form] = max(float(worst[form]), error, key=abs)
            worst["stderr"] = max(float(worst["stderr"]), float(stderr[k] / sd[b]))
            worst["off"] = max(float(worst["off"]), abs(float(energy.normalisation(mean[b], covar[b], A)) - 1))
        worst["served"] = "yes" if float(worst["off"]) <= SoftmaxEnergy().tolerance else "refused"
        rows.append(worst)
    return rows


def _most(rows: list[dict], name: str) -> float:
    return max(abs(row[name]) for row in rows)


def report(results: dict[str, list[dict]], draws: int) -> str:
    """The tables in Markdown."""
    served = [row for rows in results.values() for row in rows if row["served"] == "yes"]
    default = [row for rows in results.values() for row in rows if row["beta sd"] == "default"]
    lines = [
        "# The closed form of the softmax energy against Monte Carlo",
        "",
        f"`python scripts/benchmarks/softmax_energy.py --draws {draws}`, {draws:,} draws for each batch. beta sd: beta",
        "times the largest standard deviation of f in the batch (`default`: beta = A^-1/2). Error: of the energy,",
        "which is divided by its normalisation N; of the paper's form: of `normalised=False`, which is not. Both",
        "closed form minus Monte Carlo of E, the worst over the batches of a case, in units of that deviation.",
        f"Refused: |N - 1| is above the default tolerance of {SoftmaxEnergy().tolerance} in one batch or more.",
        "",
        f"- where served: error up to {_most(served, 'error'):.2f} sd, of the paper's form "
        f"{_most(served, 'paper'):.2f}",
        f"- at the default beta: error up to {_most(default, 'error'):.3f} sd, of the paper's form "
        f"{_most(default, 'paper'):.3f}, |N - 1| up to {_most(default, 'off'):.3f}",
    ]
    for name, rows in results.items():
        lines += ["", f"## {name}", "", "| beta sd | error | standard error | of the paper's form | abs(N - 1) | |"]
        lines += ["|---|---|---|---|---|---|"]
        for row in rows:
            error, paper, off = (
                f"{row[k]:.4f}" if abs(row[k]) < 1e3 else f"{row[k]:.2g}" for k in ("error", "paper", "off")
            )
            cells = (row["beta sd"], error, f"{row['stderr']:.4f}", paper, off, row["served"])
            lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    results = {}
    for name, (mean, covar, A) in cases().items():
        results[name] = measure(mean, covar, float(A), arguments.draws)
        print(name, "done")
    content = {"draws": arguments.draws, "results": results}
    write_results("softmax_energy", content, report(results, arguments.draws), arguments.out)


if __name__ == "__main__":
    main()
