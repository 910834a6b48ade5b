"""Labels that may be others than they seem to be: written in two ways, or made dates of by a spreadsheet."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from ..column_uses import DATE
from ..places import Place

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

DAY = re.compile(r"\d{1,2}-[A-Z][a-z]{2}|[A-Z][a-z]{2}-\d{2}")  # 2-Jan, Jan-02


def labels_alike(frame: pd.DataFrame, kinds: Mapping[str, str]) -> list[str]:
    """What to say of labels that differ in capitals or blanks alone, a line for each column."""
    told = []
    for name in (name for name, kind in kinds.items() if kind == "categorical"):
        counts = frame[name].value_counts()
        spellings: dict[str, list[str]] = {}
        for label in sorted(counts.index):
            spellings.setdefault(folded(label), []).append(label)
        several = [labels for labels in spellings.values() if len(labels) > 1]
        if several:
            shown = "; ".join(", ".join(f"{label!r} ({counts[label]})" for label in labels) for labels in several[:3])
            more = f" and {len(several) - 3} more" if len(several) > 3 else ""
            told.append(
                f"column {name!r} has labels that differ in capitals or blanks alone and count as different: "
                f"{shown}{more}; write them alike if they are one"
            )
    return told


def labels_near(frame: pd.DataFrame, levels: Mapping[str, Collection[str]]) -> list[str]:
    """What to say of proposed labels that were never measured, where one was that differs in capitals or blanks alone.

    Args:
        frame: proposed rows.
        levels: column of labels -> those that were measured.
    """
    told = []
    for name, known in levels.items():
        alike = {folded(level): level for level in known}
        new = [label for label in dict.fromkeys(frame[name]) if label not in known and folded(label) in alike]
        shown = "; ".join(f"{label!r} was never measured, {alike[folded(label)]!r} was" for label in new[:3])
        if new:
            told.append(f"column {name!r}: {shown}; write them alike in both files if they are one")
    return told


def folded(label: str) -> str:
    """A label without capitals and blanks."""
    return "".join(label.split()).casefold()


def labels_of_dates(frame: pd.DataFrame, kinds: Mapping[str, str], source: str, numbers: np.ndarray) -> list[str]:
    """What to say of labels that look like dates among others that do not, a line for each column.

    Args:
        frame: n checked rows.
        kinds: feature -> kind.
        source: name of the file.
        numbers: n row numbers there.
    """
    told = []
    for name in (name for name, kind in kinds.items() if kind == "categorical"):
        days = [label for label in frame[name].unique() if DATE.match(label) or DAY.fullmatch(label)]
        if days and len(days) < frame[name].nunique():
            where = Place(source, name, numbers).where(frame[name].isin(days).to_numpy())
            told.append(
                f"column {name!r} has labels that look like dates among others ({days[0]!r} {where}): if a spreadsheet "
                "made them of labels such as 1-2, write these again"
            )
    return told
