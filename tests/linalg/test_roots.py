import pytest
import torch

from beebo_scale.linalg.roots import BlockRoot, CholeskyRoot
from tests.helpers import close, normal, uniform


def triangle(n, seed=0):
    A = normal(n, n, seed=seed)
    return torch.linalg.cholesky(A @ A.mT + n * torch.eye(n, dtype=torch.float64))


def in_blocks(L, sizes):
    """The same L as rows of blocks."""
    rows, end = [], 0
    for size in sizes:
        rows.append(L[end : end + size, : end + size].clone())
        end += size
    return BlockRoot(tuple(rows))


@pytest.fixture(params=[(13,), (5, 5, 3), (1, 2, 10), (6, 6, 1)])
def roots(request):
    L = triangle(13)
    return CholeskyRoot(L), in_blocks(L, request.param)


def test_blocks_do_what_the_square_does(roots):
    square, blocks = roots
    K, B = normal(7, 13, seed=1), normal(13, 4, seed=2)
    before = K.clone()
    assert blocks.rank == 13
    close(blocks.features(K), square.features(K))
    close(blocks.expand(B), square.expand(B))
    close(blocks.scaled(2.5).features(K), square.scaled(2.5).features(K))
    close(blocks.join(B).R, square.join(B).R)
    assert torch.equal(K, before)


@pytest.mark.parametrize("most", [1024, 5, 2])
def test_blocks_are_extended(roots, most, monkeypatch):
    monkeypatch.setattr("beebo_scale.linalg.roots.BLOCK_ROWS", most)
    square, blocks = roots
    B, L, K = normal(3, 13, seed=3), triangle(3, seed=4), normal(5, 16, seed=5)
    longer = blocks.extend(B, L)
    close(longer.features(K), square.extend(B, L).features(K))
    grown = len(blocks.rows[-1]) + 3 <= most
    assert len(longer.rows) == len(blocks.rows) + (not grown)
    assert all(one is other for one, other in zip(longer.rows, blocks.rows[: -1 if grown else None], strict=False))


def test_gradient_in_the_kernel(roots):
    _, blocks = roots
    assert torch.autograd.gradcheck(blocks.features, normal(3, 13, seed=1).requires_grad_())


def test_single_precision_inside_double_outside(roots):
    square, blocks = roots
    low, K = blocks.to(torch.float32), uniform(4, 13, seed=1)
    assert low.features(K).dtype == low.expand(K.mT).dtype == torch.float64
    close(low.features(K), square.features(K), rtol=1e-5, atol=1e-6)
    assert low.extend(normal(2, 13), triangle(2)).rows[-1].dtype == torch.float32


def test_an_empty_root():
    assert BlockRoot().rank == 0
    assert BlockRoot().features(normal(4, 0)).shape == (4, 0)
