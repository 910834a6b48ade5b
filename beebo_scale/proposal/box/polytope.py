r"""Points of the unit cube under linear conditions A x >= b or A x = b: nearest, random, whole-numbered.

Shapes: n points, d columns, c conditions with rows of length one, so that A x - b is a distance. The right-hand sides
may differ from point to point (n x c), as they do where some columns of each point are held.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import null_space
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from torch import Tensor

from .nearest import Conditions, nearest

Inequality = tuple[Tensor, Tensor, float]  # indices, coefficients, right-hand side: sum_i c_i x_i >= b, as in botorch
TOLERANCE = 1e-11  # a condition missed by less is met
DUST = 1e-12  # of the numbers that meet in a condition: rounding
FLAT = 1e-7  # room that is none: the accuracy of linear programs
WALK = 50  # steps of a random walk


@dataclass(frozen=True, eq=False)
class Polytope:
    """Points x of the unit cube with A x >= b, in some rows A x = b.

    Attributes:
        A: c x d, rows of length one.
        b: c.
        equal: c booleans.
    """

    A: Tensor
    b: Tensor
    equal: Tensor

    @classmethod
    def over(cls, bounds: Tensor, inequalities: Sequence[Inequality], equalities: Sequence[Inequality]) -> Polytope:
        """Conditions over a box (2 x d), in its unit cube; those that no point breaks (but by rounding) are left out.

        Two opposite inequalities are one equality, and parallel equalities with the same right-hand side count once.
        """
        lo, hi = bounds
        rows: list[tuple[Tensor, float, bool]] = []
        for (indices, coefficients, bound), equal in [
            *((limit, True) for limit in equalities),
            *((limit, False) for limit in inequalities),
        ]:
            own = torch.zeros_like(lo).index_add_(0, indices.to(lo.device), coefficients.to(lo))
            a, rest = own * (hi - lo), bound - float(own @ lo)
            dust = DUST * (abs(bound) + float((own * lo).abs().sum() + a.abs().sum()))
            least, most = float(a.clamp_max(0.0).sum()), float(a.clamp_min(0.0).sum())
            if least >= rest - dust and (not equal or most <= rest + dust):
                continue
            length = max(float(a.norm()), torch.finfo(a.dtype).tiny)
            _add(rows, a / length, rest / length, equal)
        A = torch.stack([a for a, _, _ in rows]) if rows else lo.new_zeros(0, len(lo))
        b = torch.tensor([b for _, b, _ in rows], dtype=torch.float64).to(lo)
        return cls(A, b, torch.tensor([equal for _, _, equal in rows], dtype=torch.bool, device=lo.device))

    def __len__(self) -> int:
        return len(self.A)

    def slack(self, X: Tensor) -> Tensor:
        """How far each point (n x d) is inside its nearest condition, n; never above zero with an equality."""
        rest = X @ self.A.mT - self.b
        rest = torch.where(self.equal, -rest.abs(), rest)
        return torch.cat([rest, X.new_full((len(X), 1), torch.inf)], dim=-1).amin(-1)

    def project(self, X: Tensor, moving: Tensor) -> Tensor:
        """The nearest point that meets the conditions with only some columns (d booleans) moving, n x d -> n x d.

        Where there is none, what comes back does not meet them either.
        """
        A = _array(self.A[:, moving])
        rest = _array(self.b - X @ (self.A * ~moving).mT)  # n x c
        conditions = Conditions(A, rest, np.ones(A.shape[1]), _array(self.equal).astype(bool))
        X = X.clone()
        X[:, moving] = torch.as_tensor(nearest(_array(X[:, moving]), conditions)[0]).to(X)
        return X

    def project_batches(self, U: Tensor, moving: Tensor, tied: Tensor) -> Tensor:
        """The nearest batches with tied columns alike in all points of one, b x q x d -> b x q x d.

        One problem for each batch: a tied column is one variable, sqrt(q) times as long as it counts in all points.

        Args:
            U: b x q x d, tied columns alike.
            moving: d booleans, the columns that move.
            tied: d booleans.
        """
        q, own, alike = U.shape[1], moving & ~tied, moving & tied
        single, joint = _array(self.A[:, own]), _array(self.A[:, alike]) / q**0.5  # c x o, c x k
        each = np.zeros((q, len(self), q, single.shape[1]))
        each[np.arange(q), :, np.arange(q)] = single
        A = np.concatenate([np.tile(joint, (q, 1)), each.reshape(q * len(self), -1)], axis=1)
        rest = _array(self.b - U @ (self.A * ~moving).mT).reshape(len(U), -1)  # b x q c
        top = np.r_[np.full(joint.shape[1], q**0.5), np.ones(q * single.shape[1])]
        conditions = Conditions(A, rest, top, np.tile(_array(self.equal).astype(bool), q))
        Y = torch.cat([U[:, 0, alike] * q**0.5, U[..., own].flatten(1)], dim=-1)
        found = torch.as_tensor(nearest(_array(Y), conditions)[0]).to(U)
        U = U.clone()
        U[..., alike] = (found[:, : joint.shape[1]] / q**0.5).clamp(0.0, 1.0).unsqueeze(1)
        U[..., own] = found[:, joint.shape[1] :].reshape(len(U), q, -1)
        return U

    def solved(self, U: Tensor, movable: Tensor) -> Tensor:
        """Points with one column for each equality put where that holds, the one with most room: n x d -> n x d."""
        if not bool(self.equal.any()):
            return U
        E, e = _array(self.A[self.equal]), _array(self.b[self.equal])
        u = _array(U)
        return torch.as_tensor(solve_equalities(u, E, e, np.minimum(u, 1.0 - u) * _array(movable))).to(U)


def _add(rows: list[tuple[Tensor, float, bool]], a: Tensor, b: float, equal: bool) -> None:
    """One condition more, unless it makes an equality of one of those before, or repeats it."""
    for i, (other, bound, same) in enumerate(rows):
        sign = 1.0 if float(a @ other) > 0 else -1.0
        if float((a - sign * other).abs().max()) > TOLERANCE or abs(b - sign * bound) > TOLERANCE:
            continue
        if same or equal or sign < 0:
            rows[i] = (other, bound, True)
            return
    rows.append((a, b, equal))


def _array(values: Tensor) -> NDArray[np.float64]:
    return values.detach().cpu().numpy().astype(float, copy=False)


def solve_equalities(
    X: NDArray[np.float64], E: NDArray[np.float64], e: NDArray[np.float64], room: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Points (n x d) with E x = e, one column of each point changed for each of the m equalities.

    Args:
        X: n x d.
        E: m x d.
        e: m, or n x m.
        room: n x d, how far a column may move; the column with most of it, times its coefficient, is changed.
    """
    rows, pivots = np.arange(len(X)), np.zeros((len(X), len(E)), dtype=int)
    left = np.repeat(E[None], len(X), axis=0)  # n x m x d, brought to echelon form
    for i in range(len(E)):
        pivots[:, i] = (np.abs(left[:, i]) * room).argmax(axis=1)
        lead = left[rows, i, pivots[:, i]][:, None, None]
        part = left[rows, :, pivots[:, i]][:, i + 1 :, None] / np.where(lead == 0.0, np.inf, lead)
        left[:, i + 1 :] -= part * left[:, i : i + 1]
        left[np.abs(left) < DUST] = 0.0
    change = np.linalg.pinv(np.swapaxes(E.T[pivots], 1, 2), rcond=DUST) @ (e - X @ E.T)[:, :, None]
    X = X.copy()
    np.add.at(X, (rows[:, None], pivots), change[:, :, 0])
    return X


