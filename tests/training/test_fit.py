import math
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from lightning.pytorch import Callback
from scipy.stats import spearmanr

import beebo_scale as bs
from beebo_scale.errors import InputError
from beebo_scale.surrogates import surrogate as files
from beebo_scale.surrogates.predictive import PREDICTIVE
from beebo_scale.training.splits import TRAIN, VALIDATION
from tests.training.runs import KINDS, data, module, screen, trainer

SPARSE_EPOCHS = 4


@pytest.fixture(scope="module", params=["svgp", "sgpr", "exact", "love"])
def fitted(request, tmp_path_factory):
    """A run of each kind: its folder, data module and trainer."""
    folder = tmp_path_factory.mktemp(request.param)
    job, source = trainer(folder, SPARSE_EPOCHS), data(screen(folder / "s.csv"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Lightning's advice to programmers; the fixture for that is one of functions
        job.fit(module(request.param), datamodule=source)
    return folder, source, job


def part(source, name):
    """Rows of a part as a table."""
    table = bs.read_table(source.file, "y", features=KINDS)
    return table.take(source.store.members(name).numpy())


@pytest.mark.slow
def test_the_checkpoint_is_the_surrogate_and_the_metrics_are_its(fitted):
    folder, source, job = fitted
    surrogate = bs.load_surrogate(folder / "last.ckpt")
    held_out = part(source, VALIDATION)
    mean, std = surrogate.predict(held_out)
    variance = std**2  # of a measurement
    error2 = (held_out.y - mean) ** 2 / variance
    scale = surrogate.scale.scale  # the NLPD is that of the standardised target
    expected = {
        "val_rmse": np.sqrt(np.mean((held_out.y - mean) ** 2)),
        "val_nlpd": np.mean(0.5 * (error2 + np.log(2 * math.pi * variance))) - np.log(scale),
        "val_coverage95": np.mean(error2 <= 1.96**2),
        "val_spearman": spearmanr(held_out.y, mean).statistic,
    }
    for name, value in expected.items():
        assert float(job.logged_metrics[name]) == pytest.approx(value, rel=1e-5), name
    assert expected["val_rmse"] < 0.2 < held_out.y.std()


@pytest.mark.slow
def test_it_is_as_good_as_fit_on_the_same_rows(fitted):
    folder, source, _ = fitted
    surrogate = bs.load_surrogate(folder / "last.ckpt")
    reference = bs.fit(part(source, TRAIN), "exact", transform="none")
    held_out = part(source, VALIDATION)
    ours, theirs = (np.sqrt(np.mean((s.predict(held_out)[0] - held_out.y) ** 2)) for s in (surrogate, reference))
    assert ours < 1.2 * theirs
    if surrogate.kind == "exact":
        np.testing.assert_allclose(surrogate.predict(held_out)[0], reference.predict(held_out)[0], atol=0.06)


def test_a_batch_is_proposed_from_a_checkpoint(fitted):
    folder, source, _ = fitted
    surrogate = bs.load_surrogate(folder / "last.ckpt")
    assert len(surrogate.data) == len(source.training)
    library = pd.DataFrame({"x": np.linspace(0, 10, 50), "z": 0.9, "c": "b"})
    batch = bs.propose(surrogate, 5, library=library)
    assert set(batch.frame["c"]) == {"b"}
    assert batch.frame["mean"].mean() > 1.5


class Stop(Callback):
    """Fails in the middle of an epoch, as a machine does."""

    def __init__(self, epoch):
        self.epoch = epoch

    def on_train_batch_end(self, trainer, *rest):
        if trainer.current_epoch == self.epoch:
            raise RuntimeError("power cut")


def parameters(job):
    return {name: value.clone() for name, value in job.lightning_module.state_dict().items()}


@pytest.mark.slow
def test_a_resumed_run_ends_where_an_uninterrupted_one_does(tmp_path):
    file = screen(tmp_path / "s.csv")
    whole = trainer(tmp_path / "whole", 4)
    whole.fit(module(), datamodule=data(file))
    with pytest.raises(RuntimeError, match="power cut"):
        trainer(tmp_path / "cut", 4, [Stop(2)]).fit(module(), datamodule=data(file))
    resumed = trainer(tmp_path / "cut", 4)
    resumed.fit(module(), datamodule=data(file), ckpt_path=str(tmp_path / "cut" / "last.ckpt"))
    assert resumed.global_step == whole.global_step
    ours, expected = parameters(resumed), parameters(whole)
    assert ours.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(ours[name], value, rtol=1e-12, atol=1e-12)
    logs = pd.concat(pd.read_csv(path) for path in (tmp_path / "cut").glob("logs/version_*/metrics.csv"))
    assert sorted(logs["epoch"].unique()) == [0, 1, 2, 3]


@pytest.mark.slow
def test_the_start_is_found_once(tmp_path, monkeypatch):
    file = screen(tmp_path / "s.csv")
    trainer(tmp_path, 1).fit(module(), datamodule=data(file))
    monkeypatch.setattr("beebo_scale.training.module.starting_point", None)
    trainer(tmp_path, 2).fit(module(), datamodule=data(file), ckpt_path=str(tmp_path / "last.ckpt"))
    with pytest.raises(TypeError):  # other settings start elsewhere
        trainer(tmp_path, 1).fit(module(inducing_points=20), datamodule=data(file))


@pytest.mark.slow
def test_known_noise_is_used_and_learned(tmp_path):
    file = screen(tmp_path / "s.csv", var=np.linspace(0.005, 0.05, 240))
    for kind in ("svgp", "exact"):
        job = trainer(tmp_path / kind, 1)
        job.fit(module(kind), datamodule=data(file, noise_variance="var"))
        surrogate = bs.load_surrogate(tmp_path / kind / "last.ckpt")
        assert surrogate.data.noise is not None
        assert surrogate.summary()["noise_std"] == pytest.approx(0.0275**0.5, rel=0.1)
        assert float(job.logged_metrics["val_rmse"]) < 0.25


@pytest.mark.slow
def test_outliers_count_little_where_the_likelihood_is_robust(tmp_path):
    far = np.where(np.random.default_rng(1).random(240) < 0.08, 3.0, 0.0)
    file = screen(tmp_path / "s.csv")
    frame = pd.read_csv(file)
    truth = np.sin(frame["x"]) + frame["z"] ** 2 + (frame["c"] == "b")
    pd.concat([frame.assign(y=frame["y"] + far), frame.iloc[:5]]).to_csv(file, index=False)
    rmse = {}
    for likelihood in ("gaussian", "student-t"):
        source, job = data(file), trainer(tmp_path / likelihood, 12)
        job.fit(module(likelihood=likelihood), datamodule=source)
        surrogate = bs.load_surrogate(tmp_path / likelihood / "last.ckpt")
        rmse[likelihood] = np.sqrt(
            np.mean((surrogate.predict(bs.read_table(file, "y", features=KINDS))[0][:240] - truth) ** 2)
        )
    assert rmse["student-t"] < 0.5 * rmse["gaussian"]
    assert surrogate.likelihood == "student-t"
    assert len(source.training) == len(source.store.members(TRAIN))  # replicates stay apart
    held_out = source.store.members(VALIDATION)
    X = source.store.packing.unpack(source.store.rows[held_out])
    with torch.no_grad():
        mean, variance = surrogate.posterior().mean_and_variance(X)
    z = surrogate.scale.standardise(source.store.y[held_out])
    density, error = PREDICTIVE["student-t"](z, mean, variance, surrogate.posterior().noise(X))
    assert float(job.logged_metrics["val_nlpd"]) == pytest.approx(-float(density.mean()), rel=1e-5)
    assert float(job.logged_metrics["val_coverage95"]) == pytest.approx(float((error.abs() < 1.96).double().mean()))
    with pytest.raises(InputError, match=r"model\.likelihood = student-t, not gaussian"):
        trainer(tmp_path, 1).validate(
            module(), datamodule=data(file), ckpt_path=str(tmp_path / "student-t" / "last.ckpt")
        )


def test_a_robust_likelihood_learns_the_noise_of_svgp(tmp_path):
    with pytest.raises(InputError, match="a robust fit is one by svgp, not by exact"):
        module("exact", likelihood="student-t")
    file = screen(tmp_path / "s.csv", var=0.1)
    with pytest.raises(InputError, match=r"leave data\.noise_variance out"):
        trainer(tmp_path, 1).fit(module(likelihood="student-t"), datamodule=data(file, noise_variance="var"))


@pytest.mark.slow
def test_molecules_are_learned_by_minibatches(tmp_path):
    ends = ["F", "Cl", "Br", "I", "C", "CC", "OC", "N(C)C", "C#N"]
    frame = pd.DataFrame([(f"c1cc({a})ccc1CC{b}", i + 0.1 * j) for i, a in enumerate(ends) for j, b in enumerate(ends)])
    frame.columns = ["m", "y"]
    frame.to_csv(tmp_path / "m.csv", index=False)
    source = data(str(tmp_path / "m.csv"), features={"m": "smiles"}, id=None, batch_size=16, transform="none")
    job = trainer(tmp_path, 3)
    job.fit(module(inducing_points=25, precision="float32"), datamodule=source)
    assert float(job.logged_metrics["val_rmse"]) < 0.6 * frame["y"].std()
    surrogate = bs.load_surrogate(tmp_path / "last.ckpt")
    Z = surrogate.recipe.Z
    measured = surrogate.encoder.encode(bs.read_library(frame[["m"]], {"m": "smiles"})).to(Z)
    assert bool((Z.unsqueeze(1) == measured).all(-1).any(-1).all())  # inducing points stay molecules
    assert surrogate.data.rows.shape[1] == 1024  # bytes


def refuse(tmp_path, words, change, stage="fit", **settings):
    file = screen(tmp_path / "s.csv")
    trainer(tmp_path, 1).fit(module(), datamodule=data(file))
    path = tmp_path / "last.ckpt"
    content = torch.load(path, weights_only=True)
    change(content, file)
    torch.save(content, path)
    job = trainer(tmp_path, 2)
    with pytest.raises(InputError, match=words):
        getattr(job, stage)(module(**settings), datamodule=data(file), ckpt_path=str(path))


def newer(content, file):
    content[files.FILE_KEY]["format"] += 1


def nothing(content, file):
    pass


def no_surrogate(content, file):
    del content[files.FILE_KEY]


def other_rows(content, file):
    screen(file, seed=5)


def other_target(content, file):
    content[files.FILE_KEY]["target"] = "w"


@pytest.mark.slow
def test_a_checkpoint_that_does_not_fit_is_refused(tmp_path):
    refuse(tmp_path, "has format 4, newer than this version reads", newer)
    refuse(tmp_path, "holds no surrogate", no_surrogate, "validate")
    refuse(tmp_path, r"trained on other data than .*s\.csv \(the rows, the split or the seed differ\)", other_rows)
    refuse(tmp_path, r"trained on other data than .*s\.csv \(it predicts w from x, z, c\)", other_target, "test")
    refuse(tmp_path, "trained with model.inducing_points = 80, not 20", nothing, inducing_points=20)
