"""Scripts that reproduce the paper, imported by name."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parents[2] / "scripts" / "paper"


def module(name: str) -> ModuleType:
    """A module of scripts/paper, which finds its neighbours as when it is run."""
    sys.path.insert(0, str(FOLDER))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(FOLDER))
