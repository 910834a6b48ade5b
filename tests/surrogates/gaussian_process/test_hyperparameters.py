import copy
import math

import numpy as np
import pandas as pd
import pytest
import torch
from gpytorch.kernels import Kernel

import beebo_scale as bs
from beebo_scale.errors import InputError
from beebo_scale.kernels.screen import continuous_kernel, exchange_kernel
from beebo_scale.surrogates.data.observations import merge_replicates
from beebo_scale.surrogates.gaussian_process import hyperparameters as search
from beebo_scale.surrogates.gaussian_process.gaussian_process import (
    NOISE_FLOOR,
    GaussianProcess,
    fit_hyperparameters,
    log_marginal_likelihood,
)
from beebo_scale.surrogates.gaussian_process.hyperparameters import find_hyperparameters, limits
from tests.helpers import normal, uniform


def process(d=1):
    return GaussianProcess(continuous_kernel(list(range(d)), "botorch"))


def wave(n=80, noise=0.3, seed=0):
    """One slow wave under noise."""
    X = uniform(n, 1, seed=seed)
    y = torch.sin(6 * X[:, 0]) + noise * normal(n, seed=seed + 1)
    return merge_replicates(X, (y - y.mean()) / y.std())


def test_a_good_fit_to_many_rows_needs_one_start(monkeypatch):
    gp, plain, data = process(), process(), wave()
    monkeypatch.setattr(search, "COARSE", len(data))
    report = find_hyperparameters(gp, data)
    expected = fit_hyperparameters(plain, data, maxiter=100)
    assert report.starts == 1
    assert report.limits == ()
    assert report.warning == ""
    assert report.log_likelihood == expected.log_likelihood


def test_with_few_rows_the_better_of_two_optima_is_found():
    """The first start ends at an optimum of its own, with nothing to show for it."""
    g = np.random.default_rng(15)
    X, w = g.random((20, 5)), 8 * g.normal(size=(5, 30))
    y = np.cos(X @ w + 6.28 * g.random(30)) @ g.normal(size=30) / 4 + 0.05 * g.normal(size=20)
    data = merge_replicates(torch.tensor(X), torch.tensor((y - y.mean()) / y.std()))
    gp, plain = process(5), process(5)
    fit_hyperparameters(plain, data, maxiter=100)
    alone = float((log_marginal_likelihood(plain, data) + plain.log_prior()).detach())
    assert limits(plain, data) == ()
    assert find_hyperparameters(gp, data).starts == 2
    assert float((log_marginal_likelihood(gp, data) + gp.log_prior()).detach()) > alone + 0.3


def test_noise_at_its_limit_is_said():
    data = wave(noise=0.0)
    report = find_hyperparameters(process(), data)
    assert report.starts == 2
    assert report.limits == (f"noise at the lower limit {NOISE_FLOOR:g}",)
    assert "noise at the lower limit 0.0001" in report.warning
    assert "\n" not in report.warning


def test_lengthscales_at_their_limit_are_counted():
    X = uniform(60, 3, seed=1)
    gp = process(3)
    gp.kernel.raw_lengthscale.data[0, :2] = 2.5e-2
    assert limits(gp, merge_replicates(X, normal(60))) == ("2 of 3 lengthscale at the lower limit 0.025",)


def test_nothing_but_noise_is_said():
    data = merge_replicates(uniform(60, 2), normal(60, seed=4))
    report = find_hyperparameters(process(2), data)
    assert any("noise explains the whole target" in words for words in report.limits) or report.log_likelihood < -80


def test_a_start_in_a_bad_corner_is_left():
    """From a lengthscale far too short the likelihood is flat: every point stands alone."""
    data, gp, fresh = wave(), process(), process()
    gp.kernel.lengthscale, gp.likelihood.noise = 2.5e-2, 2.0
    stuck = copy.deepcopy(gp)
    stuck.load_state_dict(gp.state_dict())
    alone = fit_hyperparameters(stuck, data, maxiter=0)
    report = find_hyperparameters(gp, data, fresh=fresh)
    best = fit_hyperparameters(fresh, data, maxiter=100)
    assert report.log_likelihood > alone.log_likelihood + 10
    assert report.log_likelihood == pytest.approx(best.log_likelihood, abs=0.1)


@pytest.mark.parametrize(("most", "starts"), [(80, 1), (1000, 2)])
def test_with_few_rows_a_warm_start_has_a_rival(monkeypatch, most, starts):
    data, gp, plain = wave(), process(), process()
    expected = find_hyperparameters(plain, data)
    gp.load_state_dict(plain.state_dict())
    monkeypatch.setattr(search, "COARSE", most)
    report = find_hyperparameters(gp, data, fresh=process())
    assert report.starts == starts
    assert report.log_likelihood == pytest.approx(expected.log_likelihood, abs=1e-3)


