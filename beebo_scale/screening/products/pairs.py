"""Pairs of blocks that do not go together: a table of them, or an expression that is true where they do not."""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError
from ...specs import is_list_file
from ..files.numerals import numbers
from ..files.opening import did_you_mean, listing, open_source
from ..places import Place
from .lists import BlockList

COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip
SUMS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Allowed:
    """Which pairs of blocks may be.

    Attributes:
        lists: numbers of one or two lists, rising.
        table: B_i x B_j booleans, or B_i.
    """

    lists: tuple[int, ...]
    table: np.ndarray


def read_pairs(given: Any, lists: Sequence[BlockList], folder: Path | None = None) -> Allowed:
    """What is left by a table of incompatible pairs (a file or a frame), or by an expression.

    Raises:
        InputError: columns, blocks or names that are not those of the lists.
    """
    if isinstance(given, str) and not is_list_file(given):
        return _of_expression(given, lists)
    file = open_source(given if folder is None or not isinstance(given, str) else str(folder / given))
    there = [i for i, own in enumerate(lists) if own.name in file.columns]
    if not 1 <= len(there) <= 2:
        raise InputError(
            f"{file.name}: a table of incompatible pairs has columns of two of the lists "
            f"{listing(own.name for own in lists)}; its columns are {listing(file.columns)}"
        )
    raw = file.load([lists[i].name for i in there])
    place = np.arange(1, len(raw) + 1)
    at = [lists[i].look_up(raw[lists[i].name], Place(file.name, lists[i].name, place)) for i in there]
    table = np.ones([len(lists[i]) for i in there], dtype=bool)
    table[tuple(at)] = False
    return Allowed(tuple(there), table)


def _of_expression(text: str, lists: Sequence[BlockList]) -> Allowed:
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        raise InputError(
            f"--incompatible {text!r} is neither a file nor an expression; write one such as "
            "\"temp > 80 and solvent == 'THF'\""
        ) from None
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    unknown = sorted(names - {own.name for own in lists})
    if unknown or not names:
        what = (
            f"there is no list {unknown[0]!r}{did_you_mean(unknown[0], [o.name for o in lists])}"
            if unknown
            else ("it names no list")
        )
        raise InputError(f"--incompatible {text!r}: {what}; lists are {listing(own.name for own in lists)}")
    there = [i for i, own in enumerate(lists) if own.name in names]
    if len(there) > 2:
        raise InputError(f"--incompatible {text!r} names {len(there)} lists; an expression is about two")
    shapes: dict[str, tuple[int, ...]] = {
        lists[i].name: (-1, 1) if k == 0 and len(there) == 2 else (-1,) for k, i in enumerate(there)
    }
    try:
        barred = _value(tree, {own.name: own for own in lists}, shapes)
        barred = np.broadcast_to(np.asarray(barred, dtype=bool), [len(lists[i]) for i in there])
    except (TypeError, ValueError, KeyError) as error:
        why = str(error).strip("'\"") or "it cannot be evaluated"
        raise InputError(
            f"--incompatible {text!r}: {why}; compare numbers with numbers and labels with labels"
        ) from None
    return Allowed(tuple(there), ~barred)


def _value(node: ast.AST, lists: dict[str, BlockList], shapes: dict[str, tuple[int, ...]]) -> Any:
    """An expression over the blocks of lists, and over other columns of their files: acid.mass."""

    def of(part: ast.AST) -> Any:
        return _value(part, lists, shapes)

    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            own = lists[name]
            return (own.values if own.kind == "continuous" or not own.named else own.ids).reshape(shapes[name])
        case ast.Attribute(value=ast.Name(id=name), attr=column):
            return _column(lists[name], column).reshape(shapes[name])
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return [of(part) for part in parts]
        case ast.UnaryOp(op=ast.USub(), operand=part):
            return -of(part)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in SUMS:
            return SUMS[type(op)](of(left), of(right))
    return _truth(node, of)


def _truth(node: ast.AST, of: Callable[[ast.AST], Any]) -> Any:
    """What is true or false."""
    match node:
        case ast.BoolOp(op=op, values=parts):
            return functools.reduce(np.logical_and if isinstance(op, ast.And) else np.logical_or, map(of, parts))
        case ast.UnaryOp(op=ast.Not(), operand=part):
            return np.logical_not(of(part))
        case ast.Compare(left=left, ops=ops, comparators=others):
            sides = [of(left), *map(of, others)]
            steps = [_compared(op, a, b) for op, a, b in zip(ops, sides, sides[1:], strict=False)]
            return functools.reduce(np.logical_and, steps)
    raise TypeError("it may hold names of lists, numbers, texts, comparisons, and, or, not, in, + - * /")


def _column(own: BlockList, column: str) -> np.ndarray:
    """Another column of a list's file, as numbers if it holds some."""
    if column not in own.columns:
        raise KeyError(f"{own.source} has no column {column}")
    cells = own.columns[column]
    found = numbers(cells)
    return cells.astype(str).to_numpy(dtype=object) if found.bad.any() else found.values


def _compared(op: ast.cmpop, left: Any, right: Any) -> Any:
    if isinstance(op, (ast.In, ast.NotIn)):
        inside = np.isin(left, right)
        return inside if isinstance(op, ast.In) else ~inside
    if type(op) not in COMPARISONS:
        raise TypeError("it may compare by == != < <= > >= and in")
    texts = [np.asarray(side).dtype.kind in "OU" for side in (left, right)]
    if texts[0] != texts[1]:
        raise TypeError("it compares numbers with labels")
    return COMPARISONS[type(op)](left, right)
