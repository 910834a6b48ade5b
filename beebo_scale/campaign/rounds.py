"""Rounds that are made already, so that a suggestion can be asked for again."""

from __future__ import annotations

import json
from typing import Any

from ..archives import file_sum
from ..errors import InputError
from ..screening import Batch
from ..screening.batch import run_path
from ..screening.files.opening import open_source
from ..screening.outputs import LAST
from .folder import Folder

SEEN = "results"  # entry of a round's run file: the sum of measured.csv that it was chosen from


def made(folder: Folder, number: int) -> Batch:
    """The batch of a round, as it was proposed.

    Raises:
        InputError: there is no such round, or its files are damaged.
    """
    import pandas as pd

    if number not in folder.rounds():
        known = ", ".join(map(str, folder.rounds())) or "none yet"
        raise InputError(f"{folder.path} has no round {number}; its rounds are: {known}")
    file = open_source(folder.batch(number))
    frame = file.load(list(file.columns))
    for name in ("rank", *LAST):
        frame[name] = pd.to_numeric(frame[name])
    return Batch(frame, _run(folder, number))


def unanswered(folder: Folder) -> int | None:
    """The last round, if nothing was entered since it was made; None otherwise."""
    last = max(folder.rounds(), default=None)
    seen = None if last is None else _run(folder, last).get("campaign", {}).get(SEEN)
    return last if seen is not None and seen == file_sum(folder.measured) else None


def _run(folder: Folder, number: int) -> dict[str, Any]:
    """What is known of how a round was made; nothing where its run file is gone or damaged."""
    try:
        found = json.loads(run_path(folder.batch(number)).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
