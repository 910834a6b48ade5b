import json
from dataclasses import asdict

import pytest
import torch

from beebo_scale import information_gain
from beebo_scale.errors import InputError
from beebo_scale.kernels.screen import screen_kernel
from beebo_scale.kernels.stationary import StationaryKernel, gram
from beebo_scale.linalg.kernel_matrix import KernelMatrix
from beebo_scale.surrogates.approximate.held_out import excess, held_out_rows, others
from beebo_scale.surrogates.approximate.love import (
    LoveOptions,
    condition_love,
    love_posterior,
    raised_root,
)
from beebo_scale.surrogates.approximate.projection import Projection, down_root
from beebo_scale.surrogates.approximate.rank import affordable_rank
from beebo_scale.surrogates.data.observations import Observations, merge_replicates
from beebo_scale.surrogates.gaussian_process.exact import condition_exactly
from beebo_scale.surrogates.gaussian_process.gaussian_process import GaussianProcess, exact_posterior
from beebo_scale.surrogates.gaussian_process.noise import ConstantNoise
from tests.helpers import close, constant_mean, normal, uniform
from tests.linalg.test_conjugate_gradients import Indefinite

D = 4
INPUTS = {
    "uniform": lambda n: uniform(n, D),
    "clustered": lambda n: uniform(8, D).repeat_interleave(n // 8, 0) + 0.02 * normal(n, D),
    "near-duplicates": lambda n: uniform(20, D).repeat_interleave(n // 20, 0) + 1e-8 * normal(n, D),
}
NOISE = {
    "1e-1": lambda n: torch.full((n,), 1e-1, dtype=torch.float64),
    "1e-2": lambda n: torch.full((n,), 1e-2, dtype=torch.float64),
    "1e-4": lambda n: torch.full((n,), 1e-4, dtype=torch.float64),
    "by row": lambda n: 10.0 ** (-4 * uniform(n, seed=11)),
}
LENGTHSCALES = {"short": 0.3, "long": 2.0}


def problem(n=400, inputs="uniform", noise="1e-2", lengthscale="long"):
    """Arguments of `condition_exactly` and `condition_love`."""
    Z, sigma2 = INPUTS[inputs](n), NOISE[noise](n)
    kernel = StationaryKernel(2.5, LENGTHSCALES[lengthscale] * (0.8 + 0.4 * uniform(D, seed=5)), 1.0, None)
    new = ConstantNoise(sigma2.mean())
    return kernel, constant_mean(0.2), Z, torch.sin(4 * Z).sum(-1) + 0.1 * normal(n, seed=2), sigma2, new


def love(rank=50, seed=0, error=0.05, memory=None, sketch=None, max_iterations=1000, block=None, **which):
    options = LoveOptions(rank, error, memory, seed, max_iterations=max_iterations, sketch_dtype=sketch, block=block)
    return condition_love(*problem(**which), options)


def test_mean_is_exact_and_covariance_close():
    posterior, report = love(rank=150)
    exact, X = condition_exactly(*problem()), uniform(50, D, seed=3)
    close(posterior.mean(X), exact.mean(X), rtol=1e-5, atol=1e-5)
    close(posterior.covar(X), exact.covar(X), rtol=0.0, atol=1e-4)
    assert posterior.rank == report.rank == 150
    assert report.cg_converged
    assert report.cg_residual < 1e-4
    assert 0 <= report.mean_error < 1e-4


@pytest.mark.parametrize("tolerance", [0.1, 0.01])
def test_the_mean_is_as_close_as_asked_for(tolerance):
    """In standard deviations of a prediction."""
    arguments, X = problem(600, noise="1e-4", lengthscale="short"), uniform(200, D, seed=3)
    posterior, report = condition_love(*arguments, LoveOptions(20, mean_tolerance=tolerance, block=60))
    exact = condition_exactly(*arguments)
    std = (exact.variance(X) + exact.noise(X)).sqrt()
    off = float(((posterior.mean(X) - exact.mean(X)) / std).square().mean().sqrt())
    assert 1e-8 < off < 2 * report.mean_error < 3 * tolerance
    assert report.cg_iterations > 1


@pytest.mark.slow
@pytest.mark.parametrize("lengthscale", LENGTHSCALES)
@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("inputs", INPUTS)
def test_covariance_is_never_too_small(inputs, noise, lengthscale):
    which = {"inputs": inputs, "noise": noise, "lengthscale": lengthscale}
    kernel, mean, Z, y, sigma2, new = problem(**which)
    exact = condition_exactly(kernel, mean, Z, y, sigma2, new)
    X = torch.cat([uniform(60, D, seed=4), Z[:60]])
    C = exact.covar(X)
    K = KernelMatrix(kernel, Z)
    for rank in (10, 60, 250):
        posterior, _ = condition_love(kernel, mean, Z, y, sigma2, new, LoveOptions(rank))
        assert torch.linalg.eigvalsh(posterior.covar(X) - C)[0] > -1e-8
        assert (C - 1e-8).diagonal().le(posterior.variance(X)).all()
        assert posterior.covar(X).diagonal().min() > -1e-10  # not clamped
        assert information_gain(posterior.covar(X), 0.01) > information_gain(C, 0.01) - 1e-6
        R = posterior.down.R
        close(R.mT @ (K @ R + sigma2[:, None] * R), torch.eye(rank, dtype=torch.float64), rtol=0.0, atol=1e-7)


def test_the_same_seed_gives_the_same_root():
    first, second, other = love(seed=1)[0], love(seed=1)[0], love(seed=2)[0]
    assert torch.equal(first.down.R, second.down.R)
    assert torch.equal(first.weights, second.weights)
    assert not torch.equal(first.down.R, other.down.R)


@pytest.mark.parametrize("rank", [60, 1000])
def test_as_many_columns_as_rows_are_exact(rank):
    posterior, report = love(rank=rank, n=60)
    exact, X = condition_exactly(*problem(n=60)), uniform(20, D, seed=3)
    close(posterior.covar(X), exact.covar(X), rtol=1e-9, atol=1e-9)
    assert report.rank == 60
    assert report.information_gain_error == pytest.approx(0.0, abs=1e-6)


def test_a_sketch_in_float32_stays_conservative():
    for noise in ("1e-1", "1e-4"):
        posterior, _ = love(rank=60, sketch=torch.float32, noise=noise)
        plain, _ = love(rank=60, noise=noise)
        X = uniform(80, D, seed=4)
        C = condition_exactly(*problem(noise=noise)).covar(X)
        assert torch.linalg.eigvalsh(posterior.covar(X) - C)[0] > -1e-8
        gains = [float(information_gain(p.covar(X), 0.01)) for p in (posterior, plain)]
        assert gains[0] == pytest.approx(gains[1], rel=1e-3)


def test_love_of_a_screen():
    """Any kernel of a screen, replicates merged, noise as the exact surrogate has it."""
    X = torch.cat([uniform(150, 2), torch.randint(3, (150, 3), generator=torch.Generator().manual_seed(0))], dim=-1)
    data = merge_replicates(torch.cat([X, X[:20]]), normal(170))
    kinds = {"a": "continuous", "b": "continuous", "s": "protein"}
    gp = GaussianProcess(screen_kernel(kinds, {"a": slice(0, 1), "b": slice(1, 2), "s": slice(2, 5)}))
    posterior, _ = love_posterior(gp, data, LoveOptions(rank=150))
    exact = exact_posterior(gp, data)
    P = data.X[:10]
    close(posterior.mean(P), exact.mean(P), rtol=1e-6, atol=1e-6)
    close(posterior.covar(P), exact.covar(P), rtol=1e-7, atol=1e-7)
    close(posterior.noise(P), exact.noise(P))
    assert posterior.kernel is not gp.kernel
    assert not any(p.requires_grad for p in posterior.kernel.parameters())


# --- choice of the rank ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_auto_raises_the_rank_until_the_estimate_is_small():
    posterior, report = love(rank="auto", n=800, lengthscale="long", noise="1e-2", error=0.02)
    assert report.stopped_by == "tolerance"
    assert report.tolerance_met
    assert report.rank in (128, 256, 512)
    assert 0 <= report.information_gain_error <= 0.02
    half, other = love(rank=report.rank // 2, n=800, error=0.02)
    assert not other.tolerance_met or report.rank == 128
    assert other.information_gain_error > report.information_gain_error
    assert torch.equal(posterior.down.R, love(rank=report.rank, n=800)[0].down.R)
    assert half.rank == report.rank // 2


def test_auto_says_when_memory_ends():
    n = 400
    _, report = love(rank="auto", n=n, lengthscale="short", memory=8 * 8 * n * 150, error=0.001)
    assert affordable_rank(n, 8 * 8 * n * 150) == 150
    assert (report.rank, report.stopped_by, report.tolerance_met) == (150, "memory", False)
    assert report.information_gain_error > 0.001


def test_auto_ends_at_the_number_of_rows():
    _, report = love(rank="auto", n=160, lengthscale="short", noise="1e-4", error=1e-3)
    assert (report.rank, report.stopped_by, report.tolerance_met) == (160, "tolerance", True)
    _, report = love(rank="auto", n=160, lengthscale="short", noise="1e-4", error=-1.0)
    assert (report.rank, report.stopped_by, report.tolerance_met) == (160, "rows", False)


def test_the_report_is_plain():
    _, report = love(rank=20)
    assert json.loads(json.dumps(asdict(report))) == asdict(report)
    assert report.stopped_by == "rank"


@pytest.mark.parametrize("noise", ["1e-2", "by row"])
@pytest.mark.parametrize("rank", [10, 60, 400])
def test_rows_held_out_are_those_of_a_fit_without_them(rank, noise):
    """Beside the root of the other rows alone, and once they are all spanned beside the exact posterior."""
    kernel, _, Z, _, sigma2, _ = problem(inputs="clustered", noise=noise, lengthscale="short")
    held = held_out_rows(len(Z), 1).flatten()
    projection = Projection.drawn(KernelMatrix(kernel, Z), sigma2, rank, held)
    rest, K = others(held, len(Z)), gram(kernel, Z, Z)
    S = projection.S[rest]
    assert torch.equal(projection.S[held], torch.zeros(len(held), S.shape[-1]).double())
    k, A = K[held][:, rest], K[rest][:, rest] + torch.diag(sigma2[rest])
    B = S / sigma2[rest].sqrt()[:, None]
    dense = K[held][:, held] - k @ B @ torch.linalg.inv(B.mT @ A @ B) @ B.mT @ k.mT
    close(projection.at_held(sigma2), dense, rtol=0.0, atol=1e-7)
    if rank == 400:
        close(dense, K[held][:, held] - k @ torch.linalg.inv(A) @ k.mT, rtol=0.0, atol=1e-7)


def test_rows_held_out_enter_the_root():
    """It is as good as a root that held out nothing, and their own variance as well known as that of others."""
    kernel, _, Z, _, sigma2, _ = problem(n=800)
    K, held = KernelMatrix(kernel, Z), held_out_rows(800, 1).flatten()
    known = []
    for rows in (held, held[:0]):
        R = Projection.drawn(K, sigma2, 60, rows).root(sigma2, 60)
        assert R.shape == (800, 60)
        close(R.mT @ (K @ R + sigma2[:, None] * R), torch.eye(60, dtype=torch.float64), rtol=0.0, atol=1e-7)
        known.append((gram(kernel, Z, Z) @ R).square().sum(-1))
    assert 0.999 < float(known[0].mean() / known[1].mean()) < 1.001
    assert 0.99 < float(known[0][held].mean() / known[0].mean()) < 1.01


@pytest.mark.slow
@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("rank", [10, 40])
def test_the_estimated_error_is_that_of_new_rows(inputs, rank):
    """On rows of the same distribution that nobody has seen; above 3 % within a factor of 1.5."""
    n, which = 1200, {"noise": "1e-1", "lengthscale": "short"}
    kernel, mean, _, _, _, new = problem(**which)
    order = torch.randperm(2400, generator=torch.Generator().manual_seed(1))
    Z = INPUTS[inputs](2400)[order]
    y, sigma2 = torch.sin(4 * Z[:n]).sum(-1), torch.full((n,), 0.1, dtype=torch.float64)
    posterior, report = condition_love(kernel, mean, Z[:n], y, sigma2, new, LoveOptions(rank))
    exact = condition_exactly(kernel, mean, Z[:n], y, sigma2, new)
    true = excess(posterior, exact, Z[n:].reshape(-1, 60, D))
    assert true < 0.03 or 1 / 1.5 < report.information_gain_error / true < 1.5
    assert true > 0.03 or report.information_gain_error < 0.045


def test_the_rank_can_be_raised():
    n = 400
    gp = GaussianProcess(screen_kernel({"a": "continuous", "b": "continuous"}, {"a": slice(0, 1), "b": slice(1, 2)}))
    data = merge_replicates(uniform(n, 2), normal(n))
    R = raised_root(gp, data, 30)
    K, sigma2 = KernelMatrix(gp.kernel.requires_grad_(False), data.X), gp.noise_of(data).detach()
    assert R.shape == (n, 60)
    close(R.mT @ (K @ R + sigma2[:, None] * R), torch.eye(60, dtype=torch.float64), rtol=0.0, atol=1e-7)
    assert raised_root(gp, data, 300).shape == (n, n)
    assert raised_root(gp, data, n) is None
    assert raised_root(gp, data, 30, LoveOptions(memory=8 * 8 * n * 30)) is None


# --- bad input ------------------------------------------------------------------------------------------------


def test_a_kernel_that_is_none():
    _, mean, Z, y, sigma2, new = problem()
    with pytest.raises(InputError, match="the kernel is not a valid one"):
        condition_love(Indefinite(), mean, Z, y, sigma2, new, LoveOptions(20))
    with pytest.raises(InputError, match="the kernel is no valid one"):
        down_root(KernelMatrix(Indefinite(), Z), sigma2, 100)


def test_inputs_that_are_not_finite():
    kernel, _, Z, _, sigma2, _ = problem()
    Z[3, 0] = torch.nan
    with pytest.raises(InputError, match="not finite"):
        down_root(KernelMatrix(kernel, Z), sigma2, 20)


def test_rows_without_noise():
    kernel, mean, Z, y, sigma2, new = problem()
    sigma2[7] = 0.0
    with pytest.raises(InputError, match="noise variance of every measured row must be above zero"):
        condition_love(kernel, mean, Z, y, sigma2, new)


@pytest.mark.parametrize("rank", [0, -3, 2.5, "many"])
def test_ranks_that_are_none(rank):
    with pytest.raises(InputError, match="whole number"):
        LoveOptions(rank=rank)


def test_solves_that_do_not_converge_are_reported():
    with pytest.warns(UserWarning, match="did not converge"):
        _, report = love(rank=20, lengthscale="short", noise="1e-4", max_iterations=2, block=20)
    assert not report.cg_converged
    assert not report.tolerance_met
    assert report.cg_residual > 1e-6
    assert report.cg_iterations == 2


def test_long_solves_are_told_beforehand(monkeypatch):
    monkeypatch.setattr("beebo_scale.surrogates.approximate.love.LONG", 0.0)
    with pytest.warns(UserWarning, match="all 30 rows will take about 0 hours here"):
        love(rank=20, n=30)


def test_observations_of_one_row():
    one = torch.ones(1, dtype=torch.float64)
    data = Observations(uniform(1, 2), one, None, one, 0 * one)
    gp = GaussianProcess(screen_kernel({"a": "continuous", "b": "continuous"}, {"a": slice(0, 1), "b": slice(1, 2)}))
    posterior, report = love_posterior(gp, data)
    close(posterior.mean(data.X), exact_posterior(gp, data).mean(data.X), rtol=1e-7, atol=1e-7)
    assert report.rank == 1