@dataclass(frozen=True, eq=False)
class Interior:
    """Where walks inside conditions may go: the smallest flat that holds all points, and the middle of it.

    Attributes:
        middle: d, the middle of the largest ball in the flat; columns that do not move are zero.
        basis: d x k, orthonormal, of the flat.
        radius: of the ball; negative where no point meets the conditions.
    """

    middle: NDArray[np.float64]
    basis: NDArray[np.float64]
    radius: float

    @classmethod
    def of(cls, polytope: Polytope, b: Tensor, moving: Tensor) -> Interior:
        """Over the moving columns (d booleans), the right-hand sides (c) with the others taken off."""
        k, d = int(moving.sum()), len(moving)
        eye = np.eye(k)
        faces = np.concatenate([_array(polytope.A[:, moving]), eye, -eye])  # the cube's faces count as any other
        right = np.concatenate([_array(b), np.zeros(k), -np.ones(k)])
        equal = np.concatenate([_array(polytope.equal).astype(bool), np.zeros(2 * k, dtype=bool)])
        x, flat, radius = _largest_ball(faces, right, equal)
        if -FLAT < radius <= FLAT:  # no room to a side of some inequalities: they hold with equality
            equal |= np.array([_most(faces, right, equal, face) for face in range(len(faces))]) <= FLAT
            x, flat, radius = _largest_ball(faces, right, equal)
        middle, basis = np.zeros(d), np.zeros((d, flat.shape[1]))
        middle[_array(moving).astype(bool)], basis[_array(moving).astype(bool)] = x.clip(0.0, 1.0), flat
        return cls(middle, basis, radius)


