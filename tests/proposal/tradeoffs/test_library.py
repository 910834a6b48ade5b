"""Batches for several targets from a library, against dense algebra and plain greedy choice."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
import torch

import beebo_scale as bs
from beebo_scale.information import information_gain
from beebo_scale.proposal.tradeoffs import search
from beebo_scale.proposal.tradeoffs.aims import aims_of
from beebo_scale.proposal.tradeoffs.greedy import TradeoffGreedy, moments
from beebo_scale.proposal.tradeoffs.samples import JointSamples
from beebo_scale.proposal.tradeoffs.worth import information
from beebo_scale.specs import Choice, Limits
from tests.helpers import close, uniform

AIMS = {"yield": "max", "cost": "min"}


def frame_of(n, seed=0):
    rows = pd.DataFrame(uniform(n, 2, seed=seed).numpy(), columns=["x", "y"])
    rows["acid"] = np.array(list("abc"))[np.arange(n) % 3]
    rows["temp"] = np.arange(n) // 3 % 4 * 10.0
    rows["yield"] = 50 + 20 * np.sin(4 * rows["x"]) + 10 * rows["y"] + rows["temp"] / 4
    rows["cost"] = np.exp(rows["y"] + rows["x"] ** 2 + 0.3 * (rows["acid"] == "c"))
    rows["purity"] = 90 + 8 * rows["x"] - 4 * rows["y"] ** 2
    return rows


FEATURES = ["x", "y", "acid", "temp"]
LIBRARY = frame_of(240, 5)[FEATURES]


@pytest.fixture(scope="module")
def surrogate():
    return bs.fit(bs.read_table(frame_of(30), AIMS, features=FEATURES))


@pytest.fixture(scope="module")
def limited():
    return bs.fit(bs.read_table(frame_of(30), AIMS, features=FEATURES, require=["purity>=94"]))


def test_posterior_of_all_targets(surrogate):
    X = surrogate.encoder.encode(bs.read_library(LIBRARY[:5], surrogate.encoder.kinds))
    pairs = surrogate.design.of_pairs(surrogate.of_rows)
    mean, covar = pairs.mean_and_covar(X)
    each = [surrogate.design.of_task(surrogate.of_rows, i) for i in (0, 1)]
    close(mean.reshape(5, 2), torch.stack([one.mean(X) for one in each], -1))
    close(covar[::2, ::2], each[0].covar(X))
    close(covar[1::2, 1::2], each[1].covar(X))
    _, V, noise, _ = moments(pairs, X)
    close(V, torch.stack([covar[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] for i in range(5)]))
    given = pairs.augment(X[:2])
    block, s = covar[:4, :4] + noise[:2].flatten().diag(), covar[4:, :4]
    close(given.covar(X[2:]), covar[4:, 4:] - s @ torch.linalg.solve(block, s.mT))


def test_samples_are_joint_and_do_not_change(surrogate):
    X = surrogate.encoder.encode(bs.read_library(LIBRARY[:6], surrogate.encoder.kinds))
    pairs = surrogate.design.of_pairs(surrogate.of_rows)
    mean, _, _, F = moments(pairs, X)
    samples = JointSamples(pairs, 40_000, 3, 100)
    parts = [samples.at(X[a:b], mean[a:b], F[2 * a : 2 * b]) for a, b in ((0, 2), (2, 3), (3, 6))]
    f = torch.cat(parts, dim=1).flatten(1)
    close(f.mean(0), mean.flatten(), 1e-9, 1e-9)  # mirrored
    torch.testing.assert_close(f.mT.cov(), pairs.covar(X), rtol=0.05, atol=0.02)


@pytest.mark.parametrize("temperature", [0.0, 0.5])
def test_lazy_choice_is_plain_greedy_choice(surrogate, temperature):
    """Of the function that the samples make, with all rows drawn at once and gains from whole matrices."""
    choice = Choice(q=5, library="-", temperature=temperature)
    aims = aims_of(surrogate, choice)
    X = surrogate.encoder.encode(bs.read_library(LIBRARY[:40], surrogate.encoder.kinds))
    worth = aims.worth(5, 64)
    state = TradeoffGreedy(aims.posterior, X, worth, temperature, 5, 64, 0)
    state._look_again(torch.arange(40))  # the same draw for both
    state.age[:] = -1
    first = state.energy.clone()
    state.energy = worth.alone(state.mean, state.V)
    assert float((first - state.energy).abs().max()) < 0.35 * float(first.max())
    reached, C, noise = state.reached.clone(), aims.posterior.covar(X), state.noise.clone()
    state.choose()
    chosen, level, value = [], worth.joint.best.clone(), 0.0
    for _ in range(5):
        gains = []
        for i in range(40):
            pairs = [2 * r + k for r in (*chosen, i) for k in (0, 1)]
            block = information_gain(C[pairs][:, pairs], noise.flatten()[pairs])
            energy = worth.factor * (reached[i] - level).clamp_min(0.0).mean()
            gains.append(float(energy) + temperature * float(block) - value if i not in chosen else -math.inf)
        best = int(np.argmax(gains))
        pairs = [2 * r + k for r in (*chosen, best) for k in (0, 1)]
        value = temperature * float(information_gain(C[pairs][:, pairs], noise.flatten()[pairs]))
        chosen.append(best)
        level = torch.maximum(level, reached[best])
        assert state.gains[len(chosen) - 1] == pytest.approx(gains[best], rel=1e-6)
    assert state.chosen == chosen
    assert state.gains == sorted(state.gains, reverse=True)


def test_no_batch_is_worth_more_than_the_bound(surrogate):
    choice = Choice(q=3, library="-", temperature=0.5)
    aims = aims_of(surrogate, choice)
    X = surrogate.encoder.encode(bs.read_library(LIBRARY[:12], surrogate.encoder.kinds))
    worth = aims.worth(3, 64)
    state = TradeoffGreedy(aims.posterior, X, worth, 0.5, 3, 64, 0)
    state._look_again(torch.arange(12))
    C, noise, reached = aims.posterior.covar(X), state.noise.flatten(), state.reached.clone()
    state.choose()

    def value(batch):
        pairs = [2 * r + k for r in batch for k in (0, 1)]
        over = (reached[list(batch)].amax(0) - worth.joint.best).clamp_min(0.0).mean()
        return float(worth.factor * over + 0.5 * information_gain(C[pairs][:, pairs], noise[pairs]))

    assert sum(state.gains) == pytest.approx(value(state.chosen), rel=1e-6)
    best = max(map(value, itertools.combinations(range(12), 3)))
    assert sum(state.gains) <= best + 1e-9 <= state.bound + 2e-9
    assert sum(state.gains) >= (1 - 1 / math.e) * best


def test_batch_of_a_front(surrogate):
    batch = bs.propose(surrogate, q=8, library=LIBRARY, temperature=0.1)
    certificate, outcomes = batch.run["certificate"], batch.run["outcomes"]
    assert certificate["certified"]
    assert certificate["value"] <= certificate["upper_bound"]
    assert certificate["energy"] == pytest.approx(
        certificate["energy_by_fresh_samples"], abs=5 * certificate["standard_error"]
    )
    assert set(outcomes["reference"]) == set(AIMS)
    assert outcomes["hypervolume"] > 0
    assert {"mean of yield", "mean of cost"} <= set(batch.frame)
    again = bs.propose(surrogate, q=8, library=LIBRARY, temperature=0.1)
    assert again.frame.equals(batch.frame)
    turned = bs.propose(surrogate, q=8, library=LIBRARY, temperature=0.0, reference={"yield": 60, "cost": 2.0})
    assert turned.run["outcomes"]["reference"] == {"yield": 60.0, "cost": 2.0}
    assert (turned.frame["mean of cost"] < 2.5).mean() > 0.5


@pytest.mark.slow
def test_limits_and_rules_of_the_plate(limited):
    rules = Limits({"acid": 4}, at_most_distinct={"temp": 1, "acid": 2})
    batch = bs.propose(limited, q=6, library=LIBRARY, temperature=0.1, limits=rules)
    assert batch.frame["temp"].nunique() == 1
    assert batch.frame["acid"].nunique() <= 2
    assert batch.frame["acid"].value_counts().max() <= 4
    assert batch.run["certificate"]["value"] <= batch.run["certificate"]["upper_bound"]
    assert batch.run["certificate"]["selections"] == 12
    free = bs.propose(limited, q=6, library=LIBRARY, temperature=0.0)
    assert (free.frame["mean of purity"] > 93.5).mean() > 0.8
    assert free.run["outcomes"]["measured_inside_limits"] > 0


@pytest.mark.slow
def test_one_target_with_a_limit_and_with_none_that_is_kept():
    rows = frame_of(30)
    for require, words in (["purity>=95", "cost<=2.5"], ""), (["purity>=99"], "no measured row keeps purity >= 99 yet"):
        surrogate = bs.fit(bs.read_table(rows, "yield", features=FEATURES, require=require))
        batch = bs.propose(surrogate, q=5, library=LIBRARY, temperature=0.0)
        assert words in "".join(batch.notes)
        assert bool(words) == bool(batch.notes)
        assert batch.frame["mean of purity"].mean() > (94.5 if not words else 95.0)
        small = bs.propose(surrogate, q=5, library=LIBRARY, temperature=0.0, minimize=True)
        assert words or small.frame["mean of yield"].mean() < batch.frame["mean of yield"].mean()


def test_pending_rows_inform(surrogate):
    first = bs.propose(surrogate, q=4, library=LIBRARY, temperature=2.0)
    pending = first.frame[FEATURES]
    second = bs.propose(surrogate, q=4, library=LIBRARY, temperature=2.0, pending=pending)
    assert not pd.merge(second.frame[FEATURES], pending).size


def test_information_is_that_of_single_points(surrogate):
    X = surrogate.encoder.encode(bs.read_library(LIBRARY[:4], surrogate.encoder.kinds))
    pairs = surrogate.design.of_pairs(surrogate.of_rows)
    _, V, noise, _ = moments(pairs, X)
    alone = [information_gain(pairs.covar(x[None]), pairs.noise(x[None])) for x in X]
    close(information(V, noise), torch.stack(alone))


@pytest.mark.slow
def test_bounds_of_many_rows(limited, surrogate, monkeypatch):
    """What takes the place of scores in large libraries is never below them, and chooses the same batch."""
    for own, rtol in ((surrogate, 1e-9), (limited, 1e-9)):
        X = own.encoder.encode(bs.read_library(LIBRARY, own.encoder.kinds))
        aims = aims_of(own, Choice(q=4, library="-", temperature=0.5))
        posterior, coarse = aims.posterior, aims.posterior.coarse(6)
        mean, V, noise, _ = moments(posterior, X)
        close(posterior.mean(X), mean.flatten(), rtol, rtol)
        _, wide, _, _ = moments(coarse, X)
        assert coarse.rank == 6 * len(own.design.tasks)
        assert bool((torch.linalg.eigvalsh(wide - V) > -1e-9).all())
        worth = aims.worth(4, 128)
        variance = wide.diagonal(dim1=-2, dim2=-1)
        alone, ceiling = worth.alone(mean, V), worth.ceiling(mean, variance)
        assert bool((ceiling >= alone - 0.02 * alone.max()).all())  # both by quadrature
        assert bool((information(wide, noise) >= information(V, noise) - 1e-9).all())
    before = bs.propose(surrogate, q=4, library=LIBRARY[:150], temperature=0.5)
    monkeypatch.setattr(search, "COARSE", 6)
    assert bs.propose(surrogate, q=4, library=LIBRARY[:150], temperature=0.5).frame.equals(before.frame)


@pytest.mark.slow
def test_bounds_with_one_target_and_limits():
    for require in (["purity>=93", "cost<=4"], ["purity>=99"]):
        own = bs.fit(bs.read_table(frame_of(30), "yield", features=FEATURES, require=require))
        X = own.encoder.encode(bs.read_library(LIBRARY, own.encoder.kinds))
        aims = aims_of(own, Choice(q=4, library="-"))
        mean, V, _, _ = moments(aims.posterior, X)
        _, wide, _, _ = moments(aims.posterior.coarse(6), X)
        worth = aims.worth(4, 128)
        ceiling = worth.ceiling(mean, wide.diagonal(dim1=-2, dim2=-1))
        assert bool((ceiling >= worth.alone(mean, V) - 0.01).all())
