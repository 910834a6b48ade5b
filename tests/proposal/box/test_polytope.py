import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from beebo_scale.proposal.box.polytope import (
    TOLERANCE,
    Interior,
    Polytope,
    fill,
    hit_and_run,
    nearest_whole,
    solve_equalities,
)
from tests.helpers import LAWS, close, normal, uniform

ALL = torch.ones(4, dtype=torch.bool)


def polytope(A, b, equal=0):
    """Conditions of which the first few hold with equality."""
    return Polytope(A, b, torch.arange(len(A)) < equal)


def conditions(c, d, seed, equal=0):
    """C conditions that a random point meets."""
    A = normal(c, d, seed=seed)
    A = A / A.norm(dim=-1, keepdim=True)
    room = 0.1 * uniform(c, seed=seed + 2) * (torch.arange(c) >= equal)
    return polytope(A, A @ uniform(d, seed=seed + 1) - room, equal)


def shortest(x, faces, start):
    """The squared distance from x (d) to the conditions, by SLSQP."""
    A, b, equal = faces.A.numpy(), faces.b.numpy(), faces.equal.numpy()
    rows = [("eq", A[equal], b[equal]), ("ineq", A[~equal], b[~equal])]
    best = minimize(
        lambda z: ((z - x) ** 2).sum(),
        start,
        jac=lambda z: 2 * (z - x),
        bounds=[(0, 1)] * len(x),
        constraints=[
            {"type": kind, "fun": lambda z, a=a, r=r: a @ z - r, "jac": lambda z, a=a: a}
            for kind, a, r in rows
            if len(r)
        ],
        method="SLSQP",
        options={"ftol": 1e-14},
    )
    return best.fun


@pytest.mark.slow
@LAWS
@given(st.integers(1, 4), st.integers(0, 2), st.integers(0, 10**6))
def test_the_projection_is_the_nearest_point(c, equal, seed):
    faces = conditions(c, 4, seed, equal)
    X = 3 * uniform(5, 4, seed=seed + 3) - 1
    P = faces.project(X, ALL)
    assert (faces.slack(P) >= -TOLERANCE).all()
    assert ((P >= 0) & (P <= 1)).all()
    for x, p in zip(X, P, strict=True):
        assert float((p - x).square().sum()) <= shortest(x.numpy(), faces, p.numpy()) + 1e-7
        assert float((p - x).square().sum()) <= shortest(x.numpy(), faces, np.full(4, 0.5)) + 1e-7


@pytest.mark.slow
@LAWS
@given(st.integers(1, 3), st.integers(0, 1), st.integers(0, 10**6))
def test_a_batch_with_shared_columns_goes_to_the_nearest_one(c, equal, seed):
    faces = conditions(c, 3, seed, equal)
    tied, q = torch.tensor([True, False, False]), 3
    U = 2 * uniform(2, q, 3, seed=seed + 3) - 0.5
    U[..., 0] = U[:, :1, 0]
    moved = faces.project_batches(U, ALL[:3], tied)
    assert (faces.slack(moved.flatten(0, 1)) >= -TOLERANCE).all()
    assert (moved[..., 0] == moved[:, :1, 0]).all()
    wide = torch.zeros(q * c, 1 + 2 * q, dtype=torch.float64)  # of s, then of the points' own columns
    for i in range(q):
        wide[i * c : i * c + c, 0] = faces.A[:, 0] / q**0.5
        wide[i * c : i * c + c, 1 + 2 * i : 3 + 2 * i] = faces.A[:, 1:]
    weights = np.r_[q, np.ones(2 * q)]
    for u, v in zip(U, moved, strict=True):
        # SLSQP in s itself, its distance counted q times
        rows = wide.clone()
        rows[:, 0] *= q**0.5
        y, z = (np.r_[x[0, 0], x[:, 1:].numpy().ravel()] for x in (u, v))
        right, same = faces.b.repeat(q).numpy(), faces.equal.repeat(q).numpy()
        kinds = [("eq", rows.numpy()[same], right[same]), ("ineq", rows.numpy()[~same], right[~same])]
        best = minimize(
            lambda x, y=y: weights @ (x - y) ** 2,
            z,
            jac=lambda x, y=y: 2 * weights * (x - y),
            bounds=[(0, 1)] * len(y),
            constraints=[
                {"type": kind, "fun": lambda x, a=a, r=r: a @ x - r, "jac": lambda x, a=a: a}
                for kind, a, r in kinds
                if len(r)
            ],
            method="SLSQP",
            options={"ftol": 1e-14},
        )
        assert weights @ (z - y) ** 2 <= best.fun + 1e-7


