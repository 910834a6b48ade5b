import math
from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from beebo_scale import KernelPosterior, information_gain
from beebo_scale.kernels.screen import exchange_kernel
from beebo_scale.linalg.roots import CholeskyRoot
from beebo_scale.proposal.library import lazy_greedy as pool
from beebo_scale.proposal.library.lazy_greedy import LazyGreedy, greedy, known, score
from beebo_scale.surrogates.gaussian_process.noise import ConstantNoise
from tests.helpers import LAWS, close, constant_mean, exact_toy, normal, sparse_toy, uniform


@dataclass(frozen=True)
class NoiseByPlace:
    """sigma^2(x) = 0.02 + x_1^2 / 2."""

    def __call__(self, X):
        return 0.02 + 0.5 * X[..., 0].square()

    def to(self, *args, **kwargs):
        return self


def codes(count, sites, seed):
    """Distinct random sequences of five letters."""
    numbers = torch.randperm(5**sites, generator=torch.Generator().manual_seed(seed))[:count]
    return torch.stack([numbers // 5**s % 5 for s in range(sites)], dim=-1).to(torch.float64)


def exchange_posterior(n=15, sites=3, sigma2=0.03, seed=0):
    """The exact posterior over sequences, with a function that gives its mean and covariance at given rows."""
    theta = 0.3 + uniform(sites, seed=seed)
    Z, y = codes(n, sites, seed), normal(n, seed=seed + 1)

    def k(X1, X2):
        return torch.exp(-((X1[:, None, :] != X2[None, :, :]) * theta).sum(-1))

    kernel = exchange_kernel(range(sites)).double()
    kernel.lengthscale = theta.reciprocal()
    L = torch.linalg.cholesky(k(Z, Z) + sigma2 * torch.eye(n, dtype=torch.float64))
    weights = torch.cholesky_solve(y[:, None], L)[:, 0]
    noise = ConstantNoise(torch.tensor(sigma2, dtype=torch.float64))
    posterior = KernelPosterior(kernel.requires_grad_(False), constant_mean(0.0), Z, weights, CholeskyRoot(L), noise)

    def moments(X):
        return k(X, Z) @ weights, k(X, X) - k(X, Z) @ torch.cholesky_solve(k(Z, X), L)

    return posterior, moments


def case(name, p=60, seed=0):
    """A posterior, a library (p x d), and the library's mean, covariance and noise from textbook formulas."""
    if name == "exchange":
        posterior, moments = exchange_posterior(seed=seed)
        X = codes(p, 3, seed + 5)
        return posterior, X, *moments(X), posterior.noise(X)
    toy = sparse_toy(seed=seed, d=3) if name == "sparse" else exact_toy(n=15, d=3, seed=seed)
    posterior = toy.posterior
    if name == "noise by place":
        posterior = replace(posterior, noise=NoiseByPlace())
    X = uniform(p, 3, seed=seed + 5)
    return posterior, X, toy.mean(X), toy.covar(X), posterior.noise(X)


CASES = ["matern", "sparse", "noise by place", "exchange"]


def full_greedy(mean, C, noise, q, T):
    """Greedy over all rows with the whole covariance matrix, conditioned row by row."""
    C, rows, gains = C.clone(), [], []
    for _ in range(q):
        gain = mean + 0.5 * T * torch.log1p(C.diagonal() / noise)
        gain[rows] = -math.inf
        best = int(gain.argmax())
        rows.append(best)
        gains.append(float(gain[best]))
        C -= torch.outer(C[:, best], C[best]) / (C[best, best] + noise[best])
    return rows, torch.tensor(gains, dtype=torch.float64)


# --- the choice is the greedy choice ---------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.0, 0.05, 0.5, 5.0])
@pytest.mark.parametrize("name", CASES)
def test_lazy_greedy_is_full_greedy(name, temperature):
    posterior, X, mean, C, noise = case(name)
    T = temperature * math.sqrt(posterior.amplitude)
    for sign in (1.0, -1.0):
        rows, gains = full_greedy(sign * mean, C, noise, 20, T)
        chosen, gain = greedy(posterior, X, 20, T, sign)
        assert chosen.tolist() == rows
        close(gain, gains, atol=1e-9)


@pytest.mark.slow
@given(seed=st.integers(0, 10_000), q=st.integers(1, 30), temperature=st.floats(0.0, 5.0))
@LAWS
def test_choice_on_random_posteriors(seed, q, temperature):
    posterior, X, mean, C, noise = case(CASES[seed % 4], p=30, seed=seed)
    T = temperature * math.sqrt(posterior.amplitude)
    rows, gains = full_greedy(mean, C, noise, q, T)
    chosen, gain = greedy(posterior, X, q, T)
    close(gain, gains, atol=1e-9)
    assert sorted(set(rows)) == sorted(chosen.tolist())


@pytest.mark.parametrize("name", CASES)
def test_gains_never_rise_and_sum_to_the_acquisition(name):
    posterior, X, mean, C, noise = case(name)
    T = 0.7 * math.sqrt(posterior.amplitude)
    rows, gain = greedy(posterior, X, 25, T)
    assert (gain.diff() <= 1e-12).all()
    total = mean[rows].sum() + T * information_gain(C[rows][:, rows], noise[rows])
    close(gain.sum(), total, rtol=1e-9, atol=0.0)


def test_all_rows_can_be_chosen():
    posterior, X, *_ = case("matern", p=9)
    assert sorted(greedy(posterior, X, 9, 0.5)[0].tolist()) == list(range(9))


def test_scores_are_the_first_gains(monkeypatch):
    posterior, X, mean, C, noise = case("noise by place")
    monkeypatch.setattr(pool, "SCORED_AT_ONCE", 7)
    close(score(posterior, X, 0.8), mean + 0.4 * torch.log1p(C.diagonal() / noise))
    close(score(posterior, X, 0.0, sign=-1.0), -mean)


@pytest.mark.slow
@pytest.mark.parametrize(("block", "span"), [(1, 0), (3, 2), (1000, 1000), (64, 0)])
@pytest.mark.parametrize("capacity", [1, 7, 40, 1000])
def test_any_blocks_and_any_cache_give_the_same_choice(block, span, capacity, monkeypatch):
    posterior, X, mean, C, noise = case("matern")
    rows, gains = full_greedy(mean, C, noise, 30, 2.0)
    monkeypatch.setattr(pool, "STALE_AT_ONCE", block)
    monkeypatch.setattr(pool, "SPAN", span)
    state = LazyGreedy(posterior, 30, 2.0)
    state.capacity = capacity
    state.add(X)
    for _ in range(30):
        state.accept(state.best()[0])
        assert len(state.cache.rows) <= capacity
    assert state.chosen == rows
    close(torch.tensor(state.gains, dtype=torch.float64), gains, atol=1e-9)


@pytest.mark.parametrize("capacity", [5, 1000])
def test_rows_can_come_late_if_their_bounds_are_known(capacity):
    """Rows join only when the gain has fallen to their first gain: the choice is that over all rows."""
    posterior, X, mean, C, noise = case("noise by place")
    rows, gains = full_greedy(mean, C, noise, 30, 2.0)
    first = score(posterior, X, 2.0)
    order = first.argsort(descending=True)
    state, read = LazyGreedy(posterior, 30, 2.0), 0
    state.capacity = capacity
    while len(state) < 30:
        row, gain = state.best()
        if read < 60 and gain <= first[order[read]]:
            more = order[read : read + 4].sort().values
            state.add(X[more], first[more], more)
            read += 4
        else:
            state.accept(row)
    assert state.number[state.chosen].tolist() == rows
    close(torch.tensor(state.gains, dtype=torch.float64), gains, atol=1e-9)


# --- which rows may be chosen ----------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.0, 0.5])
def test_equal_rows_go_to_the_lowest(temperature):
    posterior, X, *_ = case("exchange", p=10)
    far = 1e4 * torch.arange(1.0, 11.0).to(X).unsqueeze(-1).expand(10, X.shape[-1])  # nothing is known of them, exactly
    index = greedy(posterior, torch.cat([far, far, far]), 10, temperature)[0].tolist()
    assert index == list(range(10))


def test_equal_gains_go_to_the_lowest_number():
    posterior, X, *_ = case("exchange", p=10)
    state = LazyGreedy(posterior, 2, 0.0)
    state.add(torch.cat([X, X]), number=torch.arange(20).flip(0))
    first, _ = state.best()
    assert first >= 10  # the copy with the lower number
    state.accept(first)
    assert state.best()[0] == first - 10


def test_removed_rows_are_not_chosen():
    posterior, X, mean, C, noise = case("matern")
    gone = uniform(len(X), seed=9) < 0.4
    rows = (~gone).nonzero().squeeze(-1)
    expected, _ = full_greedy(mean[rows], C[rows][:, rows], noise[rows], len(rows), 0.5)
    state = LazyGreedy(posterior, len(rows), 0.5)
    state.add(X)
    state.best()
    state.remove(gone)
    for _ in expected:
        state.accept(state.best()[0])
    assert state.chosen == rows[expected].tolist()
    assert state.best() == (-1, -math.inf)


def test_pending_rows_count():
    """Greedy after augmenting with pending rows is the rest of greedy that chose those rows itself."""
    posterior, X, *_ = case("matern")
    T = 0.5 * math.sqrt(posterior.amplitude)
    first, gain = greedy(posterior, X, 10, T)
    others = torch.tensor([i for i in range(len(X)) if i not in first[:4].tolist()])
    rest, rest_gain = greedy(posterior.augment(X[first[:4]]), X[others], 6, T)
    assert others[rest].tolist() == first[4:].tolist()
    close(rest_gain, gain[4:])


def test_known_rows():
    measured = torch.tensor([[0.0, 1.0], [2.0, 2.0]], dtype=torch.float64)
    X = torch.tensor([[1.0, 1.0], [0.0, 1.0], [1.0, 1.0], [0.0, 1.0], [3.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    old, repeated = known(X, measured)
    assert old.tolist() == [False, True, False, True, False, False]
    assert repeated.tolist() == [False, False, True, True, False, True]
    old, repeated = known(X, measured[:0])
    assert old.tolist() == [False] * 6
    assert repeated.tolist() == [False, False, True, True, False, True]
