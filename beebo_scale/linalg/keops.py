"""Products k(X, Z) V by pykeops, for stationary kernels and few columns.

pykeops writes, compiles and caches one routine for each number of columns and number format, which takes seconds, and
is worth it for a few columns only: with many, blocks through a matrix product are faster.
"""

from __future__ import annotations

import functools
import importlib
import math
import shutil
import warnings
from collections.abc import Callable

from gpytorch.kernels import Kernel
from torch import Tensor

from ..kernels.stationary import StationaryKernel

FEW = 4  # columns
COMPILERS = ("g++", "clang++")

Product = Callable[[Tensor, Tensor, Tensor], Tensor]


def keops_product(kernel: Kernel) -> Product | None:
    """(X, Z, V) -> k(X, Z) V (p x d, n x d, n x c -> p x c), or None where pykeops cannot do it.

    A missing pykeops or compiler is said once, as a warning.
    """
    if not isinstance(kernel, StationaryKernel) or not _found():
        return None
    return functools.partial(_product, kernel)


@functools.cache
def _found() -> bool:
    missing = None
    if not any(map(shutil.which, COMPILERS)):
        missing = f"no C++ compiler ({' or '.join(COMPILERS)}) was found"
    else:
        try:
            importlib.import_module("pykeops.torch")
        except ImportError:
            missing = "pykeops is not installed (pip install 'beebo-scale[keops]')"
    if missing:
        warnings.warn(f"products go without KeOps: {missing}; the results are the same", stacklevel=2)
    return missing is None


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