def test_points_inside_stay_and_held_columns_count():
    faces = conditions(2, 4, 0)
    X = uniform(200, 4, seed=5)
    inside = faces.slack(X) >= 0
    assert inside.any()
    assert not inside.all()
    P = faces.project(X, ALL)
    assert torch.equal(P[inside], X[inside])
    close(P, torch.cat([faces.project(x, ALL) for x in X.split(1)]), atol=1e-9)
    moving = torch.tensor([True, True, False, True])
    held = faces.project(X, moving)
    assert torch.equal(held[:, 2], X[:, 2])
    met = faces.slack(held) >= -TOLERANCE
    assert met.double().mean() > 0.5
    rest = Polytope(faces.A[:, moving], faces.b - X[met][0, 2] * faces.A[:, 2], faces.equal)
    close(held[met][0, moving], rest.project(X[met][:1, moving], ALL[:3])[0], atol=1e-9)


def test_where_no_point_is_the_projection_ends():
    A = torch.tensor([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]], dtype=torch.float64)
    A[0] /= 2**0.5
    far = polytope(A, torch.tensor([1.5, 0.5], dtype=torch.float64))  # x + y >= 2.1
    assert (far.slack(far.project(uniform(20, 4), ALL)) < -TOLERANCE).all()
    apart = polytope(torch.cat([A[1:], -A[1:]]), torch.tensor([0.6, -0.5], dtype=torch.float64))
    assert (apart.slack(apart.project(uniform(20, 4), ALL)) < -TOLERANCE).all()


def test_opposite_inequalities_leave_a_plane():
    bounds = torch.tensor([[0.0] * 4, [2.0] * 4], dtype=torch.float64)
    one = torch.ones(4, dtype=torch.float64)
    limits = ((torch.arange(4), one, 2.4), (torch.arange(4), -3 * one, -7.2))
    faces = Polytope.over(bounds, limits, ())
    assert faces.equal.tolist() == [True]
    P = faces.project(uniform(50, 4), ALL)
    close(P.sum(-1), torch.full((50,), 1.2, dtype=torch.float64), atol=1e-14)
    same = Polytope.over(bounds, (), (limits[0], (torch.arange(4), -one, -2.4)))
    assert torch.equal(same.project(uniform(50, 4), ALL), P)


def test_conditions_that_only_rounding_breaks_are_left_out():
    bounds = torch.tensor([[0.1, 0.2, 0.0], [0.1, 0.2, 1.0]], dtype=torch.float64)
    pair = torch.tensor([0, 1])
    sums = torch.tensor([-1.0, -1.0], dtype=torch.float64)
    assert not len(Polytope.over(bounds, ((pair, sums, -0.3),), ()))  # 0.1 + 0.2 is not 0.3
    assert not len(Polytope.over(bounds, (), ((pair, sums, -0.3),)))
    assert len(Polytope.over(bounds, ((pair, sums, -0.3 + 1e-6),), ())) == 1
    assert len(Polytope.over(bounds, (), ((pair, sums, -0.3 - 1e-6),))) == 1


def test_the_largest_ball():
    a = -torch.full((1, 2), 2**-0.5, dtype=torch.float64)
    triangle = polytope(a, torch.tensor([-(2**-0.5)], dtype=torch.float64))  # x + y <= 1
    ball = Interior.of(triangle, triangle.b, ALL[:2])
    assert abs(ball.radius - 1 / (2 + 2**0.5)) < 1e-6
    close(torch.tensor(ball.middle), torch.full((2,), ball.radius, dtype=torch.float64), atol=1e-6)
    outside = polytope(a, torch.tensor([1.0], dtype=torch.float64))  # x + y <= -1.4
    assert Interior.of(outside, outside.b, ALL[:2]).radius < 0
    line = Interior.of(polytope(a, triangle.b, equal=1), triangle.b, ALL[:2])
    assert abs(line.radius - 0.5**0.5) < 1e-6
    close(torch.tensor(line.middle), torch.full((2,), 0.5, dtype=torch.float64), atol=1e-6)


