import json
import os

import numpy as np
import pandas as pd
import pytest
import torch

import beebo_scale as bs
from beebo_scale.errors import InputError
from beebo_scale.surrogates import surrogate as module
from tests.surrogates.test_fit import KINDS, measured, screen, table


@pytest.fixture(scope="module", params=["plain", "known noise", "paper, sqrt"])
def fitted(request):
    if request.param == "plain":
        return bs.fit(measured(KINDS, n=30)[0], iterations=10)
    frame, effects, error = screen(30)
    y = np.asarray(sum(effects.values()) + error)
    if request.param == "known noise":
        return bs.fit(table(frame, y, KINDS, var=np.linspace(0.01, 0.1, 30)), iterations=10)
    return bs.fit(table(frame, np.exp(y), KINDS), priors="paper", transform="sqrt", iterations=10)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.ckpt"
    bs.fit(measured({"x": "continuous"}, n=10)[0], iterations=3).save(path)
    return path


def library():
    return bs.read_library(screen(50, seed=4)[0], KINDS)


@pytest.mark.slow
def test_a_saved_surrogate_is_the_same(fitted, tmp_path):
    path = tmp_path / "model.ckpt"
    fitted.save(path)
    assert os.listdir(tmp_path) == ["model.ckpt"]
    again = bs.load_surrogate(str(path))
    for one, two in zip(fitted.predict(library()), again.predict(library()), strict=True):
        assert one.tobytes() == two.tobytes()
    assert again.summary() == fitted.summary()
    assert (again.encoder, again.scale, again.report) == (fitted.encoder, fitted.scale, fitted.report)
    assert torch.equal(again.posterior().down.L, fitted.posterior().down.L)
    pd.testing.assert_frame_equal(
        bs.propose(again, 5, library()).frame, bs.propose(fitted, 5, library()).frame, check_exact=True
    )


def test_saving_twice_replaces_the_file(saved):
    surrogate = bs.fit(measured(KINDS, n=12)[0], iterations=1)
    surrogate.save(saved)
    assert bs.load_surrogate(saved).encoder == surrogate.encoder


def test_a_checkpoint_of_something_larger_will_do(saved):
    content = torch.load(saved, weights_only=True)
    torch.save({"epoch": 3, "state_dict": {}, **content}, saved)
    assert bs.load_surrogate(saved).encoder.kinds == {"x": "continuous"}


def test_predictions_do_not_depend_on_chunks(fitted, monkeypatch):
    mean, std = fitted.predict(library())
    monkeypatch.setattr(module, "PREDICTED_AT_ONCE", 7)
    for one, two in zip(fitted.predict(library()), (mean, std), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12)


def test_predictions_are_the_posterior_in_own_units():
    surrogate = bs.fit(measured(KINDS, n=30)[0], iterations=5)
    X = surrogate.encoder.encode(library())
    mean, std = surrogate.predict(library())
    shift, scale = surrogate.scale.shift, surrogate.scale.scale
    np.testing.assert_allclose(mean, shift + scale * surrogate.posterior().mean(X).numpy(), rtol=1e-12)
    variance = surrogate.posterior().covar(X).diagonal()
    np.testing.assert_allclose(std, scale * (variance + surrogate.posterior().noise(X)).sqrt().numpy(), rtol=1e-8)
    _, std = surrogate.predict(library(), noiseless=True)
    np.testing.assert_allclose(std, scale * variance.sqrt().numpy(), rtol=1e-8)
    assert surrogate.posterior() is surrogate.posterior()


def test_the_summary_is_plain(fitted):
    summary = json.loads(json.dumps(fitted.summary(), allow_nan=False))
    assert summary == fitted.summary()
    assert (summary["kind"], summary["target"], summary["features"]) == ("exact", "y", KINDS)
    assert summary["information_gain_error"] == 0.0


def test_tables_without_the_features_are_refused(fitted):
    with pytest.raises(InputError, match="'label' is no feature here"):
        fitted.predict(bs.read_library(screen(3)[0], {"x": "continuous"}))


