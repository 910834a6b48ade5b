"""Branin's function with three equal optima, and the same with noise that is loud at two of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .problem import Array, Problem
from .synthetic import of_botorch

QUIET = np.array([9.42478, 2.475])  # the optimum without a maximum of noise
NOISY = np.array([[-np.pi, 12.275], [np.pi, 2.275]])
LOUDEST = 100.0  # sigma^2_max
DECAY = 0.05  # lambda


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
