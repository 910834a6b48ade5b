"""Wells of microtitre plates: A01 to H12, P24 or AF48."""

from __future__ import annotations

import re

from ...errors import InputError
from ..places import Place

SHAPES = {  # wells of a plate -> its rows and columns
    6: (2, 3),
    12: (3, 4),
    24: (4, 6),
    48: (6, 8),
    96: (8, 12),
    384: (16, 24),
    1536: (32, 48),
}
PATTERN = re.compile(r"\s*([A-Za-z]{1,2})0*([1-9][0-9]?)\s*")


def well_name(row: int, column: int) -> str:
    """(0, 0) is A01, (26, 0) is AA01, as on plates of 1,536 wells."""
    letters = chr(65 + row) if row < 26 else "A" + chr(65 + row - 26)
    return f"{letters}{column + 1:02d}"


def parse_well(text: str) -> tuple[int, int] | None:
    """Row and column, from 0, of A1, A01, a01 or AF48; None for what is no well of any plate."""
    match = PATTERN.fullmatch(text)
    if match is None:
        return None
    letters, column = match[1].upper(), int(match[2]) - 1
    if len(letters) == 2 and letters[0] != "A":
        return None
    row = ord(letters[-1]) - 65 + 26 * (len(letters) - 1)
    rows, columns = SHAPES[1536]
    return (row, column) if row < rows and column < columns else None


def well_of(text: str, place: Place) -> tuple[int, int]:
    """`parse_well`, or the error that names the place of one cell."""
    well = parse_well(text)
    if well is None:
        raise InputError(
            f"{place.source}: column {place.column!r} has {text!r} in row {place.rows[0]}, which is no well; "
            "write A01, H12 or AF48"
        )
    return well
