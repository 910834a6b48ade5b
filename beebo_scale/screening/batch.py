"""Writing results so that a reader never sees half a file."""

from __future__ import annotations

import gzip
import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from .invalid import Fault, listed

if TYPE_CHECKING:
    import pandas as pd

_WRITTEN: ContextVar[dict[Path, int] | None] = ContextVar("written", default=None)  # set by `written` alone
BATCH_SUFFIXES = (".csv.gz", ".csv", ".parquet")


@dataclass(frozen=True, eq=False)
class Batch:
    """The proposed experiments.

    Attributes:
        frame: columns rank, <id>, <features>, mean, std, noiseless_mean, noiseless_std, gain; best first.
        run: what the run file holds (plain JSON types): configuration, seed, timings and the like.
        invalid: rows of the input files that were left out (with drop_invalid).
    """

    frame: pd.DataFrame
    run: dict[str, Any]
    invalid: tuple[Fault, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know, one line each."""
        return tuple(self.run.get("notes", ()))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the batch as CSV or Parquet by its suffix, and `<name>.run.json` beside it.

        Of targets with directions, `<name>.front.png` shows the front and the batch, if matplotlib is installed. If
        rows were left out, `<name>.dropped.csv` lists them. All are complete before one gets its name, the batch last:
        where a batch stands, its run file does.

        Raises:
            InputError: the path cannot be written.
        """
        target = check_output(path)
        run = run_path(target)
        text = json.dumps(_strict(self.run), indent=2, allow_nan=False, ensure_ascii=False) + "\n"
        writers: dict[Path, Callable[[Path], object]] = {}
        if self.invalid:
            writers[dropped_path(target)] = lambda temporary: temporary.write_bytes(text_bytes(listed(self.invalid)))
        outcomes = self.run.get("outcomes", {})
        if "front" in outcomes and find_spec("matplotlib") is not None:
            writers[front_path(target)] = lambda temporary: _draw_front(self.frame, outcomes, temporary)
        writers[run] = lambda temporary: temporary.write_bytes(text_bytes(text))
        writers[target] = lambda temporary: _write_frame(self.frame, temporary, _batch_suffix(target))
        _write_together(writers)


def _draw_front(frame: pd.DataFrame, outcomes: Mapping[str, Any], path: Path) -> None:
    from .plates.front import draw_front

    draw_front(frame, outcomes, path)


def front_path(batch: str | os.PathLike[str]) -> Path:
    """Name of the picture of a batch for several targets."""
    return beside(batch, ".front.png")


def write_frame(path: str | os.PathLike[str], frame: pd.DataFrame) -> None:
    """Write a frame as CSV or Parquet by the path's suffix, whole or not at all.

    Raises:
        InputError: the path cannot be written.
    """
    target = check_output(path)
    atomic_write(target, lambda temporary: _write_frame(frame, temporary, _batch_suffix(target)))


def _batch_suffix(path: Path) -> str | None:
    return next((suffix for suffix in BATCH_SUFFIXES if path.name.lower().endswith(suffix)), None)


def beside(batch: str | os.PathLike[str], ending: str) -> Path:
    """Name of a file beside a batch: next.csv -> next + ending."""
    path = Path(batch)
    return path.with_name(path.name[: -len(_batch_suffix(path) or "") or None] + ending)


def run_path(path: str | os.PathLike[str]) -> Path:
    """Return the name of a batch's run file: next.csv -> next.run.json."""
    return beside(path, ".run.json")


def dropped_path(path: str | os.PathLike[str]) -> Path:
    """Name of the list of rows left out beside an output: next.csv -> next.dropped.csv."""
    return beside(path, ".dropped.csv")


def check_output(path: str | os.PathLike[str]) -> Path:
    """Check, before any long work, that a batch can be written there.

    Raises:
        InputError: unknown suffix, missing or read-only folder, or the path is a folder.
    """
    path = Path(path)
    suffix = _batch_suffix(path)
    if suffix is None or path.name.lower() == suffix:
        raise InputError(f"{path}: a batch is written as .csv, .csv.gz or .parquet; give a name such as next.csv")
    check_folder(path)
    if run_path(path).is_dir():
        raise InputError(f"{run_path(path)} is a folder; give another name for the batch")
    return path


def check_folder(path: str | os.PathLike[str]) -> None:
    """Check that a file of this name can be written.

    Raises:
        InputError: missing or read-only folder, or the path is a folder.
    """
    path = Path(path)
    folder = path.parent
    if not folder.exists():
        raise InputError(f"{path}: the folder {str(folder)!r} does not exist; create it first")
    if not folder.is_dir():
        raise InputError(f"{path}: {str(folder)!r} is a file, not a folder; give another path")
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the name of a file")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{path}: the folder {str(folder)!r} is read-only; choose another")


