import numpy as np
import pandas as pd
import pytest

import beebo_scale as bs
from tests.training.runs import data, module, screen, trainer


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Twelve plates with offsets, one of them without a name."""
    path = screen(tmp_path_factory.mktemp("screens") / "screen.csv", n=240)
    plate = np.random.default_rng(1).integers(12, size=240)
    frame = pd.read_csv(path)
    frame["y"] += np.random.default_rng(2).standard_normal(12)[plate]
    frame.assign(plate=[f"P{p}" if p else "" for p in plate]).to_csv(path, index=False)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["svgp", "exact"])
def test_trained_surrogate_tells_plates_from_features(file, tmp_path, kind):
    fit = trainer(tmp_path, epochs=6 if kind == "svgp" else 1)
    fit.fit(module(kind, inducing_points=150), data(file, batch="plate"))
    surrogate = bs.load_surrogate(tmp_path / "last.ckpt")
    assert surrogate.summary()["batch"]["levels"] == 11
    assert surrogate.batch_variance * surrogate.scale.scale**2 > 0.3
    library = bs.read_library(file, surrogate.encoder.kinds)
    frame = library.frame
    f = np.sin(frame["x"]) + frame["z"] ** 2 + (frame["c"] == "b")
    assert np.std(surrogate.predict(library)[0] - f) < (0.45 if kind == "svgp" else 0.25)
    assert 0 < fit.callback_metrics["val_rmse"] < 2.0
    assert len(bs.propose(surrogate, 3, library=frame).frame) == 3
