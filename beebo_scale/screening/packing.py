"""Encoded rows in few bytes: fingerprints as half bytes, letters as one byte, all other numbers as they are.

325,567 molecules take 333 MB instead of 5.3 GB. Rows are unpacked by the minibatch, where they are needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .encoding import Column, Encoder, FingerprintColumn, SequenceColumn
from .places import Place
from .table import Table

COLUMN_BYTES = {"bits": 1 / 8, "counts": 1 / 2, "letters": 1, "numbers": 8}  # of one column of X


@dataclass(frozen=True)
class Packing:
    """Where the columns of X lie in a packed row.

    Attributes:
        parts: (form, number of columns of X) in the order of X; a form is one of COLUMN_BYTES.
    """

    parts: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, encoder: Encoder) -> Packing:
        """The packing of an encoder's rows."""
        return cls(tuple((_form(column), column.width) for column in encoder.columns))

    @property
    def size(self) -> int:
        """Bytes in a row."""
        return sum(width for _, width in self._sizes())

    def _sizes(self) -> Iterator[tuple[str, int]]:
        """Form and bytes of each part."""
        return ((form, int(width * COLUMN_BYTES[form])) for form, width in self.parts)

    def offsets(self) -> list[int]:
        """The first byte of each part."""
        return [int(end) for end in np.cumsum([0, *(size for _, size in self._sizes())])[:-1]]

    def packed(self, rows: Tensor) -> np.ndarray:
        """Rows of X (n x d float64) packed, n x bytes uint8; rows that are packed already as they are."""
        if rows.dtype == torch.uint8:
            return rows.numpy()
        pieces = []
        for (form, _), X in zip(self.parts, rows.split([width for _, width in self.parts], dim=-1), strict=True):
            if form == "numbers":
                numbers = np.ascontiguousarray(X.numpy() + 0.0)  # -0.0 and 0.0 have the same bytes
                pieces.append(numbers.view(np.uint8).reshape(len(rows), 8 * X.shape[-1]))
                continue
            small = X.numpy().astype(np.uint8)
            if form == "bits":
                small = np.packbits(small, axis=1, bitorder="little")
            pieces.append(small[:, 0::2] | small[:, 1::2] << 4 if form == "counts" else small)
        return np.concatenate(pieces, axis=1)

    def unpack(self, rows: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
        """Packed rows, n x bytes uint8, to X, n x d."""
        pieces = []
        for (form, size), piece in zip(self._sizes(), rows.split([s for _, s in self._sizes()], dim=-1), strict=True):
            if form == "bits":
                shifts = torch.arange(8, dtype=torch.uint8, device=rows.device)
                pieces.append((piece.unsqueeze(-1) >> shifts & 1).reshape(len(rows), 8 * size).to(dtype))
            elif form == "counts":
                pieces.append(torch.stack([piece & 15, piece >> 4], dim=-1).reshape(len(rows), 2 * size).to(dtype))
            elif form == "letters":
                pieces.append(piece.to(dtype))
            else:
                pieces.append(_aligned(piece).view(torch.float64).to(dtype))
        return torch.cat(pieces, dim=-1)


def _form(column: Column) -> str:
    if isinstance(column, FingerprintColumn):
        return "counts" if column.counts else "bits"
    return "letters" if isinstance(column, SequenceColumn) else "numbers"


def _aligned(piece: Tensor) -> Tensor:
    """Bytes that can be looked at as float64; of a single row `contiguous` leaves them where they are."""
    there = piece.is_contiguous() and piece.stride(0) % 8 == 0 and piece.storage_offset() % 8 == 0
    return piece if there else piece.clone(memory_format=torch.contiguous_format)


def pack(encoder: Encoder, table: Table, numbers: np.ndarray) -> np.ndarray:
    """The packed rows of a table; no n x d array is made.

    Args:
        encoder: of the columns.
        table: n rows.
        numbers: n row numbers in the file, for messages.

    Returns:
        n x bytes uint8; equal rows have equal bytes.

    Raises:
        InputError: a value that the encoder cannot encode.
    """
    encoder.check_units(table)
    pieces = []
    for column in encoder.columns:
        values, place = table.frame[column.name], Place(table.source, column.name, numbers)
        if isinstance(column, FingerprintColumn):
            pieces.append(column.encode_packed(values, place))
        elif isinstance(column, SequenceColumn):
            pieces.append(column.encode(values, place).astype(np.uint8))
        else:
            codes = column.encode(values, place) + 0.0  # so that -0.0 and 0.0 have the same bytes
            pieces.append(np.ascontiguousarray(codes, dtype=np.float64).view(np.uint8).reshape(len(table), -1))
    return np.concatenate(pieces, axis=1)