def test_the_flat_that_inequalities_leave_is_found():
    # x >= y >= z >= x: the line x = y = z, and w free
    A = torch.tensor([[1.0, -1, 0, 0], [0, 1, -1, 0], [-1, 0, 1, 0]], dtype=torch.float64) / 2**0.5
    faces = polytope(A, torch.zeros(3, dtype=torch.float64))
    assert Interior.of(faces, faces.b, ALL).basis.shape == (4, 2)
    X = fill(uniform(500, 4), faces, ALL, torch.Generator().manual_seed(0))
    close(X[:, :1].expand(-1, 3), X[:, :3], atol=1e-9)
    assert X[:, 0].min() < 0.1
    assert X[:, 0].max() > 0.9
    assert X[:, 3].std() > 0.2


def test_walks_become_uniform_inside():
    a = -torch.full((1, 2), 2**-0.5, dtype=torch.float64)
    triangle = polytope(a, torch.tensor([-(2**-0.5)], dtype=torch.float64))  # x + y <= 1
    start, rest = torch.full((4000, 2), 0.25, dtype=torch.float64), triangle.b.expand(4000, 1)
    inside = Interior.of(triangle, triangle.b, ALL[:2])
    X = hit_and_run(start, triangle, rest, inside, torch.Generator().manual_seed(0))
    assert (triangle.slack(X) >= -1e-12).all()
    close(X.mean(0), torch.full((2,), 1 / 3, dtype=torch.float64), atol=0.02)
    assert abs(float((X.sum(-1) < 0.5).double().mean()) - 0.25) < 0.03  # a quarter of the area
    moving = torch.tensor([True, False])
    rest = triangle.b - start @ (triangle.A * ~moving).mT
    moved = Polytope(triangle.A * moving, triangle.b, triangle.equal)
    held = hit_and_run(start, moved, rest, Interior.of(triangle, rest[0], moving), torch.Generator().manual_seed(0))
    assert (held[:, 1] == 0.25).all()
    assert held[:, 0].max() > 0.7


def test_walks_become_uniform_on_a_simplex():
    faces = polytope(torch.full((1, 4), 0.5, dtype=torch.float64), torch.tensor([0.5], dtype=torch.float64), equal=1)
    X = fill(uniform(4000, 4), faces, ALL, torch.Generator().manual_seed(0))
    close(X.sum(-1), torch.ones(4000, dtype=torch.float64), atol=1e-12)
    close(X.mean(0), torch.full((4,), 0.25, dtype=torch.float64), atol=0.015)
    assert abs(float((X[:, 0] > 0.5).double().mean()) - 0.125) < 0.02  # (1 - x)^3


def test_equalities_are_solved_for_the_column_with_most_room():
    E = np.array([[1.0, 1.0, 1.0, 0.0], [0.0, 1.0, -1.0, 2.0]])
    e = np.array([1.0, 0.3])
    X = uniform(300, 4).numpy()
    room = np.minimum(X, 1 - X)
    solved = solve_equalities(X, E, e, room)
    assert np.abs(solved @ E.T - e).max() < 1e-14
    assert ((solved != X).sum(axis=1) <= 2).all()
    twice = solve_equalities(X, np.vstack([E, E[:1]]), np.r_[e, e[0]], room)  # one of them says nothing new
    assert np.abs(twice @ E.T - e).max() < 1e-13


def test_the_nearest_whole_numbers():
    a = torch.tensor([[-1.0, -1.0, 0.0]], dtype=torch.float64) / 2**0.5
    b = torch.tensor([-0.8], dtype=torch.float64) / 2**0.5  # x + y <= 0.8
    steps = torch.tensor([4.0, 0.0, 2.0])
    y = torch.tensor([0.75, 0.2, 0.5], dtype=torch.float64)
    faces = polytope(a, b)
    none = torch.zeros(3, dtype=torch.bool)
    close(nearest_whole(y, faces, steps, none), torch.tensor([0.75, 0.05, 0.5], dtype=torch.float64), atol=1e-6)
    held = torch.tensor([False, True, False])
    close(nearest_whole(y, faces, steps, held), torch.tensor([0.5, 0.2, 0.5], dtype=torch.float64), atol=1e-6)
    assert nearest_whole(torch.ones_like(y), faces, steps, held) is None
