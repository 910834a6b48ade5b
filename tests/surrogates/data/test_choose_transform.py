import math

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import norm

import beebo_scale as bs
from beebo_scale.surrogates.data import choose_transform as module
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


def ec50(n, seed=1):
    """y = 10^(3 z), z smooth in two columns: six orders of magnitude."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(n, 2))
    z = np.sin(5 * x[:, 0]) * np.cos(4 * x[:, 1]) + 0.05 * rng.standard_normal(n)
    return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": 10 ** (3 * z)})


@pytest.mark.slow
def test_auto_finds_the_good_end_of_a_minimised_target():
    """The root sees nothing there: with log the best rows come first, with sqrt they are found by chance."""
    frame = ec50(600)
    table, pool = bs.read_table(frame[:60], target="y"), bs.read_table(frame[60:], target="y")
    best = set(np.argsort(pool.y)[:25])
    found = {}
    for transform in ("auto", "log", "sqrt"):
        surrogate = bs.fit(table, transform=transform, minimize=True)
        with torch.no_grad():
            mean = surrogate.posterior().mean(surrogate.encoder.encode(pool))
        found[transform] = len(best & set(mean.argsort()[:50].tolist()))
    assert found["auto"] == found["log"] > 22
    assert found["sqrt"] < 5  # 50 of 540 at random would find 2


def test_cells_share_out_the_line_and_the_median_parts_good_from_bad():
    y = torch.tensor([2.0, 10.0, 1.0, 5.0, 2.0, 9.0], dtype=torch.float64)
    low, high = module._cells(y)
    close(low, torch.tensor([1.5, 9.5, 0.5, 3.5, 1.5, 7.0], dtype=torch.float64))
    close(high, torch.tensor([3.5, 10.5, 1.5, 7.0, 3.5, 9.5], dtype=torch.float64))
    for minimize in (True, False):
        good, edge = module._good(y, low, high, minimize)
        assert good.tolist() == [minimize == (value < 3.5) for value in y.tolist()]
        assert float(edge) == 3.5


@pytest.mark.slow
@pytest.mark.parametrize("minimize", [None, False, True])
def test_the_true_transform_has_the_best_score_from_either_end(minimize):
    scores = transform_scores(screen(SHAPES["log"], n=90), minimize=minimize)
    assert min(scores, key=scores.get) == "log"


@pytest.mark.slow
def test_auto_asks_no_rows_where_it_need_not(monkeypatch):
    monkeypatch.setattr(module, "_compared", lambda *_: pytest.fail("compared"))
    plain = screen(SHAPES["none"])
    assert bs.fit(plain).scale.transform == "none"  # near to normal
    few = plain.frame.assign(y=np.exp(3 * plain.y))[:9]
    assert bs.fit(bs.read_table(few, target="y")).scale.transform == "sqrt"  # the rule
    known = few.assign(v=1.0)
    assert bs.fit(bs.read_table(known, target="y", noise_variance="v")).scale.transform == "none"
    two = plain.frame.assign(y=np.exp(3 * plain.y), w=plain.y)
    fitted = bs.fit(bs.read_table(two, target={"y": 1.0, "w": 1.0}))
    assert [task.scale.transform for task in fitted.design.tasks] == ["sqrt", "none"]


def nlpd(mean, seed=0):
    return mean + 0.5 * normal(100, seed=seed)


@pytest.mark.parametrize(
    ("compared", "usual", "chosen"),
    [
        ({"none": nlpd(1.0), "log": nlpd(0.5), "rank": nlpd(1.2)}, "none", "log"),
        ({"none": nlpd(1.0), "log": nlpd(0.99, seed=1) - 0.01, "rank": nlpd(1.2)}, "none", "none"),  # within the error
        ({"none": nlpd(1.0), "log": nlpd(0.99), "rank": nlpd(1.2)}, None, "log"),
        ({"none": nlpd(1.0), "rank": nlpd(0.1)}, "sqrt", "rank"),
    ],
)
def test_which_is_chosen(compared, usual, chosen):
    assert module._chosen(compared, usual) == chosen


@pytest.mark.slow
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
    close(log_density(scale, y - 5e-5, y + 5e-5, mean, std), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("transform", ["none", "sqrt", "log", "rank"])
def test_cells_share_out_all_probability(transform):
    y = uniform(100).square() + 1e-3
    scale = TargetScale.of(y, transform)
    width = 2e-3
    edges = width * torch.arange(-40_000, 40_001, dtype=torch.float64)
    low, high = edges[:-1], edges[1:]
    mean, std = torch.tensor(0.5, dtype=torch.float64), torch.tensor(0.8, dtype=torch.float64)
    p = width * log_density(scale, low, high, mean, std).exp()
    assert float(p.sum()) == pytest.approx(1.0, abs=1e-5)  # a logarithm has a long tail
    if transform in ("sqrt", "log"):
        assert float(p[high <= 0].sum()) == 0.0


def test_far_out_the_density_is_small_but_finite():
    scale = TargetScale(0.0, 1.0)
    far = torch.tensor([-1e6, -50.0, 50.0, 1e6], dtype=torch.float64)
    logs = log_density(scale, far - 5e-4, far + 5e-4, torch.zeros(4).double(), torch.ones(4).double())
    assert bool(torch.isfinite(logs).all())
    assert float(logs[1]) == pytest.approx(norm.logpdf(50), rel=1e-3)
    close(logs, logs.flip(0))


def test_too_few_rows():
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0, 5.0], "y": [1.0, 2.0, 0.0, 1.0, 2.0]})
    with pytest.raises(bs.InputError, match="5 distinct inputs are too few"):
        choose_transform(bs.read_table(frame, target="y"))
