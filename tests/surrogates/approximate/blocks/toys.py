"""Posteriors of blocks, and the same by dense algebra with their kernel."""

from dataclasses import dataclass

import torch
from gpytorch.kernels import MaternKernel

from beebo_scale.kernels.stationary import freeze, gram
from beebo_scale.linalg.partition import divided
from beebo_scale.surrogates.approximate.blocks.fit import Rows, added
from beebo_scale.surrogates.approximate.blocks.posterior import BlocksPosterior
from beebo_scale.surrogates.data.observations import Observations
from beebo_scale.surrogates.gaussian_process.gaussian_process import GaussianProcess
from tests.helpers import normal, uniform

D = 3


def process(d=D, sigma2=0.05):
    gp = GaussianProcess(MaternKernel(nu=2.5, ard_num_dims=d))
    gp.kernel.lengthscale = 0.4 + 0.5 * uniform(1, d, seed=5)
    gp.likelihood.noise = sigma2
    gp.mean.initialize(constant=torch.tensor(0.3, dtype=torch.float64))
    return gp.requires_grad_(False)


def observations(n, seed=0, noise=False):
    X = uniform(n, D, seed=seed)
    y = torch.sin(5 * X).sum(-1) + 0.1 * normal(n, seed=seed + 1)
    known = 0.02 + 0.1 * uniform(n, seed=seed + 2) if noise else None
    return Observations(X, y, known, torch.ones(n, dtype=torch.float64), torch.zeros(n, dtype=torch.float64))


@dataclass(frozen=True)
class Dense:
    """The posterior of blocks and everything that dense algebra needs."""

    rows: Rows
    posterior: BlocksPosterior

    def prior(self, X1, X2):
        """k_b."""
        k, inducing = self.rows.inducing.kernel, self.rows.inducing
        Q = inducing.features(X1) @ inducing.features(X2).mT
        b1, b2 = (self.rows.partition.nearest(k, X) for X in (X1, X2))
        return torch.where(b1[:, None] == b2, gram(k, X1, X2), Q)

    def given(self, X, sigma2, y):
        """The function X -> mean and covariance of f there, given y = f(X) + noise under k_b."""
        A = self.prior(X, X) + sigma2.diag()
        m = self.rows.gp.mean.constant.detach()

        def moments(T):
            cross = self.prior(T, X)
            gain = torch.linalg.solve(A, cross.mT).mT
            return m + gain @ (y - m), self.prior(T, T) - gain @ cross.mT

        return moments

    @property
    def moments(self):
        data = self.rows.data
        return self.given(data.X, self.rows.sigma2, data.y)


def dense(n=120, m=10, size=25, seed=0, noise=False, **options):
    data, gp = observations(n, seed, noise), process()
    partition = divided(freeze(gp.kernel), lambda rows: data.X[rows], n, size, seed)
    rows = Rows.of(gp, uniform(m, D, seed=seed + 7), partition, data)
    return Dense(rows, rows.posterior(added(rows), **options))
