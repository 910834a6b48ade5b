"""Products k(X, Z) V by pykeops, for stationary kernels and few columns.

pykeops writes, compiles and caches one routine for each number of columns and number format, which takes seconds, and
is worth it for a few columns only: with many, blocks through a matrix product are faster. On two CPU cores it gained
in float64, with up to four columns and three dimensions, alone: 0.4 to 0.6 of the time; in float32, with more columns
or in ten dimensions 0.9 to 5 times (scripts/benchmarks/results/keops.md). On a GPU it is taken for few columns.
"""

from __future__ import annotations

import functools
import importlib
import math
import shutil
import warnings
from collections.abc import Callable

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from ..kernels.stationary import StationaryKernel

COLUMNS = 4  # columns
CPU_DIMENSIONS, CPU_ROWS = 3, 20_000  # where it gains on a CPU, and enough in one solve to pay for its compilation
COMPILERS = ("g++", "clang++")

Product = Callable[[Tensor, Tensor, Tensor], Tensor]


def gains(Z: Tensor, columns: int) -> bool:
    """Whether k(Z, Z) V is expected to be faster by KeOps.

    Args:
        Z: n x d, in the number format of the product.
        columns: of V.
    """
    if columns > COLUMNS or Z.is_cuda:
        return columns <= COLUMNS
    return Z.dtype == torch.float64 and Z.shape[-1] <= CPU_DIMENSIONS and len(Z) >= CPU_ROWS


def keops_product(kernel: Kernel, told: bool = True) -> Product | None:
    """(X, Z, V) -> k(X, Z) V (p x d, n x d, n x c -> p x c), or None where pykeops cannot do it.

    A missing pykeops or compiler is said once, as a warning, unless `told` is false.
    """
    if not isinstance(kernel, StationaryKernel):
        return None
    missing = _missing()
    if missing:
        if told:
            _warn(missing)
        return None
    return functools.partial(_product, kernel)


@functools.cache
def _missing() -> str:
    """What KeOps lacks here, empty where it works."""
    if not any(map(shutil.which, COMPILERS)):
        return f"no C++ compiler ({' or '.join(COMPILERS)}) was found"
    try:
        importlib.import_module("pykeops.torch")
    except ImportError:
        return "pykeops is not installed (pip install 'beebo-scale[keops]')"
    return ""


@functools.cache
def _warn(missing: str) -> None:
    warnings.warn(f"products go without KeOps: {missing}; the results are the same", stacklevel=3)


def _product(kernel: StationaryKernel, X: Tensor, Z: Tensor, V: Tensor) -> Tensor:
    LazyTensor = importlib.import_module("pykeops.torch").LazyTensor
    if kernel.active_dims is not None:
        X, Z = X[:, kernel.active_dims], Z[:, kernel.active_dims]
    A, B = X / kernel.lengthscales, Z / kernel.lengthscales
    r2 = ((LazyTensor(A[:, None, :].contiguous()) - LazyTensor(B[None, :, :].contiguous())) ** 2).sum(-1)  # p x n
    if kernel.nu == math.inf:
        return kernel.amplitude * ((-0.5 * r2).exp() @ V)
    s = (2 * kernel.nu * r2).sqrt()
    profile = {0.5: 1.0, 1.5: 1.0 + s, 2.5: 1.0 + s + s * s / 3.0}[kernel.nu]
    return kernel.amplitude * ((profile * (-s).exp()) @ V)
