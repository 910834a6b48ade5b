"""What a batch's `.run.json` says about where the batch came from."""

from __future__ import annotations

import hashlib
import platform
from importlib.metadata import version
from pathlib import Path

import torch

from ..version import VERSION

PACKAGES = ("gpytorch", "botorch", "linear_operator")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide the numbers."""
    known = {"beebo-scale": VERSION, "python": platform.python_version()}
    known["torch"] = torch.__version__  # its own word names the build, too
    return known | {name: version(name) for name in PACKAGES}


def input_hashes(*sources: str) -> dict[str, str]:
    """SHA-256 of every source that is a file (a table given as a DataFrame has none)."""
    hashes = {}
    for source in sources:
        if Path(source).is_file():
            with open(source, "rb") as file:
                hashes[source] = hashlib.file_digest(file, "sha256").hexdigest()
    return hashes
