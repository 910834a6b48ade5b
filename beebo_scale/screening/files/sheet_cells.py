"""Cells of a sheet that stand out: a reader has to ask about them before it takes them for text."""

from __future__ import annotations


class SheetCell(str):
    """A cell as text, with what is odd about it.

    Attributes:
        cell: its place, such as A6.
        what: it holds, in words.
        way: what to do about it.
    """

    cell: str
    what: str
    way: str

    @classmethod
    def of(cls, value: object, cell: str, what: str, way: str) -> SheetCell:
        """The text of a value with what is odd about it."""
        own = cls(value)
        own.cell, own.what, own.way = cell, what, way
        return own
