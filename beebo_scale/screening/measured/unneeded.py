"""Columns that nobody needs, among those that nobody named: the candidates lack them, or they are partly empty."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

import numpy as np

from ..column_uses import ID_NAME, small_words
from ..columns import missing_text

if TYPE_CHECKING:
    import pandas as pd

HEAD, MOST = 1000, 100  # rows looked at first, and columns of labels looked at
ALIKE = 0.8  # names that are so alike may be one name, misspelled


def unneeded(raw: pd.DataFrame, names: Iterable[str], offered: Collection[str] | None = None) -> dict[str, str]:
    """Column -> why it is left aside.

    A partly empty column is not needed if it bears the name of an id or a batch, if most of it is empty, or if a full
    one tells all that it tells, as names of solvents do their CAS numbers. A partly empty one that tells more of its
    own may matter, so it is no business of this function.

    Args:
        raw: n measured rows.
        names: of the columns that may be features.
        offered: columns of the candidates; None where these are not known.
    """
    names, aside = list(names), dict[str, str]()
    empty = {name: missing_text(raw[name]) for name in names}
    full = [name for name, cells in empty.items() if not cells.any()]
    groups = _groups(raw, full)
    for name, missing in empty.items():
        if offered is not None and name not in offered and not _near(name, offered):
            aside[name] = "is not in the library"
        elif missing.any() and not missing.all() and full and (why := _empty(raw[name], name, missing, groups)):
            aside[name] = f"is empty in {missing.sum()} of {len(raw)} rows, and {why}"
    return aside


def _groups(raw: pd.DataFrame, full: Iterable[str]) -> dict[str, np.ndarray]:
    """The first few columns of labels that come again and again -> n codes of them."""
    found: dict[str, np.ndarray] = {}
    for name in full:
        if raw[name].dtype.kind not in "biuf" and len(found) < MOST:
            codes = raw[name].astype(object).astype(str).factorize()[0]
            if codes.max(initial=0) < len(codes) / 2:
                found[name] = codes
    return found


def _near(name: str, offered: Collection[str]) -> bool:
    """Whether the candidates may have the column under a name that is only written otherwise."""
    return bool(get_close_matches(small_words(name), [small_words(other) for other in offered], 1, ALIKE))


def _empty(cells: pd.Series, name: str, missing: np.ndarray, full: Mapping[str, np.ndarray]) -> str:
    """Why a partly empty column is not needed; empty if it may be."""
    if ID_NAME.match(small_words(name)):
        return "is called a number or an id"
    own = cells.astype(object).where(~missing, "").astype(str).factorize()[0]
    teller = next(
        (other for other, codes in full.items() if _tells(codes[:HEAD], own[:HEAD]) and _tells(codes, own)), ""
    )
    if teller:
        return f"{teller!r} tells as much"
    return "that is most of it" if missing.mean() > 1 / 2 else ""


def _tells(groups: np.ndarray, codes: np.ndarray) -> bool:
    """Whether rows (n codes) of one group (n codes) are all the same."""
    return len(np.unique(groups * (codes.max() + 1) + codes)) == len(np.unique(groups))
