import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from beebo_scale.errors import InputError
from beebo_scale.proposal.box.space import Space
from tests.helpers import LAWS, close, normal, uniform

D = 5


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def inequality(indices, coefficients, bound):
    return torch.tensor(indices), torch.tensor(coefficients, dtype=torch.float64), bound


@st.composite
def spaces(draw):
    """A space with every kind of column and inequalities that some point of it meets."""
    kinds = draw(st.lists(st.sampled_from("cccife"), min_size=D, max_size=D))  # continuous, integer, fixed, levels
    seed = draw(st.integers(0, 10**6))
    lo = 4 * uniform(D, seed=seed) - 2
    hi = lo + 0.5 + 2 * uniform(D, seed=seed + 1)
    integer, categorical = {}, {}
    for column, kind in enumerate(kinds):
        if kind == "i":
            integer[column] = 1 + (seed + column) % 7
        elif kind == "f":
            hi[column] = lo[column]
        elif kind == "e":
            categorical[column] = torch.tensor([0.0, 2.0, 3.0, 7.0][: 2 + (seed + column) % 3], dtype=torch.float64)
            lo[column], hi[column] = categorical[column][0], categorical[column][-1]
    bounds = torch.stack([lo, hi])
    shared = tuple(draw(st.sets(st.integers(0, D - 1), max_size=2)))
    numbers = [column for column in range(D) if column not in categorical]
    free = Space(bounds, integer, categorical)
    point = free.settle(free.own(uniform(1, D, seed=seed + 2)))[0]
    limits = []
    for k in range(draw(st.integers(0, 3)) if numbers else 0):
        coefficients = normal(len(numbers), seed=seed + 3 + k)
        room = draw(st.sampled_from([0.0, 0.01, 0.3]))  # no room at all: the point lies on the face
        limits.append((torch.tensor(numbers), coefficients, float(coefficients @ point[numbers]) - room))
    same = []
    if numbers and draw(st.booleans()):
        coefficients = normal(len(numbers), seed=seed + 8)
        same.append((torch.tensor(numbers), coefficients, float(coefficients @ point[numbers])))
    return Space(bounds, integer, categorical, shared, tuple(limits), tuple(same)), seed


def assert_inside(space, X):
    lo, hi = space.bounds
    assert (lo <= X).all()
    assert (hi >= X).all()
    for column, k in space.integer.items():
        steps = (X[..., column] - lo[column]) / (hi[column] - lo[column]) * k
        close(steps, steps.round(), atol=1e-9)
    for column, codes in space.categorical.items():
        assert torch.isin(X[..., column], codes).all()
    for indices, coefficients, bound in space.inequalities:
        assert (X[..., indices] @ coefficients >= bound - 1e-9).all()
    for indices, coefficients, bound in space.equalities:
        close(X[..., indices] @ coefficients, torch.full(X.shape[:-1], bound, dtype=torch.float64), atol=1e-11)
    assert space.contains(X).all()


@pytest.mark.slow
@LAWS
@given(spaces())
def test_batches_are_settled_into_the_space(drawn):
    space, seed = drawn
    space.check()
    X = space.settle(space.own(3 * uniform(6, D, seed=seed + 9) - 1))
    assert_inside(space, X)
    assert (X[:, space.tied] == X[:1, space.tied]).all()
    close(space.settle(X), X, atol=1e-9)


@pytest.mark.slow
@LAWS
@given(spaces())
def test_samples_lie_in_the_space(drawn):
    space, seed = drawn
    X = space.sample(40, generator(seed))
    assert X.shape == (40, D)
    assert_inside(space, X)
    assert torch.equal(X, space.sample(40, generator(seed)))
    like = space.sample(40, generator(seed), like=X[7])
    assert_inside(space, like)
    close(like[:, space.tied], X[7:8, space.tied].expand(40, -1), atol=1e-12)
    assert_inside(space, space.near(X + 0.3 * normal(40, D, seed=seed), like=X[7]))


@pytest.mark.slow
@LAWS
@given(spaces())
def test_a_relaxed_batch_meets_bounds_inequalities_and_shares(drawn):
    space, seed = drawn
    start = torch.stack([space.unit(space.settle(space.sample(4, generator(i)))) for i in range(2)])
    moved = start + 0.5 * normal(2, 4, D, seed=seed) * space.relaxed
    for moving in (space.relaxed, space.continuous):
        U = space.relax(torch.where(moving, moved, start), moving)
        X = space.own(U)
        assert torch.equal(U[..., ~moving & ~space.tied], start[..., ~moving & ~space.tied])
        close(X[..., space.tied], X[..., :1, space.tied].expand(2, 4, -1), atol=1e-12)
        for indices, coefficients, bound in space.inequalities:
            assert (X[..., indices] @ coefficients >= bound - 1e-8).all()
        for indices, coefficients, bound in space.equalities:
            assert ((X[..., indices] @ coefficients - bound).abs() <= 1e-8).all()


def test_relaxing_finds_the_nearest_batch_where_a_shared_column_is_bound():
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    space = Space(bounds, shared=(0,), inequalities=(inequality([0, 1], [-1.0, -1.0], -1.0),))  # s + x <= 1
    far = torch.tensor([[[0.5, 0.9], [0.5, 0.1], [0.5, 0.7]]], dtype=torch.float64)
    U = space.relax(far, space.relaxed)
    # minimise 3 (s - 1/2)^2 + (x_1 - 0.9)^2 + (x_3 - 0.7)^2 with x = 1 - s
    s = (3 * 0.5 + 0.1 + 0.3) / 5
    expected = torch.tensor([[[s, 1 - s], [s, 0.1], [s, 1 - s]]], dtype=torch.float64)
    close(U, expected, atol=1e-12)


