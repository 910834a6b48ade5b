"""What others did to a campaign's files since its last command: said, or refused where something is missing.

    seal.json   sum and number of lines of measured.csv and of each round's files, the entries of campaign.yaml, and
                the hashes of the files that the last round was chosen from

A file leaves the seal before it is written and enters it again afterwards, so that a kill in between leaves it unknown
and never seems to be somebody's change. Who deletes seal.json takes the files as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ..archives import file_sum
from ..errors import InputError
from ..screening.batch import write_text
from ..specs.yaml_text import load_yaml
from .folder import Folder

TRIES = 5  # another command may be writing while one looks


@dataclass(frozen=True)
class Seal:
    """What the last command left.

    Attributes:
        files: name -> sum and number of lines.
        settings: entries of campaign.yaml, as text.
        inputs: option -> hash of the file that the last round was chosen from.
    """

    files: dict[str, list[int]] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Folder, inputs: Mapping[str, str]) -> Seal:
        """The files as they are."""
        paths = [folder.measured, *sorted((folder.path / "rounds").glob("round-*.*"))]
        watched = [path for path in paths if path.exists() and path.name.endswith((".csv", ".run.json"))]
        files = {_name(folder, path): _seen(path) for path in watched if not path.name.endswith(".plate.csv")}
        return cls(files, _entries(folder), dict(inputs))

    @classmethod
    def read(cls, folder: Folder) -> Seal:
        """That of a folder; an empty one where there is none.

        Raises:
            InputError: it is damaged.
        """
        path = _path(folder)
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else cls()
        except (OSError, ValueError, TypeError, RecursionError) as error:
            advice = "look at measured.csv and rounds/, then delete it to take them as they are"
            raise InputError(f"{path} is damaged ({str(error).splitlines()[0]}); {advice}") from None

    def write(self, folder: Folder) -> None:
        """Replace that of a folder."""
        write_text(_path(folder), json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")


@contextmanager
def writing(folder: Folder, *paths: Path, inputs: Mapping[str, str] | None = None) -> Iterator[None]:
    """Around what writes some files of a campaign, whose lock is held; seals all files afterwards.

    Args:
        folder: of the campaign.
        paths: files that are replaced.
        inputs: as in `Seal`; None keeps those of the round before.
    """
    before = Seal.read(folder)
    names = {_name(folder, path) for path in paths}
    if names & before.files.keys():
        replace(before, files={name: seen for name, seen in before.files.items() if name not in names}).write(folder)
    yield
    Seal.of(folder, before.inputs if inputs is None else inputs).write(folder)


def changes(folder: Folder) -> list[str]:
    """What was changed since the last command and can be taken as it is, one line each.

    Raises:
        InputError: a file is gone or has lost lines, or campaign.yaml has lost entries.
    """
    for _ in range(TRIES - 1):
        seal = Seal.read(folder)
        try:
            found = _changes(folder, seal)
        except InputError:
            if Seal.read(folder) == seal:
                raise
            continue
        if not found or Seal.read(folder) == seal:
            return found
    return _changes(folder, Seal.read(folder))


def _changes(folder: Folder, seal: Seal) -> list[str]:
    notes = _changed_settings(folder, seal)
    meant = f"restore it, or, if that was meant, delete {_path(folder)}"
    for name, (total, lines) in seal.files.items():
        path = folder.path / name
        needed = not name.endswith(".json")
        if not path.exists():
            if needed:
                raise InputError(f"{path} is gone since the last command; {meant}")
            notes.append(f"{path} is gone since the last command")
            continue
        now = _seen(path)
        if needed and now[1] < lines:
            raise InputError(f"{path} has {now[1]} lines, the last command left {lines}: it was cut; {meant}")
        if now[0] != total:
            notes.append(f"{path} was changed since the last command, by hand or by damage; it is taken as it is now")
    return notes


def _changed_settings(folder: Folder, seal: Seal) -> list[str]:
    path = folder.settings
    if not path.exists() and folder.measured.exists():
        way = f"write it again from the entries in {_path(folder)}" if seal.settings else "restore it"
        raise InputError(f"{path} is gone, but not the campaign; {way}")
    now = _entries(folder)
    gone = [name for name in seal.settings if name not in now]
    if gone:
        lines = ", ".join(f"{name}: {seal.settings[name]}" for name in gone)
        raise InputError(
            f"{path} has lost entries since the last command: {lines}; write them again, with null for a default, or, "
            f"if that was meant, delete {_path(folder)}"
        )
    pairs = [(name, text, now[name]) for name, text in seal.settings.items()]
    notes = [f"{path}: {name} is {new}, the last command saw {old}" for name, old, new in pairs if old != new]
    return notes + [f"{path}: {name} is new" for name in now if seal.settings and name not in seal.settings]


def changed_inputs(folder: Folder, inputs: Mapping[str, str], files: Mapping[str, str], round: int) -> list[str]:
    """Which of the files that a round is chosen from are not those of the round before, one line each."""
    before = Seal.read(folder).inputs
    changed = [name for name, digest in inputs.items() if before.get(name, digest) != digest]
    return [
        f"{files[name]} (--{name}) has another content than when round {round - 1} was chosen from it; round {round} "
        "is chosen from it as it is now"
        for name in changed
    ]


def _entries(folder: Folder) -> dict[str, str]:
    """Entries of campaign.yaml as text; none where it is damaged, which its reader says."""
    import yaml  # type: ignore[import-untyped]

    try:
        content: Any = load_yaml(folder.settings.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    if not isinstance(content, dict):
        return {}
    return {str(name): json.dumps(value, ensure_ascii=False, default=str) for name, value in content.items()}


def _seen(path: Path) -> list[int]:
    """Sum and number of lines."""
    with path.open("rb") as file:
        return [file_sum(path), sum(1 for line in file if line.endswith(b"\n"))]


def _name(folder: Folder, path: Path) -> str:
    return path.relative_to(folder.path).as_posix()


def _path(folder: Folder) -> Path:
    return folder.path / "seal.json"
