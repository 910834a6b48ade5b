import warnings
from dataclasses import replace

import pytest
import torch
from gpytorch.kernels import Kernel

from beebo_scale.errors import InputError
from beebo_scale.kernels.stationary import StationaryKernel
from beebo_scale.linalg.conjugate_gradients import CovarianceSolver, conjugate_gradients
from beebo_scale.linalg.kernel_matrix import KernelMatrix
from tests.helpers import close, matern52, normal, uniform

ARD = torch.tensor([0.5, 0.9, 0.7], dtype=torch.float64)


class Indefinite(Kernel):
    """sin(9 |x - x'|): symmetric, and a kernel in no other way."""

    def forward(self, x1, x2, diag=False, **params):
        r = (x1.unsqueeze(-2) - x2.unsqueeze(-3)).norm(dim=-1)
        return torch.ones_like(x1[..., 0]) if diag else torch.sin(9 * r) + (r == 0)


def system(n=200, sigma2=1e-2, size=30, **options):
    """A solver and its matrix."""
    Z = uniform(n, 3)
    sigma2 = torch.as_tensor(sigma2, dtype=torch.float64).expand(n)
    solver = CovarianceSolver(KernelMatrix(StationaryKernel(2.5, ARD, 1.0, None), Z), sigma2, size, **options)
    return solver, matern52(Z, Z, ARD, 1.0) + torch.diag(sigma2)


@pytest.mark.parametrize("columns", [1, 5, 90])
@pytest.mark.parametrize("sigma2", [1e-1, 1e-4])
def test_solutions_agree_with_a_dense_solve(sigma2, columns):
    solver, A = system(sigma2=sigma2)
    B = normal(200, columns)
    found = solver.solution(B, relative=1e-10)
    close(found.X, torch.linalg.solve(A, B), rtol=1e-6, atol=1e-6 / sigma2)
    close(found.KX, A @ found.X)
    assert found.converged
    assert found.residual <= 2e-10 + 1e-13 / sigma2  # or what rounding leaves
    assert 0 < found.iterations < 100


def test_the_quadratic_form_lacks_no_more_than_asked_for():
    solver, A = system(n=400, sigma2=1e-3, size=20)
    B = matern52(solver.K.Z, uniform(30, 3, seed=5), ARD, 1.0)
    exact = (B * torch.linalg.solve(A, B)).sum(0)
    for error in (1e-2, 1e-5, 1e-8):
        X, KX = solver.solve(B, torch.full((30,), error, dtype=torch.float64))
        lacks = exact - (2 * (B * X).sum(0) - (X * KX).sum(0))
        assert float(lacks.max()) <= 4 * error  # the true residual may be twice that of the recursion
        assert float(lacks.min()) > -1e-9


@pytest.mark.slow
def test_each_column_has_its_own_tolerance():
    solver, _ = system(sigma2=1e-3, size=10)
    B = normal(200, 2)
    strict = solver.solution(B, relative=1e-10)
    mixed = solver.solution(B, relative=torch.tensor([1e-10, 1e-1], dtype=torch.float64))
    close(mixed.X[:, 0], strict.X[:, 0], rtol=1e-5, atol=1e-5)
    assert mixed.iterations <= strict.iterations