# --- files that cannot be read or written ----------------------------------------------------------------


def refuse(path, *words):
    with pytest.raises(InputError) as caught:
        bs.load_surrogate(path)
    message = str(caught.value)
    assert "\n" not in message
    for word in (str(path), *words):
        assert word in message, message


def test_no_file(tmp_path):
    refuse(tmp_path / "none.ckpt", "no such model file", "Surrogate.save")
    refuse(tmp_path, "is a folder", "Surrogate.save")


@pytest.mark.parametrize(
    "content", [b"", b"a,b\n1,2\n", b"\x80\x02}q\x00.", b"PK\x03\x04" + b"\0" * 50, bytes(range(256))]
)
def test_garbage(tmp_path, content):
    path = tmp_path / "model.ckpt"
    path.write_bytes(content)
    refuse(path, "not a readable surrogate")


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.999])
def test_half_a_file(saved, part):
    whole = saved.read_bytes()
    saved.write_bytes(whole[: int(len(whole) * part)])
    refuse(saved, "not a readable surrogate")


@pytest.mark.parametrize(
    "content", [{"state_dict": {}}, [1, 2], torch.zeros(3), {module.FILE_KEY: 7}, {module.FILE_KEY: {}}]
)
def test_other_files_of_torch(saved, content):
    torch.save(content, saved)
    refuse(saved, "not a readable surrogate")


def damaged(path, **changes):
    content = torch.load(path, weights_only=True)[module.FILE_KEY]
    torch.save({module.FILE_KEY: content | changes}, path)


def test_a_newer_format(saved):
    damaged(saved, format=module.FILE_FORMAT + 1, encoder="something new")
    refuse(saved, f"format {module.FILE_FORMAT + 1} is newer", "update beebo_scale")


@pytest.mark.parametrize(
    "changes", [{"scale": {"shift": 0.0}}, {"hyperparameters": {}}, {"priors": "flat"}, {"data": {}}, {"format": "x"}]
)
def test_a_file_that_lacks_something(saved, changes):
    damaged(saved, **changes)
    refuse(saved, "not a readable surrogate")


def test_code_in_a_file_is_not_run(saved):
    class Harm:
        def __reduce__(self):
            return (os.remove, (str(saved),))

    torch.save({module.FILE_KEY: Harm()}, saved)
    refuse(saved, "not a readable surrogate")
    assert saved.exists()


def test_places_that_cannot_be_written(saved, tmp_path):
    surrogate = bs.load_surrogate(saved)
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(InputError, match=r"the folder .*no' does not exist; create it first"):
        surrogate.save(tmp_path / "no" / "model.ckpt")
    with pytest.raises(InputError, match="is a folder; give the name of a file"):
        surrogate.save(tmp_path)
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_many_zeros_are_predicted_better_than_by_their_mean(seed):
    rng = np.random.default_rng(seed)
    X = rng.random((1500, 2))
    hit = rng.random(1500) < 0.02 + 0.3 * X[:, 0] ** 2  # a screen: mostly zeros, and what is not, is large
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(y=np.where(hit, rng.gamma(2.0, 1.5, 1500), 0.0))
    kinds = {"a": "continuous", "b": "continuous"}
    surrogate = bs.fit(bs.read_table(frame[:300], "y", features=kinds))
    assert surrogate.scale.transform == "sqrt"
    y, rest = frame["y"].to_numpy()[300:], bs.read_library(frame[300:], kinds)
    mean, _ = surrogate.predict(rest)
    noiseless, _ = surrogate.predict(rest, noiseless=True)
    assert mean.mean() == pytest.approx(y.mean(), rel=0.35)
    assert noiseless.mean() < 0.5 * y.mean()
    rmse = [np.sqrt(np.mean((predicted - y) ** 2)) for predicted in (mean, frame["y"][:300].mean(), noiseless)]
    assert rmse[0] < rmse[1] < rmse[2]
