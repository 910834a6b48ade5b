"""The published figures of the BEEBO paper, and how ours are judged by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

FOLDER = Path(__file__).parent / "published"
KAPPAS = {0.05: "0.1", 0.5: "1.0", 5.0: "10.0"}  # T' = sqrt(kappa) / 2 -> sqrt(kappa), as files are named
FIGURES = {"normalised": "best_so_far", "regret": "batch_regret"}
COLUMNS = {  # ours -> that of the published tables
    "mean-beebo": "beebo",
    "max-beebo": "maxbeebo",
    "q-ucb": "qucb",
    "q-logei": "qei",
    "thompson": "thompson",
    "kb-logei": "krigingbeliever",
    "gibbon": "gibbon",
    "gibbon-scaled": "modifiedgibbon",
}
FIVE, TEN = 5, 10
ROUNDING = 5e-4  # of the published figures
ERRORS = 2.0  # standard errors


@dataclass(frozen=True)
class Published:
    """A mean over replicates."""

    mean: float
    replicates: int


@cache
def tables() -> dict[tuple[str, str, int, str, float | None], Published]:
    """Figure, problem, d, method of ours and T' -> what is published; the mean of ten replicates where there is one."""
    found: dict[tuple[str, str, int, str, float | None], Published] = {}
    ten = pd.read_csv(FOLDER / "bee_bo_ten_replicates.csv", dtype={"sqrt_kappa": str})
    for ours, name in FIGURES.items():
        for temperature, kappa in KAPPAS.items():
            five = pd.read_csv(FOLDER / f"{name}_{kappa}.csv")
            for row in five.to_dict("records"):
                for method, column in COLUMNS.items():
                    own = temperature if column in ten.columns else None
                    found[ours, row["problem"], row["dim"], method, own] = Published(row[column], FIVE)
            for row in ten[(ten.figure == name) & (ten.sqrt_kappa == kappa)].to_dict("records"):
                for method, column in COLUMNS.items():
                    if column in ten.columns:
                        key = (ours, row["problem"], row["dim"], method, temperature)
                        found[key] = Published(row[column], TEN)
    return found


def halves_error(figure: str) -> float:
    """Standard error of a published mean over five replicates, from all of meanBEEBO, maxBEEBO and q-UCB.

    The five are the first of the ten: the mean of the others is 2 m_10 - m_5, and the difference of the two halves has
    twice the variance of a mean of five.
    """
    ten = pd.read_csv(FOLDER / "bee_bo_ten_replicates.csv", dtype={"sqrt_kappa": str}).set_index(["problem", "dim"])
    squares: list[float] = []
    for kappa in KAPPAS.values():
        five = pd.read_csv(FOLDER / f"{FIGURES[figure]}_{kappa}.csv").set_index(["problem", "dim"])
        of_ten = ten[(ten.figure == FIGURES[figure]) & (ten.sqrt_kappa == kappa)]
        for column in ("beebo", "maxbeebo", "qucb"):
            squares += list((2.0 * (of_ten[column] - five[column])) ** 2 / 2.0)
    return float(np.mean(squares) ** 0.5)


def verdict(values: Sequence[float], published: Published | None, larger: bool) -> str:
    """'=' within the sampling error, '+' better, '-' worse; empty without two values or a published one.

    The sampling error of the difference of two means is s sqrt(1 / n + 1 / n_published), s our standard deviation: the
    published tables give none. Within is two of these and the rounding of the published figure.
    """
    if published is None or len(values) < 2:
        return ""
    error = float(np.std(values, ddof=1)) * (1.0 / len(values) + 1.0 / published.replicates) ** 0.5
    ahead = (float(np.mean(values)) - published.mean) * (1.0 if larger else -1.0)
    if abs(ahead) <= ERRORS * error + ROUNDING:
        return "="
    return "+" if ahead > 0 else "-"
