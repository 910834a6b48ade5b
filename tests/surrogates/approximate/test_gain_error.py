import numpy as np
import pytest
import torch

import beebo_scale as bs
from beebo_scale import information_gain
from beebo_scale.kernels.stationary import gram
from beebo_scale.surrogates.approximate.gain_error import nearest_rows, sparse_gain_error
from beebo_scale.surrogates.approximate.inducing import select_inducing_points
from beebo_scale.surrogates.approximate.rank import Probes
from beebo_scale.surrogates.approximate.sgpr import sgpr_posterior
from beebo_scale.surrogates.data.observations import merge_replicates
from beebo_scale.surrogates.gaussian_process.gaussian_process import exact_posterior
from tests.helpers import normal, uniform
from tests.surrogates.gaussian_process.test_gaussian_process import process
from tests.surrogates.test_fit import smooth


def sparse(m, n=300):
    gp, X = process(), uniform(n, 2)
    data = merge_replicates(X, torch.sin(5 * X[:, 0]) + 0.3 * normal(n, seed=1))
    return gp, data, sgpr_posterior(gp, select_inducing_points(gp.kernel, X, m), data)


@pytest.mark.parametrize("m", [3, 12, 300])
def test_the_error_is_the_one_of_textbook_formulas(m):
    gp, data, posterior = sparse(m)
    error, words = sparse_gain_error(posterior, gp, data, [0, 1], seed=3)
    probes = Probes(seed=3).draw(data.X, [0, 1])
    with torch.no_grad():
        sigma2 = float(gp.sigma2)
        A = torch.linalg.inv(gram(gp.kernel, data.X, data.X) + torch.diag(gp.noise_of(data)))
        ratios = []
        for X in probes:
            k = gram(gp.kernel, X, data.X)
            C = gram(gp.kernel, X, X) - k @ A @ k.mT
            ratios.append(information_gain(posterior.covar(X), sigma2) / information_gain(C, sigma2))
    assert error == pytest.approx(float(torch.stack(ratios).mean()) - 1, rel=1e-6, abs=1e-6)
    assert words == "the exact one of all 300 distinct inputs"
    assert abs(error) < 1e-4 if m == 300 else error > 0.01


def test_the_nearest_rows_give_a_lower_bound():
    gp, data, posterior = sparse(6)
    truth, _ = sparse_gain_error(posterior, gp, data, [0, 1])
    bounds = []
    for rows in (128, 256, 299):
        error, words = sparse_gain_error(posterior, gp, data, [0, 1], rows=rows)
        assert words.startswith("a lower bound, from the")
        bounds.append(error)
    assert all(bound <= truth + 1e-9 for bound in bounds)
    assert bounds[-1] > 0.3 * truth


def test_nearest_rows_against_a_full_sort():
    gp, data, _ = sparse(3)
    P = uniform(4, 2, seed=8)
    rows = nearest_rows(exact_posterior(gp, data).kernel, data, P, 40)
    k = gram(gp.kernel, P, data.X).detach()
    assert rows.tolist() == sorted({int(i) for line in k.argsort(dim=-1, descending=True)[:, :10] for i in line})


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
