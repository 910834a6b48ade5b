"""What will be written, checked before it costs time: over nothing that is read, and nothing that somebody else made.

A file that is there already may be replaced if it has the form of what will be written, so that a command can be given
again. One that was worked on since, say with a column of results, has it no longer.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError
from .batch import check_folder, dropped_path, front_path, run_path
from .files.opening import open_source, split_sheet
from .invalid import COLUMNS
from .plates.layout import MAP_COLUMNS, plate_paths
from .plates.picks import FORMS, picks_path

PREDICTED = ("mean", "std", "noiseless_mean", "noiseless_std")  # columns of a file of predictions
LAST = (*PREDICTED, "gain")  # of a batch ...
BESIDE = tuple(f"{name} of " for name in PREDICTED)  # ... and of several targets for each


@dataclass(frozen=True)
class Output:
    """A file that will be written.

    Attributes:
        path: of the file.
        ours: whether what is there under that name has the form of what will be written.
        option: that names it; none if its name follows from another's.
    """

    path: Path
    ours: Callable[[Path], bool]
    option: str = ""


def check_outputs(outputs: Iterable[Output], inputs: Iterable[tuple[str, str | os.PathLike[str] | None]]) -> None:
    """Refuse to write over what is read or what somebody else made, and to write two things to one name.

    Args:
        outputs: the batch (or what else is written) first.
        inputs: option and file, or folder of files, that is read.

    Raises:
        InputError: names that meet, a place that cannot be written to, or a file of somebody else.
    """
    read = [(option.replace("_", "-"), split_sheet(path)[0]) for option, path in inputs if path is not None]
    before: list[Path] = []
    for output in outputs:
        path = output.path
        for option, source in read:
            if _same(path, source):
                raise InputError(f"{path} is also --{option} and would be lost; write to another name")
            if source.is_dir() and _same(path.parent, source) and path.suffix.lower() == ".parquet":
                raise InputError(f"{path} would become part of --{option} {source}; write to another folder")
        if any(_same(path, other) for other in before):
            way = f"give --{output.option} another name" if output.option else "give other names"
            raise InputError(f"{path} is also written as the batch; {way}")
        before.append(path)
        check_folder(path)
        if path.exists() and path.stat().st_size and not output.ours(path):
            raise InputError(
                f"{path} is there and is not, or no longer, what this command writes; move it away, or write to "
                "another name"
            )


def batch_outputs(
    out: str | os.PathLike[str], plate: bool = False, dropped: bool = False, picks: bool = False
) -> list[Output]:
    """A batch and what comes beside it: its run file, plate map and picture, pick list, the list of rows left out."""
    table, picture = plate_paths(out)
    found = [Output(Path(out), table_form(["rank"], LAST, BESIDE), "out"), Output(run_path(out), _is_run)]
    if front_path(out).exists():
        found.append(Output(front_path(out), lambda path: run_path(out).exists() and _is_run(run_path(out))))
    if plate:
        form = table_form(MAP_COLUMNS, LAST, BESIDE)
        found += [Output(table, form), Output(picture, lambda path: table.exists() and form(table))]
    if picks:
        found.append(Output(picks_path(out), _is_pick_list))
    return [*found, Output(dropped_path(out), table_form(COLUMNS, ()))] if dropped else found


def _is_pick_list(path: Path) -> bool:
    return any(table_form(form.columns, form.columns)(path) for form in FORMS.values())


def table_form(first: Iterable[str], last: Iterable[str], beside: tuple[str, ...] = ()) -> Callable[[Path], bool]:
    """Whether a table has columns that begin and end like this, but for columns `beside` that follow."""
    start, end = tuple(first), tuple(last)

    def form(path: Path) -> bool:
        try:
            columns = tuple(name for name in open_source(path).columns if not (beside and name.startswith(beside)))
        except InputError:
            return False
        return columns[: len(start)] == start and columns[len(columns) - len(end) :] == end

    return form


def text_form(*words: str, within: int = 2000) -> Callable[[Path], bool]:
    """Whether a file has some words near its beginning."""

    def form(path: Path) -> bool:
        with path.open("rb") as file:
            head = file.read(within)
        return all(word.encode() in head for word in words)

    return form


def _is_run(path: Path) -> bool:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, Mapping) and "temperature" in content


def _same(one: Path, other: Path) -> bool:
    """Whether two names are of one file, also by a link or in another case."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return one.resolve() == other.resolve()
