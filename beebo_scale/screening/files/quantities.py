"""Cells that hold a number with something around it: a unit, a currency, a second number, a sign of a limit.

What a cell is follows from its form alone; there is no list of units. A number that letters stand before is a name
(`L1`, `Ligand 2`, `PEG400`), one that a hyphen and letters follow is a place in one (`2-MeTHF`), one that other letters
follow is an amount (`5 mol%`), and one with a sign of money before it as well (`$12`).
"""

# ruff: noqa: RUF001 - signs that look alike are what this is about
from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

BLANK = " \u00a0\u2007\u2009\u202f\t"
GROUP = f"{BLANK}'\u2019"  # between thousands
MINUS = "\u2212"
SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
SHORT = 3  # letters right behind a number that may be a unit without another number in that unit

_SIGN = rf"[-+{MINUS}]"
_GROUPED = rf"[1-9]\d{{0,2}}(?P<group>[{GROUP}])\d{{3}}(?:(?P=group)\d{{3}})*(?:[.,]\d+)?(?![\d.,])"
_PLAIN = r"(?:\d[\d.,]*\d|[.,]?\d+)\.?"
_TENS = rf"10(?:(?:\^|\*\*){_SIGN}?\d+|[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)"
_POWER = rf"[eE]{_SIGN}?\d+|[{BLANK}]*[x×·*⋅][{BLANK}]*{_TENS}"
CELL = re.compile(
    rf"(?P<sign>{_SIGN}?)[{BLANK}]*(?P<money>[^\w\s.,+-]?)[{BLANK}]*(?P<behind>{_SIGN}?)"
    rf"(?:(?P<tens>{_TENS})|(?P<number>{_GROUPED}|{_PLAIN})(?P<power>{_POWER})?)(?P<rest>.*)",
    re.DOTALL,
)
LIMIT = re.compile(rf"\s*(?:[<>≤≥≪≫~≈∼=]=?|[<>]{{2}})\s*{_SIGN}?[.,]?\d")
_RANGE = rf"±|\+\s*/?\s*[-{MINUS}]|[-–—{MINUS}]|\.\.+|…|to\b|\("
_SECOND = rf"[{BLANK}]*{_SIGN}?\d[\d.,]*[{BLANK}]*\)?[^\d]*"
TWO = re.compile(rf"[{BLANK}]*(?:{_RANGE}|[:/x×*]){_SECOND}|[^\d]*?[{BLANK}]*(?:{_RANGE}){_SECOND}")
_EXPONENT = rf"(?<=[^\W\d_])(?:\^?[1-4](?!\d)|\^?[-{MINUS}][1-4](?=$|/))"
UNIT_TEXT = re.compile(rf"(?:[^\d]|{_EXPONENT}|(?<=/)[{BLANK}]?10+\b)*")
DECIMAL_END = re.compile(r"\d[.,]\d+\Z")
THOUSANDS = re.compile(r"\d{1,3}(?:(?:\.\d{3})+(?:,\d+)?|(?:,\d{3})+(?:\.\d+)?)")
SIGNS = "%‰°\"'′″/"  # that a unit begins with
NAME_BEHIND = re.compile(rf"[-‐‑](?![\d{BLANK}.,+{MINUS}-])|['’].")
CODE = re.compile(r"(\d+)-(\d+)")
LETTER = re.compile(r"[^\W\d_]")


class Form(Enum):
    """What a cell is."""

    NUMBER = "a number"
    AMOUNT = "a number with a unit"
    TWO = "two numbers"
    LIMIT = "a limit"
    UNCLEAR = "something with a number"
    TEXT = "text"


@dataclass(frozen=True)
class Cell:
    """A cell by its parts.

    Attributes:
        form: what it is.
        core: its number without groups of thousands and in plain signs; commas stay. Of two whole numbers with a
            hyphen, as they are.
        power: of ten that the number is to be multiplied by.
        unit: what stands around the number, in one spelling.
        close: whether the unit follows a whole number at once.
    """

    form: Form
    core: str = ""
    power: int = 0
    unit: str = ""
    close: bool = False


def parts_of(text: str) -> Cell:
    """A cell that is not empty, by its parts."""
    text = text.strip(BLANK + "\r\n\v\f\u200b\ufeff")
    if not text or text[0].isalpha():  # quick
        return Cell(_form_without_first_number(text)) if text else Cell(Form.TEXT)
    if LIMIT.match(text):
        return Cell(Form.LIMIT)
    match = CELL.fullmatch(text)
    if match is None:
        return Cell(_form_without_first_number(text))
    money, rest = match["money"], match["rest"]
    if (money and unicodedata.category(money) != "Sc") or (match["sign"] and match["behind"]):
        return Cell(_form_without_first_number(text))
    form = _form(match["number"] or "", rest, money)
    if form not in (Form.NUMBER, Form.AMOUNT):
        return Cell(form, text if CODE.fullmatch(text) else "")
    core = re.sub(f"[{GROUP}]", "", match["number"] or "1")
    sign = (match["sign"] or match["behind"]).replace(MINUS, "-")
    power = _exponent(match["power"] or match["tens"] or "")
    close = bool(rest) and rest[0] not in BLANK and (match["number"] or "").isdigit() and not match["power"]
    return Cell(form, sign + core, power, spelled(money + rest), close)


