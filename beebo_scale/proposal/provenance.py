"""What a batch's `.run.json` says about where the batch came from."""

from __future__ import annotations

import hashlib
import os
import platform
from importlib.metadata import version
from pathlib import Path

import torch

from .. import __version__
from ..screening.files.opening import split_sheet

PACKAGES = ("gpytorch", "botorch", "linear_operator")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide the numbers."""
    known = {"beebo-scale": __version__, "python": platform.python_version()}
    known["torch"] = torch.__version__  # its own word names the build, too
    return known | {name: version(name) for name in PACKAGES}


def input_hashes(*sources: str) -> dict[str, str]:
    """SHA-256 of every source that is a file, or a folder of Parquet files (a table given as a DataFrame has none)."""
    paths = {source: split_sheet(source)[0] for source in sources}
    found = {source: path for source, path in paths.items() if path.exists()}
    return {source: _digest(path) for source, path in found.items()}


def _digest(path: Path) -> str:
    """Of a file's content; of a folder, that of the names and digests of its files."""
    if path.is_dir():
        lines = [f"{file.name} {_digest(file)}\n" for file in sorted(path.glob("*.parquet"))]
        return hashlib.sha256(os.fsencode("".join(lines))).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
