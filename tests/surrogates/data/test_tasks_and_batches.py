"""Batch effects and several targets, beside plain numpy algebra."""

import numpy as np
import pandas as pd
import pytest
import torch

import beebo_scale as bs
from beebo_scale.kernels.screen import TaskKernel
from beebo_scale.kernels.stationary import freeze
from beebo_scale.linalg.partition import divided
from beebo_scale.surrogates.approximate.blocks.fit import Rows, added
from beebo_scale.surrogates.approximate.love import LoveOptions, love_posterior
from beebo_scale.surrogates.approximate.sgpr import sgpr_posterior
from beebo_scale.surrogates.approximate.svgp import SVGP
from beebo_scale.surrogates.data.target import Prediction
from beebo_scale.surrogates.data.tasks_and_batches import batch_variance
from beebo_scale.surrogates.gaussian_process.gaussian_process import exact_posterior
from tests.helpers import close, uniform

WEIGHTS = {"y": 0.7, "z": -0.3}


def truth(X):
    return np.sin(5 * X[:, 0]) + X[:, 1]


def screen(n=48, plates=6, size=0.7, seed=0, confounded=False):
    """Rows on plates with offsets; where confounded, a plate holds rows alike. The offsets, and a second target."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    plate = rng.integers(plates, size=n)
    if confounded:
        plate = (X[:, 0] + 0.3 * rng.standard_normal(n)).argsort().argsort() * plates // n
    offset = size * rng.standard_normal(plates)
    y = truth(X) + offset[plate] + 0.1 * rng.standard_normal(n)
    z = 50 - 10 * truth(X) + 5 * X[:, 1] + rng.standard_normal(n)
    labels = [f"P{p}" for p in plate]
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "plate": labels, "y": y, "z": z}), offset


def holes(frame):
    """Some cells of every kind are missing."""
    frame = frame.copy()
    frame.loc[3:6, "plate"] = None
    frame.loc[::4, "z"] = np.nan
    frame.loc[1::4, "y"] = np.nan
    return frame


def kernel(surrogate, X1, X2):
    """Matern-5/2 over the features, its lengthscales as fitted."""
    (matern,) = (part for part in surrogate.gp.kernel.modules() if hasattr(part, "nu"))
    l = matern.lengthscale.detach().numpy()[0]
    r = np.sqrt(5 * (((X1[:, None] - X2[None]) / l) ** 2).sum(-1))
    return (1 + r + r**2 / 3) * np.exp(-r)


def points(count=7, seed=5):
    return uniform(count, 2, seed=seed)


def same(labels):
    return (labels[:, None] == labels[None]) & np.array([[x is not None for x in labels]]).T


# --- batches ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def by_plate():
    frame = holes(screen()[0])
    frame["y"] = frame["y"].fillna(1.0)
    return frame, bs.fit(bs.read_table(frame, "y", features=["a", "b"], batch="plate"), "exact")


def test_posterior_of_f_without_its_plate_in_numpy(by_plate):
    frame, surrogate = by_plate
    X, P = surrogate.measured.numpy(), points()
    A_b, sigma2 = batch_variance(surrogate.gp), surrogate.gp.sigma2.item()
    m = surrogate.gp.mean.constant.item()
    K = kernel(surrogate, X, X) + A_b * same(frame["plate"].to_numpy()) + sigma2 * np.eye(len(X))
    k, y = kernel(surrogate, P.numpy(), X), surrogate.data.y.numpy()
    posterior = surrogate.posterior()
    close(posterior.mean(P).numpy(), m + k @ np.linalg.solve(K, y - m), rtol=1e-8, atol=1e-8)
    C = kernel(surrogate, P.numpy(), P.numpy()) - k @ np.linalg.solve(K, k.T)
    close(posterior.covar(P).numpy(), C, rtol=1e-7, atol=1e-7)
    assert posterior.amplitude == pytest.approx(1.0)  # that of k, without the plates
    close(posterior.noise(P), torch.full((7,), sigma2, dtype=torch.float64))
    summary = surrogate.summary()["batch"]
    assert summary == {"column": "plate", "levels": 6, "variance": A_b}


@pytest.mark.slow
def test_plates_are_told_from_features():
    """Offsets recovered within sampling error; better than without them, and than plates that are centered."""
    frame, offset = screen(160, 16, seed=3, confounded=True)
    grid = np.random.default_rng(9).uniform(size=(300, 2))
    library = bs.read_library(pd.DataFrame(grid, columns=["a", "b"]), {"a": "continuous", "b": "continuous"})
    centered = frame.assign(y=frame["y"] - frame.groupby("plate")["y"].transform("mean"))
    error = {}
    for name, rows, batch in (("term", frame, "plate"), ("none", frame, None), ("centered", centered, None)):
        surrogate = bs.fit(bs.read_table(rows, "y", features=["a", "b"], batch=batch), "exact")
        mean = surrogate.predict(library)[0]
        error[name] = np.std(mean - truth(grid))  # a constant belongs to the plates
        if batch:
            found = batch_variance(surrogate.gp) * surrogate.scale.scale**2
            assert abs(found - offset.var()) < 3 * 0.49 * np.sqrt(2 / 15)
    assert error["term"] < 0.5 * error["none"]
    assert error["term"] < 0.3 * error["centered"]


@pytest.mark.slow
def test_no_effect_where_there_is_none():
    surrogate = bs.fit(bs.read_table(screen(100, 10, size=0.0)[0], "y", features=["a", "b"], batch="plate"), "exact")
    assert batch_variance(surrogate.gp) < 0.01
    assert not surrogate.report.warning


@pytest.mark.slow
def test_known_variances_go_with_plates():
    frame = screen()[0].assign(var=lambda d: 0.01 + 0.01 * d["a"])
    surrogate = bs.fit(bs.read_table(frame, "y", features=["a", "b"], noise_variance="var", batch="plate"))
    assert surrogate.posterior().noise(points()).shape == (7,)
    assert len(bs.propose(surrogate, 3, bounds=[(0, 1), (0, 1)]).frame) == 3


# --- several targets -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def of_two():
    frame = holes(screen()[0])
    return frame, bs.fit(bs.read_table(frame, WEIGHTS, features=["a", "b"], batch="plate"), "exact", transform="none")


def test_posterior_of_the_weighted_sum_in_numpy(of_two):
    frame, surrogate = of_two
    (row, task) = frame[["y", "z"]].notna().to_numpy().nonzero()
    X, P = surrogate.measured.numpy(), points()
    values = ((frame[["y", "z"]] - frame[["y", "z"]].mean()) / frame[["y", "z"]].std()).to_numpy()[row, task]
    close(surrogate.data.y.numpy(), values)
    (between,) = (part for part in surrogate.gp.modules() if isinstance(part, TaskKernel))
    W, v = between.covar_factor.detach().numpy(), between.var.detach().numpy()
    B, w, sigma2 = W @ W.T + np.diag(v), np.array([0.7, -0.3]), surrogate.gp.sigma2.detach().numpy()
    m = surrogate.gp.mean.constant.item()
    plates = same(frame["plate"].to_numpy()[row]) & (task[:, None] == task[None])
    K = kernel(surrogate, X, X) * B[task][:, task] + batch_variance(surrogate.gp) * plates + np.diag(sigma2[task])
    k, kp = kernel(surrogate, P.numpy(), X), kernel(surrogate, P.numpy(), P.numpy())
    for weights, posterior in (
        (w, surrogate.posterior()),
        (np.array([0.0, 1.0]), surrogate.design.of_task(surrogate.of_rows, 1)),
    ):
        cross = k * (B @ weights)[task]
        mean = m * weights.sum() + cross @ np.linalg.solve(K, values - m)
        C = kp * (weights @ B @ weights) - cross @ np.linalg.solve(K, cross.T)
        close(posterior.mean(P).detach().numpy(), mean, rtol=1e-8, atol=1e-8)
        close(posterior.covar(P).numpy(), C, rtol=1e-7, atol=1e-7)
        close(posterior.noise(P).numpy(), np.full(7, weights**2 @ sigma2))
        assert posterior.amplitude == pytest.approx(weights @ B @ weights)
    mean = surrogate.predict_targets(P)["z"].mean
    close(mean, frame["z"].mean() + frame["z"].std() * posterior.mean(P).detach())


def test_a_sum_tells_what_all_that_is_known_says(of_two):
    """Targets that move against each other are learned from each other."""
    surrogate = of_two[1]
    assert surrogate.target == "0.7 y - 0.3 z"
    assert surrogate.summary()["correlation"][0][1] < -0.5
    X = points(200)
    f = 0.7 * truth(X.numpy()) - 0.3 * -10 * truth(X.numpy()) / of_two[0]["z"].std()
    assert np.corrcoef(surrogate.posterior().mean(X).detach(), f)[0, 1] > 0.9


@pytest.mark.parametrize("of", ["by_plate", "of_two"])
def test_every_kind_gives_the_posterior_of_the_exact_one(of, request):
    _, surrogate = request.getfixturevalue(of)
    gp, data, P = surrogate.gp, surrogate.data, points()
    exact = surrogate.posterior()
    model = SVGP(gp, data.X, len(data))
    model.collapse(data)
    love, _ = love_posterior(gp, data, LoveOptions(rank=len(data), mean_tolerance=1e-10, sketch_dtype=None))
    one = Rows.of(gp, data.X[::9], divided(freeze(gp.kernel), lambda i: data.X[i], len(data), len(data)), data)
    for rows in (love, sgpr_posterior(gp, data.X, data), model.posterior(), one.posterior(added(one))):
        posterior = surrogate.design.of_new_points(rows)
        close(posterior.mean(P), exact.mean(P), rtol=1e-4, atol=1e-5)
        close(posterior.adapt(P).covar(P), exact.covar(P), rtol=1e-4, atol=1e-5)
        grown, expected = (p.augment(P[:3], 0.1, P[:3, 0]) for p in (posterior, exact))
        close(grown.mean(P[3:]), expected.mean(P[3:]), rtol=1e-4, atol=1e-4)
    assert exact_posterior(gp, data).points.shape[-1] == data.X.shape[-1]


@pytest.mark.slow
@pytest.mark.parametrize("of", ["by_plate", "of_two"])
def test_choice_and_file(of, request, tmp_path):
    frame, surrogate = request.getfixturevalue(of)
    surrogate.save(tmp_path / "model.ckpt")
    again = bs.load_surrogate(tmp_path / "model.ckpt")
    X = points()
    assert torch.equal(again.posterior().covar(X), surrogate.posterior().covar(X))
    assert again.summary() == surrogate.summary()
    library = pd.DataFrame(points(60).numpy(), columns=["a", "b"])  # without a plate
    batch = bs.propose(again, 4, library=library).frame
    more = [f"{what} of {name}" for name in "yz" for what in Prediction.names()] if of == "of_two" else []
    assert list(batch) == ["rank", "a", "b", "mean", "std", "noiseless_mean", "noiseless_std", "gain", *more]
    box = bs.propose(surrogate, 4, bounds=[(0, 1), (0, 1)], search=bs.BoxSearch(restarts=1, steps=10)).frame
    assert box["gain"].sum() >= batch["gain"].sum() - 1e-3
    target = WEIGHTS if of == "of_two" else "y"
    table = bs.read_table(
        frame.iloc[:40], target, features=["a", "b"], batch="plate"
    )  # other plates: a warm start nonetheless
    warm = bs.fit(table, "exact", warm_start=surrogate, transform="none", iterations=0)
    assert warm.gp.sigma2.tolist() == surrogate.gp.sigma2.tolist()
    with pytest.raises(bs.InputError, match=r"fitted on .* with batches, but table was read with one target without"):
        bs.fit(bs.read_table(frame.dropna(), "y", features=["a", "b"]), warm_start=surrogate)


def test_molecules_have_their_own_columns():
    pytest.importorskip("rdkit")
    frame = pd.DataFrame({"m": ["C", "CC", "CCO", "CCN", "CCCC", "CO"], "plate": list("ababab"), "y": range(6)})
    surrogate = bs.fit(bs.read_table(frame, "y", features={"m": "smiles"}, batch="plate"), iterations=5)
    assert len(bs.propose(surrogate, 1, library=pd.DataFrame({"m": ["CCCO", "CCCCC"]})).frame) == 1


BAD = {
    "one target": (dict(target={"y": 1.0}), "at least two with their weights"),
    "zero weight": (dict(target={"y": 1.0, "z": 0}), "'z' has the weight 0"),
    "variances": (dict(target=WEIGHTS, noise_variance="a"), "known noise variances go with one target"),
    "no such target": (dict(target={"y": 1.0, "zz": 1.0}), "'zz'"),
    "no such plate": (dict(target="y", batch="plates"), "no batch column 'plates'"),
    "plate as feature": (dict(target="y", features=["a", "plate"], batch="plate"), "is the batch and a feature"),
    "second target as feature": (dict(target=WEIGHTS, features=["a", "z"]), "is the target 2 and a feature"),
}


@pytest.mark.parametrize(("given", "match"), BAD.values(), ids=BAD)
def test_refused(given, match):
    with pytest.raises(bs.InputError, match=match):
        bs.read_table(screen(8)[0], **given)


def test_held_out_rows_choose_for_one_target():
    with pytest.raises(bs.InputError, match="the transform of one target"):
        bs.fit(bs.read_table(screen()[0], WEIGHTS, features=["a", "b"]), transform="held-out")


def test_batches_that_nobody_wrote_down():
    with pytest.raises(bs.InputError, match=r"'plate' \(batch\) is empty"):
        bs.read_table(screen(8)[0].assign(plate=None), "y", features=["a"], batch="plate")
