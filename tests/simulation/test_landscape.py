import numpy as np
import pandas as pd
import pytest

from beebo_scale import InputError
from beebo_scale.screening import Encoder
from beebo_scale.simulation import Landscape
from beebo_scale.simulation.strategies import best
from tests.helpers import close
from tests.simulation.helpers import mixed_landscape, protein_frame, protein_landscape


def test_repeats_are_averaged_and_rows_keep_their_numbers():
    frame = pd.DataFrame({"x": [1.0, 2.0, 1.0, 3.0, 4.0], "y": [5.0, np.nan, 7.0, 1.0, 2.0], "v": [1.0, 1, 3, 1, 1]})
    landscape = Landscape.read(frame, "y", ["x"], noise_variance="v")
    assert (landscape.dropped, landscape.repeats, len(landscape)) == (1, 1, 3)
    assert landscape.rows.frame["row"].tolist() == [1, 4, 5]
    assert landscape.truth(np.arange(3)).tolist() == [6.0, 1.0, 2.0]
    assert landscape.rows.noise_variance.tolist() == [1.0, 1.0, 1.0]  # (1 + 3) / 2^2


def test_gb1_comes_along():
    landscape = Landscape.read("gb1")
    assert (len(landscape), landscape.top, landscape.rows.target) == (149_361, 1493, "fitness")
    assert landscape.title == "gb1, fitness, 149,361 rows"


def test_the_order_of_the_file_decides_nothing():
    """Equal scores: what comes first is a shuffle, which the seed decides."""
    landscape = protein_landscape()
    encoder, taken = Encoder.from_table(landscape.rows), landscape.start(10, 0)
    picks = {}
    for seed in (0, 0, 1):
        candidates = landscape.candidates(encoder, taken, seed, 0)
        assert not set(candidates.points) & set(taken)
        assert sorted([*candidates.points, *taken]) == list(range(64))
        close(candidates.X, encoder.encode(landscape.rows.take(candidates.points)))
        picks.setdefault(seed, []).append(candidates.points[best(candidates.map(lambda X: 0 * X[:, 0]), 20)])
    assert (picks[0][0] == picks[0][1]).all()
    assert (picks[0][0] != picks[1][0]).any()
    assert np.mean(np.diff(picks[0][0]) > 0) < 0.9  # no run along the file


def test_what_is_offered_to_propose_is_the_same():
    landscape, taken = mixed_landscape(), np.array([3, 5])
    offered = landscape.offer(taken, 7)["library"]
    candidates = landscape.candidates(Encoder.from_table(landscape.rows), taken, 7, 0)
    assert landscape.chosen(offered.frame).tolist() == candidates.points.tolist()


def test_written_rows_are_read_again(tmp_path):
    landscape = mixed_landscape()
    points = np.array([40, 0, 7])
    landscape.written(points, landscape.truth(points)).to_csv(tmp_path / "a.csv", index=False)
    frame = pd.read_csv(tmp_path / "a.csv", dtype=str)
    assert list(frame) == ["row", "x", "base", "y"]
    again, values = landscape.parsed(frame)
    assert again.tolist() == points.tolist()
    assert (values == landscape.truth(points)).all()


def test_the_content_is_part_of_the_identity():
    frame = protein_frame()
    identities = [protein_landscape().identity(), protein_landscape(minimize=True).identity()]
    frame.loc[5, "y"] += 1.0
    identities.append(Landscape.read(frame, "y", {"variant": "protein"}).identity())
    assert identities[0] == protein_landscape().identity()
    assert all(identities[i] != identities[j] for i in range(3) for j in range(i))


def test_a_feature_may_be_called_row():
    frame = pd.DataFrame({"row": [3.0, 1.0, 2.0], "y": [1.0, 2.0, 3.0]})
    landscape = Landscape.read(frame, "y")
    assert list(landscape.written(np.array([2]), np.array([3.0]))) == ["row_", "row", "y"]
    assert landscape.parsed(landscape.written(np.array([2]), np.array([3.0])))[0].tolist() == [2]


def test_molecules_are_read_at_once_and_named_by_their_rows():
    pytest.importorskip("rdkit")
    frame = pd.DataFrame({"s": ["C", "CC", "C(", "CCO"], "y": [1.0, np.nan, 2.0, 3.0]})
    with pytest.raises(InputError, match=r"'s'.*row 3"):
        Landscape.read(frame, "y", {"s": "smiles"})


@pytest.mark.parametrize("top", [0, 64])
def test_top_is_a_part(top):
    with pytest.raises(InputError, match=f"top = {top}: give 1 or more, and less than the 64 rows"):
        protein_landscape(top=top)


def test_more_than_there_is():
    protein_landscape().check(64)
    with pytest.raises(InputError, match="65 rows would be measured, but it has 64 distinct inputs"):
        protein_landscape().check(65)
    with pytest.raises(InputError, match="name the target"):
        Landscape.read(protein_frame())
