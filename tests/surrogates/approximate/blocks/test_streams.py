"""The readers of a posterior take that of blocks as they take any other, and ask for its blocks one after another."""

import pytest
import torch

import beebo_scale as bs
from beebo_scale.proposal.box.multistart import optimize_box
from beebo_scale.proposal.box.space import Space
from beebo_scale.proposal.library import lazy_greedy
from beebo_scale.proposal.library.exclusion import Rules
from beebo_scale.specs import BoxSearch
from beebo_scale.surrogates.approximate.blocks import posterior as blocks
from beebo_scale.surrogates.approximate.blocks.fit import added
from tests.helpers import close, half_logdet, uniform
from tests.proposal.library.test_certified import choose, full_greedy, library_of
from tests.surrogates.approximate.blocks.toys import D, dense


class Known:
    """The model by whole matrices, as `full_greedy` asks for it."""

    def __init__(self, toy):
        self.posterior, self.mean, self.covar = toy.posterior, lambda X: toy.moments(X)[0], lambda X: toy.moments(X)[1]


@pytest.fixture(scope="module")
def toy():
    return dense()


@pytest.mark.parametrize("chunk_rows", [17, 40, 300])
@pytest.mark.parametrize("large", [0, 2**31])
def test_a_library_is_chosen_from_as_by_whole_matrices(toy, monkeypatch, chunk_rows, large):
    monkeypatch.setattr(blocks, "LARGE", large)
    monkeypatch.setattr(blocks, "COLLECTED", 10)
    X, q = uniform(200, D, seed=50), 9
    rows, gains = full_greedy(Known(toy), X, q, 0.5)
    batch = choose(toy.posterior, library_of(X, chunk_rows=chunk_rows), q)
    assert batch.certificate["certified"]
    assert batch.rows.tolist() == rows
    close(batch.gain, gains, rtol=1e-6, atol=1e-7)


def test_each_block_is_made_once_for_a_pass(toy, monkeypatch):
    monkeypatch.setattr(blocks, "LARGE", 0)
    monkeypatch.setattr(blocks, "COLLECTED", 1000)
    monkeypatch.setattr(lazy_greedy, "SCORED_AT_ONCE", 16)
    posterior, made = toy.rows.posterior(added(toy.rows), memory=0), []
    original = blocks.BlocksPosterior._made
    monkeypatch.setattr(blocks.BlocksPosterior, "_made", lambda self, b: made.append(b) or original(self, b))
    batch = choose(posterior, library_of(uniform(200, D, seed=51), chunk_rows=20), 4)
    assert batch.certificate["certified"]
    assert len(made) <= 3 * len(toy.rows.partition)  # scores, shortlist, and the rows for the bound


def test_pending_rows_and_the_acquisition(toy):
    X, pending = uniform(5, D, seed=52), uniform(4, D, seed=53)
    C, sigma2 = toy.moments(torch.cat([X, pending]))[1], toy.posterior.noise(torch.cat([X, pending]))
    given = C[:5, :5] - C[:5, 5:] @ torch.linalg.solve(C[5:, 5:] + sigma2[5:].diag(), C[5:, :5])
    expected = toy.moments(X)[0].sum() + 0.5 * half_logdet(given, sigma2[:5])
    acqf = bs.BatchedEnergyEntropy(toy.posterior, 0.5, X_pending=pending)
    assert float(acqf(X)) == pytest.approx(float(expected), rel=1e-6)
    batch = choose(toy.posterior, library_of(uniform(60, D, seed=54)), 3, rules=Rules(pending=pending))
    assert batch.certificate["certified"]


@pytest.mark.slow
def test_a_box_is_searched(toy):
    acqf = bs.BatchedEnergyEntropy(toy.posterior, 0.5)
    space = Space(torch.tensor([[0.0] * D, [1.0] * D], dtype=torch.float64))
    X, value, _ = optimize_box(acqf, space, 6, BoxSearch(restarts=2, steps=40))
    assert float(acqf(X)) == pytest.approx(value, rel=1e-8)
    assert value > max(float(acqf(uniform(6, D, seed=seed))) for seed in range(30))
