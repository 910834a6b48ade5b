"""Tests of `beebo_scale.linalg.pivoted_cholesky`."""

import torch

from beebo_scale.linalg.pivoted_cholesky import pivoted_cholesky
from tests.helpers import close


def largest(rest: torch.Tensor) -> int | None:
    i = int(rest.argmax())
    return i if float(rest[i]) > 1e-12 else None


def test_a_full_factor_gives_the_matrix_and_a_partial_one_is_below_it():
    A = torch.randn(12, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    C = A @ A.mT
    for rank in (1, 5, 12):
        F = torch.zeros(rank, 12, dtype=torch.float64)
        pivots = pivoted_cholesky(C.diagonal(), lambda i: C[i], largest, F)
        assert len(set(pivots)) == rank
        close((F.mT @ F)[pivots], C[pivots])
        assert float(torch.linalg.eigvalsh(C - F.mT @ F).min()) > -1e-10


def test_it_stops_at_the_rank_of_the_matrix_and_goes_on_from_known_rows():
    A = torch.randn(12, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    C, F = A @ A.mT, torch.zeros(9, 12, dtype=torch.float64)
    first = pivoted_cholesky(C.diagonal(), lambda i: C[i], largest, F[:2])
    rest = pivoted_cholesky(C.diagonal() - F[:2].square().sum(0), lambda i: C[i], largest, F, known=2)
    assert len(first + rest) == 4
    close(F.mT @ F, C, atol=1e-10)
