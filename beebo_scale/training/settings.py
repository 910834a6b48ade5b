"""The faces of the specs for Lightning: modules whose arguments are settings, as its command line reads them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeVar

from ..specs.setting import Setting, flag, number, text, whole_number

C = TypeVar("C", bound=type)
TYPES = {id(whole_number): int, id(number): float, id(text): str, id(flag): bool}


def takes(
    settings: Iterable[Setting], types: Mapping[str, Any], defaults: Mapping[str, Any] | None = None
) -> Callable[[C], C]:
    """Let the `**settings` of a class be settings of specs, for all who look at its signature and its docstring.

    Args:
        settings: in the order of the help.
        types: setting -> the type of its values, where it is not that of the setting's reader.
        defaults: setting -> its default here, where it is another.
    """
    known = [replace(each, default=(defaults or {}).get(each.name, each.default)) for each in settings]

    def named(cls: C) -> C:
        init: Any = cls.__dict__["__init__"]
        own = inspect.signature(init)
        given = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
        more = [_parameter(each, types.get(each.name)) for each in known]
        init.__signature__ = own.replace(parameters=[*given, *more])
        doc = str(cls.__doc__).rstrip()
        doc = doc if "Args:" in doc else f"{doc}\n\n    Args:"
        cls.__doc__ = "\n    ".join([doc, *(f"    {each.name}: {each.help}." for each in known)])
        return cls

    return named


def _parameter(each: Setting, hint: Any) -> inspect.Parameter:
    if hint is None:
        hint = Literal[each.read.choices] if each.read.choices else TYPES[id(each.read)]
        hint = hint | None if each.default is None else hint
    return inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=hint)
