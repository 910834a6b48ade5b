"""Users' text in figures: drawn as it is written, whatever it means to matplotlib."""

from __future__ import annotations

import warnings
from typing import Any

LONGEST = 60  # letters of a label; longer ones leave the axes no place


def label(text: object) -> str:
    """A text as matplotlib draws it: no formula between dollar signs, never hidden, not over the whole page."""
    written = str(text).encode("utf-8", "backslashreplace").decode()  # a path may hold bytes that are no text
    written = written if len(written) <= LONGEST else written[: LONGEST - 1] + "\u2026"
    return (" " if written.startswith("_") else "") + written.replace("$", r"\$")


def save(figure: Any, file: Any, **options: Any) -> None:
    """`figure.savefig` without its warnings of letters that the font lacks and of labels that leave no place."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="(?s)Glyph .* missing from font|constrained_layout not applied")
        figure.savefig(file, **options)
