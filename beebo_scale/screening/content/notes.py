"""What a user should know of a measured file: values that are limits, sequences in small letters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..column_uses import IGNORED, Use
from ..files.opening import Source
from .recognised import are_relations, is_limit

if TYPE_CHECKING:
    import pandas as pd


def told_of_small_letters(frame: pd.DataFrame, kinds: Mapping[str, str]) -> tuple[str, ...]:
    """Say how many proteins are in small letters, where others are in capitals; `frame` has the cells as they stand."""
    notes = []
    for name in (name for name, kind in kinds.items() if kind == "protein"):
        text = frame[name].astype(str)
        small = int((text == text.str.lower()).sum())
        if 0 < small < len(text):
            notes.append(f"{small} of {len(text)} sequences of {name!r} are in small letters and are read as capitals")
    return tuple(notes)


def told_of_limits(file: Source, uses: Sequence[Use], rows: np.ndarray, target: str) -> tuple[str, ...]:
    """Say how many measured values are limits, a line for each column that says so.

    Args:
        file: the file.
        uses: of its columns; those that are used for something else are not looked at.
        rows: places (0-based) of the measured rows in the file.
        target: what is measured, in words.
    """
    others = [use.column for use in uses if use.use == IGNORED and use.column]
    others = [name for name in others if file.types.get(name, "text") == "text"]
    head = next(iter(file.stream(others, None)), None) if others else None
    if head is None:
        return ()
    notes = []
    for name in others:
        if not are_relations(_texts(head[name].tolist())):
            continue
        cells = file.load([name])[name].iloc[rows].tolist()
        limits = [cell.strip() for cell in cells if isinstance(cell, str) and is_limit(cell)]
        if limits:
            signs = ", ".join(repr(sign) for sign in sorted({limit.strip("'\" ") for limit in limits}))
            notes.append(
                f"{len(limits)} of {len(rows)} values of {target!r} bear {signs} in column {name!r}: they are limits, "
                "not measurements, but are taken as exact; empty their cells to leave them out"
            )
    return tuple(notes)


def _texts(cells: Sequence[object]) -> list[str]:
    """The different texts of a column; none if something else is in it."""
    given = {cell if isinstance(cell, str) else None for cell in cells if cell is not None and cell == cell}
    return [] if None in given else [text for text in given if text and text.strip()]
