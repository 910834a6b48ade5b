"""The preconditioner against dense algebra."""

import pytest
import torch

from beebo_scale.kernels.stationary import freeze, gram
from beebo_scale.linalg import block_preconditioner
from beebo_scale.linalg.block_preconditioner import BlockPreconditioner, block_size
from tests.helpers import close, matern_kernel, normal, uniform


def dense(found, kernel, Z, sigma2, m):
    """P from its definition: what inducing points carry, all of k within a block, and noise."""
    points = Z[torch.randperm(len(Z), generator=torch.Generator().manual_seed(1))[:m].sort().values]
    K = gram(kernel, points, points)
    K.diagonal().add_(1e-8 * K.diagonal().mean())
    Q = gram(kernel, Z, points) @ torch.linalg.solve(K, gram(kernel, points, Z))
    labels = torch.empty(len(Z), dtype=torch.long)
    labels[found.order] = torch.repeat_interleave(torch.tensor([len(b.L) for b in found.blocks]))
    same = labels.unsqueeze(-1) == labels
    return torch.where(same, gram(kernel, Z, Z), Q) + sigma2.diag()


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 2e-5)])
def test_it_is_the_inverse_of_what_it_says(dtype, tolerance):
    Z, sigma2 = normal(150, 3), 0.02 + 0.1 * uniform(150, seed=4)
    kernel = freeze(matern_kernel(0.7 + uniform(3, seed=9), 1.3))
    found = BlockPreconditioner.of(kernel, Z, sigma2, 25, dtype)
    assert len(found.blocks) > 4
    assert found.blocks[0].L.dtype == dtype
    P, V = dense(found, kernel, Z, sigma2, 25), normal(150, 4, seed=5)
    exact = torch.linalg.solve(P, V)
    close(found.unwhiten(found.whiten(V)), exact, rtol=0, atol=tolerance * float(exact.abs().max()))
    eye = torch.eye(150, dtype=torch.float64)
    close(found.whiten(eye), found.unwhiten(eye).mT, rtol=0, atol=1e-12)  # one is the transpose of the other
    low = found.unwhiten(found.whiten(V.float()))
    assert low.dtype == torch.float32
    close(low.double(), exact, rtol=0, atol=1e-4 * float(exact.abs().max()))
    assert float(torch.linalg.eigvalsh(gram(kernel, Z, Z))[-1]) < 1.5 * found.largest < 20 * len(Z)


def test_few_rows_are_one_block_and_all_of_the_covariance():
    Z, sigma2 = uniform(60, 2), torch.full((60,), 1e-3, dtype=torch.float64)
    kernel = freeze(matern_kernel(0.5 + uniform(2, seed=9), 1.0))
    found = BlockPreconditioner.of(kernel, Z, sigma2, dtype=torch.float64)
    whole = found.whiten(found.whiten(gram(kernel, Z, Z) + sigma2.diag()).mT)
    close(whole, torch.eye(60, dtype=torch.float64), atol=1e-9)


def test_sizes_by_the_number_of_rows(monkeypatch):
    assert [block_size(n) for n in (1, 4000, 4001, 20_000, 36_000, 250_000)] == [1, 4000, 500, 1250, 2048, 2048]
    monkeypatch.setattr(block_preconditioner, "NUMBERS", 2**20)
    assert block_size(10_000) == 52
    assert block_size(2_000_000) == 1
