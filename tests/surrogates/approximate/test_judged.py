"""What training leaves open is measured as `fit` measures it."""

import importlib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import beebo_scale as bs
from beebo_scale.surrogates.approximate.held_out import excess
from beebo_scale.surrogates.approximate.judged import batch_gain_error, judged, raised
from beebo_scale.surrogates.gaussian_process.gaussian_process import exact_posterior
from tests.helpers import uniform

choose_module = importlib.import_module("beebo_scale.proposal.choose")


def surrogate(kind):
    draw = np.random.default_rng(0)
    frame = pd.DataFrame(draw.random((120, 2)), columns=["a", "b"])
    frame["y"] = np.sin(6 * frame["a"]) + frame["b"]
    size = bs.Approximation(inducing_points=20, epochs=2, rank=30)
    return bs.fit(bs.read_table(frame, target="y"), kind, iterations=10, approximation=size)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sgpr", "svgp"])
def test_sparse_kinds(kind):
    fitted = surrogate(kind)
    opened = replace(fitted, recipe=replace(fitted.recipe, error=None, reference=""))
    assert opened.summary()["information_gain_error"] is None
    again, before = judged(opened).summary(), fitted.summary()
    assert again.pop("information_gain_error") == pytest.approx(before.pop("information_gain_error"), rel=1e-6)
    assert again == before
    assert judged(fitted) is fitted


@pytest.mark.parametrize("kind", ["exact", "love", "sgpr"])
def test_the_error_at_a_batch_is_that_beside_the_exact_posterior(kind):
    fitted = surrogate(kind)
    X, pending = uniform(30, 2, seed=5), uniform(10, 2, seed=6)
    exact = exact_posterior(fitted.gp, fitted.data, fitted.posterior().noise)
    for given in (None, pending):
        known, reference = fitted.posterior(), exact
        if given is not None:
            known, reference = known.augment(given), reference.augment(given)
        truth = excess(known, reference, X.unsqueeze(0))
        error, beside = batch_gain_error(fitted, X, given)
        assert error == pytest.approx(truth, rel=1e-2, abs=1e-6)
        assert (beside == "") == (kind == "exact")
    assert kind == "exact" or error > 0.001


def test_of_a_long_batch_some_rows_are_looked_at():
    error, beside = batch_gain_error(surrogate("love"), uniform(400, 2, seed=5))
    assert error > 0
    assert beside.endswith("at 256 of its rows")


@pytest.mark.slow
def test_the_rank_goes_on_until_the_batch_is_known_well(monkeypatch):
    """As long as it was chosen automatically; otherwise a note says so."""
    monkeypatch.setattr(choose_module, "GAIN_TOLERANCE", 1e-7)
    fitted = surrogate("love")
    library = pd.DataFrame(np.random.default_rng(1).random((200, 2)), columns=["a", "b"])
    batch = bs.propose(fitted, 8, library)
    assert batch.run["surrogate"]["rank"] == 30
    assert batch.run["batch_information_gain_error"] > 1e-7
    (note,) = batch.notes
    assert "too large beside the exact one: ask for more rank" in note
    report = replace(fitted.recipe.report, stopped_by="tolerance")
    auto = replace(fitted, recipe=replace(fitted.recipe, report=report))
    batch = bs.propose(auto, 8, library)
    assert batch.run["surrogate"]["rank"] in (60, 120)
    assert batch.run["batch_information_gain_error"] <= 1e-7
    assert batch.notes == ()
    assert raised(fitted) is None
    assert bs.propose(surrogate("exact"), 8, library).run["batch_information_gain_error"] == 0.0


@pytest.mark.parametrize("kind", ["exact", "love"])
def test_the_others_know_already(kind):
    fitted = surrogate(kind)
    assert judged(fitted) is fitted
