"""What each column of a file is used for, and why: kinds that were named, kinds inferred, columns left aside."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError
from .columns import ALPHABETS, check_odd, check_scalars, missing_text, odd_cells
from .content.recognised import LOOKED_AT, MUTATED, are_relations, recognised
from .files.numerals import Numbers, numbers, text_counts
from .files.quantities import Form, advice_on, amounts, in_doubt, parts_of
from .files.source import Source, listing
from .places import Place, shown

if TYPE_CHECKING:
    import pandas as pd

IGNORED = "ignored"
DATE_CELLS = 1000  # cells that tell whether a column holds dates
NAMES_NOT_LABELS = 20  # so many different texts without a repeat are names, not labels
LINES = 30  # of a listing
LEVELS = 50  # so many molecules or sequences, each in two rows and more, are levels of a factor
NAMED = "named"

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
PLACED = re.compile(r"\d+[-\u2010\u2011](\D+)")
NUMBERED = re.compile(r"\D*[^\W\d_][\s=:]+\d+")  # pH 7, Ligand 2
YEARS = (1900, 2100)
EPOCH = (946_684_800, 2_051_222_400)  # seconds from 1970 to the years 2000 and 2035


@dataclass(frozen=True)
class Use:
    """What a column is used for.

    Attributes:
        column: its name.
        use: its kind, its role (target, id, noise variance), or IGNORED.
        why: in a few words.
        unit: what the column's numbers are in, if it is known.
    """

    column: str
    use: str
    why: str
    unit: str = ""


def infer(values: pd.Series, typed: bool, place: Place, unit: str | None = None, drop_invalid: bool = False) -> Use:
    """The kind of a feature column whose kind was not named: numbers are continuous, all else is what it looks like.

    Args:
        values: n cells.
        typed: whether the cells have types; text is no number then, but with a unit it is.
        place: where they stand.
        unit: of its numbers, where it is known.
        drop_invalid: a column of numbers may hold some words, whose rows are left out later.

    Raises:
        InputError: numbers with something else among them or around them, so that neither kind would be right; or
            texts of which labels would learn nothing and that no kind takes.
    """
    import pandas as pd

    cells = values.astype(object) if isinstance(values.dtype, pd.CategoricalDtype) else values
    inferred = pd.api.types.infer_dtype(cells, skipna=True) if typed else "string"
    if inferred in ("integer", "floating", "mixed-integer-float", "decimal"):
        return Use(place.column, "continuous", "holds numbers" + (f" in {unit!r}" if unit else ""), unit or "")
    if inferred != "string":
        return Use(place.column, "categorical", f"holds {inferred}")
    found, texts = numbers(cells, unit), text_counts(cells.astype(object).tolist())
    known, dates = found.unit or unit or "", bool(texts) and all(DATE.match(text.strip()) for text in texts)
    if not found.bad.any() and (found.unit or not typed):
        if np.isnan(found.values).all():
            return Use(place.column, "categorical", "is empty")
        if found.unit and in_doubt([parts_of(text) for text in texts]):
            raise _asked(cells, place, f"which may be numbers in {found.unit!r} or names")
        return Use(place.column, "continuous", "holds numbers" + (f" in {known!r}" if known else ""), known)
    if found.bad.any() and not dates:
        if drop_invalid and _but_for_words(cells, found, known):
            return Use(place.column, "continuous", f"holds numbers, but for {found.bad.sum()} cells", known)
        _check_mixed(cells, texts, found.bad, place, typed, known)
    return _of_texts(cells, texts, place)


def _but_for_words(cells: pd.Series, found: Numbers, unit: str) -> bool:
    """Whether most cells are numbers, and the others say no more than a word does."""
    words = cells[found.bad].astype(object).astype(str)
    return np.isfinite(found.values).sum() > len(cells) / 2 and not any(advice_on(word, unit) for word in words)


def _check_mixed(
    values: pd.Series, texts: Mapping[str, int], bad: np.ndarray, place: Place, typed: bool, unit: str
) -> None:
    """Refuse a column that is meant as numbers but does not hold numbers only: labels would forget their order."""
    parts = {text: parts_of(text) for text in texts}
    like = set(amounts(list(parts.values()))) - {cell for cell in parts.values() if typed and cell.form is Form.NUMBER}
    total = int(values.notna().sum()) - sum(isinstance(cell, str) and cell not in texts for cell in values)
    others = total - sum(texts.values())  # cells of a workbook that hold numbers
    if sum(count for text, count in texts.items() if parts[text] in like) + others <= total / 2:
        if PLACED.fullmatch(first := next(iter(texts))) and _placed(texts):
            raise _asked(values, place, f"which may be numbers or names (such as {first!r})")
        return
    wrong = values[bad].astype(object).astype(str)
    told = [advice_on(cell, unit) if cell in parts else None for cell in wrong]
    first, way = next(((cell, way) for cell, way in zip(wrong, told, strict=True) if way), (wrong.iloc[0], None))
    bad[bad] = [one == way for one in told]
    way = way or "give numbers, leave the row out (--drop-invalid)"
    raise InputError(
        f"{place.source}: column {place.column!r} looks like numbers but holds {shown(first)} "
        f"({place.where(bad)}); {way}, or declare {place.column!r} as categorical"
    )


def _placed(texts: Mapping[str, int]) -> bool:
    """Whether different numbers with a hyphen have the same text behind it, such as 30-min, 60-min, 90-min."""
    found = [PLACED.fullmatch(text.strip()) for text in texts]
    return len(texts) > 2 and all(found) and len({match[1] for match in found if match}) == 1


def _asked(values: pd.Series, place: Place, what: str) -> InputError:
    first = shown(values.dropna().iloc[0])
    return InputError(
        f"{place.source}: column {place.column!r} holds {first} and the like, {what}; declare {place.column!r} as "
        "continuous or categorical"
    )


def _of_texts(values: pd.Series, texts: Mapping[str, int], place: Place) -> Use:
    """What a column of text is taken for."""
    name, words = place.column, list(texts)
    if not words:
        return Use(name, "categorical", "is empty")
    seen, first = recognised(words), shown(words[0])
    if seen is None:
        more = "; write the number alone if it measures something" if NUMBERED.fullmatch(words[0].strip()) else ""
        return Use(name, "categorical", f"holds text ({first}){more}")
    if seen.what != MUTATED and len(words) <= min(LEVELS, sum(texts.values()) / 2):
        more = f"; name the kind {seen.kind} to compare their structure" if seen.kind == "smiles" else ""
        return Use(name, "categorical", f"holds {len(words)} {seen.what} ({first}), each in several rows{more}")
    if seen.kind:
        return Use(name, seen.kind, f"holds {seen.what} ({first})")
    raise InputError(
        f"{place.source}: column {name!r} holds {seen.what} ({listing(words, 3)}), of which labels say nothing about "
        f"others; {seen.way}, or declare {name!r} as categorical"
    )


def uses_of(
    file: Source,
    raw: pd.DataFrame,
    wanted: Mapping[str, str | None],
    used: Mapping[str, str],
    rows: np.ndarray,
    named: bool,
    units: Mapping[str, str] | None = None,
    aside: Mapping[str, str] | None = None,
    drop_invalid: bool = False,
) -> tuple[Use, ...]:
    """What each column of a file is used for.

    Args:
        file: the file.
        raw: n of its rows.
        wanted: possible features -> kind, None where it is to be inferred.
        used: role -> column.
        rows: n row numbers in the file.
        named: whether the features were named; otherwise columns may be left aside.
        units: of columns, where they are known.
        aside: columns that are left aside -> why.
        drop_invalid: whether rows with a cell that does not fit its column are left out.
    """
    units, roles = units or {}, {column: role for role, column in used.items()}
    uses = [_named(column, role, units.get(column, "")) for column, role in roles.items() if column not in wanted]
    counters: dict[str, str] = {}
    mutated: list[str] = []
    for name, kind in wanted.items():
        place = Place(file.name, name, rows)
        check_scalars(raw[name], place)
        odd = odd_cells(raw[name], place)
        cells, place = raw[name][~odd], Place(file.name, name, rows[~odd])
        reason = None if named else reason_to_ignore(cells, place) or (aside or {}).get(name)
        if reason:
            uses.append(Use(name, IGNORED, reason))
        elif not named and (why := counter(cells, small_words(name))):
            counters[name] = why
        elif kind is None and not named and _mutated(cells):
            mutated.append(name)
        elif kind is None:
            if not drop_invalid:
                check_odd(raw[name], Place(file.name, name, rows))
            uses.append(infer(cells, file.typed, place, units.get(name), drop_invalid))
        else:
            unit = units.get(name) or (numbers(raw[name], None).unit if kind == "continuous" else "")
            uses.append(_named(name, kind, unit))
    for name in mutated:
        if any(use.use in ALPHABETS for use in uses):
            uses.append(Use(name, IGNORED, "holds mutations, which the sequences say in full"))
        else:
            uses.append(infer(raw[name], file.typed, Place(file.name, name, rows)))
    left = len(wanted) - len(counters) - sum(use.use == IGNORED for use in uses)
    if len(counters) == 1 and not left:  # the only number that there is
        uses += [Use(name, "continuous", "holds numbers") for name in counters]
    else:
        more = "; name the features if it is one"
        uses += [Use(name, IGNORED, why + more) for name, why in counters.items()]
    known = {use.column for use in uses}
    rest = [column for column in file.columns if column not in known]
    return (*uses, *(Use(column, IGNORED, "not named" if column else "has no name") for column in rest))


def _mutated(values: pd.Series) -> bool:
    seen = recognised(list(text_counts(values.dropna().astype(object).tolist()))[:LOOKED_AT])
    return seen is not None and seen.what == MUTATED


def _named(column: str, use: str, unit: str) -> Use:
    return Use(column, use, f"{NAMED}, in {unit!r}" if unit else NAMED, unit)


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
    if are_relations(head.unique().tolist()):
        return "holds relations, which say what is a limit"
    if len(head) < NAMES_NOT_LABELS or not head.is_unique or not given.is_unique:
        return None
    texts = head.tolist()
    if len(amounts([parts_of(text) for text in texts])) <= len(texts) / 2 and recognised(texts) is None:
        return "holds another text in each row; an id, or name it with a kind (protein, dna, smiles)"
    return None


def counter(values: pd.Series, words: str) -> str | None:
    """Why whole numbers are no feature: they count the rows, name them, or say when; None if they may be one.

    Args:
        values: n cells.
        words: the column's name in small words.
    """
    found = numbers(values)
    cells = found.values[~np.isnan(found.values)]
    if found.bad.any() or len(cells) < 2 or not (np.isfinite(cells) & (cells == np.rint(cells))).all():
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
