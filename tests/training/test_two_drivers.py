"""The plain loop of `fit` and the trainer take the same steps, so that both give the same surrogate."""

import importlib

import numpy as np
import pandas as pd
import pytest
import torch

import beebo_scale as bs
from beebo_scale.training.splits import TRAIN
from tests.helpers import close
from tests.training.runs import KINDS, data, module, screen, trainer

SETTINGS = {"inducing_points": 40, "block_rows": 50, "rank": 30, "iterations": 30, "seed": 3}
EPOCHS = {"svgp": 4, "sgpr": 1, "blocks": 1, "exact": 1, "love": 1}


@pytest.mark.slow
@pytest.mark.parametrize("known_noise", [False, True, "estimates"])
@pytest.mark.parametrize("kind", EPOCHS)
def test_both_drivers_give_the_same_surrogate(kind, known_noise, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.import_module("beebo_scale.surrogates.fit"), "BATCH", 64)
    var = [0.01 + 0.0001 * i for i in range(240)]
    if known_noise == "estimates":
        var = 0.01 * np.random.default_rng(5).chisquare(1, 240)
    file = screen(tmp_path / "s.csv", var=var)
    noise = {"noise_variance": "var"} if known_noise else {}
    source = data(file, batch_size=64, seed=3, transform="none", **noise)
    trainer(tmp_path, EPOCHS[kind]).fit(module(kind, **SETTINGS), datamodule=source)
    trained = bs.load_surrogate(tmp_path / "last.ckpt")

    table = bs.read_table(file, "y", features=KINDS, **noise).take(source.store.members(TRAIN).numpy())
    size = bs.Approximation(inducing_points=40, block_rows=50, rank=30, epochs=EPOCHS[kind])
    fitted = bs.fit(table, kind, transform="none", approximation=size, iterations=30, seed=3)

    assert trained.noise_known == fitted.noise_known == (known_noise is True)
    assert trained.report.notes == fitted.report.notes
    assert trained.encoder == fitted.encoder
    expected = dict(fitted.gp.named_parameters())
    for name, value in trained.gp.named_parameters():
        close(value.detach(), expected[name].detach(), rtol=1e-8, atol=1e-10)
    X = trained.encoder.encode(bs.read_library(pd.read_csv(file).drop(columns=["y", "var"]), KINDS))[:50]
    ours, theirs = trained.posterior(), fitted.posterior()
    with torch.no_grad():
        close(ours.mean(X), theirs.mean(X), rtol=1e-7, atol=1e-8)
        close(ours.covar(X), theirs.covar(X), rtol=1e-7, atol=1e-8)
        close(ours.noise(X), theirs.noise(X), rtol=1e-8, atol=1e-10)