def test_noise_by_row():
    solver, A = system(n=300, sigma2=10.0 ** (-4 * uniform(300, seed=3)))
    B = normal(300, 3)
    close(solver.solution(B, relative=1e-11).X, torch.linalg.solve(A, B), rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("n", [1, 3, 20])
def test_fewer_rows_than_columns(n):
    solver, A = system(n=n)
    B = normal(n, 30)
    close(solver.solution(B, relative=1e-12).X, torch.linalg.solve(A, B), rtol=1e-7, atol=1e-7)


def test_columns_that_repeat_each_other_or_are_zero():
    solver, A = system()
    b = normal(200, 1)
    B = torch.cat([b, b, torch.zeros_like(b), 1e-9 * b, 3 * b], dim=-1)
    found = solver.solution(B, relative=1e-10)
    close(found.X, torch.linalg.solve(A, B), rtol=1e-7, atol=1e-7)
    assert torch.equal(found.X[:, 2], torch.zeros(200, dtype=torch.float64))


@pytest.mark.slow
def test_rows_that_repeat_each_other_by_the_thousand():
    n = 1500
    Z = uniform(5, 3).repeat(n // 5, 1) + 1e-9 * normal(n, 3)
    solver = CovarianceSolver(
        KernelMatrix(StationaryKernel(2.5, ARD, 1.0, None), Z), torch.full((n,), 1e-4).double(), 100
    )
    A = matern52(Z, Z, ARD, 1.0) + 1e-4 * torch.eye(n, dtype=torch.float64)
    B = normal(n, 2)
    found = solver.solution(B, relative=1e-10)
    close(A @ found.X, B, rtol=1e-5, atol=1e-5)
    assert found.iterations < 10


def test_not_converging_is_said_with_the_residual():
    solver, _ = system(n=600, sigma2=1e-6, size=20, max_iterations=3)
    B = normal(600, 1)
    with pytest.warns(UserWarning, match=r"did not converge: relative residual \d.*after 3 iterations"):
        found = solver.solution(B, relative=1e-10)
    assert not found.converged
    assert found.residual > 1e-8
    assert found.iterations == 3


def test_what_a_number_format_cannot_resolve_is_not_asked_for():
    solver, A = system(sigma2=0.1)
    B = normal(200, 2).float()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = solver.to(torch.float32).solution(B, relative=1e-12)
    close(found.X, torch.linalg.solve(A, B.double()).float(), rtol=1e-2, atol=1e-2)


def test_a_kernel_that_is_none():
    Z = uniform(100, 3)
    solver = CovarianceSolver(KernelMatrix(Indefinite(), Z), torch.full((100,), 1e-2).double())
    with pytest.raises(InputError, match="not positive definite"):
        solver.solution(normal(100, 2), relative=1e-8)


def test_right_hand_sides_that_are_not_finite():
    solver, _ = system()
    with pytest.raises(InputError, match="not finite"):
        solver.solution(torch.full((200, 1), torch.nan, dtype=torch.float64))


def test_more_centers_and_other_units():
    solver, A = system()
    Z, sigma2 = uniform(4, 3, seed=9), torch.full((4,), 0.3, dtype=torch.float64)
    scaled = solver.scaled(4.0)
    assert len(scaled.preconditioner.blocks) > 1
    scaled = scaled.extend(Z, sigma2)  # noise in the units of the scaled matrix
    assert len(scaled.preconditioner.blocks[-1].L) == 4
    both = torch.cat([solver.K.Z, Z])
    A = 4 * matern52(both, both, ARD, 1.0) + torch.diag(torch.cat([4 * solver.sigma2, sigma2]))
    B = normal(204, 2)
    X, AX = scaled.solve(B, torch.full((2,), 1e-14, dtype=torch.float64))
    close(X, torch.linalg.solve(A, B), rtol=1e-7, atol=1e-7)
    close(AX, A @ X)


@pytest.mark.parametrize("low", [torch.float32, None])
def test_products_in_float32_change_nothing(low):
    solver, A = system(n=400, sigma2=1e-3, low=low)
    B = normal(400, 3)
    found = solver.solution(B, relative=1e-9)
    close(found.X, torch.linalg.solve(A, B), rtol=1e-6, atol=1e-5)
    assert solver.preconditioner.blocks[0].L.dtype == (low or torch.float64)
    assert found.converged


def test_what_a_solution_lacks_is_estimated():
    solver, A = system(n=400, sigma2=1e-3, size=20)
    B = torch.cat([normal(400, 1), torch.sin(4 * solver.K.Z)], dim=-1)
    exact = (B * torch.linalg.solve(A, B)).sum(0)
    for relative in (0.3, 0.03, 0.003):
        found = solver.solution(B, relative=relative)
        lacks = exact - (2 * (B * found.X).sum(0) - (found.X * found.KX).sum(0))
        assert bool((lacks <= 2 * found.lacks).all())
        assert bool((lacks >= 0.001 * found.lacks).all())  # an upper estimate, by the least eigenvalue
        assert bool((lacks <= (2 * relative) ** 2 * exact).all())


@pytest.mark.slow
def test_fewer_products_than_with_a_partial_factor_where_rows_cluster_and_noise_is_low():
    n, sigma2 = 600, 1e-4
    centers = uniform(12, 3, seed=1)[torch.arange(n) % 12]
    Z = centers + 0.1 * normal(n, 3)
    K = KernelMatrix(StationaryKernel(2.5, 0.4 * ARD, 1.0, None), Z)
    B = normal(n, 5)
    found = CovarianceSolver(K, torch.full((n,), sigma2).double(), n // 8).solution(B, relative=1e-4)
    dense = K.rows(torch.arange(n)) / sigma2 + torch.eye(n, dtype=torch.float64)
    L, rest = torch.zeros(n, n // 8, dtype=torch.float64), dense.diagonal() - 1
    for i in range(n // 8):  # partial Cholesky with the largest pivots, of the same number of columns
        pivot = int(rest.argmax())
        column = dense[:, pivot] - L @ L[pivot]
        column[pivot] -= 1
        L[:, i] = column / rest[pivot].sqrt()
        rest = (rest - L[:, i].square()).clamp_min(0.0)
    g, V = torch.linalg.eigh(torch.eye(n, dtype=torch.float64) + L @ L.mT)
    root = (V * g.rsqrt()) @ V.mT
    stop = 1e-4 * (root @ B).norm(dim=0)
    former = conjugate_gradients(lambda V: root @ (dense @ (root @ V)), root @ B, stop, 500)
    assert 0 < found.iterations < former.iterations / 2
    close(found.X, torch.linalg.solve(sigma2 * dense, B), rtol=1e-2, atol=1e-2 * float(found.X.abs().max()))


# --- parts ---------------------------------------------------------------------------------------------------


def test_conjugate_gradients_end_after_one_step_for_one_eigenvalue():
    B = normal(20, 3)
    run = conjugate_gradients(lambda V: 2 * V, B, torch.full((3,), 1e-12).double(), 10)
    assert run.iterations == 1
    close(run.X, B / 2)


@pytest.mark.slow
def test_a_block_takes_fewer_products_than_its_columns_alone():
    solver, _ = system(n=500, sigma2=1e-4, size=10)
    B = normal(500, 40)
    stop = torch.full((1,), 1e-6, dtype=torch.float64)
    apply = solver._applied(None)
    alone, helped = (conjugate_gradients(apply, some, stop, 500).iterations for some in (B[:, :1], B))
    assert helped < alone / 2


def test_solvers_are_values():
    solver, _ = system()
    assert solver.preconditioner is solver.preconditioner  # once
    assert len(replace(solver, size=3).preconditioner.G) == 3
