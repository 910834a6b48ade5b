import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from beebo_scale.proposal.box.polytope import TOLERANCE, center, hit_and_run, nearest_whole, project, slack
from tests.helpers import LAWS, close, normal, uniform

ALL = torch.ones(4, dtype=torch.bool)


def inequalities(c, d, seed):
    """C inequalities that a random point meets."""
    A = normal(c, d, seed=seed)
    A = A / A.norm(dim=-1, keepdim=True)
    return A, A @ uniform(d, seed=seed + 1) - 0.1 * uniform(c, seed=seed + 2)


@pytest.mark.slow
@LAWS
@given(st.integers(1, 4), st.integers(0, 10**6))
def test_the_projection_is_the_nearest_point(c, seed):
    A, b = inequalities(c, 4, seed)
    X = 3 * uniform(5, 4, seed=seed + 3) - 1
    P = project(X, A, b)
    assert (slack(P, A, b) >= -TOLERANCE).all()
    assert ((P >= 0) & (P <= 1)).all()
    clipped = X.clamp(0, 1)
    for x, p in zip(clipped, P, strict=True):
        best = minimize(
            lambda z, x=x: ((z - x.numpy()) ** 2).sum(),
            p.numpy(),
            jac=lambda z, x=x: 2 * (z - x.numpy()),
            bounds=[(0, 1)] * 4,
            constraints=[{"type": "ineq", "fun": lambda z: A.numpy() @ z - b.numpy(), "jac": lambda z: A.numpy()}],
            method="SLSQP",
            options={"ftol": 1e-14},
        )
        assert float((p - x).square().sum()) <= best.fun + 1e-7


def test_points_inside_stay_and_right_hand_sides_may_differ():
    A, b = inequalities(2, 4, 0)
    X = uniform(200, 4, seed=5)
    inside = slack(X, A, b) >= 0
    assert inside.any()
    assert not inside.all()
    P = project(X, A, b)
    assert torch.equal(P[inside], X[inside])
    limits = b - uniform(200, 2, seed=6)
    alone = torch.cat([project(X[i : i + 1], A, limits[i]) for i in range(200)])
    close(project(X, A, limits), alone, atol=1e-9)


def test_opposite_inequalities_leave_a_plane():
    a = torch.full((1, 4), 0.5, dtype=torch.float64)
    A, b = torch.cat([a, -a]), torch.tensor([0.6, -0.6], dtype=torch.float64)
    P = project(uniform(50, 4), A, b)
    close(P @ a[0], torch.full((50,), 0.6, dtype=torch.float64))
    assert center(A, b, ALL)[1] < 1e-9


def test_the_largest_ball():
    a = -torch.full((1, 2), 2**-0.5, dtype=torch.float64)
    x, radius = center(a, torch.tensor([-(2**-0.5)], dtype=torch.float64), ALL[:2])  # x + y <= 1
    assert radius == torch.tensor(1 / (2 + 2**0.5)).item() or abs(radius - 1 / (2 + 2**0.5)) < 1e-6
    close(x, torch.full((2,), radius, dtype=torch.float64), atol=1e-6)
    assert center(a, torch.tensor([1.0], dtype=torch.float64), ALL[:2])[1] < 0  # x + y <= -1.4


def test_walks_become_uniform_inside():
    a = -torch.full((1, 2), 2**-0.5, dtype=torch.float64)
    b = torch.tensor([-(2**-0.5)], dtype=torch.float64)  # the triangle x + y <= 1
    start = torch.full((4000, 2), 0.25, dtype=torch.float64)
    X = hit_and_run(start, a, b, ALL[:2], 50, torch.Generator().manual_seed(0))
    assert (slack(X, a, b) >= -1e-12).all()
    close(X.mean(0), torch.full((2,), 1 / 3, dtype=torch.float64), atol=0.02)
    assert abs(float((X.sum(-1) < 0.5).double().mean()) - 0.25) < 0.03  # a quarter of the area
    held = hit_and_run(start, a, b, torch.tensor([True, False]), 5, torch.Generator().manual_seed(0))
    assert (held[:, 1] == 0.25).all()


def test_the_nearest_whole_numbers():
    a = torch.tensor([[-1.0, -1.0, 0.0]], dtype=torch.float64) / 2**0.5
    b = torch.tensor([-0.8], dtype=torch.float64) / 2**0.5  # x + y <= 0.8
    steps = torch.tensor([4.0, 0.0, 2.0])
    y = torch.tensor([0.75, 0.2, 0.5], dtype=torch.float64)
    none = torch.zeros(3, dtype=torch.bool)
    close(nearest_whole(y, a, b, steps, none), torch.tensor([0.75, 0.05, 0.5], dtype=torch.float64), atol=1e-6)
    held = torch.tensor([False, True, False])
    close(nearest_whole(y, a, b, steps, held), torch.tensor([0.5, 0.2, 0.5], dtype=torch.float64), atol=1e-6)
    assert nearest_whole(torch.ones_like(y), a, b, steps, held) is None
