r"""Points of the unit cube under linear inequalities A x >= b: nearest, random, whole-numbered.

Shapes: n points, d columns, c inequalities with rows of length one, so that A x - b is a distance. The right-hand
sides may differ from point to point (n x c), as they do where some columns of each point are held.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from scipy.optimize import Bounds, LinearConstraint, linprog, milp, nnls
from torch import Tensor

Inequality = tuple[Tensor, Tensor, float]  # indices, coefficients, right-hand side: sum_i c_i x_i >= b, as in botorch
TOLERANCE = 1e-11  # an inequality missed by less is met
SWEEPS = 30  # over all inequalities; one is exact at once, several converge, mostly soon
WALK = 50  # steps of a random walk


def faces(bounds: Tensor, inequalities: Sequence[Inequality]) -> tuple[Tensor, Tensor]:
    """Inequalities over a box (2 x d) as A x >= b in the unit cube, rows of length one: c x d and c.

    Those that no point of the box breaks are left out.
    """
    lo, hi = bounds
    rows, right = [], []
    for indices, coefficients, bound in inequalities:
        a = torch.zeros_like(lo).index_add_(0, indices.to(lo.device), coefficients.to(lo))
        a, rest = a * (hi - lo), bound - float(a @ lo)
        if float(a.clamp_max(0.0).sum()) < rest:
            length = max(float(a.norm()), torch.finfo(a.dtype).tiny)
            rows.append(a / length)
            right.append(rest / length)
    A = torch.stack(rows) if rows else lo.new_zeros(0, len(lo))
    return A, torch.tensor(right, dtype=torch.float64).to(lo)


def slack(X: Tensor, A: Tensor, b: Tensor) -> Tensor:
    """How far each point (n x d) is inside its nearest inequality, n; infinite without any."""
    return torch.cat([X @ A.mT - b, X.new_full((len(X), 1), torch.inf)], dim=-1).amin(-1)


def project(X: Tensor, A: Tensor, b: Tensor) -> Tensor:
    """The nearest point of the cube that meets the inequalities, n x d -> n x d.

    The multipliers are found one inequality at a time, each exactly, for all points at once (Hildreth's method, the
    cube exact throughout); the points for which that converges slowly by an active-set method, one by one. Where no
    point meets all inequalities, what comes back does not either.

    Args:
        X: n x d; clipped to the cube first.
        A: c x d with rows of length one, or zero (such a row asks nothing of X).
        b: c or n x c.
    """
    X = X.clamp(0.0, 1.0)
    bad = slack(X, A, b) < 0.0
    if not bool(bad.any()):
        return X
    Y, b = X[bad], b.expand(len(X), len(A))[bad]
    multipliers, change = Y.new_zeros(len(Y), len(A)), Y.new_zeros(len(Y))
    for _ in range(SWEEPS if len(A) > 1 else 1):
        before = multipliers.clone()
        for j in range(len(A)):
            multipliers[:, j] = 0.0
            multipliers[:, j] = _multiplier(Y + multipliers @ A, A[j], b[:, j])
        change = (multipliers - before).abs().amax(-1)
        if bool((change < 0.1 * TOLERANCE).all()):
            break
    P = (Y + multipliers @ A).clamp(0.0, 1.0)
    if len(A) > 1:
        for row in (change >= 0.1 * TOLERANCE).nonzero().squeeze(-1).tolist():
            P[row] = _least_distance(Y[row], A, b[row], P[row])
    X = X.clone()
    X[bad] = P
    return X


def _least_distance(y: Tensor, A: Tensor, b: Tensor, otherwise: Tensor) -> Tensor:
    """`project` of one point y (d), as non-negative least squares (Lawson and Hanson, chapter 23)."""
    x, rows = y.cpu().numpy(), A.cpu().numpy()
    faces = np.concatenate([rows, np.eye(len(x)), -np.eye(len(x))])
    missed = np.concatenate([b.cpu().numpy() - rows @ x, -x, x - 1.0])
    E = np.concatenate([faces.T, missed[None]])
    f = np.r_[np.zeros(len(x)), 1.0]
    u, _ = nnls(E, f, maxiter=50 * E.shape[1])
    r = E @ u - f
    if -r[-1] < TOLERANCE:
        return otherwise  # no point meets them all
    return torch.as_tensor(x - r[:-1] / r[-1]).to(y).clamp(0.0, 1.0)


def _multiplier(Y: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """The smallest t >= 0 with a' clip(y + t a) >= b (n), from the pieces of this rising function of t.

    Args:
        Y: n x d.
        a: d.
        b: n.
    """
    moving = a != 0
    if not bool(moving.any()):
        return torch.zeros_like(b)
    y, a = Y[:, moving], a[moving]
    ends = torch.cat([-y / a, (1.0 - y) / a, torch.zeros_like(y[:, :1])], dim=-1)  # where a coordinate starts or stops
    t = ends.clamp_min(0.0).sort(dim=-1).values  # n x k, from zero
    reached = torch.zeros_like(t)  # a' clip(y + t a); a loop over columns keeps memory at n x k
    for i in range(len(a)):
        reached += a[i] * (y[:, i : i + 1] + t * a[i]).clamp_(0.0, 1.0)
    last = t.shape[-1] - 1
    high = (reached < b.unsqueeze(-1)).sum(-1, keepdim=True).clamp(max=last)  # the first piece end that is enough
    low = (high - 1).clamp_min(0)
    t0, t1, g0, g1 = t.gather(-1, low), t.gather(-1, high), reached.gather(-1, low), reached.gather(-1, high)
    part = ((b.unsqueeze(-1) - g0) / (g1 - g0).clamp_min(torch.finfo(t.dtype).tiny)).clamp(0.0, 1.0)
    return torch.where(high > 0, t0 + part * (t1 - t0), 0.0).squeeze(-1)


def center(A: Tensor, b: Tensor, moving: Tensor) -> tuple[Tensor, float]:
    """The middle of the largest ball inside cube and inequalities and its radius, over the moving columns.

    Args:
        A: c x d.
        b: c.
        moving: d booleans; the other columns stay at zero and do not count.

    Returns:
        d, and a radius that is negative where no point meets the inequalities.
    """
    columns = moving.nonzero().squeeze(-1).cpu().numpy()
    rows, right = A[:, moving].cpu().numpy(), b.cpu().numpy()
    k = len(columns)
    if k == 0:
        return torch.zeros(len(moving), dtype=A.dtype, device=A.device), float(slack(A.new_zeros(1, A.shape[1]), A, b))
    eye, one = np.eye(k), np.ones((k, 1))
    upper = np.block([[-rows, np.linalg.norm(rows, axis=1)[:, None]], [eye, one], [-eye, one]])
    limit = np.concatenate([-right, np.ones(k), np.zeros(k)])
    solved = linprog(np.r_[np.zeros(k), -1.0], upper, limit, bounds=[(None, None)] * (k + 1), method="highs")
    x = torch.zeros(len(moving), dtype=A.dtype, device=A.device)
    x[moving] = torch.as_tensor(solved.x[:k], dtype=A.dtype, device=A.device)
    return x.clamp(0.0, 1.0), float(solved.x[k])


def hit_and_run(X: Tensor, A: Tensor, b: Tensor, moving: Tensor, steps: int, generator: torch.Generator) -> Tensor:
    """One random walk from each point: a random direction, then anywhere on the chord (uniform in the limit).

    Args:
        X: n x d points inside.
        A: c x d.
        b: c or n x c.
        moving: d booleans, the columns that move.
        steps: of every walk.
        generator: on the CPU.
    """
    faces = torch.cat([A, torch.eye(A.shape[1]).to(A), -torch.eye(A.shape[1]).to(A)])
    limits = torch.cat([b.expand(len(X), len(A)), X.new_zeros(X.shape), -X.new_ones(X.shape)], dim=-1)
    for _ in range(steps):
        V = torch.randn(X.shape, generator=generator, dtype=torch.float64).to(X) * moving
        rate, room = V @ faces.mT, (X @ faces.mT - limits).clamp_min(0.0)  # room shrinks by -rate
        ahead = torch.where(rate < 0, -room / rate, torch.inf).amin(-1, keepdim=True)
        behind = torch.where(rate > 0, -room / rate, -torch.inf).amax(-1, keepdim=True)
        u = torch.rand(len(X), 1, generator=generator, dtype=torch.float64).to(X)
        step = torch.where(torch.isfinite(ahead - behind), torch.lerp(behind, ahead, u), 0.0)
        X = (X + step * V).clamp(0.0, 1.0)
    return X


def fill(U: Tensor, A: Tensor, b: Tensor, moving: Tensor, generator: torch.Generator) -> Tensor:
    """Points (n x d) with those outside the inequalities replaced by the ends of random walks inside.

    Args:
        U: n x d; the columns that do not move are alike in all points, or not in A.
        A: c x d.
        b: c.
        moving: d booleans, the columns that move.
        generator: on the CPU.
    """
    outside = slack(U, A, b) < 0.0
    if not bool(outside.any()):
        return U
    rest = b - U[outside] @ (A * ~moving).mT
    middle, radius = center(A * moving, rest[0], moving)
    if radius > 1e-9:  # else the inequalities leave only a face, and a projection onto it must do
        U = U.clone()
        walkers = torch.where(moving, middle, U[outside])
        U[outside] = hit_and_run(walkers, A * moving, rest, moving, WALK, generator)
    return U


def nearest_whole(y: Tensor, A: Tensor, b: Tensor, steps: Tensor, held: Tensor) -> Tensor | None:
    """A point that meets the inequalities with whole-numbered columns, nearest to y in the sum of distances.

    Args:
        y: d, in the cube.
        A: c x d.
        b: c.
        steps: d; a column with k > 0 steps may be 0, 1/k, ..., 1; the others are continuous.
        held: d booleans, the columns that stay at y.

    Returns:
        d, or None where there is none. Continuous columns meet the inequalities to about 1e-7 only.
    """
    target, count = y.cpu().numpy(), steps.cpu().numpy()
    d, whole = len(target), count > 0
    scale = np.where(whole, 1.0 / np.maximum(count, 1), 1.0)  # x = scale z
    low = np.where(held.cpu().numpy(), target / scale, 0.0)
    high = np.where(held.cpu().numpy(), target / scale, 1.0 / scale)
    whole &= ~held.cpu().numpy()
    matrix, eye = A.cpu().numpy() * scale, np.eye(d)
    distances = np.block([[np.diag(scale), eye], [-np.diag(scale), eye]])  # t >= |x - y|
    solved = milp(
        np.r_[np.zeros(d), np.ones(d)],
        integrality=np.r_[whole.astype(float), np.zeros(d)],
        bounds=Bounds(np.r_[low, np.zeros(d)], np.r_[high, np.full(d, np.inf)]),
        constraints=[
            LinearConstraint(np.hstack([matrix, np.zeros((len(matrix), d))]), lb=b.cpu().numpy()),
            LinearConstraint(distances, lb=np.r_[target, -target]),
        ],
    )
    if solved.x is None:
        return None
    z = np.where(whole, np.rint(solved.x[:d]), solved.x[:d])
    return torch.as_tensor(np.clip(np.where(held.cpu().numpy(), target, scale * z), 0.0, 1.0)).to(y)
