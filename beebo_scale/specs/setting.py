"""A setting, declared once: a field of a frozen dataclass that says how every face shows, reads and checks it.

A spec is a frozen dataclass of settings. Fields whose type is another spec belong to it: on the command line and in
files their settings stand beside the others, by their own names. In Python they are keywords (`keywords_of`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from typing import Any, Literal, TypeVar

from ..errors import InputError

S = TypeVar("S")
F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)


@dataclass(frozen=True)
class Reader:
    """From what people write, on a command line or in a file, to a value.

    Attributes:
        words: what a value is, for messages: 'a whole number'.
        parse: raises where it is none.
        choices: the words there are; empty where any other value may be.
        several: whether a command line has several words.
        types: that a file has in place of words.
    """

    words: str
    parse: Callable[[Any], Any]
    choices: tuple[str, ...] = ()
    several: bool = False
    types: tuple[type, ...] = ()

    def __call__(self, value: Any) -> Any:
        """The value."""
        return self.parse(value)


@dataclass(frozen=True)
class Setting:
    """A setting as the faces see it.

    Attributes:
        name: in files, in configurations and (with dashes) on the command line.
        help: what it is.
        default: None where it must be given.
        read: text or plain types to the value.
        metavar: what stands for the value in the help.
        also: other names on the command line, such as '-q'.
    """

    name: str
    help: str
    default: Any
    read: Reader
    metavar: str | None = None
    also: tuple[str, ...] = ()

    def of(self, value: Any, words: str = "{name}: {value!r} is {words}") -> Any:
        """The value that somebody wrote.

        Raises:
            InputError: it is none.
        """
        try:
            return self.read(value)
        except InputError:
            raise
        except (TypeError, ValueError, OverflowError):
            wrong = "neither true nor false" if self.read is flag else f"not {self.read.words}"
            raise InputError(words.format(name=self.name, value=value, words=wrong)) from None


def setting(default: Any, help: str, read: Reader | None = None, **more: Any) -> Any:
    """A field of a spec; `read` None is that of the default's own type, `more` are other attributes of `Setting`."""
    metadata = {"help": help, "read": read or READERS.get(type(default)), **more}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


def part(spec: type, optional: bool = False) -> Any:
    """A field that holds another spec, whose settings stand beside those of this one."""
    if optional:
        return field(default=None, metadata={"spec": spec})
    return field(default_factory=spec, metadata={"spec": spec})


def settings_of(spec: type) -> Iterator[Setting]:
    """All settings of a spec, those of its parts in their place."""
    for own in fields(spec):
        if "spec" in own.metadata:
            yield from settings_of(own.metadata["spec"])
        elif own.metadata:
            yield _setting(own)


def _setting(own: Field[Any]) -> Setting:
    default = own.default_factory() if own.default_factory is not MISSING else own.default
    return Setting(**{"name": own.name, "default": default, **own.metadata})


def make(spec: type[S], given: Mapping[str, Any]) -> S:
    """A spec from what people wrote, by the names of the settings; what is not there or None has its default.

    Raises:
        InputError: a value that cannot be read, or a spec that cannot be.
    """
    values: dict[str, Any] = {}
    for own in fields(spec):  # type: ignore[arg-type]
        if "spec" in own.metadata:
            inner = own.metadata["spec"]
            if any(given.get(each.name) is not None for each in settings_of(inner)):
                values[own.name] = make(inner, given)
        elif own.metadata:
            known = _setting(own)
            if given.get(known.name) is not None:
                values[own.name] = known.of(given[known.name])
    return spec(**values)


def plain(spec: Any) -> dict[str, Any]:
    """A spec as name -> plain types, for a file; objects that only Python can make are left as they are."""
    found: dict[str, Any] = {}
    for own in fields(spec):
        value = getattr(spec, own.name)
        if "spec" in own.metadata:
            inner = own.metadata["spec"]
            found |= plain(value) if isinstance(value, inner) else {each.name: None for each in settings_of(inner)}
        elif own.metadata:
            found[own.metadata.get("name", own.name)] = _plain(value)
    return found