def atomic_write(path: str | os.PathLike[str], write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file in the same folder, then move it to `path`.

    The temporary file has the same suffix. If anything fails it is removed, and an older file stays as it was.

    Raises:
        InputError: the system refuses to write there.
    """
    _write_together({Path(path): write})


def write_text(path: str | os.PathLike[str], content: pd.DataFrame | str) -> None:
    """Write a text, or a frame as CSV, in UTF-8, whole or not at all.

    Raises:
        InputError: the system refuses to write there.
    """
    text = content if isinstance(content, str) else content.to_csv(index=False, lineterminator="\n")
    atomic_write(path, lambda temporary: temporary.write_bytes(text_bytes(text)))


def _write_together(writers: Mapping[Path, Callable[[Path], object]]) -> None:
    """Write all files under temporary names; only when all are on disk, move them into place in order."""
    # Not tempfile: it would make the files readable by their owner only.
    mark = secrets.token_hex(4)
    temporaries = {path: path.with_name(f".{mark}.{path.name}") for path in writers}
    path = next(iter(writers))
    try:
        for path, write in writers.items():
            write(temporaries[path])
            with temporaries[path].open("rb+") as file:
                os.fsync(file.fileno())
        for path, temporary in temporaries.items():
            into_place(temporary, path)
    except OSError as error:
        raise InputError(
            f"{path} cannot be written ({error.strerror or error}); free the place or give another path"
        ) from error
    finally:
        for temporary in temporaries.values():
            temporary.unlink(missing_ok=True)


def into_place(temporary: Path, path: Path) -> None:
    """Give a finished file, or folder, its name, and let the disk have the name too: a power cut would take it back.

    Raises:
        OSError: the system refuses.
    """
    log = _WRITTEN.get()
    if log is not None:
        log[path] = temporary.stat().st_ino
    os.replace(temporary, path)
    if hasattr(os, "O_DIRECTORY"):  # not on Windows, which needs none of it
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        with suppress(OSError):  # of a file system that knows no such thing
            os.fsync(folder)
        os.close(folder)


@contextmanager
def written() -> Iterator[None]:
    """Keep in mind what gets its name in the meantime, with the system's number for it; see `standing`."""
    token = _WRITTEN.set({})
    try:
        yield
    finally:
        _WRITTEN.reset(token)


def standing() -> list[Path]:
    """Those of `written` that stand, in order."""
    log = _WRITTEN.get() or {}
    return [path for path, number in log.items() if path.exists() and path.stat().st_ino == number]


def text_bytes(text: str) -> bytes:
    """UTF-8; a byte of a path that is no text by its number, as JSON reads it."""
    return text.encode("utf-8", "backslashreplace")


def csv_bytes(frame: pd.DataFrame) -> bytes:
    """A frame as CSV, the same bytes on every system."""
    return frame.to_csv(index=False, lineterminator="\n").encode()


def _write_frame(frame: pd.DataFrame, path: Path, suffix: str | None) -> None:
    if suffix == ".parquet":
        with path.open("wb") as file:  # Arrow takes no path that is no text
            frame.to_parquet(file, index=False)
    elif suffix == ".csv":
        path.write_bytes(csv_bytes(frame))
    else:
        # Neither name nor time in the gzip header: the same batch gives the same bytes.
        with path.open("wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
            packed.write(csv_bytes(frame))


def _strict(value: Any) -> Any:
    """Make a value fit for strict JSON: NaN and infinities become null, numpy values plain ones."""
    if isinstance(value, Mapping):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return _strict(value.tolist())
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
