import warnings
from dataclasses import replace

import pytest
import torch
from gpytorch.kernels import Kernel

from beebo_scale.errors import InputError
from beebo_scale.kernels.stationary import StationaryKernel
from beebo_scale.linalg.conjugate_gradients import (
    CovarianceSolver,
    Preconditioner,
    conjugate_gradients,
    drawn_cholesky,
)
from beebo_scale.linalg.kernel_matrix import KernelMatrix
from tests.helpers import close, matern52, normal, uniform

ARD = torch.tensor([0.5, 0.9, 0.7], dtype=torch.float64)


class Indefinite(Kernel):
    """sin(9 |x - x'|): symmetric, and a kernel in no other way."""

    def forward(self, x1, x2, diag=False, **params):
        r = (x1.unsqueeze(-2) - x2.unsqueeze(-3)).norm(dim=-1)
        return torch.ones_like(x1[..., 0]) if diag else torch.sin(9 * r) + (r == 0)


def system(n=200, sigma2=1e-2, **options):
    """A solver and its matrix."""
    Z = uniform(n, 3)
    sigma2 = torch.as_tensor(sigma2, dtype=torch.float64).expand(n)
    solver = CovarianceSolver(KernelMatrix(StationaryKernel(2.5, ARD, 1.0, None), Z), sigma2, **options)
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
    assert found.residual <= 2e-10
    assert 0 < found.iterations < 100


def test_the_quadratic_form_lacks_no_more_than_asked_for():
    solver, A = system(n=400, sigma2=1e-3, rank=10)
    B = matern52(solver.K.Z, uniform(30, 3, seed=5), ARD, 1.0)
    exact = (B * torch.linalg.solve(A, B)).sum(0)
    for error in (1e-2, 1e-5, 1e-8):
        X, KX = solver.solve(B, torch.full((30,), error, dtype=torch.float64))
        lacks = exact - (2 * (B * X).sum(0) - (X * KX).sum(0))
        assert float(lacks.max()) <= 4 * error  # the true residual may be twice that of the recursion
        assert float(lacks.min()) > -1e-9


def test_each_column_has_its_own_tolerance():
    solver, _ = system(sigma2=1e-3, rank=5)
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


def test_rows_that_repeat_each_other_by_the_thousand():
    n = 1500
    Z = uniform(5, 3).repeat(n // 5, 1) + 1e-9 * normal(n, 3)
    solver = CovarianceSolver(KernelMatrix(StationaryKernel(2.5, ARD, 1.0, None), Z), torch.full((n,), 1e-4).double())
    A = matern52(Z, Z, ARD, 1.0) + 1e-4 * torch.eye(n, dtype=torch.float64)
    B = normal(n, 2)
    found = solver.solution(B, relative=1e-10)
    close(A @ found.X, B, rtol=1e-5, atol=1e-5)
    assert found.iterations < 10


def test_not_converging_is_said_with_the_residual():
    solver, _ = system(n=600, sigma2=1e-6, rank=1, max_iterations=3)
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
    scaled = solver.scaled(4.0).extend(Z, sigma2)  # noise in the units of the scaled matrix
    both = torch.cat([solver.K.Z, Z])
    A = 4 * matern52(both, both, ARD, 1.0) + torch.diag(torch.cat([4 * solver.sigma2, sigma2]))
    B = normal(204, 2)
    X, AX = scaled.solve(B, torch.full((2,), 1e-14, dtype=torch.float64))
    close(X, torch.linalg.solve(A, B), rtol=1e-7, atol=1e-7)
    close(AX, A @ X)


# --- parts ---------------------------------------------------------------------------------------------------


def test_the_pivoted_factor_stays_below_and_comes_close():
    solver, A = system(sigma2=0.1)
    K = (A - torch.diag(solver.sigma2)) / 0.1
    left = []
    for rank in (1, 10, 60):
        L = drawn_cholesky(solver.K, solver.sigma2, rank)
        rest = K - L @ L.mT
        assert torch.linalg.eigvalsh(rest)[0] > -1e-10
        left.append(float(rest.trace()))
    assert left == sorted(left, reverse=True)
    assert left[-1] < 0.05 * left[0]


def test_the_pivoted_factor_ends_where_nothing_remains():
    Z = uniform(5, 3).repeat(8, 1)
    K = KernelMatrix(StationaryKernel(2.5, ARD, 1.0, None), Z)
    assert drawn_cholesky(K, torch.ones(40, dtype=torch.float64), 20).shape == (40, 5)


def test_the_preconditioner_is_an_inverse_root():
    L = normal(30, 4)
    P = Preconditioner.of(L)
    M = torch.eye(30, dtype=torch.float64) + L @ L.mT
    close(P(P(M)), torch.eye(30, dtype=torch.float64))


def test_conjugate_gradients_end_after_one_step_for_one_eigenvalue():
    B = normal(20, 3)
    X, iterations = conjugate_gradients(lambda V: 2 * V, B, torch.full((3,), 1e-12).double(), 10)
    assert iterations == 1
    close(X, B / 2)


@pytest.mark.slow
def test_a_block_takes_fewer_products_than_its_columns_alone():
    solver, _ = system(n=500, sigma2=1e-4, rank=1)
    B = normal(500, 40)
    stop = torch.full((1,), 1e-6, dtype=torch.float64)
    _, alone = conjugate_gradients(solver._apply, B[:, :1], stop, 500)
    _, helped = conjugate_gradients(solver._apply, B, stop, 500)
    assert helped < alone / 3


def test_solvers_are_values():
    solver, _ = system()
    assert solver.preconditioner is solver.preconditioner  # once
    assert replace(solver, rank=3).preconditioner.L.shape[-1] == 3
