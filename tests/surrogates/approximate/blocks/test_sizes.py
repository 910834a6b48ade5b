"""Sizes of blocks, and what larger ones would gain, against fits without a row."""

import pytest
import torch

from beebo_scale.linalg.partition import Partition
from beebo_scale.surrogates.approximate.blocks.fit import Rows, Sums, added
from beebo_scale.surrogates.approximate.blocks.sizes import LEAST, block_rows, gain_of_larger, points_of_blocks
from beebo_scale.surrogates.approximate.gain_error import blocks_gain_error
from beebo_scale.surrogates.approximate.held_out import excess_of, held_out_rows, others
from beebo_scale.surrogates.gaussian_process.gaussian_process import exact_posterior
from tests.helpers import close
from tests.surrogates.approximate.blocks.toys import dense


def test_the_work_is_the_same_for_any_number_of_rows():
    gigabytes = 8 * 2**30
    sizes = [block_rows(n, gigabytes) for n in (1_000, 36_000, 250_000, 1_000_000, 10_000_000)]
    assert sizes == [1_000, 4_116, 1_562, 781, LEAST]
    assert block_rows(36_000, 2**26) == 1024
    assert [points_of_blocks(n) for n in (100, 30_000, 40_000, 1_000_000)] == [25, 4096, 2048, 1024]


def test_errors_without_a_row_are_those_of_fits_without_it():
    """Of one block of two: each row left out by dense algebra, the block as it is and cut in two."""
    toy = dense(n=60, size=30)
    rows, data = toy.rows, toy.rows.data
    found = gain_of_larger(rows, added(rows), seed=0)
    generator = torch.Generator().manual_seed(0)
    block = int(torch.randperm(len(rows.partition), generator=generator)[0])
    members = rows.partition.rows(block)
    halves = dense_halves(toy, block, members)
    errors = {"whole": left_out(toy, rows.partition.labels, members), "cut": left_out(toy, halves, members)}
    expected = (errors["whole"].square().mean() / errors["cut"].square().mean()).sqrt()
    assert found == pytest.approx(float(expected), rel=1e-6)
    assert len(data) == 60


def dense_halves(toy, block, members):
    from beebo_scale.linalg.partition import divided

    X = toy.rows.data.X[members]
    parts = divided(toy.rows.inducing.kernel, lambda i: X[i], len(X), -(-len(X) // 2), 0)
    labels = toy.rows.partition.labels.clone()
    labels[members] = len(toy.rows.partition) + parts.labels
    return labels


def left_out(toy, labels, members):
    """Errors of rows, each given all the others, with k_b for given labels, by dense algebra."""
    from beebo_scale.kernels.stationary import gram

    rows = toy.rows
    F = rows.inducing.features(rows.data.X)
    same = labels[:, None] == labels
    A = torch.where(same, gram(rows.inducing.kernel, rows.data.X, rows.data.X), F @ F.mT) + rows.sigma2.diag()
    errors = []
    for i in members.tolist():
        rest = others(torch.tensor([i]), len(rows.data))
        errors.append(rows.residual[i] - A[i, rest] @ torch.linalg.solve(A[rest][:, rest], rows.residual[rest]))
    return torch.stack(errors)


def test_the_error_of_the_gain_is_that_of_fits_without_the_batch():
    toy = dense(n=120, size=40)
    rows, data = toy.rows, toy.rows.data
    found, words = blocks_gain_error(toy.posterior, rows.gp, data)
    assert "120 distinct inputs" in words
    held, C, exact = held_out_rows(120), [], []
    for batch in held:
        rest = others(batch, 120)
        X = data.X[batch]
        C.append(toy.given(data.X[rest], rows.sigma2[rest], data.y[rest])(X)[1])
        exact.append(exact_posterior(rows.gp, data.take(rest)).covar(X))
    noise = toy.posterior.noise(data.X[held])
    assert found == pytest.approx(excess_of(torch.stack(C), torch.stack(exact), noise), rel=1e-5)
    assert found > 0.0


def test_one_block_has_no_error():
    toy = dense(n=80, size=80)
    assert abs(blocks_gain_error(toy.posterior, toy.rows.gp, toy.rows.data)[0]) < 1e-6


def test_rows_know_themselves():
    toy = dense(n=40)
    other = Rows.of(
        toy.rows.gp, toy.rows.inducing.Z, Partition.of(toy.rows.data.X[:1], torch.zeros(40).long(), 1), toy.rows.data
    )
    assert other.identity != toy.rows.identity
    assert toy.rows.precision("float32") == torch.float32
    assert toy.rows.precision() == torch.float64
    sums = Sums(torch.eye(2, dtype=torch.float64) * 4, torch.zeros(2, dtype=torch.float64), 0.0)
    close(sums.root, 2 * torch.eye(2, dtype=torch.float64))
