"""Factors of blocks against dense algebra."""

import pytest
import torch

from beebo_scale.errors import InputError
from beebo_scale.kernels.stationary import freeze, gram
from beebo_scale.linalg.block_factors import Inducing, block_factor
from tests.helpers import close, matern_kernel, normal, uniform


@pytest.fixture
def inducing():
    return Inducing.of(freeze(matern_kernel(0.5 + uniform(2, seed=9), 1.3)), uniform(8, 2, seed=1), jitter=0.0)


def test_features_and_factor_are_what_they_say(inducing):
    X, T, sigma2 = uniform(20, 2, seed=2), uniform(3, 4, 2, seed=3), 0.01 + 0.1 * uniform(20, seed=4)
    k = inducing.kernel
    Q = gram(k, X, inducing.Z) @ torch.linalg.solve(gram(k, inducing.Z, inducing.Z), gram(k, inducing.Z, X))
    F = inducing.features(X)
    close(F @ F.mT, Q, rtol=1e-8, atol=1e-8)
    close(inducing.features(T)[2], inducing.features(T[2]))
    found = block_factor(inducing, X, sigma2)
    A = gram(k, X, X) - F @ F.mT + sigma2.diag()
    close(found.L @ found.L.mT, A)
    close(found.L @ found.E, F)
    B = normal(20, 3, seed=5)
    close(found.solve(B), torch.linalg.solve(A, B), rtol=1e-8, atol=1e-8)
    f = inducing.features(T[0])
    expected = torch.linalg.solve(found.L, gram(k, X, T[0]) - F @ f.mT).mT
    close(found.residual(gram(k, T[0], X), f), expected, rtol=1e-8, atol=1e-8)
    assert found.to(torch.float32).E.dtype == torch.float32


def test_jitter_leaves_the_rest_positive(inducing):
    Z = inducing.Z.repeat(2, 1)  # each point twice
    twice = Inducing.of(inducing.kernel, Z)
    X = uniform(50, 2, seed=6)
    F = twice.features(X)
    assert float(torch.linalg.eigvalsh(gram(inducing.kernel, X, X) - F @ F.mT)[0]) > -1e-10


def test_what_cannot_be_factored_is_refused(inducing):
    X = uniform(1, 2).repeat(5, 1)
    with pytest.raises(InputError, match="a block of 5 measured rows"):
        block_factor(inducing, X, torch.zeros(5, dtype=torch.float64) - 1e-9)
    with pytest.raises(InputError, match="5 inducing points"):
        Inducing.of(inducing.kernel, X, jitter=-1e-9)
