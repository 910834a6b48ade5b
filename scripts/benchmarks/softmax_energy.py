"""How far the closed form of the softmax energy holds: against Monte Carlo, for beta times sd from 0.1 to 5.

    python scripts/benchmarks/softmax_energy.py

Cases: the posteriors of tests/golden at their batches, a prior (Matern-5/2, all means zero) and independent points.
Writes scripts/benchmarks/results/softmax_energy.json and .md. About five minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
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
    """Worst error over the batches of a case, in standard deviations of f, for each beta times sd."""
    q = mean.shape[-1]
    sd = covar.diagonal(dim1=-2, dim2=-1).amax(-1).sqrt()  # b
    names = ["default", *PRODUCTS]
    betas = [[A**-0.5, *(product / float(s) for product in PRODUCTS)] for s in sd]
    rows: list[dict[str, float | str]] = []
    simulated = [
        monte_carlo(m, C, beta, draws, i) for i, (m, C, beta) in enumerate(zip(mean, covar, betas, strict=True))
    ]
    for k, name in enumerate(names):
        worst: dict[str, float | str] = dict.fromkeys(("error", "stderr", "normalised", "off"), 0.0) | {"beta sd": name}
        for b, (expected, stderr) in enumerate(simulated):
            energy = SoftmaxEnergy(beta=betas[b][k], tolerance=float("inf"))
            E, N = float(energy(mean[b], covar[b], A) / q), float(energy.normalisation(mean[b], covar[b], A))
            error = (E - float(expected[k])) / float(sd[b])
            if abs(error) > abs(float(worst["error"])):
                worst["error"], worst["stderr"] = error, float(stderr[k] / sd[b])
            normalised = abs(E / N - float(expected[k])) / float(sd[b])
            worst["normalised"] = max(float(worst["normalised"]), normalised)
            worst["off"] = max(float(worst["off"]), abs(N - 1))
        worst["served"] = "yes" if float(worst["off"]) <= SoftmaxEnergy().tolerance else "refused"
        rows.append(worst)
    return rows


def report(results: dict[str, list[dict]], draws: int) -> str:
    """The tables in Markdown."""
    served = [row for rows in results.values() for row in rows if row["served"] == "yes"]
    default = [row for rows in results.values() for row in rows if row["beta sd"] == "default"]
    lines = [
        "# The closed form of the softmax energy against Monte Carlo",
        "",
        f"`python scripts/benchmarks/softmax_energy.py`, {draws:,} draws for each batch. beta sd: beta times",
        "the largest standard deviation of f in the batch (`default`: beta = A^-1/2). "
        "Error: closed form minus Monte Carlo of E, the worst",
        "over the batches of a case, in units of that standard deviation. E / N: the same error (without sign) after",
        "dividing E by its normalisation N, which leaves what does not come from the level of the means. Refused:",
        f"|N - 1| is above the default tolerance of {SoftmaxEnergy().tolerance} in one batch or more.",
        "",
        f"- where served: error up to {max(abs(row['error']) for row in served):.2f} sd, of E / N up to "
        f"{max(row['normalised'] for row in served):.2f} sd",
        f"- at the default beta: error up to {max(abs(row['error']) for row in default):.3f} sd, |N - 1| up to "
        f"{max(row['off'] for row in default):.3f}",
    ]
    for name, rows in results.items():
        lines += ["", f"## {name}", "", "| beta sd | error | its standard error | error of E / N | abs(N - 1) | |"]
        lines += ["|---|---|---|---|---|---|"]
        for row in rows:
            error, off = (f"{row[k]:.4f}" if abs(row[k]) < 1e3 else f"{row[k]:.2g}" for k in ("error", "off"))
            cells = (row["beta sd"], error, f"{row['stderr']:.4f}", f"{row['normalised']:.4f}", off, row["served"])
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
