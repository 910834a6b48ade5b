"""What a campaign writes, checked against what somebody else put there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..screening.outputs import Output, batch_outputs, check_outputs, table_form
from .folder import Folder
from .state import OUT, SHOWN


def check_round(folder: Folder, batch: Path, plate: bool, picks: bool, files: Mapping[str, str]) -> None:
    """Before a round costs time.

    Raises:
        InputError: a file that is read, or that somebody made or worked on, would be lost.
    """
    check_pending(folder)
    outputs = [*batch_outputs(batch, plate, dropped=True, picks=picks), Output(folder.pending, lambda path: True)]
    check_outputs(outputs, files.items())


def check_pending(folder: Folder, results: Any = None) -> None:
    """Refuse to write pending.csv anew where somebody filled it in, unless that is what is being recorded.

    Raises:
        InputError: it has columns that no command wrote.
    """
    path, start = folder.pending, ["round", "rank"]
    recorded = isinstance(results, (str, os.PathLike)) and Path(results).resolve() == path.resolve()
    if not path.exists() or not path.stat().st_size or recorded:
        return
    if not (table_form(start, SHOWN)(path) or table_form(start, (*SHOWN, OUT))(path)):
        raise InputError(f"{path} was filled in or changed, and is written anew; record it first, or move it away")
