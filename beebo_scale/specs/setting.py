"""A setting, declared once: a field of a frozen dataclass that says how every face shows, reads and checks it.

A spec is a frozen dataclass of settings. Fields whose type is another spec belong to it: on the command line and in
files their settings stand beside the others, by their own names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Protocol, TypeVar

from ..errors import InputError

S = TypeVar("S")


class Reader(Protocol):
    """From what a person wrote, on a command line or in a file, to a value."""

    def __call__(self, value: Any) -> Any:
        """The value.

        Raises:
            InputError: it cannot be one.
        """
        ...


@dataclass(frozen=True)
class Setting:
    """A setting as the faces see it.

    Attributes:
        name: in files, in configurations and (with dashes) on the command line.
        help: one line.
        default: MISSING where it must be given.
        read: text or plain types to the value.
        words: what a value is, for messages: 'a whole number'.
        choices: the values there are, None where they have no end.
        metavar: what stands for the value in the help; a text with several words marks a list.
        several: whether the command line takes several words.
        flag: whether it is either true or false.
        also: other names on the command line, such as '-q'.
    """

    name: str
    help: str
    default: Any
    read: Reader
    words: str
    choices: tuple[str, ...] | None = None
    metavar: str | None = None
    several: bool = False
    flag: bool = False
    also: tuple[str, ...] = ()


def setting(
    default: Any = MISSING,
    help: str = "",
    read: Reader | None = None,
    *,
    factory: Callable[[], Any] | None = None,
    name: str | None = None,
    metavar: str | None = None,
    also: tuple[str, ...] = (),
) -> Any:
    """A field of a spec; `read` None is that of the default's own type."""
    metadata = {"help": help, "read": read, "name": name, "metavar": metavar, "also": also}
    if factory is not None:
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)


def part(spec: type[S], default: Any = None, help: str = "") -> Any:
    """A field that holds another spec, whose settings stand beside those of this one; None takes its defaults."""
    metadata = {"spec": spec, "help": help}
    return (
        field(default=default, metadata=metadata) if default is None else field(default_factory=spec, metadata=metadata)
    )


def settings_of(spec: type) -> Iterator[Setting]:
    """All settings of a spec, those of its parts in their place."""
    for own in fields(spec):
        if "spec" in own.metadata:
            yield from settings_of(own.metadata["spec"])
        elif own.metadata:
            yield _setting(own)


def make(spec: type[S], given: Mapping[str, Any]) -> S:
    """A spec from what people wrote, by the names of the settings; what is not there or None has its default.

    Raises:
        InputError: a value that cannot be read, or a spec that cannot be.
    """
    values: dict[str, Any] = {}
    for own in fields(spec):  # type: ignore[arg-type]
        if "spec" in own.metadata:
            inner = own.metadata["spec"]
            names = {each.name for each in settings_of(inner)}
            if any(given.get(name) is not None for name in names):
                values[own.name] = make(inner, given)
        elif own.metadata:
            known = _setting(own)
            if given.get(known.name) is not None:
                values[own.name] = read_setting(known, given[known.name])
    return spec(**values)


def read_setting(known: Setting, value: Any) -> Any:
    """One value, its setting named where it cannot be read."""
    try:
        return known.read(value)
    except InputError:
        raise
    except (TypeError, ValueError, OverflowError):
        words = "neither true nor false" if known.flag else f"not {known.words}"
        raise InputError(f"{known.name}: {value!r} is {words}") from None


def plain(spec: Any) -> dict[str, Any]:
    """A spec as name -> plain types, for a file; objects that only Python can make are left as they are."""
    found: dict[str, Any] = {}
    for own in fields(spec):
        value = getattr(spec, own.name)
        if "spec" in own.metadata:
            inner = own.metadata["spec"]
            found |= plain(value) if isinstance(value, inner) else {each.name: None for each in settings_of(inner)}
        elif own.metadata:
            found[_name(own)] = _plain(value)
    return found


def _plain(value: Any) -> Any:
    """Mappings, lists and scalars only."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _name(own: Field[Any]) -> str:
    return own.metadata["name"] or own.name


def _setting(own: Field[Any]) -> Setting:
    default = own.default if own.default_factory is MISSING else own.default_factory()
    read = own.metadata["read"] or READERS[type(default)]
    return Setting(
        name=_name(own),
        help=own.metadata["help"],
        default=default,
        read=read,
        words=getattr(read, "words", "a value"),
        choices=getattr(read, "choices", None),
        metavar=own.metadata["metavar"],
        several=getattr(read, "several", False),
        flag=read is flag,
        also=own.metadata["also"],
    )


@dataclass(frozen=True)
class Scalar:
    """A reader of single values, with what messages and help call them."""

    words: str
    parse: Callable[[Any], Any]

    def __call__(self, value: Any) -> Any:
        """The value."""
        return self.parse(value)

    def __repr__(self) -> str:
        return self.words.split(" ", 1)[1]


@dataclass(frozen=True)
class OneOf:
    """A reader of one of a few words, or of what another reader takes."""

    choices: tuple[str, ...]
    other: Scalar | None = None

    @property
    def words(self) -> str:
        """What a value is."""
        return f"one of {', '.join(self.choices)}" + (f" or {self.other.words}" if self.other else "")

    def __call__(self, value: Any) -> Any:
        """The value."""
        if isinstance(value, str) and value in self.choices:
            return value
        if self.other is None:
            raise ValueError
        return self.other(value)


@dataclass(frozen=True)
class Words:
    """A reader of several words of a command line, or of a list or mapping in a file."""

    words: str
    parse: Callable[[Any], Any]
    several: bool = True

    def __call__(self, value: Any) -> Any:
        """The value."""
        return self.parse(value)


def _whole(value: Any) -> int:
    """96, also if written 96.0."""
    if isinstance(value, bool) or float(value) != int(float(value)):
        raise ValueError
    return int(value) if isinstance(value, str) and "." not in value and "e" not in value else int(float(value))


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise ValueError
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


whole_number = Scalar("a whole number", _whole)
number = Scalar("a number", _number)  # also inf and nan, which the specs refuse with their reason
text = Scalar("a text", _text)
flag = Scalar("a flag", _flag)
READERS: dict[type, Scalar] = {int: whole_number, float: number, str: text, bool: flag}
