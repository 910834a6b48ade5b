"""The baselines against plain reimplementations."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from linear_operator.utils.warnings import NumericalWarning

import beebo_scale as bs
from beebo_scale import InputError, MeanEnergy, SoftmaxEnergy
from beebo_scale.screening import Encoder
from beebo_scale.simulation import Fitting, Steps
from beebo_scale.simulation.baselines.forest import RandomForest, indicators
from beebo_scale.simulation.baselines.monte_carlo import JointPosteriorModel, MonteCarlo
from beebo_scale.simulation.problems import functions
from beebo_scale.simulation.strategies import (
    Beebo,
    Greedy,
    MaxBeebo,
    Random,
    Thompson,
    UpperConfidence,
    best,
    joint_samples,
    kappa_of,
    winners,
)
from tests.helpers import close, exact_toy, uniform
from tests.simulation.helpers import (
    LETTERS,
    mixed_landscape,
    protein_frame,
    protein_landscape,
    square_grid,
    state_of,
    textbook,
)

SHORT = Fitting(iterations=15)


def brute_force(state, surrogate, width):
    """Scores of all rows that are open, by row."""
    rows = [row for row in range(len(state.world)) if row not in state.points]
    mean, std = textbook(surrogate, surrogate.encoder.encode(state.world.rows.take(np.array(rows))))
    return dict(zip(rows, (state.sign * mean + width * std).tolist(), strict=True))


@pytest.mark.parametrize("minimize", [False, True])
@pytest.mark.parametrize(("strategy", "width"), [(Greedy(SHORT), 0.0), (UpperConfidence(SHORT, kappa=2.25), 1.5)])
def test_greedy_and_ucb_take_the_best_scores(strategy, width, minimize):
    state = state_of(mixed_landscape(minimize=minimize))
    surrogate = strategy.fit(state)
    scores = brute_force(state, surrogate, width)
    chosen = strategy.choose(state, surrogate)
    top = sorted(scores.values(), reverse=True)[: state.q]
    close(torch.tensor([scores[row] for row in chosen]), torch.tensor(top), rtol=1e-7, atol=1e-7)
    assert len(set(chosen)) == state.q


@pytest.mark.slow
def test_to_minimise_is_to_maximise_the_negative():
    frame = protein_frame()
    frame["y"] += np.random.default_rng(0).normal(size=64) / 50
    fitting = Fitting(transform="none", iterations=15)
    picks = []
    for sign in (1.0, -1.0):
        world = bs.Landscape.read(frame.assign(y=sign * frame["y"]), "y", {"variant": "protein"}, minimize=sign < 0)
        for strategy in (
            Greedy(fitting),
            UpperConfidence(fitting),
            RandomForest(trees=10),
            Beebo(fitting),
            MaxBeebo(fitting),
        ):
            state = state_of(world, count=20)
            picks.append(strategy.choose(state, strategy.fit(state)).tolist())
    assert picks[:5] == picks[5:]


def test_beebo_without_temperature_is_greedy():
    state = state_of(mixed_landscape())
    beebo, greedy = Beebo(SHORT, Steps((0.0,))), Greedy(SHORT)
    surrogate = greedy.fit(state)
    assert sorted(beebo.choose(state, surrogate)) == sorted(greedy.choose(state, surrogate))


def test_samples_have_the_moments_of_the_posterior():
    toy, X = exact_toy(), uniform(6, 2, seed=5)
    samples = joint_samples(toy.posterior, X, 40_000, torch.Generator().manual_seed(1))
    scale = toy.covar(X).diagonal().max().sqrt()
    close(samples.mean(-1), toy.mean(X), rtol=0.0, atol=4.0 * scale / 200)
    close(torch.cov(samples), toy.covar(X), rtol=0.0, atol=0.03 * scale**2)


def test_samples_of_the_same_point_twice_agree():
    toy, X = exact_toy(), uniform(3, 2, seed=5)
    samples = joint_samples(toy.posterior, torch.cat([X, X]), 50, torch.Generator().manual_seed(1))
    assert (samples[:3] - samples[3:]).abs().max() < 1e-2
    assert samples[0].std() > 0.1


def test_each_sample_picks_its_best_that_is_left():
    samples = torch.tensor([[3.0, 9.0, 1.0], [2.0, 8.0, 7.0], [5.0, 10.0, 9.0], [1.0, 0.0, 2.0]])
    assert winners(samples).tolist() == [2, 0, 1]


@pytest.mark.slow
def test_thompson_follows_the_probability_of_being_best():
    """One sample a batch: how often a row is chosen is how often it is the best of the joint posterior."""
    world = mixed_landscape()
    state = state_of(world, q=1)
    strategy = Thompson(SHORT)
    surrogate = strategy.fit(state)
    counts = np.zeros(len(world))
    for seed in range(400):
        (row,) = strategy.choose(replace(state, seed=seed), surrogate)
        counts[row] += 1
    assert counts[state.points].sum() == 0
    rows = np.setdiff1d(np.arange(len(world)), state.points)
    X = surrogate.encoder.encode(world.rows.take(rows))
    mean, C = surrogate.posterior().mean_and_covar(X)
    w, V = torch.linalg.eigh(C.detach())  # another root than the strategy's
    root = V * w.clamp_min(0).sqrt()
    draws = mean.detach().unsqueeze(-1) + root @ torch.randn(
        len(rows), 20_000, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    share = np.bincount(draws.argmax(0), minlength=len(rows)) / 20_000
    assert np.abs(counts[rows] / 400 - share).max() < 4 * math.sqrt(0.25 / 400)


def test_a_pool_holds_the_most_hopeful():
    state = state_of(mixed_landscape(), q=3)
    strategy = Thompson(SHORT, pool=8)
    surrogate = strategy.fit(state)
    scores = brute_force(state, surrogate, 3.0)
    hopeful = sorted(scores, key=scores.get, reverse=True)[:8]
    assert set(strategy.choose(state, surrogate)) <= set(hopeful)


def test_indicators_are_one_hot():
    world = mixed_landscape()
    some = world.rows.take(np.array([0, 5, 17]))  # without Cs
    encoder = Encoder.from_table(some)
    rows = world.rows.take(np.array([5, 3, 8]))
    features = indicators(encoder, encoder.encode(rows))
    levels = sorted(set(some.frame["base"]))
    naive = [[float(base == level) for level in levels] for base in rows.frame["base"]]
    close(features[:, 1:], torch.tensor(naive), rtol=0, atol=0)
    assert features[1, 1:].sum() == 0  # Cs was not measured
    protein = protein_landscape().rows
    encoder = Encoder.from_table(protein)
    features = indicators(encoder, encoder.encode(protein))
    assert (features.sum(-1) == 2).all()
    same = np.array(
        [
            [sum(a == b for a, b in zip(s, t, strict=True)) for s in protein.frame["variant"][:20]]
            for t in protein.frame["variant"][:20]
        ]
    )
    assert (features[:20] @ features[:20].mT == torch.from_numpy(same)).all()


@pytest.mark.slow
def test_the_forest_is_that_of_scikit_learn():
    ensemble = pytest.importorskip("sklearn.ensemble")
    state = state_of(protein_landscape(), count=20, q=6)
    strategy = RandomForest(trees=20, depth=4)
    chosen = strategy.choose(state, strategy.fit(state))

    def onehot(rows):
        names = state.world.rows.frame["variant"].iloc[rows]
        return np.array([[float(letter == a) for letter in name for a in LETTERS] for name in names])

    rows = np.setdiff1d(np.arange(64), state.points)
    forest = ensemble.RandomForestRegressor(20, max_depth=4, random_state=state.seed, max_features=1.0)
    # Columns without a letter split nothing, but move the forest's own dice: give it all twenty letters.
    wide = indicators(
        Encoder.from_table(state.world.rows), Encoder.from_table(state.world.rows).encode(state.world.rows)
    )
    forest.fit(wide[state.points].numpy(), state.values)
    predicted = dict(zip(rows.tolist(), forest.predict(wide[rows].numpy()), strict=True))
    assert sorted(predicted[row] for row in chosen) == sorted(predicted.values())[-6:]
    assert (wide.sum(0) > 0).sum() == onehot(np.arange(64)).shape[1]


def test_random_rows_are_uniform():
    world = protein_landscape()
    counts = np.zeros(64)
    for seed in range(300):
        state = state_of(world, seed=seed, run_seed=seed)
        rows = Random().choose(state, None)
        assert not set(rows) & set(state.points)
        counts[rows] += 1
    assert counts.min() > 5  # of 23 expected
    assert counts.max() < 45


def test_a_posterior_as_a_botorch_model():
    toy, X = exact_toy(), uniform(2, 5, 2, seed=8)
    posterior = JointPosteriorModel(toy.posterior).posterior(X)
    close(posterior.mean.squeeze(-1), toy.mean(X))
    close(posterior.variance.squeeze(-1), toy.covar(X).diagonal(dim1=-2, dim2=-1))


@pytest.mark.slow
@pytest.mark.parametrize("acquisition", ["ucb", "log-ei"])
def test_one_point_of_botorch_is_the_best_of_a_grid(acquisition):
    world = functions.TestFunction("ackley", 2)
    state = state_of(world, count=6, q=1)
    strategy = MonteCarlo(SHORT, acquisition, kappa=1.0)
    surrogate = strategy.fit(state)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        chosen = strategy.choose(state, surrogate)
    grid = square_grid()

    def value(points):
        X = surrogate.encoder.encode(world.table(points, np.zeros(len(points))))
        mean, std = textbook(surrogate, X)
        if acquisition == "ucb":
            return mean + std
        z = (mean - surrogate.data.y.max()) / std
        normal = torch.distributions.Normal(0.0, 1.0)
        return std * (z * normal.cdf(z) + normal.log_prob(z).exp())

    assert value(chosen) > 0.97 * value(grid).max() - 0.03 * value(grid).max().abs()


@pytest.mark.slow
def test_the_last_round_may_have_another_kappa():
    world = functions.TestFunction("ackley", 2)
    state = replace(state_of(world, count=6, q=2), round=1)
    plain, last = (MonteCarlo(SHORT, kappa=kappa, last_kappa=last) for kappa, last in ((9.0, None), (1.0, 9.0)))
    surrogate = plain.fit(state)
    chosen = []
    for strategy in (plain, last):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            chosen.append(strategy.choose(state, surrogate))
    assert (chosen[0] == chosen[1]).all()
    assert [kappa_of(1.0, 9.0, replace(state, round=k)) for k in (0, 1)] == [1.0, 9.0]
    assert kappa_of(1.0, None, state) == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.0, 0.5])
def test_without_temperature_every_energy_is_the_mean(temperature):
    state = state_of(functions.TestFunction("ackley", 2), count=6, q=4)
    quick = bs.BoxSearch(restarts=1, steps=5, polish=0)
    mean, soft = (Beebo(SHORT, Steps((temperature,)), energy, quick) for energy in (MeanEnergy(), SoftmaxEnergy()))
    surrogate = mean.fit(state)
    same = mean.choose(state, surrogate) == soft.choose(state, surrogate)
    assert same.all() == (temperature == 0.0)


@pytest.mark.parametrize("minimize", [False, True])
def test_max_beebo_shares_the_softmax_with_the_best_measured_value(minimize):
    state = state_of(mixed_landscape(minimize=minimize))
    strategy = MaxBeebo(SHORT)
    surrogate = strategy.fit(state)
    measured = surrogate.scale.standardise(torch.from_numpy(state.values))
    assert strategy.energy_of(state, surrogate).f_max == pytest.approx(float((state.sign * measured).max()))


def test_kappa_and_the_best_scores():
    for strategy in (UpperConfidence, MonteCarlo):
        with pytest.raises(InputError, match="kappa = -1"):
            strategy(kappa=-1.0)
    assert best(torch.tensor([1.0, 3.0, 3.0, 2.0]), 3).tolist() == [1, 2, 3]


def test_samples_of_a_batch_whose_points_have_come_together():
    posterior = exact_toy(30, 2).posterior
    X = torch.full((1, 50, 2), 0.3, dtype=torch.float64, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        samples = JointPosteriorModel(posterior).posterior(X).rsample(torch.Size([64]))  # 64 x 1 x 50 x 1
    assert float(samples.detach().std(-2).max()) < 1e-2 * posterior.amplitude**0.5
    assert torch.autograd.grad(samples.sum(), X)[0].isfinite().all()
