"""The problems of the BEEBO paper by the names that its published result tables have for them."""

from __future__ import annotations

from beebo_scale.errors import InputError
from beebo_scale.simulation import TestFunction

EMBEDDED = 6  # inputs of the embedded Hartmann function that matter
NAMES = {  # name in the tables -> ours, where they differ
    "styblinskitang": "styblinski-tang",
    "embeddedhartmann": "hartmann",
    "robotpushing": "push",
}
TABLES: tuple[tuple[str, int], ...] = (  # the lines of best_so_far_T.csv and batch_regret_T.csv: problem and dim
    *(
        (name, d)
        for name in ("ackley", "levy", "rastrigin", "rosenbrock", "styblinskitang")
        for d in (2, 10, 20, 50, 100)
    ),
    *(("powell", d) for d in (10, 20, 50, 100)),
    ("shekel", 4),
    ("hartmann", 6),
    ("cosine", 8),
    ("embeddedhartmann", 100),
)
CONTROL = (("robotpushing", 14), ("rover", 60))  # in a figure only


def published(problem: str, dim: int) -> TestFunction:
    """One of TABLES or CONTROL; its yardstick normalises as the tables do.

    best_so_far: mean over the seeds of (b - s) / (f* - s), b the best of all rounds, s the best of the starting points
    and f* the optimum, all without noise. batch_regret: (f* - mean of the last batch) / (f* - mean at random); there
    the mean at random is that of one random batch a seed, here that of f over the cube.

    Raises:
        InputError: there is no such line.
    """
    if (problem, dim) not in (*TABLES, *CONTROL):
        raise InputError(f"the paper has no problem {problem} in {dim} dimensions")
    effective = EMBEDDED if problem == "embeddedhartmann" else None
    return TestFunction(NAMES.get(problem, problem), dim, effective=effective)
