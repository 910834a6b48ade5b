import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from beebo_scale.proposal.library import exclusion as module
from beebo_scale.proposal.library.exclusion import Judge, RowSet, Rules, repeats, row_hashes
from beebo_scale.proposal.library.named_rows import encoded_rows, read_named
from beebo_scale.screening import Encoder, read_table
from beebo_scale.screening.library import open_library
from beebo_scale.screening.same import as_bytes
from tests.helpers import LAWS, uniform
from tests.proposal.library.test_certified import ENCODER, KINDS, frame_of, library_of
from tests.screening.test_table import refuse, save

ROWS = st.lists(st.lists(st.sampled_from([0.0, -0.0, 1.0, 2.0, 0.5]), min_size=2, max_size=2), max_size=12)


def matrix(rows):
    return np.array(rows, dtype=np.float64).reshape(-1, 2)


@given(X=ROWS, known=ROWS, bits=st.sampled_from([64, 2, 0]))
@LAWS
@pytest.mark.slow
def test_rows_are_found_whatever_their_hashes(X, known, bits):
    """With hashes of 2 bits or none, rows that differ share hashes at first."""
    true_hashes = row_hashes

    def coarse(rows, seed=0):
        hashes = true_hashes(rows, seed)
        if seed > 2:
            return hashes
        return hashes >> np.uint64(64 - bits) if bits else np.zeros_like(hashes)

    with pytest.MonkeyPatch.context() as patch:
        if bits < 64:
            patch.setattr(module, "row_hashes", coarse)
        found, again = RowSet(as_bytes(matrix(known))).holds(as_bytes(matrix(X))), repeats(as_bytes(matrix(X)))
    assert found.tolist() == [row in known for row in X]
    assert again.tolist() == [row in X[:i] for i, row in enumerate(X)]


def test_hashes_differ_between_close_rows():
    X = np.stack([np.arange(1000.0), np.zeros(1000)], axis=-1)
    assert len(np.unique(row_hashes(as_bytes(np.concatenate([X, X[:, ::-1], X + 2**-40, -X - 1]))))) == 3999


def test_rules_count_each_reason():
    X = uniform(10, 3)
    table = next(library_of(X, 100).chunks())[1]
    rules = Rules(measured=X[:2], excluded=X[1:3], excluded_ids=frozenset({"r4", "r99"}))
    eligible, counts = Judge(rules, ENCODER).judge(table, as_bytes(X.numpy()), np.empty((10, 0)))
    assert eligible.tolist() == [False, False, False, True, False, *[True] * 5]
    assert counts == {"measured_already": 2, "excluded": 3, "repeated": 0}


# --- rows in a file of the user's ------------------------------------------------------------------------


def frame():
    return frame_of(uniform(20, 3)).assign(id=lambda f: f["id"].str.replace("r", "c"))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("columns", [["id"], ["x0", "x1", "x2"], ["id", "x0", "x1", "x2"], ["x1", "x0", "x2"]])
def test_rows_by_id_or_by_features(tmp_path, suffix, columns):
    library = open_library(frame(), KINDS, "id", (), chunk_rows=7)
    path = tmp_path / f"running.{suffix}"
    some = frame().iloc[[12, 3, 19]][columns]
    some.to_parquet(path, index=False) if suffix == "parquet" else some.to_csv(path, index=False)
    listed = read_named(path, ENCODER, "id")
    assert listed.ids == (("c12", "c3", "c19") if "id" in columns else ())
    assert len(listed.X) == (0 if columns == ["id"] else 3)
    torch.testing.assert_close(encoded_rows(listed, ENCODER, library), uniform(20, 3)[[12, 3, 19]], rtol=0, atol=1e-15)


def test_an_id_that_is_a_feature(tmp_path):
    rows = pd.DataFrame({"variant": ["ACGT", "TTTT", "GGGG"], "y": [1.0, 2.0, 3.0]})
    encoder = Encoder.from_table(read_table(rows, "y", features={"variant": "dna"}))
    listed = read_named(rows[["variant"]].iloc[:2], encoder, "variant")
    assert listed.ids == ("ACGT", "TTTT")
    assert torch.equal(
        encoded_rows(listed, encoder, None), encoder.encode(read_table(rows, "y", features={"variant": "dna"}))[:2]
    )


def test_lists_that_cannot_be_used(tmp_path):
    library = open_library(frame(), KINDS, "id", (), chunk_rows=7)
    path = save(tmp_path, "id\nc3\nc99\nc5\nd1\n", "running.csv")
    listed = read_named(path, ENCODER, "id")
    refuse(
        lambda: encoded_rows(listed, ENCODER, library),
        f"{path}: 2 of 4 pending ids are in no row of table: c99, d1 (in rows 2, 4); correct the ids",
    )
    refuse(lambda: encoded_rows(listed, ENCODER, None), f"{path} has ids only, and no library with an id column")
    refuse(lambda: read_named(path, ENCODER), "has no column 'x0'; give all feature columns ('x0', 'x1', 'x2')")
    refuse(lambda: read_named(path, ENCODER, "name"), "give the id column 'name', or all feature columns")
    refuse(lambda: read_named(save(tmp_path, "id,n\nc3,1\n,2\n"), ENCODER, "id"), "column 'id' is empty in row 2;")
    refuse(lambda: read_named(save(tmp_path, "x0,x1,x2\n1,,3\n"), ENCODER, "id"), "column 'x1' is empty in row 1;")
    assert len(encoded_rows(read_named(save(tmp_path, "id\n", "none.csv"), ENCODER, "id"), ENCODER, library)) == 0
