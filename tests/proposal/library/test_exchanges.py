import itertools

import pytest
import torch

import beebo_scale as bs
from beebo_scale.proposal.library.certified import choose_certified
from beebo_scale.proposal.library.exchanges import _Moments, improve, improve_batch
from beebo_scale.proposal.library.lazy_greedy import greedy
from beebo_scale.screening.library import open_library
from beebo_scale.specs import Choice, Limits
from tests.helpers import close, uniform
from tests.proposal.library.test_certified import KINDS, D, encoded, frame_of, library_of, toy

ENERGIES = {"mean": bs.MeanEnergy(), "softmax": bs.SoftmaxEnergy(), "softmax with f_max": bs.SoftmaxEnergy(2.0, 0.5)}


def acquisition(name="exact", energy="softmax", temperature=0.5, **more):
    return bs.BatchedEnergyEntropy(toy(name).posterior, temperature, ENERGIES[energy], **more)


def start_of(acqf, X, q):
    return greedy(acqf.conditioned, X, q, acqf.temperature, acqf.sign)[0]


def exchanges(X, batch):
    """All batches that differ from one in one row."""
    others = [row for row in range(len(X)) if row not in batch.tolist()]
    for i, row in itertools.product(range(len(batch)), others):
        swapped = batch.clone()
        swapped[i] = row
        yield swapped


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("energy", ENERGIES)
@pytest.mark.parametrize("name", ["exact", "sparse"])
def test_swaps_never_lower_the_value_and_end_where_none_helps(name, energy, temperature):
    acqf, X = acquisition(name, energy, temperature), uniform(30, D, seed=5)
    start = start_of(acqf, X, 5)
    swapped = improve(acqf, X, start)
    assert swapped.before == pytest.approx(float(acqf(X[start])), rel=1e-12)
    assert swapped.after == pytest.approx(float(acqf(X[swapped.places])), rel=1e-12)
    assert swapped.after >= swapped.before
    assert (swapped.after > swapped.before) == (swapped.swaps > 0)
    assert len(set(swapped.places.tolist())) == 5
    assert swapped.settled
    best = max(float(acqf(X[batch])) for batch in exchanges(X, swapped.places))
    assert best <= swapped.after + 1e-9 * abs(swapped.after)  # 125 exchanges, half of which were tried at the end


def test_a_bad_start_becomes_good():
    """From the worst rows by the mean to the best ones, if nothing else counts."""
    acqf, X = acquisition(energy="mean", temperature=0.0), uniform(40, D, seed=5)
    ranked = acqf.posterior.mean(X).argsort()
    swapped = improve(acqf, X, ranked[:6])
    assert sorted(swapped.places.tolist()) == sorted(ranked[-6:].tolist())
    assert swapped.swaps == 6


def test_softmax_swaps_find_more_than_the_mean_batch():
    acqf, X = acquisition(energy="softmax", temperature=0.05), uniform(60, D, seed=5)
    swapped = improve(acqf, X, start_of(acqf, X, 6))
    assert swapped.after > swapped.before + 1e-3
    assert swapped.swaps > 0


def test_a_limit_of_swaps():
    acqf, X = acquisition(energy="mean", temperature=0.0), uniform(40, D, seed=5)
    swapped = improve(acqf, X, acqf.posterior.mean(X).argsort()[:6], most=2)
    assert (swapped.swaps, swapped.settled) == (2, False)


def test_estimates_are_exact_for_the_mean_energy():

    acqf, X = acquisition("sparse", "mean", 0.7), uniform(20, D, seed=5)
    with torch.no_grad():
        mean, covar = acqf.conditioned.mean_and_covar(X)
        moments = _Moments(acqf, X, mean, covar, acqf.conditioned.noise(X))
        batch, others = torch.arange(6), torch.arange(6, 20)
        values = torch.stack([acqf(X[b]).squeeze() for b in exchanges(X, batch)]).reshape(6, 14)
        close(moments.estimated_rise(batch, others), values - acqf(X[batch]), rtol=1e-8, atol=1e-8)


def test_exchanges_at_which_the_energy_does_not_hold_are_passed_over(monkeypatch):
    acqf, X = acquisition(), uniform(30, D, seed=5)
    true_call = bs.SoftmaxEnergy.__call__
    forbidden = float(acqf.posterior.mean(X[7:8]))

    def call(self, mean, covar, amplitude):
        if (mean == acqf.posterior.mean(X)[7]).any() or (mean == forbidden).any():
            raise ValueError("the softmax energy does not hold")
        return true_call(self, mean, covar, amplitude)

    start = torch.tensor([0, 1, 2, 3])
    free = improve(acqf, X, start)
    assert 7 in free.places.tolist()
    monkeypatch.setattr(bs.SoftmaxEnergy, "__call__", call)
    swapped = improve(acqf, X, start)
    assert 7 not in swapped.places.tolist()
    assert swapped.swaps > 0


@pytest.mark.parametrize("maximize", [True, False])
def test_a_batch_from_a_library(maximize, tmp_path):
    X = uniform(200, D, seed=5)
    copies = torch.cat([X, X[::2]])
    frame_of(copies).to_csv(tmp_path / "library.csv", index=False)
    library = encoded(open_library(tmp_path / "library.csv", KINDS, "id", chunk_rows=64))
    asked = Choice(q=8, temperature=0.1, minimize=not maximize)
    acqf = acquisition(temperature=0.1, maximize=maximize)
    choice = choose_certified(acqf.posterior, library, asked)
    joint = improve_batch(acqf, library, choice)
    assert torch.equal(copies[joint.rows], joint.X)
    assert len(torch.unique(joint.X, dim=0)) == 8
    record = joint.record
    assert record["acquisition_value_before_swaps"] == pytest.approx(float(acqf(choice.X)), rel=1e-12)
    assert record["acquisition_value"] >= record["acquisition_value_before_swaps"]
    assert record["acquisition_value"] == pytest.approx(float(acqf(joint.X)), rel=1e-9)
    assert record["swaps"] > 0
    assert float(joint.gain.sum()) == pytest.approx(record["acquisition_value"], rel=1e-9)
    again = improve_batch(acqf, library, choice)
    assert torch.equal(again.rows, joint.rows)


@pytest.mark.slow
def test_swaps_keep_to_the_limits():
    X = uniform(200, D, seed=5)
    group = (X[:, 0] * 6).long()
    limits = Limits({"scaffold": 2}, 0.2)
    library = library_of(X, labels=["scaffold"], scaffold=group.numpy())
    acqf, asked = acquisition(temperature=0.1), Choice(q=8, temperature=0.1)
    limited, unlimited = encoded(library, limits=limits), encoded(library)
    joint = improve_batch(acqf, limited, choose_certified(acqf.posterior, limited, asked))
    assert joint.record["swaps"] > 0
    assert int(torch.bincount(group[joint.rows]).max()) <= 2
    assert float(torch.pdist(joint.X).min()) >= 0.2
    free = improve_batch(acqf, unlimited, choose_certified(acqf.posterior, unlimited, asked))
    assert free.record["acquisition_value"] >= joint.record["acquisition_value"]
