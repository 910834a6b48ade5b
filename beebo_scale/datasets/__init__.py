"""Real measurements that come with the package; origins and licences are in README.md beside this."""

from __future__ import annotations

from importlib.resources import as_file, files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def gb1() -> pd.DataFrame:
    """Return the GB1 protein landscape, 149,361 measured variants.

    Columns: variant (the letters at positions 39, 40, 41 and 54), fitness (relative to the wild type, which
    has 1), count_input and count_selected (sequencing reads before and after selection).
    """
    import pandas as pd

    with as_file(files(__name__).joinpath("gb1.parquet")) as path:
        return pd.read_parquet(path)


def enamine10k() -> pd.DataFrame:
    """Return 10,449 small molecules with their docking scores, in random order.

    Columns: smiles, score (kcal/mol to one decimal, low is good).
    """
    return _csv("enamine10k.csv.gz")


def buchwald_hartwig() -> pd.DataFrame:
    """Return 3,955 Buchwald-Hartwig couplings under different conditions with their yields.

    Columns: ligand, additive, base, halide (all as SMILES), yield (percent).
    """
    return _csv("buchwald_hartwig.csv.gz")


def _csv(name: str) -> pd.DataFrame:
    import pandas as pd

    with as_file(files(__name__).joinpath(name)) as path:
        return pd.read_csv(path)
