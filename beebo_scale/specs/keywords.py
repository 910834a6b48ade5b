"""Python's face: functions whose keywords are the fields of a spec."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def keywords_of(spec: type, without: tuple[str, ...] = ()) -> Callable[[F], F]:
    """Let a function's `**settings` be the fields of a spec, by name and with their defaults, for all who look at it.

    Args:
        spec: a frozen dataclass.
        without: fields that are no keywords; those that the function names itself are none either.
    """

    def named(function: F) -> F:
        own = inspect.signature(function)
        given = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
        taken = {p.name for p in given} | set(without)
        more = [_keyword(each) for each in fields(spec) if each.name not in taken]
        function.__signature__ = own.replace(parameters=[*given, *more])  # type: ignore[attr-defined]
        return function

    return named


def _keyword(own: Field[Any]) -> inspect.Parameter:
    default = own.default
    if default is MISSING:
        default = None if own.default_factory is MISSING else own.default_factory()
    return inspect.Parameter(own.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=own.type)