def _plain(value: Any) -> Any:
    """Mappings, lists and scalars only."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def refuse(names: Mapping[str, tuple[str, ...]], spec: Any) -> None:
    """Refuse words that are not among those known, for settings of one word.

    Raises:
        InputError: the first of them.
    """
    for name, known in names.items():
        if getattr(spec, name) not in known:
            are = "are" if name.endswith("s") else "is"
            raise InputError(f"{name} {getattr(spec, name)!r} {are} not known; choose one of {', '.join(known)}")


def check_least(spec: Any, **least: int) -> None:
    """Refuse counts that are too small.

    Raises:
        InputError: the first of them.
    """
    for name, few in least.items():
        if not getattr(spec, name) >= few:
            raise InputError(f"{name} = {getattr(spec, name)}: give {few} or more")


def _whole(value: Any) -> int:
    """96, also if written 96.0."""
    if isinstance(value, bool) or float(value) != int(float(value)):
        raise ValueError
    return int(value) if isinstance(value, str) and "." not in value and "e" not in value else int(float(value))


def _only(*types: type) -> Callable[[Any], Any]:
    def parse(value: Any) -> Any:
        if not isinstance(value, types):
            raise ValueError
        return value

    return parse


def _number(value: Any) -> float:
    return float(_only(int, float, str)(value)) if not isinstance(value, bool) else _only()(value)


whole_number = Reader("a whole number", _whole)
number = Reader("a number", _number)  # also inf and nan, which the specs refuse with their reason
text = Reader("a text", _only(str))
flag = Reader("true or false", _only(bool))
READERS: dict[type, Reader] = {int: whole_number, float: number, str: text, bool: flag}


def one_of(choices: tuple[str, ...], other: Reader | None = None) -> Reader:
    """A reader of one of a few words, or of what another reader takes."""

    def parse(value: Any) -> Any:
        if isinstance(value, str) and value in choices:
            return value
        return _only()(value) if other is None else other(value)

    words = f"one of {', '.join(choices)}"
    return Reader(words, parse, choices) if other is None else Reader(f"{words} or {other.words}", parse)


def keywords_of(spec: type, without: tuple[str, ...] = ()) -> Callable[[F], F]:
    """Let a function's `**settings` be the fields of a spec, by name and with their defaults, for all who look at it.

    Args:
        spec: a frozen dataclass.
        without: fields that are no keywords; those that the function names itself are none either.
    """

    def named(function: F) -> F:
        _replace_keywords(function, (_keyword(each) for each in fields(spec) if each.name not in without))
        return function

    return named


def _keyword(own: Field[Any]) -> inspect.Parameter:
    default = own.default
    if default is MISSING:
        default = None if own.default_factory is MISSING else own.default_factory()
    return inspect.Parameter(own.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=own.type)


def _replace_keywords(function: Any, keywords: Iterable[inspect.Parameter]) -> None:
    """Show keywords in place of `**settings` in a signature, but for those that the function names itself."""
    own = inspect.signature(function)
    given = {p.name: p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD}
    more = [keyword for keyword in keywords if keyword.name not in given]
    function.__signature__ = own.replace(parameters=[*given.values(), *more])


def takes(
    settings: Iterable[Setting], types: Mapping[str, Any], defaults: Mapping[str, Any] | None = None
) -> Callable[[C], C]:
    """Let the `**settings` of a class be settings of specs, for all who look at its signature and its docstring.

    Lightning's command line reads the arguments of its modules there.

    Args:
        settings: in the order of the help.
        types: setting -> the type of its values, where it is not that of the setting's reader.
        defaults: setting -> its default here, where it is another.
    """
    known = [replace(each, default=(defaults or {}).get(each.name, each.default)) for each in settings]

    def named(cls: C) -> C:
        _replace_keywords(cls.__dict__["__init__"], [_parameter(each, types.get(each.name)) for each in known])
        doc = str(cls.__doc__).rstrip()
        doc = doc if "Args:" in doc else f"{doc}\n\n    Args:"
        cls.__doc__ = "\n    ".join([doc, *(f"    {each.name}: {each.help}." for each in known)])
        return cls

    return named


def _parameter(each: Setting, hint: Any) -> inspect.Parameter:
    if hint is None:
        types = {id(reader): kind for kind, reader in READERS.items()}
        hint = Literal[each.read.choices] if each.read.choices else types[id(each.read)]
        hint = hint | None if each.default is None else hint
    return inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=hint)
