"""Which columns and rows of a screening file are taken, decided piece by piece."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..errors import InputError
from ..screening.batch import write_text
from ..screening.column_uses import left_aside, table_of, uses_of
from ..screening.columns import ALPHABETS, COLUMN_KINDS
from ..screening.content.notes import told_of_limits
from ..screening.files.opening import Source
from ..screening.invalid import Fault, all_invalid, find_faults, listed, told
from ..screening.measured.unneeded import unneeded
from ..specs import Columns


def decided(
    source: Source, wanted: dict[str, str | None], used: dict[str, str], measured: np.ndarray, columns: Columns
) -> dict[str, str | None]:
    """Features with their kinds, as the first piece of the file with measured rows shows them; says what is what.

    Args:
        source: the file.
        wanted: possible features -> kind, None where it is to be inferred.
        used: role -> column.
        measured: places (0-based) of the measured rows in the file.
        columns: what the columns are; where no features are named, columns may be left aside.

    Raises:
        InputError: no column is a feature, or one looks like numbers but is not.
    """
    start = 0
    for raw in source.stream(list(wanted), None):
        rows = measured[slice(*np.searchsorted(measured, (start, start + len(raw))).tolist())]
        if len(rows):
            some = raw.iloc[rows - start].reset_index(drop=True)
            named = columns.features is not None
            aside = {} if named else unneeded(some, wanted)
            uses = uses_of(
                source,
                some,
                wanted,
                used,
                source.numbers(rows),
                named,
                columns.known_units,
                aside,
                columns.drop_invalid,
            )
            told_notes = [*source.notes, *told_of_limits(source, uses, measured, columns.goal)]
            notes = [f"note: {note}" for note in told_notes]
            print("\n".join([f"{source.name}: {len(measured)} measured rows", table_of(uses), *notes]), flush=True)
            kinds: dict[str, str | None] = {use.column: use.use for use in uses if use.column in wanted}
            kinds = {name: kind for name, kind in kinds.items() if kind in COLUMN_KINDS}
            if not kinds:
                raise InputError(f"{source.name}: no feature column; name some with their kinds ({left_aside(uses)})")
            return kinds
        start += len(raw)
    return wanted


def valid_rows(
    source: Source, kinds: dict[str, str | None], measured: np.ndarray, path: Path, before: Sequence[Fault] = ()
) -> np.ndarray:
    """Which of the measured rows can be read, n booleans; the others are listed in a file, with those found `before`.

    Raises:
        InputError: none can be read.
    """
    known = {name: str(kind) for name, kind in kinds.items()}
    letters = {name: Counter[int]() for name, kind in known.items() if kind in ALPHABETS}
    for raw in source.stream(list(letters), None) if letters else ():
        for name, counter in letters.items():
            counter.update(raw[name].dropna().astype(object).astype(str).str.strip().str.len().tolist())
    lengths = {name: counter.most_common(1)[0][0] for name, counter in letters.items() if counter}
    valid, faults, start = np.ones(len(measured), dtype=bool), list(before), 0
    for raw in source.stream(list(known), None):
        cut = slice(*np.searchsorted(measured, (start, start + len(raw))).tolist())
        rows = measured[cut]
        some = raw.iloc[rows - start].reset_index(drop=True)
        bad, found = find_faults(some, known, source.name, source.numbers(rows), lengths)
        valid[cut], start = ~bad, start + len(raw)
        faults += found
    if not valid.any():
        raise all_invalid(source.name, faults)
    if faults:
        make_cache(path.parent)
        write_text(path, listed(sorted(faults, key=lambda fault: fault.row)))
        print(told(faults, path), flush=True)
    return valid


def make_cache(folder: Path) -> None:
    """Make a folder, with its parents.

    Raises:
        InputError: the system refuses.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"the folder {folder} cannot be made ({error.strerror}); give another") from None
