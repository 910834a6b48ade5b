"""A progress bar for anything that may take longer than two seconds; none where the output is no terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tqdm import tqdm


def track(iterable: Iterable[Any] | None, description: str, total: int | None = None) -> tqdm[Any]:
    """A tqdm bar on standard error that appears after two seconds and leaves nothing behind.

    Args:
        iterable: what is worked through, or None to call `update` by hand.
        description: what is being done.
        total: number of steps, if the iterable does not know it.
    """
    return tqdm(iterable, desc=description, total=total, delay=2.0, disable=None, leave=False)
