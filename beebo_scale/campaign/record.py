"""Entering results: each leaves pending and enters measured once, however often and in whatever pieces it comes."""

from __future__ import annotations

from .entry import Desk
from .results import Result, Results
from .state import Books, Key
from .tally import Tally


def enter(books: Books, results: Results, extra: bool = False, replicate: bool = False) -> tuple[Books, Tally]:
    """Enter results: all, or none and an error.

    An experiment is pending, known or new. A first value takes it off what is pending; of several targets, each has its
    own, an empty cell beside a value says nothing, and the last of them takes it off. The same value again changes
    nothing; another one is refused, or with `replicate` one more result. No value of any target means that the
    experiment failed; a value that comes later replaces that. What is new is refused, or with `extra` a measurement
    that nobody proposed.

    Raises:
        InputError: rows that are refused.
    """
    desk = Desk(books, results)
    desk.tally.absent = tuple(name for name in books.settings.targets if name not in results.targets)
    groups: dict[Key, list[Result]] = {}
    for row in results.rows:
        groups.setdefault(row.match, []).append(row)
    for group in groups.values():
        desk.enter(group, extra, replicate)
    return desk.close(), desk.tally


def give_up(books: Books, results: Results) -> tuple[Books, Tally]:
    """Release proposals that will not be tried: all, or none and an error.

    Raises:
        InputError: rows that are not pending.
    """
    desk = Desk(books, results)
    for row in results.rows:
        desk.give_up(row)
    return desk.close(), desk.tally