def _largest_ball(
    faces: NDArray[np.float64], right: NDArray[np.float64], equal: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Middle (k), basis of the flat (k x f) and radius of the largest ball in it; the radius is -1 if there is none."""
    k = faces.shape[1]
    flat = null_space(faces[equal], rcond=FLAT) if equal.any() else np.eye(k)
    if k == 0:
        missed = np.where(equal, np.abs(right), right).max(initial=0.0)
        return np.zeros(0), flat, -missed
    lengths = np.linalg.norm(faces @ flat, axis=1)
    solved = linprog(
        np.r_[np.zeros(k), -1.0],
        np.c_[-faces, lengths][~equal],
        TOLERANCE - right[~equal],
        np.c_[faces, np.zeros(len(faces))][equal] if equal.any() else None,
        right[equal] if equal.any() else None,
        bounds=[(None, None)] * k + [(None, 1.0)],
        method="highs",
    )
    return (np.zeros(k), flat, -1.0) if solved.x is None else (solved.x[:k], flat, float(solved.x[k]))


def _most(faces: NDArray[np.float64], right: NDArray[np.float64], equal: NDArray[np.bool_], face: int) -> float:
    """How far a point may be inside one condition while it meets all."""
    limits = [(bound, bound if same else np.inf) for bound, same in zip(right, equal, strict=True)]
    low, high = np.array(limits).T
    solved = milp(-faces[face], constraints=LinearConstraint(faces, low, high), bounds=(-np.inf, np.inf))
    return np.inf if solved.x is None else float(faces[face] @ solved.x - right[face])


def hit_and_run(X: Tensor, polytope: Polytope, b: Tensor, inside: Interior, generator: torch.Generator) -> Tensor:
    """One random walk from each point: a random direction, then anywhere on the chord (uniform in the limit).

    Args:
        X: n x d points inside.
        polytope: of the conditions.
        b: n x c, right-hand sides of the walks.
        inside: the flat that they stay in.
        generator: on the CPU.
    """
    basis = torch.as_tensor(inside.basis).to(X)
    eye = torch.eye(X.shape[1]).to(X)
    faces = torch.cat([polytope.A, eye, -eye])
    limits = torch.cat([b, X.new_zeros(X.shape), -X.new_ones(X.shape)], dim=-1)
    crossed = (faces @ basis).norm(dim=-1) > FLAT  # the others hold with equality, or do not change
    faces, limits = faces[crossed], limits[:, crossed]
    for _ in range(WALK):
        V = torch.randn(len(X), basis.shape[1], generator=generator, dtype=torch.float64).to(X) @ basis.mT
        rate, room = V @ faces.mT, (X @ faces.mT - limits).clamp_min(0.0)  # room shrinks by -rate
        ahead = torch.where(rate < 0, -room / rate, torch.inf).amin(-1, keepdim=True)
        behind = torch.where(rate > 0, -room / rate, -torch.inf).amax(-1, keepdim=True)
        u = torch.rand(len(X), 1, generator=generator, dtype=torch.float64).to(X)
        step = torch.where(torch.isfinite(ahead - behind), torch.lerp(behind, ahead, u), 0.0)
        X = (X + step * V).clamp(0.0, 1.0)
    return X


def fill(U: Tensor, polytope: Polytope, moving: Tensor, generator: torch.Generator) -> Tensor:
    """Points (n x d) with those outside the conditions replaced by the ends of random walks inside.

    Args:
        U: n x d; the columns that do not move are alike in all points, or not in the conditions.
        polytope: the conditions.
        moving: d booleans, the columns that move.
        generator: on the CPU.
    """
    outside = polytope.slack(U) < 0.0
    if not bool(outside.any()):
        return U
    rest = polytope.b - U[outside] @ (polytope.A * ~moving).mT
    inside = Interior.of(polytope, rest[0], moving)
    if inside.radius > FLAT and inside.basis.shape[1]:  # else there is one point, or none: a projection must do
        walkers = torch.where(moving, torch.as_tensor(inside.middle).to(U), U[outside])
        moved = Polytope(polytope.A * moving, polytope.b, polytope.equal)
        U = U.clone()
        U[outside] = hit_and_run(walkers, moved, rest, inside, generator)
    return U


def nearest_whole(y: Tensor, polytope: Polytope, steps: Tensor, held: Tensor) -> Tensor | None:
    """A point that meets the conditions with whole-numbered columns, nearest to y in the sum of distances.

    Args:
        y: d, in the cube.
        polytope: the conditions.
        steps: d; a column with k > 0 steps may be 0, 1/k, ..., 1; the others are continuous.
        held: d booleans, the columns that stay at y.

    Returns:
        d, or None where there is none. Continuous columns meet the conditions to about 1e-7 only.
    """
    target, count = y.cpu().numpy(), steps.cpu().numpy()
    d, whole = len(target), count > 0
    scale = np.where(whole, 1.0 / np.maximum(count, 1), 1.0)  # x = scale z
    low = np.where(held.cpu().numpy(), target / scale, 0.0)
    high = np.where(held.cpu().numpy(), target / scale, 1.0 / scale)
    whole &= ~held.cpu().numpy()
    matrix, eye, right = _array(polytope.A) * scale, np.eye(d), _array(polytope.b)
    distances = np.block([[np.diag(scale), eye], [-np.diag(scale), eye]])  # t >= |x - y|
    solved = milp(
        np.r_[np.zeros(d), np.ones(d)],
        integrality=np.r_[whole.astype(float), np.zeros(d)],
        bounds=Bounds(np.r_[low, np.zeros(d)], np.r_[high, np.full(d, np.inf)]),
        constraints=[
            LinearConstraint(
                np.hstack([matrix, np.zeros((len(matrix), d))]), right, np.where(_array(polytope.equal), right, np.inf)
            ),
            LinearConstraint(distances, lb=np.r_[target, -target]),
        ],
    )
    if solved.x is None:
        return None
    z = np.where(whole, np.rint(solved.x[:d]), solved.x[:d])
    return torch.as_tensor(np.clip(np.where(held.cpu().numpy(), target, scale * z), 0.0, 1.0)).to(y)
