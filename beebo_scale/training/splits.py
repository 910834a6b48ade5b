"""Which rows are learned from, which choose the checkpoint, and which judge it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import InputError
from ..screening.places import rows_text, shown

TRAIN, VALIDATION, TEST = 0, 1, 2
SPLIT_NAMES = ("train", "validation", "test")  # in a column that gives the split


@dataclass(frozen=True)
class Split:
    """How rows are dealt out.

    Attributes:
        by: "random" (row by row), "group" or "scaffold" (all rows with one label together), or "column" (given).
        column: that names the groups, or gives the split by the words of SPLIT_NAMES; for "scaffold" the molecules.
        validation: share of the rows.
        test: share of the rows.
        seed: of the draw.
    """

    by: str = "random"
    column: str | None = None
    validation: float = 0.1
    test: float = 0.1
    seed: int = 0

    def check(self) -> None:
        """Refuse before a file is opened what cannot work.

        Raises:
            InputError: shares that leave nothing to learn from or to judge by, or no column where one is needed.
        """
        if self.by in ("group", "column") and self.column is None:
            raise InputError(f"a split by {self.by} needs data.split_column; name the column")
        if self.by != "column" and not (self.validation > 0 and self.test >= 0 and self.validation + self.test < 1):
            raise InputError(
                f"a split with validation = {self.validation:g} and test = {self.test:g} leaves no rows to learn from "
                "or none to validate; give a validation share above 0 and both together below 1"
            )


def random_parts(n: int, split: Split) -> np.ndarray:
    """Part of each of n rows, drawn row by row: n int8."""
    return grouped_parts(np.arange(n), split, "rows")


def grouped_parts(labels: np.ndarray, split: Split, what: str) -> np.ndarray:
    """Part of each row, all rows of one label in one part: n int8.

    Groups come in random order; the first ones fill the test part, the next ones the validation part.

    Args:
        labels: n.
        split: shares and seed.
        what: the labels are, for messages.

    Raises:
        InputError: a part that should have rows has none.
    """
    _, group, size = np.unique(labels, return_inverse=True, return_counts=True)
    if len(size) < 2:
        raise InputError(f"all {len(labels)} rows are one of {what}, so that none is left to validate; split otherwise")
    order = np.random.default_rng(split.seed).permutation(len(size))
    before = np.concatenate([[0], size[order].cumsum()[:-1]])  # rows in the groups drawn earlier
    wanted = len(labels) * np.array([split.test, split.test + split.validation])
    own = np.full(len(size), TRAIN, dtype=np.int8)
    own[order] = np.where(before < np.rint(wanted[0]), TEST, np.where(before < np.rint(wanted[1]), VALIDATION, TRAIN))
    if not (own == VALIDATION).any():  # a group of the test part took its place
        own[order[int((own == TEST).sum())]] = VALIDATION
    return _checked(own[group], what)


def given_parts(values: Sequence[object], source: str, column: str, numbers: np.ndarray) -> np.ndarray:
    """Parts by a column that names them: n int8.

    Args:
        values: n cells.
        source: name of the file.
        column: name of the column.
        numbers: n row numbers, for messages.

    Raises:
        InputError: another word than those of SPLIT_NAMES, or a part without rows.
    """
    words = np.array([str(value).strip().lower() for value in values], dtype=object)
    parts = np.full(len(words), -1, dtype=np.int8)
    for part, name in enumerate(SPLIT_NAMES):
        parts[words == name] = part
    if (parts < 0).any():
        bad = parts < 0
        first = shown(values[int(np.argmax(bad))])
        raise InputError(
            f"{source}: column {column!r} holds {first} {rows_text(numbers[bad])}; a split column holds the words "
            f"{', '.join(SPLIT_NAMES)}"
        )
    return _checked(parts, f"column {column!r}")


def _checked(parts: np.ndarray, what: str) -> np.ndarray:
    learned, validated = int((parts == TRAIN).sum()), int((parts == VALIDATION).sum())
    if learned < 2 or validated < 1:
        raise InputError(
            f"the split by {what} leaves {learned} rows to learn from and {validated} to validate, of {len(parts)}; at "
            "least 2 and 1 are needed: change data.validation and data.test, or the split"
        )
    return parts