def _form(number: str, rest: str, money: str) -> Form:
    """What a number and the text behind it are."""
    bare = rest.strip(BLANK)
    if max(number.count("."), number.count(",")) > 1 and not THOUSANDS.fullmatch(number):
        return Form.TEXT  # 1.2.3, 1,3,5-
    if not bare:
        return Form.AMOUNT if money else Form.NUMBER
    if UNIT_TEXT.fullmatch(rest) and (bare[0].isalpha() or bare[0] in SIGNS or unicodedata.category(bare[0]) == "Sc"):
        return Form.AMOUNT
    if NAME_BEHIND.match(bare):
        return Form.TEXT  # 2-MeTHF, 18-crown-6, 4-(2-pyridyl), 4,4'-bipyridine
    if TWO.fullmatch(rest):
        return Form.TWO
    if "+" in (bare[0], bare[-1]):
        return Form.LIMIT
    if bare[0] in "-‐‑–,.:/_":
        return Form.TEXT  # 68-12-2, 2024-01-31
    return Form.UNCLEAR


def _form_without_first_number(text: str) -> Form:
    """What a cell is that does not begin with a number: `pH 7.4`, `(5)` are something with a number, `L1` is text."""
    if LETTER.search(text):
        return Form.UNCLEAR if text[-1].isdigit() and DECIMAL_END.search(text) else Form.TEXT
    numbers = re.findall(r"\d[\d.,]*", text)
    return Form.UNCLEAR if len(numbers) == 1 and text[0] != "#" else Form.TEXT


def _exponent(text: str) -> int:
    """The power of ten in 'e5', ' x 10^5', '10⁵' or ''."""
    digits = re.sub(r"^.*?10(?=[\^*⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺])|[eE^*]", "", text).translate(SUPERSCRIPTS).replace(MINUS, "-")
    return int(digits) if digits.strip() else 0


def spelled(unit: str) -> str:
    """What stands around a number, in one spelling: blanks, forms of letters and a point at the end do not count."""
    text = unit.replace("º", "°").replace("˚", "°")
    text = " ".join(unicodedata.normalize("NFKC", text).split())
    return re.sub(r"\s*([%/°])\s*", r"\1", text).rstrip(".").strip()


def one_with(unit: str, cell: Cell) -> bool:
    """Whether a cell is in a unit; `1 day` is in days."""
    alone = cell.power == 0 and re.fullmatch(r"[-+]?1(?:[.,]0*)?", cell.core) is not None and len(cell.unit) > 1
    return cell.unit == unit or (alone and cell.unit + "s" == unit)


def main_unit(cells: Mapping[str, Cell], counts: Mapping[str, int], plain: int = 0) -> str:
    """The unit that most cells are in, empty for none; `plain` more cells are numbers without one."""
    units = Counter({"": plain})
    for text, cell in cells.items():
        if cell.form in (Form.NUMBER, Form.AMOUNT):
            units[cell.unit] += counts[text]
    for text, cell in cells.items():
        several = cell.unit + "s"
        if several in units and one_with(several, cell):
            units[cell.unit] -= counts[text]
            units[several] += counts[text]
    best = max(units.values())
    return max((unit for unit, count in units.items() if count == best), key=lambda unit: (len(unit), unit))


def amounts(cells: Collection[Cell]) -> list[Cell]:
    """Cells of a column that are to be taken for numbers or something like it, rather than for names.

    Amounts in several units are names if each unit has one number only and is long and right behind it (`4CzIPN`) or of
    several words (`10 mM Tris`), or if there are more than a few such (`1ABC`); and if they are whole numbers with one
    letter at once behind, of which there are an a and others (`1a`, `2c`). Pairs such as `1-2` are names unless the
    second number is always the larger one.
    """
    given = [cell for cell in cells if cell.form is Form.AMOUNT]
    numbers: dict[str, set[str]] = {}
    for cell in given:
        numbers.setdefault(cell.unit, set()).add(cell.core)
    once = all(len(cores) == 1 for cores in numbers.values())
    few = len(numbers) <= SHORT
    named = once and all((cell.close and (len(cell.unit) > SHORT or not few)) or " " in cell.unit for cell in given)
    counted = bool(numbers.keys() & {"a", "A"}) and all(cell.close and len(cell.unit) == 1 for cell in given)
    pairs = [CODE.fullmatch(cell.core) for cell in cells if cell.form is Form.TWO]
    codes = any(pair and int(pair[1]) >= int(pair[2]) for pair in pairs)
    texts = {Form.TEXT} | ({Form.AMOUNT} if len(numbers) > 1 and (named or counted) else set())
    return [c for c in cells if c.form not in texts and not (codes and c.form is Form.TWO and c.core)]


def in_doubt(cells: Collection[Cell]) -> bool:
    """Whether numbers with one unit may be names all the same: `5A`, `6A` (volts, or mutations?), `1b`, `2b`."""
    units = {c.unit for c in cells if c.form is Form.AMOUNT}
    return len(units) == 1 and all(c.close for c in cells if c.unit) and bool(re.fullmatch("[A-Zabc]", units.pop()))


def advice_on(text: str, unit: str = "") -> str | None:
    """What to do about a cell that is no number but looks like one; None if it does not.

    Args:
        text: the cell.
        unit: of the others, empty for none.
    """
    cell = parts_of(text)
    if "," in cell.core and (not unit or cell.unit == unit):
        return "is its comma a decimal point or between thousands? write it without comma"
    if unit and cell.form in (Form.NUMBER, Form.AMOUNT):
        return f"the column is in {unit!r}; write all cells in one unit"
    ways = {
        Form.AMOUNT: "leave unit and percent sign out of it, or write all cells in one unit",
        Form.TWO: "that is no single number; write one number (with its variance in a column of its own)",
        Form.LIMIT: "a limit is no measured value; write a number, or empty the cell",
        Form.UNCLEAR: "write the number alone",
    }
    return ways.get(cell.form)
