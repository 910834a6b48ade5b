"""What each column of a file is used for, and why: kinds that were named, kinds inferred, columns left aside."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError
from .columns import check_scalars, missing_text, odd_cells
from .files.numerals import hint, numbers
from .files.source import Source
from .places import Place, shown

if TYPE_CHECKING:
    import pandas as pd

IGNORED = "ignored"
DATE_CELLS = 1000  # cells that tell whether a column holds dates
NAMES_NOT_LABELS = 20  # so many different texts without a repeat are names, not labels
LINES = 30  # of a listing

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?"
DATE = re.compile(
    rf"^(?:(?:\d{{4}}([-/.])\d{{1,2}}\1\d{{1,2}}|\d{{1,2}}([-/.])\d{{1,2}}\2(?:\d{{4}}|\d{{2}})"
    rf"|\d{{1,2}}[- ]{_MONTH}[- ]\d{{2,4}})(?:[T ]{_CLOCK} ?(?:[ap]m|z|[+-]\d{{2}}:?\d{{2}})?)?|{_CLOCK})$",
    re.IGNORECASE,
)
DATE_NAME = re.compile(r"^(?:.* )?(?:date|datetime|timestamp)$")
PLATE_NAME = re.compile(
    r"^(?:.* )?(?:plate|well|barcode)(?: (?:id|no|nr|number|name|barcode|position|pos|row|col|column|index))?$"
)
ID_NAME = re.compile(
    r"^(?:.* )?(?:id|ids|entry|index|unnamed(?: \d+)?|no|nr|num|number|cid|sid|aid|uid|key|row|record|serial|count)$"
)
LEAST = 8  # rows from which steps of one are a count of the rows rather than a sweep
YEARS = (1900, 2100)
EPOCH = (946_684_800, 2_051_222_400)  # seconds from 1970 to the years 2000 and 2035


@dataclass(frozen=True)
class Use:
    """What a column is used for.

    Attributes:
        column: its name.
        use: its kind, its role (target, id, noise variance), or IGNORED.
        why: in a few words.
    """

    column: str
    use: str
    why: str


def infer(values: pd.Series, typed: bool, place: Place, drop_invalid: bool = False) -> Use:
    """The kind of a feature column whose kind was not named: numbers are continuous, all else is categorical.

    With `drop_invalid` a column of numbers may hold some words, whose rows are left out later.

    Raises:
        InputError: numbers with something else among them, so that neither kind would be right.
    """
    import pandas as pd

    if typed:
        cells = values.astype(object) if isinstance(values.dtype, pd.CategoricalDtype) else values
        inferred = pd.api.types.infer_dtype(cells, skipna=True)
        if inferred in ("integer", "floating", "mixed-integer-float", "decimal"):
            return Use(place.column, "continuous", "holds numbers")
        return Use(place.column, "categorical", f"holds {inferred.replace('string', 'text')}")
    parsed, bad = numbers(values)
    if not bad.any():
        if np.isnan(parsed).all():
            return Use(place.column, "categorical", "is empty")
        return Use(place.column, "continuous", "holds numbers")
    if drop_invalid and np.isfinite(parsed).sum() > len(values) / 2 and not any(map(hint, values[bad])):
        return Use(place.column, "continuous", f"holds numbers, but for {bad.sum()} cells")
    _check_mixed(values, np.isfinite(parsed), bad, place)
    return Use(place.column, "categorical", f"holds text ({shown(values.iloc[int(np.argmax(bad))])})")


def _check_mixed(values: pd.Series, number: np.ndarray, bad: np.ndarray, place: Place) -> None:
    """Refuse a column that is meant as numbers but does not hold numbers only: labels would forget their order."""
    text = values[bad].iloc[:DATE_CELLS].astype(object).astype(str)
    almost = np.array([hint(cell) is not None for cell in text], dtype=bool)
    if number.sum() + almost.mean() * bad.sum() <= len(values) / 2:
        return
    first = text.iloc[int(np.argmax(almost))] if almost.any() else text.iloc[0]
    way = hint(first) or "give numbers, leave the row out (--drop-invalid)"
    raise InputError(
        f"{place.source}: column {place.column!r} looks like numbers but holds {shown(first)} too "
        f"({place.where(bad)}); {way}, or declare {place.column!r} as continuous or categorical"
    )


def uses_of(
    file: Source,
    raw: pd.DataFrame,
    wanted: Mapping[str, str | None],
    used: Mapping[str, str],
    numbers: np.ndarray,
    named: bool,
    aside: Mapping[str, str] | None = None,
    drop_invalid: bool = False,
) -> tuple[Use, ...]:
    """What each column of a file is used for.

    Args:
        file: the file.
        raw: n of its rows.
        wanted: possible features -> kind, None where it is to be inferred.
        used: role -> column.
        numbers: n row numbers in the file.
        named: whether the features were named; otherwise columns may be left aside.
        aside: columns that are left aside -> why.
        drop_invalid: whether rows with a cell that does not fit its column are left out.
    """
    roles = {column: role for role, column in used.items()}
    uses = [Use(column, role, "named") for column, role in roles.items() if column not in wanted]
    counters: dict[str, str] = {}
    for name, kind in wanted.items():
        place = Place(file.name, name, numbers)
        check_scalars(raw[name], place)
        cells = raw[name][~odd_cells(raw[name], place)]
        reason = None if named else reason_to_ignore(cells, place) or (aside or {}).get(name)
        if reason:
            uses.append(Use(name, IGNORED, reason))
        elif not named and (why := counter(cells, small_words(name))):
            counters[name] = why
        else:
            uses.append(Use(name, kind, "named") if kind else infer(cells, file.typed, place, drop_invalid))
    left = len(wanted) - len(counters) - sum(use.use == IGNORED for use in uses)
    if len(counters) == 1 and not left:  # the only number that there is
        uses += [Use(name, "continuous", "holds numbers") for name in counters]
    else:
        more = "; name the features if it is one"
        uses += [Use(name, IGNORED, why + more) for name, why in counters.items()]
    known = {use.column for use in uses}
    rest = [column for column in file.columns if column not in known]
    return (*uses, *(Use(column, IGNORED, "not named" if column else "has no name") for column in rest))


def reason_to_ignore(values: pd.Series, place: Place) -> str | None:
    """Why a column that nobody named is no feature; None if it may be one."""
    import pandas as pd

    words = small_words(place.column)
    if DATE_NAME.match(words):
        return "is called a date"
    if PLATE_NAME.match(words):
        return "names a place on a plate"
    given = values.dropna()
    kind = pd.api.types.infer_dtype(given, skipna=True)
    if kind in ("datetime64", "datetime", "date", "time", "period", "timedelta64", "timedelta"):
        return "holds dates or times"
    head = given.iloc[:DATE_CELLS].astype(object).astype(str).str.strip()
    head = head[head != ""]
    if not len(head):
        return "is empty" if missing_text(given).all() else None
    if kind not in ("string", "categorical", "mixed", "mixed-integer"):
        return None
    if head.map(lambda cell: DATE.match(cell) is not None).all():
        return "holds dates or times"
    if len(head) >= NAMES_NOT_LABELS and head.is_unique and numbers(head)[1].all() and given.is_unique:
        return "holds another text in each row; an id, or name it with a kind (protein, dna, smiles)"
    return None


def counter(values: pd.Series, words: str) -> str | None:
    """Why whole numbers are no feature: they count the rows, name them, or say when; None if they may be one.

    Args:
        values: n cells.
        words: the column's name in small words.
    """
    cells, bad = numbers(values)
    cells = cells[~np.isnan(cells)]
    if bad.any() or len(cells) < 2 or not (np.isfinite(cells) & (cells == np.rint(cells))).all():
        return None
    once = len(np.unique(cells)) == len(cells)
    if once and ID_NAME.match(words):
        return "is called an id and holds another whole number in each row"
    if _days(cells):
        return "holds dates as whole numbers"
    if once and any(EPOCH[0] * unit <= cells.min() and cells.max() <= EPOCH[1] * unit for unit in (1, 1000)):
        return "holds times in seconds or milliseconds since 1970"
    if once and len(cells) >= LEAST and cells.max() - cells.min() == len(cells) - 1:
        return f"counts the rows, {cells.min():.0f} to {cells.max():.0f}"
    return None


def _days(cells: np.ndarray) -> bool:
    """Whether all numbers are days such as 20240102, and not all of them the same."""
    day, month, year = cells % 100, cells // 100 % 100, cells // 10_000
    valid = (day >= 1) & (day <= 31) & (month >= 1) & (month <= 12) & (year >= YEARS[0]) & (year <= YEARS[1])
    return bool(valid.all()) and len(np.unique(cells)) > 1


def small_words(name: str) -> str:
    """A column's name in small words: 'PUBCHEM_CID' -> 'pubchem cid', 'sampleNo.' -> 'sample no'."""
    return " ".join(re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", name)).casefold()


def left_aside(uses: Sequence[Use]) -> str:
    """Say why the first columns are no features."""
    reasons = [f"{use.column!r} {use.why}" for use in uses if use.use == IGNORED]
    return ", ".join(reasons[:3]) + (f" and {len(reasons) - 3} more" if len(reasons) > 3 else "")


def table_of(uses: Sequence[Use]) -> str:
    """A few lines to print: column, use, why."""
    first = [use for use in uses if use.use != IGNORED] + [use for use in uses if use.use == IGNORED]
    rows = [(use.column or "(no name)", use.use, use.why) for use in first[:LINES]]
    widths = [min(40, max(len(row[i]) for row in rows)) for i in (0, 1)]
    lines = [f"  {name:<{widths[0]}}  {use:<{widths[1]}}  {why}" for name, use, why in rows]
    if len(first) > LINES:
        lines.append(f"  and {len(first) - LINES:,} more columns")
    return "\n".join(lines)
