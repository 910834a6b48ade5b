import math

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import norm

import beebo_scale as bs
from beebo_scale.surrogates.data.choose_transform import choose_transform, log_density, transform_scores
from beebo_scale.surrogates.data.target import TargetScale
from tests.helpers import close, normal, uniform


def screen(shape, n=120, seed=0, noise=0.1):
    """y = shape(f + noise), f smooth in two settings."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(n, 2))
    f = np.sin(4 * x[:, 0]) + x[:, 1] ** 2 + noise * rng.standard_normal(n)
    return bs.read_table(pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": shape(f)}), target="y")


SHAPES = {
    "none": lambda f: f,
    "log": lambda f: np.exp(3 * f),
    "sqrt": lambda f: (f + 1.2).clip(0) ** 2,
    "rank": lambda f: np.sign(f - 0.9) * np.abs(f - 0.9) ** 5 * 1e3,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_the_transform_that_makes_the_target_smooth_is_found(name):
    table = screen(SHAPES[name])
    scores = transform_scores(table)
    assert choose_transform(table) == min(scores, key=scores.get) == name
    assert all(math.isfinite(score) for score in scores.values())


@pytest.mark.slow
def test_scores_are_in_the_targets_own_units():
    table = screen(SHAPES["log"])
    scaled = screen(lambda f: 1000 * SHAPES["log"](f))
    before, after = transform_scores(table), transform_scores(scaled)
    for name, score in before.items():
        assert after[name] == pytest.approx(score + math.log(1000), abs=0.02)


@pytest.mark.slow
def test_a_choice_has_a_seed_and_keeps_replicates_together():
    table = screen(SHAPES["none"], n=60)
    frame = pd.concat([table.frame.assign(y=table.y)] * 2)  # every row twice: a leak would give a huge density
    doubled = bs.read_table(frame, target="y")
    assert transform_scores(table, seed=1) == transform_scores(table, seed=1)
    assert transform_scores(doubled, seed=1)["none"] > transform_scores(table, seed=1)["none"] - 0.5


def test_fit_takes_the_choice():
    table = screen(SHAPES["log"])
    surrogate = bs.fit(table, transform="held-out")
    assert surrogate.scale.transform == "log"
    assert surrogate.summary()["noise_std_of"] == "logarithm of target"
    mean, std = surrogate.predict(table)
    assert np.corrcoef(np.log(mean), np.log(table.y))[0, 1] > 0.95
    assert (std > 0).all()


def test_ranks_survive_a_file(tmp_path):
    surrogate = bs.fit(screen(SHAPES["rank"], n=40), transform="rank")
    surrogate.save(tmp_path / "model.ckpt")
    again = bs.load_surrogate(tmp_path / "model.ckpt")
    assert again.scale == surrogate.scale
    table = screen(SHAPES["rank"], n=10, seed=1)
    np.testing.assert_array_equal(again.predict(table), surrogate.predict(table))


def test_known_noise_leaves_the_target_as_it_is():
    frame = pd.DataFrame({"a": np.arange(20.0), "y": np.exp(np.arange(20.0)), "v": 1.0})
    assert choose_transform(bs.read_table(frame, target="y", features=["a"], noise_variance="v")) == "none"


@pytest.mark.parametrize("transform", ["none", "sqrt", "log"])
def test_density_of_a_small_cell_is_that_of_the_jacobian(transform):
    y = 0.5 + 3 * uniform(50)
    scale = TargetScale.of(y, transform)
    mean, std = 0.3 * normal(50), 0.2 + uniform(50, seed=1)
    slope = {"none": torch.ones_like(y), "sqrt": 0.5 / y.sqrt(), "log": 1 / y}[transform] / scale.scale
    expected = torch.from_numpy(norm.logpdf(scale.standardise(y), mean, std)) + slope.log()
    close(log_density(scale, y, mean, std, 1e-4), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("transform", ["none", "sqrt", "log", "rank"])
def test_cells_share_out_all_probability(transform):
    y = uniform(100).square() + 1e-3
    scale = TargetScale.of(y, transform)
    width = 2e-3
    cells = width / 2 + width * torch.arange(-40_000, 40_000, dtype=torch.float64)
    mean, std = torch.tensor(0.5, dtype=torch.float64), torch.tensor(0.8, dtype=torch.float64)
    p = width * log_density(scale, cells, mean, std, width).exp()
    assert float(p.sum()) == pytest.approx(1.0, abs=1e-5)  # a logarithm has a long tail
    if transform in ("sqrt", "log"):
        assert float(p[cells < 0].sum()) == 0.0


def test_far_out_the_density_is_small_but_finite():
    scale = TargetScale(0.0, 1.0)
    far = torch.tensor([-1e6, -50.0, 50.0, 1e6], dtype=torch.float64)
    logs = log_density(scale, far, torch.zeros(4).double(), torch.ones(4).double(), 1e-3)
    assert bool(torch.isfinite(logs).all())
    assert float(logs[1]) == pytest.approx(norm.logpdf(50), rel=1e-3)
    close(logs, logs.flip(0))


def test_too_few_rows():
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0, 5.0], "y": [1.0, 2.0, 0.0, 1.0, 2.0]})
    with pytest.raises(bs.InputError, match="5 distinct inputs are too few"):
        choose_transform(bs.read_table(frame, target="y"))
