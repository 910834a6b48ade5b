import importlib.util
import math
import sys
import warnings
from dataclasses import replace

import pytest
import torch
from gpytorch.kernels import AdditiveKernel, MaternKernel

from beebo_scale.kernels.screen import ExchangeKernel
from beebo_scale.kernels.stationary import StationaryKernel
from beebo_scale.linalg import keops
from beebo_scale.linalg.kernel_matrix import KernelMatrix
from beebo_scale.workers import Workers
from tests.helpers import close, matern52, normal, uniform

KEOPS = importlib.util.find_spec("pykeops") is not None
LENGTHSCALE = torch.tensor([0.4, 0.7, 1.1], dtype=torch.float64)


def stationary(nu=2.5, active_dims=None):
    return StationaryKernel(nu, LENGTHSCALE, 1.3, active_dims)


@pytest.fixture
def fresh_search(monkeypatch):
    """KeOps is searched for anew, before and after."""
    keops._missing.cache_clear()
    keops._warn.cache_clear()
    yield monkeypatch
    monkeypatch.undo()
    keops._missing.cache_clear()
    keops._warn.cache_clear()


@pytest.mark.parametrize("block", [None, (7, 5), (1, 1000), (50, 3), (64, 50)])
def test_products_are_those_of_the_dense_matrix(block):
    Z, V = uniform(50, 3), normal(50, 4)
    K = KernelMatrix(stationary(), Z, block=block)
    dense = matern52(Z, Z, LENGTHSCALE, 1.3)
    close(K @ V, dense @ V, rtol=1e-12, atol=1e-12)
    close(K.rows(torch.tensor([3, 0])), dense[[3, 0]])
    close(K.diagonal(), dense.diagonal())
    assert len(K) == 50


def test_any_kernel_will_do():
    Z, V = torch.randint(4, (40, 5), generator=torch.Generator().manual_seed(0)).double(), normal(40, 3)
    kernel = AdditiveKernel(ExchangeKernel(ard_num_dims=5), MaternKernel(nu=1.5)).double().requires_grad_(False)
    close(KernelMatrix(kernel, Z, block=(16, 16)) @ V, kernel(Z, Z).to_dense() @ V)


@pytest.mark.slow
def test_float32_blocks_are_summed_in_float64():
    """Many more columns than float32 could sum without losing digits."""
    Z, V = uniform(3000, 3), normal(3000, 2).abs()
    exact = KernelMatrix(stationary(), Z) @ V
    K = KernelMatrix(stationary(), Z, product_dtype=torch.float32, block=(256, 64))
    product = K @ V
    assert product.dtype == torch.float64
    error = ((product - exact) / exact).abs().max()
    assert 1e-10 < error < 1e-6
    assert K.kernel.lengthscales.dtype == torch.float64  # that of the exact matrix is left alone


def test_rows_can_be_added_and_formats_changed():
    Z, V = uniform(20, 3), normal(25, 2)
    more = uniform(5, 3, seed=1)
    both = torch.cat([Z, more])
    close(KernelMatrix(stationary(), Z).with_rows(more) @ V, matern52(both, both, LENGTHSCALE, 1.3) @ V)
    low = KernelMatrix(stationary(), both).to(torch.float32)
    assert (low @ V).dtype == torch.float32


def test_chunks_are_dealt_out_in_turn():
    shares = [list(Workers(rank, 3).own(8)) for rank in range(3)]
    assert shares == [[0, 3, 6], [1, 4, 7], [2, 5]]
    assert Workers.current() == Workers(0, 1)


# --- KeOps ---------------------------------------------------------------------------------------------------


def test_without_keops_products_are_the_same_and_it_is_said_once(fresh_search):
    fresh_search.setitem(sys.modules, "pykeops.torch", None)
    Z, V = uniform(30, 3), normal(30, 1)
    K = KernelMatrix(stationary(), Z, keops=True)
    with pytest.warns(UserWarning, match="without KeOps: pykeops is not installed"):
        product = K @ V
    assert torch.equal(product, KernelMatrix(stationary(), Z) @ V)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(K @ V, product)


def test_without_a_compiler_products_are_the_same_and_it_is_said(fresh_search):
    fresh_search.setenv("PATH", "")
    with pytest.warns(UserWarning, match=r"no C\+\+ compiler"):
        product = KernelMatrix(stationary(), uniform(30, 3), keops=True) @ normal(30, 1)
    assert torch.equal(product, KernelMatrix(stationary(), uniform(30, 3)) @ normal(30, 1))


def test_keops_is_not_asked_for_what_it_does_not_do(fresh_search):
    """No search, hence no warning: other kernels, and many columns."""
    fresh_search.setitem(sys.modules, "pykeops.torch", None)
    assert keops.keops_product(MaternKernel()) is None
    KernelMatrix(stationary(), uniform(30, 3), keops=True) @ normal(30, keops.COLUMNS + 1)


@pytest.mark.skipif(not KEOPS, reason="pykeops is not installed")
@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, math.inf])
def test_keops_agrees(fresh_search, nu):
    Z, V = uniform(300, 5), normal(300, 2)
    kernel = stationary(nu, active_dims=torch.tensor([0, 2, 3]))
    close(KernelMatrix(kernel, Z, keops=True) @ V, KernelMatrix(kernel, Z) @ V, rtol=1e-9, atol=1e-7)


def test_keops_is_taken_where_it_was_measured_to_be_faster():
    many = torch.zeros(keops.CPU_ROWS, 3, dtype=torch.float64)
    assert keops.gains(many, keops.COLUMNS)
    assert not keops.gains(many, keops.COLUMNS + 1)
    assert not keops.gains(many[:-1], 1)
    assert not keops.gains(many.float(), 1)
    assert not keops.gains(torch.zeros(keops.CPU_ROWS, 4, dtype=torch.float64), 1)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_keops_is_the_way_of_few_columns_on_a_gpu():
    Z = uniform(50, 10).cuda()
    assert keops.gains(Z, keops.COLUMNS)
    assert not keops.gains(Z, keops.COLUMNS + 1)
    K = KernelMatrix(stationary().cuda(), Z)
    V = normal(50, 2).cuda()
    close(K @ V, replace(K, keops=False) @ V, rtol=1e-9, atol=1e-7)
