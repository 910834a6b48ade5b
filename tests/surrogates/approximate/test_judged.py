"""What training leaves open is measured as `fit` measures it."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import beebo_scale as bs
from beebo_scale.surrogates.approximate.judged import judged


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


@pytest.mark.parametrize("kind", ["exact", "love"])
def test_the_others_know_already(kind):
    fitted = surrogate(kind)
    assert judged(fitted) is fitted
