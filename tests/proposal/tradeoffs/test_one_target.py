"""With one target, or a weighted sum, and no limits on outcomes the batch is what it was before trade-offs came.

tests/golden/one_target holds the files of commit a36b8c6, the last one before; on the machine that wrote them they are
the same to the byte.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import beebo_scale as bs
from beebo_scale.specs import Limits

GOLDEN = Path(__file__).parents[2] / "golden" / "one_target"
FEATURES = ["x", "y", "z", "acid"]


def rows():
    u = (np.arange(1, 361) * 0.6180339887498949 % 1.0).reshape(120, 3)
    frame = pd.DataFrame(u, columns=["x", "y", "z"])
    frame["acid"], frame["name"] = np.array(list("abc"))[np.arange(120) % 3], [f"r{i}" for i in range(120)]
    frame["t"] = np.sin(5 * frame["x"]) + frame["y"] ** 2 - 0.3 * (frame["acid"] == "b")
    return frame.assign(v=frame["x"] - frame["z"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "target", "q", "limits"),
    [("library", "t", 6, Limits({"acid": 3})), ("sum", {"t": 0.7, "v": -0.3}, 5, Limits())],
)
def test_batches_of_before(name, target, q, limits):
    surrogate = bs.fit(bs.read_table(rows()[:30], target, features=FEATURES))
    batch = bs.propose(surrogate, q, rows()[30:], id="name", temperature=0.5, limits=limits)
    before = pd.read_csv(GOLDEN / f"{name}.csv")
    assert list(batch.frame) == list(before)
    assert batch.frame["name"].tolist() == before["name"].tolist()
    pd.testing.assert_frame_equal(batch.frame, before, check_dtype=False, rtol=1e-5)
    assert "outcomes" not in batch.run
