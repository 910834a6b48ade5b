"""A small landscape that is smooth, has ties at the top and a few surprises."""

import itertools

import numpy as np
import pandas as pd
import torch

from beebo_scale.kernels.stationary import gram
from beebo_scale.simulation import Landscape
from beebo_scale.simulation.world import State

LETTERS = "ACDEFGHI"


def protein_frame():
    """64 variants of two letters; y in whole numbers, so that many tie."""
    pairs = list(itertools.product(range(len(LETTERS)), repeat=2))
    y = [float(10 - (i - 5) ** 2 // 3 - (j - 2) ** 2 // 4) for i, j in pairs]
    return pd.DataFrame({"variant": [LETTERS[i] + LETTERS[j] for i, j in pairs], "y": y})


def protein_landscape(**options):
    return Landscape.read(protein_frame(), "y", {"variant": "protein"}, **options)


def mixed_landscape(**options):
    """48 rows of a number and a label."""
    rows = [(x / 11, base) for x in range(12) for base in ("K", "Li", "Na", "Cs")]
    y = [np.sin(5 * x) + {"K": 0.0, "Li": 0.3, "Na": -0.2, "Cs": 0.1}[base] for x, base in rows]
    return Landscape.read(pd.DataFrame(rows, columns=["x", "base"]).assign(y=y), "y", **options)


def state_of(world, count=12, q=5, seed=103, run_seed=3):
    """A state after a start."""
    points = world.start(count, run_seed)
    return State(world, points, world.measure(points, seed), q, 0, 2, seed, run_seed)


def cube(n, d, seed=0):
    """Uniform points of the unit cube, n x d."""
    return np.random.default_rng(seed).random((n, d))


def square_grid(n=41):
    """n^2 points of the unit square."""
    return np.stack(np.meshgrid(*[np.linspace(0, 1, n)] * 2), -1).reshape(-1, 2)


def encoded(state, surrogate, points):
    """Points of a function as its surrogate takes them."""
    return surrogate.encoder.encode(state.world.table(points, np.zeros(len(points))))


def textbook(surrogate, X, more=None, y=None):
    """Mean and standard deviation of a Gaussian process from its formula, all data in one matrix.

    `more` are further encoded inputs that were measured, `y` their values.
    """
    gp, data = surrogate.gp, surrogate.data
    with torch.no_grad():
        Z, noise, values = data.X, gp.noise_of(data).expand(len(data)), data.y
        if more is not None:
            new = surrogate.posterior().noise(more)
            Z, noise, values = torch.cat([Z, more]), torch.cat([noise, new]), torch.cat([values, y])
        A = gram(gp.kernel, Z, Z) + torch.diag(noise)
        k = gram(gp.kernel, X, Z)
        mean = gp.mean(X) + k @ torch.linalg.inv(A) @ (values - gp.mean(Z))
        variance = gp.kernel(X, diag=True) - (k @ torch.linalg.inv(A) * k).sum(-1)
        return mean, variance.clamp_min(0.0).sqrt()
