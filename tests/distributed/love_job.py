"""Build LOVE posteriors by all workers."""

from dataclasses import asdict

import torch

from beebo_scale.kernels.stationary import StationaryKernel
from beebo_scale.linalg.kernel_matrix import KernelMatrix
from beebo_scale.surrogates.approximate.love import LoveOptions, condition_love
from beebo_scale.surrogates.gaussian_process.noise import ConstantNoise
from beebo_scale.workers import Workers
from tests.helpers import constant_mean, normal, uniform


def build(workers: Workers) -> dict:
    """What must not depend on the number of workers."""
    n, d = 700, 3  # three chunks, the last one short
    Z, sigma2 = uniform(n, d), 10.0 ** (-3 * uniform(n, seed=1))
    kernel = StationaryKernel(2.5, torch.full((d,), 0.6, dtype=torch.float64), 1.0, None)
    noise = ConstantNoise(torch.tensor(0.01, dtype=torch.float64))
    options = LoveOptions(rank="auto", error=0.05)
    mean, y = constant_mean(0.1), torch.sin(4 * Z).sum(-1)
    posterior, report = condition_love(kernel, mean, Z, y, sigma2, noise, options, workers)
    X = uniform(5 + workers.rank, d, seed=7)  # each worker adapts at points of its own, on its own
    V = normal(n, 3)
    return {
        "root": posterior.down.R,
        "weights": posterior.weights,
        "report": asdict(report),
        "odd product": KernelMatrix(kernel, Z, block=(64, 100), workers=workers) @ V,
        "plain product": KernelMatrix(kernel, Z, block=(64, 100)) @ V,
        "adapted": posterior.adapt(X).covar(X)[:5, :5],
    }
