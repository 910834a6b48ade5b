"""Small posteriors with everything that a brute-force computation needs, and plain Gaussian algebra."""

import math
from dataclasses import dataclass, replace

import torch
from gpytorch.kernels import Kernel, MaternKernel, ScaleKernel
from gpytorch.means import ConstantMean
from hypothesis import settings

from beebo_scale import KernelPosterior
from beebo_scale.linalg.roots import CholeskyRoot, DenseRoot
from beebo_scale.surrogates.gaussian_process.noise import ConstantNoise

LAWS = settings(max_examples=25, deadline=None, derandomize=True)


def close(actual, expected, rtol=1e-10, atol=1e-10):
    torch.testing.assert_close(actual, expected, rtol=rtol, atol=atol)


def uniform(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def matern52(X1, X2, lengthscale, outputscale):
    """Matern-5/2 from its formula: ... p x d, ... q x d -> ... p x q."""
    r = math.sqrt(5.0) * ((X1.unsqueeze(-2) - X2.unsqueeze(-3)) / lengthscale).norm(dim=-1)
    return outputscale * (1.0 + r + r.square() / 3.0) * torch.exp(-r)


def matern_kernel(lengthscale, outputscale) -> Kernel:
    """The same as a frozen gpytorch kernel."""
    kernel = ScaleKernel(MaternKernel(nu=2.5, ard_num_dims=len(lengthscale))).double()
    kernel.base_kernel.lengthscale = lengthscale
    kernel.outputscale = torch.tensor(outputscale, dtype=torch.float64)  # a float would pass through float32
    return kernel.requires_grad_(False)


def constant_mean(value) -> ConstantMean:
    mean = ConstantMean().double()
    mean.initialize(constant=torch.tensor(value, dtype=torch.float64))
    return mean.requires_grad_(False)


@dataclass(frozen=True)
class Toy:
    """A posterior and the same posterior's moments from textbook formulas."""

    posterior: KernelPosterior
    lengthscale: torch.Tensor  # d
    outputscale: float
    constant: float
    Z: torch.Tensor  # n x d
    gain: torch.Tensor  # n x n, with C(x, x') = k(x, x') - k(x, Z) gain k(Z, x')
    weights: torch.Tensor  # n, with mean(x) = constant + k(x, Z) weights

    def k(self, X1, X2):
        return matern52(X1, X2, self.lengthscale, self.outputscale)

    def mean(self, X):
        return self.constant + self.k(X, self.Z) @ self.weights  # ... q

    def covar(self, X1, X2=None):
        X2 = X1 if X2 is None else X2
        return self.k(X1, X2) - self.k(X1, self.Z) @ self.gain @ self.k(self.Z, X2)  # ... p x q


def exact_toy(n=12, d=2, seed=0, sigma2=0.05, outputscale=1.3, constant=0.4, dense=False, y_seed=1) -> Toy:
    """The exact posterior of n random observations, its root kept as L or as L^-T."""
    lengthscale = 0.3 + 0.4 * uniform(d, seed=seed + 100)
    Z, y = uniform(n, d, seed=seed), normal(n, seed=seed + y_seed)
    A = matern52(Z, Z, lengthscale, outputscale) + sigma2 * torch.eye(n, dtype=torch.float64)
    gain = torch.linalg.inv(A)
    weights = gain @ (y - constant)
    L = torch.linalg.cholesky(A)
    posterior = KernelPosterior(
        kernel=matern_kernel(lengthscale, outputscale),
        prior_mean=constant_mean(constant),
        centers=Z,
        weights=weights,
        down=DenseRoot(torch.linalg.inv(L).mT.contiguous()) if dense else CholeskyRoot(L),
        noise=ConstantNoise(torch.tensor(sigma2, dtype=torch.float64)),
    )
    return Toy(posterior, lengthscale, outputscale, constant, Z, gain, weights)


def sparse_toy(m=8, d=2, seed=0, largest=0.9, **hyperparameters) -> Toy:
    """A posterior over m inducing points, as SVGP leaves it; `largest` is the largest singular value of S.

    With u = f(Z) ~ N(a, B) for whitened moments B = L S S' L', the covariance is k - k K^-1 (K - B) K^-1 k.
    """
    toy = exact_toy(m, d, seed, **hyperparameters)
    K = toy.k(toy.Z, toy.Z)  # m x m
    L = torch.linalg.cholesky(K)
    Q, _ = torch.linalg.qr(normal(m, m, seed=seed + 7))
    whitened = Q @ torch.diag(torch.linspace(0.1, largest, m, dtype=torch.float64).square()) @ Q.mT  # m x m
    up = torch.linalg.cholesky(whitened)
    K_inv = torch.linalg.inv(K)
    gain = K_inv @ (K - L @ whitened @ L.mT) @ K_inv
    weights = K_inv @ L @ normal(m, seed=seed + 8)
    posterior = replace(toy.posterior, weights=weights, down=DenseRoot(torch.linalg.inv(L).mT.contiguous()), up=up)
    return replace(toy, posterior=posterior, gain=gain, weights=weights)


# The command line in a process that hears SIGINT: a shell may have switched it off for its background jobs.
INTERRUPTIBLE = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from beebo_scale.cli.main import main; sys.exit(main())"
)


def condition(mean, covar, noise, y):
    """Gaussian conditioning of f = [f_1; f_2] on y = f_1 + noise: mean and covariance of f_2.

    Args:
        mean: q + p.
        covar: (q + p) x (q + p).
        noise: q.
        y: q.
    """
    q = len(y)
    A = covar[:q, :q] + torch.diag(noise)
    gain = torch.linalg.solve(A, covar[:q, q:]).mT  # p x q
    return mean[q:] + gain @ (y - mean[:q]), covar[q:, q:] - gain @ covar[:q, q:]


def half_logdet(C, noise):
    """1/2 logdet C - 1/2 logdet (C^-1 + Sigma^-1)^-1, literally."""
    C_inv = torch.linalg.inv(C)
    C_aug = torch.linalg.inv(C_inv + torch.diag_embed(1.0 / noise))
    return 0.5 * (torch.logdet(C) - torch.logdet(C_aug))