def test_whole_numbers_that_leave_no_room_move():
    bounds = torch.tensor([[0.0, 0.0, 0.0], [3.0, 3.0, 1.0]], dtype=torch.float64)
    space = Space(bounds, integer={0: 3, 1: 3}, inequalities=(inequality([0, 1], [1.0, 1.0], 5.9),))
    space.check()
    X = space.settle(torch.tensor([[2.1, 2.2, 0.4], [0.0, 3.0, 0.5]], dtype=torch.float64))
    assert torch.equal(X, torch.tensor([[3.0, 3.0, 0.4], [3.0, 3.0, 0.5]], dtype=torch.float64))
    sampled = space.sample(20, generator())
    assert (sampled[:, :2] == 3.0).all()
    assert len(sampled[:, 2].unique()) > 10


def test_a_shared_whole_number_moves_where_it_leaves_no_room():
    bounds = torch.tensor([[0.0, 0.0], [4.0, 1.0]], dtype=torch.float64)
    limits = (inequality([0, 1], [1.0, 1.0], 2.5),)
    space = Space(bounds, integer={0: 4}, shared=(0,), inequalities=limits)
    X = space.settle(torch.tensor([[1.0, 0.9], [1.0, 0.2]], dtype=torch.float64))
    close(X, torch.tensor([[2.0, 0.9], [2.0, 0.5]], dtype=torch.float64))


def test_a_mixture_is_sampled_all_over_and_settled_to_rounding():
    bounds = torch.tensor([[0.0] * 3, [1.0] * 3], dtype=torch.float64)
    space = Space(bounds, equalities=(inequality([0, 1, 2], [1.0, 1.0, 1.0], 1.0),))
    X = space.sample(2000, generator())
    close(X.sum(-1), torch.ones(2000, dtype=torch.float64), atol=1e-14)
    close(X.mean(0), torch.full((3,), 1 / 3, dtype=torch.float64), atol=0.02)
    assert X.amin() < 0.01
    assert X.amax() > 0.9
    settled = space.settle(X + 0.3)
    close(settled.sum(-1), torch.ones(2000, dtype=torch.float64), atol=1e-14)
    inside = (X <= 0.7).all(-1)  # what is above one is clipped first
    close(settled[inside], X[inside], atol=1e-12)  # (1, 1, 1) is at right angles


@pytest.mark.slow
def test_whole_numbers_under_an_equality():
    bounds = torch.tensor([[0.0] * 3, [20.0, 20.0, 10.0]], dtype=torch.float64)
    limits = (inequality([0, 1, 2], [1.0, 1.0, 2.0], 21.0),)
    space = Space(bounds, integer={0: 20, 1: 20, 2: 10}, equalities=limits)
    X = space.sample(300, generator())
    assert (X[:, 0] + X[:, 1] + 2 * X[:, 2] == 21).all()
    assert len(X.unique(dim=0)) > 30
    X = space.settle(space.own(uniform(30, 3)))
    assert (X[:, 0] + X[:, 1] + 2 * X[:, 2] == 21).all()
    assert set(space.trades) == {
        (0, 1, 1, -1),
        (0, 1, -1, 1),
        (0, 2, 2, -1),
        (0, 2, -2, 1),
        (1, 2, 2, -1),
        (1, 2, -2, 1),
    }


def test_spaces_without_points():
    bounds = torch.tensor([[0.0, 0.0], [1.0, 3.0]], dtype=torch.float64)
    apart = (inequality([0, 1], [1.0, 1.0], 3.0), inequality([1], [-1.0], -1.0))
    with pytest.raises(InputError, match="no point within the bounds meets them all"):
        Space(bounds, inequalities=apart).check()
    between = (inequality([0, 1], [1.0, 1.0], 1.2), inequality([0, 1], [-1.0, -1.0], -1.8))
    Space(bounds, inequalities=between).check()
    with pytest.raises(InputError, match="no point within the bounds meets them all"):
        Space(bounds, integer={0: 1, 1: 3}, inequalities=between).check()


def test_small_spaces_are_listed():
    bounds = torch.tensor([[0.0, -1.0, 0.5], [2.0, 1.0, 0.5]], dtype=torch.float64)
    codes = torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64)
    space = Space(bounds, integer={0: 2}, categorical={1: codes})
    assert space.count == 9
    assert torch.equal(space.every(), torch.cartesian_prod(torch.arange(3).double(), codes, bounds[0, 2:]))
    limited = Space(bounds[:, [0, 0]], integer={0: 2, 1: 2}, inequalities=(inequality([0, 1], [1.0, 1.0], 3.0),))
    assert limited.every().tolist() == [[1.0, 2.0], [2.0, 1.0], [2.0, 2.0]]
    assert Space(bounds[:, :1]).count == float("inf")


def test_samples_are_spread_evenly():
    bounds = torch.tensor([[0.0, 0.0, 0.0], [1.0, 3.0, 7.0]], dtype=torch.float64)
    codes = torch.tensor([0.0, 1.0, 7.0], dtype=torch.float64)
    X = Space(bounds, integer={1: 3}, categorical={2: codes}).sample(1200, generator())
    for column, values in ((1, [0, 1, 2, 3]), (2, [0, 1, 7])):
        for value in values:
            assert abs(int((X[:, column] == value).sum()) * len(values) / 1200 - 1) < 0.1
    triangle = Space(bounds[:, [0, 0]], inequalities=(inequality([0, 1], [-1.0, -1.0], -1.0),)).sample(
        2000, generator()
    )
    close(triangle.mean(0), torch.full((2,), 1 / 3, dtype=torch.float64), atol=0.02)
