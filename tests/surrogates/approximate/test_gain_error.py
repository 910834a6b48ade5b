import numpy as np
import pytest
import torch

import beebo_scale as bs
from beebo_scale.kernels.stationary import gram
from beebo_scale.screening import EncodedTable
from beebo_scale.surrogates.approximate.gain_error import nearest_rows, sparse_gain_error
from beebo_scale.surrogates.approximate.held_out import excess, held_out_rows, in_batches, others
from beebo_scale.surrogates.approximate.inducing import select_inducing_points
from beebo_scale.surrogates.approximate.sgpr import sgpr_posterior
from beebo_scale.surrogates.data.observations import merge_replicates
from beebo_scale.surrogates.data.observe import observe
from beebo_scale.surrogates.gaussian_process.gaussian_process import exact_posterior
from beebo_scale.surrogates.trainees import starting_point
from tests.helpers import normal, uniform
from tests.surrogates.gaussian_process.test_gaussian_process import process
from tests.surrogates.test_fit import smooth


def sparse(m, n=300):
    gp, X = process(), uniform(n, 2)
    data = merge_replicates(X, torch.sin(5 * X[:, 0]) + 0.3 * normal(n, seed=1))
    return gp, data, sgpr_posterior(gp, select_inducing_points(gp.kernel, X, m), data)


@pytest.mark.parametrize("m", [3, 12, 300])
def test_the_error_is_that_of_fits_without_the_rows(m):
    """For each batch held out: both posteriors fitted to the other rows."""
    gp, data, posterior = sparse(m)
    error, words = sparse_gain_error(posterior, gp, data)
    ratios = []
    for held in held_out_rows(300):
        rest, X = data.take(others(held, 300)), data.X[held]
        without = sgpr_posterior(gp, posterior.centers, rest)
        ratios.append(1 + excess(without, exact_posterior(gp, rest), X.unsqueeze(0)))
    assert len(ratios) > 1
    assert error == pytest.approx(sum(ratios) / len(ratios) - 1, rel=1e-5, abs=1e-6)
    assert words == "the exact one of all 300 distinct inputs"
    assert abs(error) < 1e-4 if m == 300 else error > 0.01


def test_the_nearest_rows_give_a_lower_bound():
    gp, data, posterior = sparse(6)
    truth, _ = sparse_gain_error(posterior, gp, data)
    bounds = []
    for rows in (60, 120, 250):
        error, words = sparse_gain_error(posterior, gp, data, rows=rows)
        assert words.startswith("a lower bound, from the")
        bounds.append(error)
    assert all(bound <= truth + 1e-9 for bound in bounds)
    assert bounds[-1] > 0.3 * truth


def test_nearest_rows_against_a_full_sort():
    gp, data, _ = sparse(3)
    P, among = uniform(4, 2, seed=8), torch.arange(50, 300)
    rows = nearest_rows(exact_posterior(gp, data).kernel, data, P, 40, among)
    k = gram(gp.kernel, P, data.X[50:]).detach()
    assert rows.tolist() == sorted({50 + int(i) for line in k.argsort(dim=-1, descending=True)[:, :10] for i in line})


@pytest.mark.parametrize("n", [1, 2, 9, 100, 600, 5000, 100_000])
def test_rows_held_out(n):
    rows = held_out_rows(n)
    b, q = rows.shape
    assert len(rows.unique()) == b * q < n
    assert q == min(64, max(n // 8, min(n - 1, 1)))
    assert b * q <= max(n // 4, q)
    assert torch.equal(held_out_rows(n, 2), rows[:2])
    assert sorted([*others(rows, n).tolist(), *rows.flatten().tolist()]) == list(range(n))


def test_blocks_of_batches():
    C = torch.arange(36.0).reshape(6, 6)
    blocks = in_batches(C, torch.zeros(3, 2))
    assert [block.tolist() for block in blocks] == [C[i : i + 2, i : i + 2].tolist() for i in (0, 2, 4)]


def test_a_single_row_has_no_error():
    gp, data, posterior = sparse(1, n=1)
    assert sparse_gain_error(posterior, gp, data)[0] == 0.0


@pytest.mark.parametrize("n", [100, 800])
def test_inducing_points_keep_away_from_the_rows_held_out(n):
    """Unless they are so many that all rows are needed."""
    measured = EncodedTable.of(bs.read_table(smooth(n), target="y"))
    encoder, _, design, data = observe(measured, "none")
    fitting = bs.Fitting("sgpr", iterations=1, fit_rows=50, approximation=bs.Approximation(inducing_points=90))
    Z = starting_point(encoder, design, data, fitting).Z
    held = data.X[held_out_rows(n).flatten()]
    shared = (Z[:, None] == held).all(-1).any()
    assert bool(shared) == (n == 100)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sgpr", "svgp"])
def test_a_surrogate_says_how_wrong_it_is_and_remembers(kind, tmp_path):
    table = bs.read_table(smooth(200), target="y")
    sizes = [bs.Approximation(inducing_points=m, epochs=4) for m in (4, 150)]
    rough, fine = (bs.fit(table, kind, iterations=20, approximation=size) for size in sizes)
    assert rough.summary()["information_gain_error"] > 0.05
    assert abs(fine.summary()["information_gain_error"]) < 0.05
    fine.save(tmp_path / "model.ckpt")
    assert bs.load_surrogate(tmp_path / "model.ckpt").summary() == fine.summary()
    assert "all 200" in fine.summary()["information_gain_error_beside"]
    assert np.isfinite(rough.summary()["information_gain_error"])
