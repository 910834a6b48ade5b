import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beebo_scale.errors import InputError
from beebo_scale.training.splits import TEST, TRAIN, VALIDATION, Split, given_parts, grouped_parts, random_parts
from tests.helpers import LAWS


def shares(parts):
    return [float((parts == part).mean()) for part in (TRAIN, VALIDATION, TEST)]


def test_random_parts_have_the_shares_asked_for():
    parts = random_parts(1000, Split(validation=0.2, test=0.05))
    assert shares(parts) == [0.75, 0.2, 0.05]
    assert np.array_equal(parts, random_parts(1000, Split(validation=0.2, test=0.05)))
    assert not np.array_equal(parts, random_parts(1000, Split(validation=0.2, test=0.05, seed=1)))
    assert (parts[:500] == VALIDATION).mean() == pytest.approx(0.2, abs=0.05)  # not by place


@LAWS
@given(st.lists(st.integers(0, 12), min_size=20, max_size=200), st.integers(0, 5))
def test_a_group_is_never_cut(labels, seed):
    labels = np.array([*labels, *range(13)])
    parts = grouped_parts(labels, Split("group", "g", 0.2, 0.2, seed), "groups")
    assert all(len(set(parts[labels == label])) == 1 for label in labels)
    assert (parts == TRAIN).any()
    assert (parts == VALIDATION).any()


def test_given_parts():
    parts = given_parts(["train", "Test", " validation", "train"], "s.csv", "part", np.arange(1, 5))
    assert parts.tolist() == [TRAIN, TEST, VALIDATION, TRAIN]
    with pytest.raises(InputError, match=r"s\.csv: column 'part' holds 'val' in row 2; a split column holds the words"):
        given_parts(["train", "val"], "s.csv", "part", np.arange(1, 3))
    with pytest.raises(InputError, match="leaves 0 rows to learn from and 2 to validate, of 2"):
        given_parts(["validation"] * 2, "s.csv", "part", np.arange(1, 3))


def test_bad_shares_and_one_group_are_refused():
    for validation, test in ((0.5, 0.5), (0.0, 0.2), (1.2, 0.0), (0.1, -0.1)):
        with pytest.raises(InputError, match="leaves no rows to learn from or none to validate"):
            Split(validation=validation, test=test).check()
    with pytest.raises(InputError, match=r"needs data\.split_column"):
        Split("group").check()
    with pytest.raises(InputError, match="all 9 rows are one of the groups"):
        grouped_parts(np.zeros(9), Split("group", "g"), "the groups")
    with pytest.raises(InputError, match="leaves 1 rows to learn from"):
        random_parts(2, Split())
