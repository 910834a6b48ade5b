"""Settings that are more than one word: how people write them on a command line, or in a configuration file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from ..errors import InputError

T = TypeVar("T")

LIST_FILE = re.compile(r"\.(csv|tsv|parquet|xlsx|xlsm)(\.gz|\.xz)?(#.*)?$", re.IGNORECASE)
YAML_FILE = re.compile(r"\.ya?ml$", re.IGNORECASE)
DIRECTED = re.compile(r"^\s*(.+):\s*(max|min)\s*$", re.IGNORECASE)
WEIGHTED = re.compile(r"^\s*(.+):\s*([-+]?[\d.]+(?:e[-+]?\d+)?)\s*$", re.IGNORECASE)


def parse_target(text: Any) -> str | Mapping[str, Any]:
    """A column by its name, or several with their weights or directions: 'ic50:0.7,solubility:-0.3'."""
    if isinstance(text, Mapping):
        return text
    if not isinstance(text, str):
        raise TypeError
    parts = [WEIGHTED.match(part) or DIRECTED.match(part) for part in text.split(",")]
    if len(parts) < 2 or not all(parts):
        return text
    found = [(part[1], _weight(part[2])) for part in parts if part is not None]
    if len(dict(found)) < len(found):
        raise InputError(f"target {text!r} names a column twice; name it once")
    return dict(found)


def _weight(text: str) -> float | str:
    return text.lower() if text.lower() in ("max", "min") else float(text)


def parse_features(features: Any) -> Mapping[str, str | None] | list[str]:
    """`variant:protein temp` or `variant:protein,temp` (or a mapping in a file) to column -> kind.

    A bare column has the kind None, which is inferred from its cells.
    """
    if isinstance(features, Mapping):
        return features
    parsed: dict[str, str | None] = {}
    for text in _parts(features):
        name, _, kind = text.rpartition(":") if ":" in text else (text, "", "")
        if not name:
            raise InputError(f"--features {text!r}: write COLUMN:KIND, such as variant:protein")
        if name in parsed:
            raise InputError(f"--features names {name!r} twice; name it once")
        parsed[name] = kind or None
    return parsed


def parse_bounds(bounds: Any) -> Mapping[str, Any]:
    """`temp:20:80 ph:7 acid:HCl|HBr` (or a mapping in a file) to a range, a fixed value or levels."""
    if isinstance(bounds, Mapping):
        return bounds
    parsed: dict[str, Any] = {}
    for text in _parts(bounds):
        name, *rest = text.split(":")
        if not name or len(rest) not in (1, 2):
            raise InputError(
                f"--bounds {text!r}: write COLUMN:LOW:HIGH, such as temp:20:80, COLUMN:VALUE, or COLUMN:A|B|C"
            )
        if name in parsed:
            raise InputError(f"--bounds names {name!r} twice; name it once")
        parsed[name] = _range(text, rest) if len(rest) == 2 else _value(rest[0])
    return parsed


def _range(text: str, ends: list[str]) -> tuple[float, float]:
    try:
        return float(ends[0]), float(ends[1])
    except ValueError:
        raise InputError(f"--bounds {text!r}: write COLUMN:LOW:HIGH, such as temp:20:80") from None


def _value(text: str) -> Any:
    """A number, a label, or a list of labels."""
    if "|" in text:
        return text.split("|")
    try:
        return float(text)
    except ValueError:
        return text


def is_list_file(value: Any) -> bool:
    """Whether a text names a file, rather than values."""
    return isinstance(value, str) and LIST_FILE.search(value) is not None


def parse_choices(choices: Any) -> Mapping[str, Any] | str:
    """`acid:acids.csv temp:20|40|60` (or a mapping in a file) to column -> list; or one YAML file as it is."""
    if isinstance(choices, (Mapping, str)):
        return choices if isinstance(choices, Mapping) or YAML_FILE.search(choices) else parse_choices([choices])
    texts = [str(text) for text in choices]
    if len(texts) == 1 and YAML_FILE.search(texts[0]):
        return texts[0]
    parsed: dict[str, Any] = {}
    for text in texts:
        name, colon, value = text.partition(":")
        if not (name and colon and value.strip("| ")):
            if name and colon:
                raise InputError(f"--choices {text!r} is an empty list; give at least one block")
            raise InputError(f"--choices {text!r}: write COLUMN:FILE or COLUMN:A|B|C, or give one YAML file")
        if name in parsed:
            raise InputError(f"--choices names {name!r} twice; name it once")
        parsed[name] = value
    return parsed


def parse_names(names: Any) -> tuple[str, ...]:
    """`a b` or `a,b` to names."""
    return tuple(_parts(names))


def parse_texts(texts: Any) -> tuple[str, ...]:
    """Texts as they are, a comma no end of one."""
    if isinstance(texts, str):
        return (texts,)
    return tuple(texts)


def parse_counts(counts: Any, option: str = "--at-most") -> Mapping[str, int]:
    """`scaffold:3` (or a mapping in a file) to column -> count."""
    if isinstance(counts, Mapping):
        return counts
    return _by_column(counts, int, option, "COLUMN:COUNT, such as scaffold:3")


def parse_point(point: Any) -> Mapping[str, float]:
    """`yield:0 cost:100` (or a mapping in a file) to column -> number."""
    if isinstance(point, Mapping):
        return point
    return _by_column(point, float, "--reference", "COLUMN:NUMBER, such as yield:0")


def parse_units(units: Any) -> Mapping[str, str]:
    """`loading:mol% time:h` (or a mapping in a file) to column -> unit."""
    if isinstance(units, Mapping):
        return {str(name): str(unit) for name, unit in units.items()}
    return _by_column(units, _filled, "--units", "COLUMN:UNIT, such as loading:mol%")


def _by_column(texts: Any, read: Callable[[str], T], option: str, form: str) -> dict[str, T]:
    """COLUMN:VALUE to column -> what is read of the value; a ValueError says that it cannot be."""
    parsed = {}
    for text in _parts(texts):
        name, _, value = text.rpartition(":")
        try:
            parsed[name] = read(value)
        except ValueError:
            name = ""
        if not name:
            raise InputError(f"{option} {text!r}: write {form}")
    return parsed


def _filled(text: str) -> str:
    """A text that is not empty."""
    if not text:
        raise ValueError
    return text


def parse_numbers(texts: Any) -> tuple[float, ...]:
    """`1 0.5 0` or `1,0.5,0` to numbers."""
    try:
        return tuple(float(text) for text in _parts(texts if isinstance(texts, (str, list, tuple)) else [texts]))
    except ValueError as error:
        raise InputError(f"--temperatures {str(error).split(':')[-1].strip()} is not a number") from None


def _parts(texts: str | Iterable[Any]) -> list[str]:
    """The parts of 'a,b' or of ['a', 'b,c']; a tuple is taken as it is, as only programs write one."""
    if isinstance(texts, tuple):
        return [str(text) for text in texts]
    return [part.strip() for text in ([texts] if isinstance(texts, str) else texts) for part in str(text).split(",")]
