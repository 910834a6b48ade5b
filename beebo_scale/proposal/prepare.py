"""`prepare`: everything about a choice that needs no surrogate, done once.

The files are opened, ids resolved, rows encoded; what cannot work is refused before anything costs time. What comes of
it is used by `choose`, so that nothing is read, resolved or encoded twice.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..screening import EncodedTable, Encoder, Table
from ..screening.files.opening import open_source
from ..screening.library import Library, open_library
from ..screening.packing import Packing
from ..screening.products import ProductLibrary, open_product
from ..screening.same import spelled_alike
from ..specs import Choice, Columns
from ..surrogates.data.target import Prediction
from .box.units import BoxUnits, ranges_of, units_of
from .library.encoded import EncodedLibrary
from .library.exclusion import Rules
from .library.named_rows import NamedRows, encoded_rows, excluded_ids, read_named
from .library.products.encoded import EncodedProduct
from .library.unseen import told_of_library
from .provenance import input_hashes
from .tradeoffs.aims import check_measured

BATCH_COLUMNS = ("rank", *Prediction.names(), "gain")  # columns of a batch beside the id and the features


@dataclass(frozen=True, eq=False)
class Prepared:
    """A choice with its rows, before a surrogate makes it.

    Attributes:
        choice: what is asked for.
        encoder: of the features.
        rules: what must not be proposed.
        library: the candidates ...
        box: ... or the box, in encoded units.
        notes: what a user should know, one line each.
    """

    choice: Choice
    encoder: Encoder
    rules: Rules
    library: EncodedLibrary | EncodedProduct | None = None
    box: BoxUnits | None = None
    notes: tuple[str, ...] = ()

    @property
    def described(self) -> str:
        """How many candidates there are, in a line, where lists make them; else empty."""
        return self.library.library.describe() if isinstance(self.library, EncodedProduct) else ""

    @cached_property
    def inputs(self) -> dict[str, str]:
        """File that the choice names -> hash of its content."""
        return input_hashes(*self.choice.files.values())

    def check(self) -> Prepared:
        """Look at every row of a library before a fit costs time.

        Raises:
            InputError: a row is not usable, or fewer rows than q can be proposed.
        """
        if self.library is not None:
            self.library.check(self.choice.q)
        return self


def prepare(
    choice: Choice, encoder: Encoder, measured: Tensor, id: str | None = None, drop_invalid: bool = False
) -> Prepared:
    """Open, resolve and encode what a choice names.

    Args:
        choice: what is asked for.
        encoder: of the features.
        measured: the measured inputs, encoded (n x d) or packed (n x bytes uint8).
        id: column of the library that names its rows.
        drop_invalid: leave out rows of the library that cannot be read, instead of refusing it.

    Raises:
        InputError: a library, a box or named experiments that cannot be used, or that do not go with the features.
    """
    choice.check_source()
    check_names(encoder, id)
    if choice.bounds is not None:
        box = units_of(encoder, choice.bounds)
        measured = measured if measured.is_floating_point() else Packing.of(encoder).unpack(measured)
        rules, notes = _rules(choice, encoder, measured, *_named(choice, encoder, None), None)
        return Prepared(choice, encoder, rules, box=box, notes=notes)
    if choice.choices is not None:
        return _of_lists(choice, encoder, measured, open_product(choice.choices, encoder.kinds, id))
    if isinstance(choice.library, (Table, Library)):  # read already, with the ids that it has
        id = choice.library.id
    pending, excluded = _named(choice, encoder, id)
    library = open_library(
        choice.library,
        encoder.kinds,
        id,
        choice.limits.columns,
        lengths=encoder.lengths if drop_invalid else None,
        sought=[id for rows in (pending, *excluded) if rows is not None for id in rows.sought],
    )
    check_names(encoder, library.id, *library.labels)
    rules, notes = _rules(choice, encoder, measured, pending, excluded, library)
    notes += told_of_library(choice.library, encoder, drop_invalid)
    return Prepared(choice, encoder, rules, EncodedLibrary(library, encoder, rules, choice.limits), notes=notes)


def _of_lists(choice: Choice, encoder: Encoder, measured: Tensor, product: ProductLibrary) -> Prepared:
    """`prepare` for a product of lists."""
    if choice.hit is not None:
        raise InputError("--hit goes with a written library or a box, not with --choices")
    if choice.limits.at_most_distinct:
        raise InputError(
            "--shared and --at-most-distinct go with a written library; of lists leave out the other values"
        )
    if product.kinds != encoder.kinds:
        ours, theirs = (", ".join(f"{n} ({k})" for n, k in kinds.items()) for kinds in (product.kinds, encoder.kinds))
        raise InputError(f"the lists are {ours}, but the measurements have {theirs}; name the same, in the same order")
    check_names(encoder, product.id, *(sites.name for sites in product.sites))
    pending, excluded = _named(choice, encoder, product.id, product)
    rules, notes = _rules(choice, encoder, measured, pending, excluded, product)
    return Prepared(choice, encoder, rules, EncodedProduct(product, encoder, rules, choice.limits), notes=notes)


def measured_blocks(choice: Choice, columns: Columns, source: Any) -> tuple[Any, Columns]:
    """A measured file and what its columns are; with lists, its blocks are spelled as the lists spell them.

    Raises:
        InputError: a list that cannot be used, a feature without a list, or a cell that is no block.
    """
    if choice.choices is None:
        return source, columns
    product = open_product(choice.choices, columns.features, columns.id)
    return product.measured(source, columns), product.columns_of(columns)


def encode_measured(table: Table, choice: Choice, drop_invalid: bool = False) -> EncodedTable:
    """A measured table encoded; columns of numbers that never varied are scaled by the box or library of a choice.

    Args:
        table: n rows.
        choice: what is asked for; a library is read for the sake of such columns alone.
        drop_invalid: leave out rows of the library that cannot be read.

    Raises:
        InputError: a library or a box that cannot be used.
    """
    measured = EncodedTable.of(table)
    choice.check_source()
    encoder = measured.encoder
    if choice.choices is not None:
        product = open_product(choice.choices, encoder.kinds)
        known = {own.name: own.values for own in product.lists if own.name in encoder.constant}
        encoder = encoder.reaching({n: (float(v.min()), float(v.max())) for n, v in known.items()}, "the list")
        return EncodedTable(table, encoder, spelled_alike(encoder.encode(table), encoder.columns), lists=True)
    if not encoder.constant:
        return measured
    if choice.bounds is not None:
        encoder = encoder.reaching(ranges_of(encoder, choice.bounds), "the box")
    else:
        kinds = dict.fromkeys(encoder.constant, "continuous")
        library = open_library(choice.library, kinds, lengths={} if drop_invalid else None)
        ranges: dict[str, tuple[float, float]] = {}
        for _, chunk in library.chunks():
            for name in kinds:
                values, (low, high) = chunk.frame[name], ranges.get(name, (math.inf, -math.inf))
                ranges[name] = min(low, float(values.min())), max(high, float(values.max()))
        encoder = encoder.reaching(ranges, "the library")
    return EncodedTable(table, encoder, spelled_alike(encoder.encode(table), encoder.columns))


def prepare_measured(choice: Choice, measured: EncodedTable, id: str | None, drop_invalid: bool = False) -> Prepared:
    """`prepare` before the fit: every row of a library is looked at, too, and what several targets are measured at."""
    check_measured(measured.table, choice)
    return prepare(choice, measured.encoder, measured.X, id, drop_invalid).check()


def _named(
    choice: Choice, encoder: Encoder, id: str | None, product: ProductLibrary | None = None
) -> tuple[NamedRows | None, list[NamedRows]]:
    """What is pending and what is excluded, as the files name it."""

    def read(source: Any) -> NamedRows:
        file = open_source(source)
        if product is not None and product.spells(file):
            file = product.measured(file)
        return read_named(file, encoder, id)

    pending = None if choice.pending is None else read(choice.pending)
    return pending, [read(rows) for rows in choice.exclusions]


def _rules(
    choice: Choice,
    encoder: Encoder,
    measured: Tensor,
    pending: NamedRows | None,
    excluded: list[NamedRows],
    library: Library | ProductLibrary | None,
) -> tuple[Rules, tuple[str, ...]]:
    """What must not be proposed, and what to say of it."""
    ids, told = excluded_ids(excluded, library)
    named = [*excluded, *([] if pending is None else [pending])]
    notes = (
        *(library.notes if isinstance(library, Library) else ()),
        *(note for rows in named for note in rows.notes),
        *told,
    )
    rules = Rules(
        measured=measured,
        pending=None if pending is None else encoded_rows(pending, encoder, library),
        excluded=torch.cat([rows.X for rows in excluded]) if excluded else None,
        excluded_ids=ids,
        lists={
            str(file): len(rows.X)
            for file, rows in zip(choice.exclusions, excluded, strict=True)
            if _is_list(file, rows)
        },
        allow_repeats=choice.allow_repeats,
    )
    return rules, notes


def _is_list(file: Any, rows: NamedRows) -> bool:
    """Whether it is a file of the user's that names rows by their features, rather than rows that a program gives."""
    return isinstance(file, (str, os.PathLike)) and len(rows.X) > 0


def check_names(encoder: Encoder, *others: str | None) -> None:
    """Refuse features, and other columns of a batch, that have the name of one that a batch adds."""
    taken = [name for name in BATCH_COLUMNS if name in others or name in encoder.kinds]
    if taken:
        raise InputError(f"column {taken[0]!r} has the name of a column that a batch adds; rename it in all files")
