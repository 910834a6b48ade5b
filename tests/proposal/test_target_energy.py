"""Proposals that come close to a value, against plain greedy choice."""

import numpy as np
import pandas as pd
import pytest
import torch

import beebo_scale as bs
from beebo_scale.energy import TargetEnergy


@pytest.fixture(scope="module")
def surrogate():
    x = np.random.default_rng(0).uniform(size=(60, 2))
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": np.sin(5 * x[:, 0]) + x[:, 1]})
    return bs.fit(bs.read_table(frame, target="y"), transform="none")


def library(n=3000):
    x = np.random.default_rng(1).uniform(size=(n, 2))
    return pd.DataFrame({"id": [f"r{i}" for i in range(n)], "a": x[:, 0], "b": x[:, 1]})


def full_greedy(posterior, X, q, T, value, running):
    """All rows, all steps, dense conditioning; the energy with the covariance given what is running."""
    given = posterior if running is None else posterior.augment(running)
    energy = -((posterior.mean(X) - value).square() + given.variance(X)) / posterior.amplitude**0.5
    rows, gains = [], []
    for _ in range(q):
        gain = energy + T * 0.5 * torch.log1p(given.variance(X) / given.noise(X))
        gain[rows] = -torch.inf
        rows.append(int(gain.argmax()))
        gains.append(float(gain.max()))
        given = given.augment(X[rows[-1:]])
    return rows, gains


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.0, 0.05, 0.5])
@pytest.mark.parametrize("pending", [0, 5])
def test_a_library_gives_the_greedy_batch_certified(surrogate, temperature, pending):
    frame, posterior = library(), surrogate.posterior()
    X = surrogate.encoder.encode(bs.read_library(frame, surrogate.encoder.kinds))
    value = float(surrogate.scale.standardise(torch.tensor(0.8)))
    running = frame.iloc[:pending] if pending else None
    batch = bs.propose(
        surrogate, 12, frame, id="id", temperature=temperature, energy=TargetEnergy(value), pending=running
    )
    T = temperature * posterior.amplitude**0.5
    rows, gains = full_greedy(posterior, X[pending:], 12, T, value, X[:pending] if pending else None)
    assert batch.frame["id"].tolist() == frame["id"].iloc[pending:].iloc[rows].tolist()
    np.testing.assert_allclose(batch.frame["gain"], gains, rtol=1e-6, atol=1e-8)
    assert batch.run["certificate"]["certified"]
    assert batch.run["configuration"]["energy"] == {"name": "TargetEnergy", "value": value}


@pytest.mark.slow
def test_a_box_comes_close_to_the_value_without_repeats(surrogate):
    value = float(surrogate.scale.standardise(torch.tensor(0.8)))
    box = {"a": (0, 1), "b": (0, 1)}
    batch = bs.propose(surrogate, 8, bounds=box, temperature=0.0, energy=TargetEnergy(value))
    np.testing.assert_allclose(batch.frame["mean"], 0.8, atol=0.02)
    assert not batch.frame.duplicated(["a", "b"]).any()
    spread = bs.propose(surrogate, 8, bounds=box, temperature=1.0, energy=TargetEnergy(value)).frame
    assert spread["mean"].std() > batch.frame["mean"].std()
    assert (np.diff(spread["gain"]) <= 1e-9).all()


def test_the_value_says_itself_what_is_good(surrogate):
    with pytest.raises(bs.InputError, match="leave minimize as it is"):
        bs.propose(surrogate, 3, library(20), energy=TargetEnergy(0.1), minimize=True)
