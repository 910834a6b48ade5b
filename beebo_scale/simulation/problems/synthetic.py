"""The paper's test functions as problems, by botorch; those to be minimised are turned over.

Formulas, bounds and optima: Surjanovic and Bingham, Virtual Library of Simulation Experiments, and botorch's
docstrings. Every docstring here gives f itself, over its box, and the largest value.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from .problem import Array, Problem

# Of Branin's function with noise.
QUIET = np.array([9.42478, 2.475])  # the optimum without a maximum of noise
NOISY = np.array([[-np.pi, 12.275], [np.pi, 2.275]])
LOUDEST = 100.0  # sigma^2_max
DECAY = 0.05  # lambda


def ackley(d: int) -> Problem:
    """20 exp(-0.2 sqrt(mean x_i^2)) + exp(mean cos 2 pi x_i) - 20 - e, [-32.768, 32.768]^d; 0 at the origin."""
    return of_botorch("Ackley", dim=d)


def levy(d: int) -> Problem:
    """Levy's function, w_i = 1 + (x_i - 1) / 4, [-10, 10]^d; 0 at x_i = 1.

    -sin^2(pi w_1) - sum_{i<d} (w_i - 1)^2 (1 + 10 sin^2(pi w_i + 1)) - (w_d - 1)^2 (1 + sin^2(2 pi w_d))
    """
    return of_botorch("Levy", dim=d)


def rastrigin(d: int) -> Problem:
    """-10 d - sum x_i^2 + 10 sum cos 2 pi x_i, [-5.12, 5.12]^d; 0 at the origin."""
    return of_botorch("Rastrigin", dim=d)


def rosenbrock(d: int) -> Problem:
    """-sum_{i<d} (100 (x_{i+1} - x_i^2)^2 + (x_i - 1)^2), [-5, 10]^d; 0 at x_i = 1."""
    return of_botorch("Rosenbrock", dim=d)


def styblinski_tang(d: int) -> Problem:
    """-1/2 sum (x_i^4 - 16 x_i^2 + 5 x_i), [-5, 5]^d; 39.166166 d at x_i = -2.903534."""
    return of_botorch("StyblinskiTang", dim=d)


def powell(d: int) -> Problem:
    """Powell's function over groups (a, b, c, e) of four inputs, [-4, 5]^d; 0 at the origin.

    -sum (a + 10 b)^2 + 5 (c - e)^2 + (b - 2 c)^4 + 10 (a - e)^4

    What is left of d / 4 does not matter: two inputs at d = 10 and 50.
    """
    return of_botorch("Powell", dim=d)


def shekel() -> Problem:
    """sum_{i<=10} 1 / (|x - C_i|^2 + c_i), [0, 10]^4; 10.5364 near (4, 4, 4, 4)."""
    return of_botorch("Shekel")


def hartmann(d: int) -> Problem:
    """sum_{i<=4} alpha_i exp(-sum_j A_ij (x_j - P_ij)^2), [0, 1]^d.

    d = 6: 3.32237 at (0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573).
    d = 3: 3.86278 at (0.114614, 0.555649, 0.852547).
    """
    return of_botorch("Hartmann", dim=d)


def cosine() -> Problem:
    """0.1 sum cos 5 pi x_i - sum x_i^2, [-1, 1]^8; 0.8 at the origin."""
    return of_botorch("Cosine8")


def branin() -> Problem:
    """Branin's function, [-5, 10] x [0, 15]; -0.397887 at (-pi, 12.275), (pi, 2.275) and (9.42478, 2.475).

    -(x_2 - 5.1 / (4 pi^2) x_1^2 + 5 / pi x_1 - 6)^2 - 10 (1 - 1 / (8 pi)) cos x_1 - 10

    Starts are anywhere: what is 0.5 away from all three optima are two corners. The paper's control has constant
    noise of variance 77.5, the mean of `noise_variance`: --function branin --noise 8.8034.

    Source: botorch; paper, appendix on heteroskedastic noise.
    """
    return replace(of_botorch("Branin"), distance=0.0)


def branin_noise() -> Problem:
    """The same; a measurement has the variance `noise_variance`, which comes with it and is known to the surrogate.

    A method that minds noise prefers the quiet optimum (9.42478, 2.475). The paper's noise is large everywhere: 73 at
    the quiet optimum, 100 at the others.
    """
    return replace(branin(), variance=noise_variance)


def noise_variance(X: Array, decay: float = DECAY) -> Array:
    """sigma^2(x) = 100 exp(-decay min(|x - x*_2|, |x - x*_3|)), x*_2 and x*_3 the noisy optima, n x 2 -> n."""
    away = np.linalg.norm(X[:, None] - NOISY, axis=-1).min(axis=-1)
    return LOUDEST * np.exp(-decay * away)


@dataclass(frozen=True)
class Signed:
    """A function of botorch times a sign."""

    function: Any
    sign: float

    def __call__(self, X: Array) -> Array:
        """Values, n x d -> n."""
        return self.sign * self.function(torch.from_numpy(X), noise=False).numpy()


def of_botorch(name: str, **given: Any) -> Problem:
    """A class of `botorch.test_functions` as a problem."""
    from botorch import test_functions

    with _float64():
        function = getattr(test_functions, name)(**given)
    sign = -1.0 if function.is_minimization_problem else 1.0
    return Problem(
        f=Signed(function, sign),
        bounds=function.bounds.numpy().copy(),  # a tensor moves in memory when it is sent to a process
        best=sign * function.optimal_value,
        optima=function.optimizers.numpy().copy(),
    )


@contextmanager
def _float64() -> Iterator[None]:
    """Botorch takes some constants (Hartmann's 1.2, Shekel's 3.6) in torch's default type: 5e-8 off in float32."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
