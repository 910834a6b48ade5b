"""Real measurements that come with the package."""

from __future__ import annotations

from importlib.resources import as_file, files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def gb1() -> pd.DataFrame:
    """Return the GB1 protein landscape, 149,361 measured variants (origin and licence: README.md beside this).

    Columns: variant (the letters at positions 39, 40, 41 and 54), fitness (relative to the wild type, which
    has 1), count_input and count_selected (sequencing reads before and after selection).
    """
    import pandas as pd

    with as_file(files(__name__).joinpath("gb1.parquet")) as path:
        return pd.read_parquet(path)
