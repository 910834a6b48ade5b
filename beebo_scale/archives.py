"""Files of tensors: written whole or not at all, the same content in the same bytes, and read only if undamaged.

Such a file is a zip archive, which has a CRC-32 of every part. torch does not look at these sums when it loads.
"""

from __future__ import annotations

import os
import pickle
import zipfile
import zlib
from pathlib import Path
from typing import Any

import torch

from .errors import InputError
from .screening import atomic_write

PIECE = 1 << 20  # bytes read at once


def save(path: str | os.PathLike[str], content: Any) -> None:
    """Write tensors and plain types.

    Raises:
        InputError: the system refuses to write there.
    """
    atomic_write(path, lambda temporary: write_archive(temporary, content))


def write_archive(path: Path, content: Any) -> None:
    """Write to the path itself.

    Raises:
        OSError: the system refuses, also where torch makes a RuntimeError of it.
    """
    try:
        # Given a path, torch would write the name of the (temporary) file into the archive.
        with path.open("wb") as file:
            torch.save(content, file)
    except RuntimeError as error:
        raise _refusal(error) from error


def _refusal(error: BaseException) -> OSError:
    """What the system said, wherever it stands in the chain of errors."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError):
            return seen
        seen = seen.__cause__ or seen.__context__
    return OSError(str(error).splitlines()[0])


def load(path: str | os.PathLike[str], refusal: str) -> Any:
    """Read a file of `save` or a checkpoint, onto the CPU, after its sums were checked.

    Args:
        path: of the file.
        refusal: one line with {path} and {why}.

    Raises:
        InputError: the file cannot be read, is of another kind, or damaged.
    """
    try:
        with open(path, "rb") as file:  # given the path, torch would refuse one that is no text
            why = "it is damaged or cut" if file.read(2) == b"PK" else "it is of another kind, or damaged"
            with zipfile.ZipFile(file) as archive:
                packed = sum(part.file_size for part in archive.infolist()) > os.fstat(file.fileno()).st_size
                bad = None if packed else archive.testzip()
            if not packed and bad is None:
                file.seek(0)
                return torch.load(file, map_location="cpu", weights_only=True)
        why = "it unpacks to more than it is" if packed else f"it is damaged: the sum of {bad} is wrong"
    except OSError as error:
        why = error.strerror or str(error)
    except pickle.UnpicklingError:
        why = "it holds more than numbers and text"
    except Exception:  # what a damaged file raises has no end
        pass
    raise InputError(refusal.format(path=path, why=why))


def file_sum(path: Path) -> int:
    """CRC-32 of a file, read piece by piece."""
    total = 0
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            total = zlib.crc32(piece, total)
    return total


def names_of(path: Path) -> list[str]:
    """What a file of `save` or a checkpoint holds, by name; nothing if it is neither."""
    try:
        content = torch.load(path, map_location="meta", weights_only=True, mmap=True)
    except Exception:  # what a foreign file raises has no end
        return []
    return list(content) if isinstance(content, dict) else []
