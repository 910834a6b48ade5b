import itertools
import math

import pytest
import torch

from beebo_scale.proposal.library.limits import LimitState, distance, exchangeable, label_columns
from beebo_scale.screening import CategoricalColumn, ContinuousColumn, Encoder, SequenceColumn
from beebo_scale.specs import Limits
from tests.helpers import uniform
from tests.screening.test_table import refuse

MIXED = Encoder(
    (ContinuousColumn("t", 0.0, 2.0), CategoricalColumn("acid", ("a", "b")), SequenceColumn("primer", "dna", 3))
)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (({"scaffold": 0},), "at most 0 rows with the same 'scaffold': give a whole number, 1 or more"),
        (({"scaffold": 1.5},), "at most 1.5 rows"),
        (({"scaffold": True},), "at most True rows"),
        (({}, 0.0), "min_distance = 0.0: give a finite number above 0"),
        (({}, math.nan), "min_distance = nan"),
    ],
)
def test_limits_that_make_no_sense(arguments, words):
    refuse(lambda: Limits(*arguments), words)


def test_distance_of_numbers_and_labels():
    labels = label_columns(MIXED)
    assert labels.tolist() == [False, True, True, True, True]
    X = torch.tensor([[0.0, 0, 1, 2, 3], [0.6, 0, 1, 2, 3], [0.0, 1, 1, 2, 0], [0.6, 1, 0, 0, 0]], dtype=torch.float64)
    expected = [0.0, 0.6, 0.5, math.hypot(0.6, 1.0)]
    assert distance(X, X[0], labels).tolist() == pytest.approx(expected)
    assert distance(X[:, :1], X[0, :1]).tolist() == pytest.approx([0.0, 0.6, 0.0, 0.6])


def test_what_is_guaranteed():
    for limits in (Limits(), Limits({"a": 1}), Limits({"a": 1, "b": 2}), Limits({"a": 1}, 0.1)):
        words = limits.guarantee()
        assert "than upper_bound, whatever the signs" in words
        assert not any(factor in words for factor in ("%", "1/2", "1/3", "1/e"))
        assert ("under the limits" in words) == bool(limits)
        assert ("one at a time" in words) == (len(limits.at_most) > 1)
        assert ("minimum distance" in words) == (limits.min_distance is not None)
    assert not Limits()
    assert Limits(min_distance=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("limits", [Limits({"a": 2}), Limits({"a": 2, "b": 3}), Limits({}, 0.3), Limits({"a": 3}, 0.2)])
def test_room_and_exchanges_are_what_the_limits_say(limits):
    X = uniform(30, 2, seed=3)
    groups = torch.stack([(X[:, 0] * 4).long(), (X[:, 1] * 3).long()], dim=-1)[:, : len(limits.at_most)]
    encoder = Encoder(tuple(ContinuousColumn(name, 0.0, 1.0) for name in "xy"))

    def fits(batch):
        near = limits.min_distance is not None and any(
            float((X[i] - X[j]).norm()) < limits.min_distance for i, j in itertools.combinations(batch, 2)
        )
        full = any(
            int(torch.bincount(groups[batch, column]).max()) > cap for column, cap in enumerate(limits.at_most.values())
        )
        return not near and not full

    room, batch = LimitState(limits, encoder), []
    shut = torch.zeros(30, dtype=torch.bool)
    for row in range(30):
        if not room.shut(X, groups)[row]:
            room.take(X[row], groups[row])
            batch.append(row)
            shut |= room.shut(X, groups, last=True)
        others = [i for i in range(30) if i not in batch]
        assert room.shut(X, groups)[others].tolist() == [not fits([*batch, i]) for i in others]
        assert shut[others].tolist() == room.shut(X, groups)[others].tolist()
    assert 2 < len(batch) < 30
    others = [i for i in range(30) if i not in batch]
    allowed = exchangeable(limits, encoder, X[batch], groups[batch], X[others], groups[others])
    expected = [[fits([*batch[:i], other, *batch[i + 1 :]]) for other in others] for i in range(len(batch))]
    assert allowed.tolist() == expected
    assert allowed.any()
    assert not allowed.all()