def test_the_better_of_two_starts_is_kept(monkeypatch):
    """The second start is made a useless one."""
    data, gp, plain = wave(noise=0.0), process(), process()
    expected = fit_hyperparameters(plain, data, maxiter=100)

    def starts(gp, fresh):
        yield copy.deepcopy(gp.state_dict())
        bad = copy.deepcopy(gp)
        bad.likelihood.noise = 50.0
        bad.requires_grad_(False)
        yield bad.state_dict()

    monkeypatch.setattr(search, "_starts", starts)
    report = find_hyperparameters(gp, data)
    assert report.starts == 2
    assert report.log_likelihood >= expected.log_likelihood - 1e-3


class Breaks(Kernel):
    """Valid while its lengthscale is above one, otherwise no covariance at all."""

    has_lengthscale = True

    def forward(self, x1, x2, diag=False, **params):
        k = torch.exp(-(x1.unsqueeze(-2) - x2.unsqueeze(-3)).square().sum(-1) / self.lengthscale**2)
        k = k if float(self.lengthscale.detach()) > 1.0 else -1e8 * k
        return k.diagonal(dim1=-1, dim2=-2) if diag else k


def test_a_broken_start_is_left_for_another():
    gp = GaussianProcess(Breaks())
    gp.kernel.lengthscale = 0.9
    report = find_hyperparameters(gp, wave(20))
    assert report.starts == 2
    assert np.isfinite(report.log_likelihood)
    assert float(gp.kernel.lengthscale.detach()) > 1.0


def test_no_start_works():
    class Never(Breaks):
        def forward(self, x1, x2, diag=False, **params):
            return -1e8 * super().forward(x1, x2, diag).abs()

    with pytest.raises(InputError, match="no hyperparameters explain the 20 rows") as caught:
        find_hyperparameters(GaussianProcess(Never()), wave(20))
    assert "\n" not in str(caught.value)


def test_a_coarse_fit_comes_first_and_ends_at_the_same_place(monkeypatch):
    data, plain, gp = wave(200), process(), process()
    expected = fit_hyperparameters(plain, data, maxiter=100)
    monkeypatch.setattr(search, "COARSE", 50)
    seen, whole = [], search.fit_hyperparameters

    def count(gp, data, *rest):
        seen.append(len(data))
        return whole(gp, data, *rest)

    monkeypatch.setattr(search, "fit_hyperparameters", count)
    report = find_hyperparameters(gp, data)
    assert seen == [50, 50, 200]  # Matern-5/2, Matern-3/2, all rows
    assert report.rows == 200
    assert report.log_likelihood == pytest.approx(expected.log_likelihood, abs=0.01)


def test_sites_that_do_not_matter_take_the_other_start_within_their_limits():
    gp = GaussianProcess(exchange_kernel([0, 1]))
    gp.kernel.lengthscale = 900.0
    data = merge_replicates(torch.randint(4, (30, 2), generator=torch.Generator().manual_seed(0)).double(), normal(30))
    assert find_hyperparameters(gp, data).starts >= 1


def test_a_surrogate_says_it():
    x = np.linspace(0.0, 1.0, 40)
    table = bs.read_table(pd.DataFrame({"x": x, "y": np.sin(6 * x)}), "y", features={"x": "continuous"})
    summary = bs.fit(table).summary()
    assert summary["fit"]["limits"] == ["noise at the lower limit 0.0001"]
    assert "noise at the lower limit" in summary["warning"]


@pytest.mark.slow
@pytest.mark.parametrize(("rough", "nu"), [(True, 1.5), (False, 2.5)])
def test_many_rows_tell_how_rough_the_function_is(rough, nu, monkeypatch, tmp_path):
    """Functions drawn from either kernel."""
    X = uniform(240, 1, seed=2)
    r = math.sqrt(2 * nu) * (X - X.mT).abs() / 0.1
    K = (1 + r + (0 if rough else r.square() / 3)) * torch.exp(-r) + 1e-8 * torch.eye(240, dtype=torch.float64)
    y = torch.linalg.cholesky(K) @ normal(240, seed=3) + 0.01 * normal(240, seed=4)
    monkeypatch.setattr(search, "COARSE", 120)
    table = bs.read_table(pd.DataFrame({"x": X[:, 0].numpy(), "y": y.numpy()}), "y", features={"x": "continuous"})
    surrogate = bs.fit(table)
    assert surrogate.gp.kernel.nu == surrogate.posterior().kernel.nu == nu
    surrogate.save(tmp_path / "model.ckpt")
    again = bs.load_surrogate(tmp_path / "model.ckpt")
    assert again.gp.kernel.nu == nu
    assert np.array_equal(again.predict(table)[0], surrogate.predict(table)[0])
    assert bs.fit(table, warm_start=again, iterations=1).gp.kernel.nu == nu


def test_states_of_earlier_versions_are_of_matern_five_halves():
    gp, state = process(), process().state_dict()
    gp.kernel.nu = 1.5
    del state["kernel._extra_state"]
    gp.load_state_dict(state)
    assert gp.kernel.nu == 2.5
