import math
from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from beebo_scale import Posterior, information_gain
from beebo_scale.proposal import pool
from beebo_scale.proposal.pool import choose, greedy, known, score
from beebo_scale.roots import CholeskyRoot
from beebo_scale.surrogates.kernels import exchange_kernel
from beebo_scale.surrogates.noise import ConstantNoise
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
    posterior = Posterior(kernel.requires_grad_(False), constant_mean(0.0), Z, weights, CholeskyRoot(L), noise)

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


@pytest.mark.parametrize("temperature", [0.0, 0.05, 0.5, 5.0])
@pytest.mark.parametrize("name", CASES)
def test_choice_is_the_full_greedy_choice(name, temperature):
    posterior, X, mean, C, noise = case(name)
    T = temperature * math.sqrt(posterior.amplitude)
    for maximize in (True, False):
        rows, gains = full_greedy(mean if maximize else -mean, C, noise, 20, T)
        choice = choose(posterior, X, 20, temperature, maximize=maximize)
        assert choice.index.tolist() == rows
        close(choice.gain, gains, atol=1e-9)


@given(seed=st.integers(0, 10_000), q=st.integers(1, 30), temperature=st.floats(0.0, 5.0))
@LAWS
def test_choice_on_random_posteriors(seed, q, temperature):
    posterior, X, mean, C, noise = case(CASES[seed % 4], p=30, seed=seed)
    rows, gains = full_greedy(mean, C, noise, q, temperature * math.sqrt(posterior.amplitude))
    choice = choose(posterior, X, q, temperature)
    close(choice.gain, gains, atol=1e-9)
    assert sorted(set(rows)) == sorted(choice.index.tolist())


@pytest.mark.parametrize("name", CASES)
def test_gains_never_rise_and_sum_to_the_acquisition(name):
    posterior, X, mean, C, noise = case(name)
    choice = choose(posterior, X, 25, 0.7)
    assert (choice.gain.diff() <= 1e-12).all()
    rows, T = choice.index, 0.7 * math.sqrt(posterior.amplitude)
    total = mean[rows].sum() + T * information_gain(C[rows][:, rows], noise[rows])
    close(choice.gain.sum(), total, rtol=1e-9, atol=0.0)


def test_a_whole_small_library_can_be_chosen():
    posterior, X, *_ = case("matern", p=9)
    assert sorted(choose(posterior, X, 9, 0.5).index.tolist()) == list(range(9))


def test_scores_are_the_first_gains(monkeypatch):
    posterior, X, mean, C, noise = case("noise by place")
    monkeypatch.setattr(pool, "CHUNK", 7)
    close(score(posterior, X, 0.8), mean + 0.4 * torch.log1p(C.diagonal() / noise))
    close(score(posterior, X, 0.0, sign=-1.0), -mean)


# --- shortlist and certificate ---------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.0, 0.5, 5.0])
@pytest.mark.parametrize("name", CASES)
def test_a_short_shortlist_changes_nothing(name, temperature, monkeypatch):
    posterior, X, *_ = case(name)
    whole = choose(posterior, X, 12, temperature)
    assert (whole.shortlist, whole.best_left_out) == (60, -math.inf)
    monkeypatch.setattr(pool, "SHORTLIST", 1)
    short = choose(posterior, X, 12, temperature)
    assert short.certified
    assert short.index.tolist() == whole.index.tolist()
    close(short.gain, whole.gain)


def test_certificate_holds_the_best_score_left_out(monkeypatch):
    posterior, X, mean, *_ = case("matern")
    monkeypatch.setattr(pool, "SHORTLIST", 1)
    choice = choose(posterior, X, 12, 0.0)
    ranked = mean.sort(descending=True).values
    assert choice.shortlist == 12  # with no interest in information the best means are enough
    assert choice.best_left_out == pytest.approx(float(ranked[12]), rel=1e-12)
    assert float(choice.gain[-1]) == pytest.approx(float(ranked[11]), rel=1e-12)


def test_the_shortlist_grows_until_the_choice_is_certain(monkeypatch):
    posterior, X, *_ = case("matern")
    monkeypatch.setattr(pool, "SHORTLIST", 1)
    choice = choose(posterior, X, 12, 5.0)
    T = 5.0 * math.sqrt(posterior.amplitude)
    scores = score(posterior, X, T)
    _, gain = greedy(posterior, X[scores.topk(12).indices.sort().values], 12, T)
    assert float(gain[-1]) <= float(scores.sort(descending=True).values[12])  # twelve rows are not enough here
    assert choice.shortlist > 12


@pytest.mark.parametrize("block", [1, 3, 1000])
def test_rows_are_brought_up_to_date_in_any_blocks(block, monkeypatch):
    posterior, X, *_ = case("matern")
    expected = choose(posterior, X, 30, 2.0)
    monkeypatch.setattr(pool, "BLOCK", block)
    choice = choose(posterior, X, 30, 2.0)
    assert choice.index.tolist() == expected.index.tolist()
    close(choice.gain, expected.gain)


# --- which rows may be chosen ----------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.0, 0.5])
def test_equal_rows_go_to_the_lowest(temperature):
    posterior, X, *_ = case("exchange", p=10)
    copies = torch.cat([X, X, X])
    index = choose(posterior, copies, 30, temperature).index.tolist()
    for row in range(10):
        assert [i for i in index if i % 10 == row] == [row, row + 10, row + 20]


@pytest.mark.parametrize("temperature", [0.0, 0.5])
def test_only_eligible_rows_are_chosen(temperature):
    posterior, X, mean, C, noise = case("matern")
    eligible = uniform(len(X), seed=9) < 0.4
    rows = eligible.nonzero().squeeze(-1)
    q = len(rows)
    choice = choose(posterior, X, q, temperature, eligible)
    expected, gains = full_greedy(
        mean[rows], C[rows][:, rows], noise[rows], q, temperature * math.sqrt(posterior.amplitude)
    )
    assert choice.index.tolist() == rows[expected].tolist()
    close(choice.gain, gains, atol=1e-9)
    with pytest.raises(ValueError, match=f"q = {q + 1} rows asked for, {q} can be chosen"):
        choose(posterior, X, q + 1, temperature, eligible)


@pytest.mark.parametrize("q", [0, -1, 61])
def test_impossible_numbers_of_rows(q):
    posterior, X, *_ = case("matern")
    with pytest.raises(ValueError, match="60 can be chosen"):
        choose(posterior, X, q, 0.5)


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
