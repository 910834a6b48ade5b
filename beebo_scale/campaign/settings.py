"""What a campaign is after: the file campaign.yaml."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..screening.files.source import did_you_mean
from ..specs import Choice, Columns, Fitting, make, plain, settings_of
from ..specs.fitting import HELD_OUT
from ..specs.rounds import Rounds
from ..specs.setting import Setting, flag
from ..specs.yaml_text import load_yaml
from ..temperature import Steps

HEADER = """\
# The settings of this campaign. All but the names of targets and features, id, noise_variance and batch may be changed
# between rounds; of several targets, the weights or directions may, and the limits of require.
# temperatures holds T' of each round, 0 exploits, 2 explores; the last one also serves the rounds beyond.
"""
WITHOUT = {  # settings that campaign.yaml does not hold
    "temperature": "temperatures holds T' of each round",
    "pending": "the campaign knows what is running",
    "schedule": "temperatures is written out",
    "exploit_last": "temperatures is written out",
    "rounds": "temperatures is written out",
}
ALWAYS = (  # shown even where they are defaults
    *("target", "features", "drop_invalid", "minimize", "q", "temperatures"),
    *("kind", "transform", "priors", "likelihood", "search_start", "seed"),
)


@dataclass(frozen=True)
class Settings:
    """Settings of a campaign.

    Attributes:
        columns: of the results; `id` names the rows of the library.
        fitting: of each round; its seed is that of the first round.
        choice: of each round, but for T' and what is pending; its seed is that of the first round, each round adds
            one. A relative path of the library counts from the campaign's folder.
        temperatures: T' of each round, see HEADER.

    Raises:
        InputError: settings that no round could use.
    """

    columns: Columns
    fitting: Fitting = field(default_factory=Fitting)
    choice: Choice = field(default_factory=Choice)
    temperatures: Sequence[float] = (1.0,)

    @classmethod
    def of(cls, **given: Any) -> Settings:
        """From settings by name, as campaign.yaml has them."""
        temperatures = tuple(given.get("temperatures", (1.0,)))
        return cls(make(Columns, given), make(Fitting, given), make(Choice, given), temperatures)

    def __post_init__(self) -> None:
        self.choice.check_source()
        if self.choice.bounds is not None and self.columns.id is not None:
            raise InputError("id goes with a library; settings in a box have no names")
        self.choice.check_aims(self.columns.aims, bool(self.columns.limits))
        if self.columns.several and self.choice.hit is not None:
            raise InputError("a value to hit goes with one target; leave hit out, or name one target")
        if self.columns.several and self.fitting.transform == HELD_OUT:
            raise InputError(f"transform {HELD_OUT} is for one target; take auto, or a transform for all targets")
        self.fitting.check_noise(self.columns.noise_variance is not None)
        Steps(tuple(self.temperatures))

    def of_round(self, round: int, q: int | None = None) -> Settings:
        """The fitting and the choice of a round (from 1)."""
        seed = self.choice.seed + round - 1
        temperature = Steps(tuple(self.temperatures))(round - 1, round)
        choice = self.choice.but(q=self.choice.q if q is None else q, temperature=temperature, seed=seed)
        return replace(self, choice=choice, fitting=replace(self.fitting, seed=seed))

    def in_folder(self, folder: Path) -> Settings:
        """These settings as a campaign in a folder keeps them: paths count from there."""
        return self._with_files(lambda path: os.path.relpath(Path(path).resolve(), folder.resolve()))

    def from_folder(self, folder: Path) -> Settings:
        """Inverse of `in_folder`."""
        return self._with_files(lambda path: str(folder / path))

    def _with_files(self, moved: Callable[[Any], str]) -> Settings:
        named = {name: getattr(self.choice, name) for name in ("library", "exclude")}
        files: dict[str, Any] = {name: moved(path) for name, path in named.items() if path is not None}
        if self.choice.choices is not None:
            files["choices"] = self.choice.choices.moved(moved)
        return replace(self, choice=self.choice.but(**files))

    def to_yaml(self) -> str:
        """The text of campaign.yaml; what has its default is left out, but for what people ask for most."""
        import yaml  # type: ignore[import-untyped]

        content = plain(self.columns) | plain(self.choice) | {"temperatures": list(self.temperatures)}
        content |= plain(self.fitting)
        defaults = {each.name: each.default for each in entries()}
        kept = {
            name: value
            for name, value in content.items()
            if name not in WITHOUT and (name in ALWAYS or value not in (None, [], {}, defaults.get(name)))
        }
        order = [name for name in defaults if name in kept]
        form = {"sort_keys": False, "allow_unicode": True, "default_flow_style": None, "width": 100}
        text: str = yaml.safe_dump({name: kept[name] for name in order}, **form)
        return HEADER + text

    @classmethod
    def from_yaml(cls, path: Path) -> Settings:
        """Read campaign.yaml.

        Raises:
            InputError: no such file, no YAML, or an entry that is unknown, missing or of another type.
        """
        content = _read_yaml(path)
        if content.pop("robust", False):  # files of earlier versions
            content["likelihood"] = "student-t"
        known = {each.name: each for each in entries()}
        for name, value in content.items():
            _check_entry(path, name, value, known)
        required = [name for name in ("target", "features") if name not in content]
        if required:
            raise InputError(f"{path} has no {required[0]!r}; add the line")
        try:
            lists = {name: tuple(value) if isinstance(value, list) else value for name, value in content.items()}
            return cls.of(**{name: value for name, value in lists.items() if value is not None})
        except InputError as error:
            raise InputError(f"{path}: {error}") from None


def entries() -> list[Setting]:
    """The settings that campaign.yaml holds, each once."""
    every = [each for spec in (Columns, Choice, Rounds, Fitting) for each in settings_of(spec)]
    return list({each.name: each for each in every if each.name not in WITHOUT}.values())


def _read_yaml(path: Path) -> dict[str, Any]:
    import yaml

    try:
        content = load_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); start a campaign with campaign init") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f" in line {mark.line + 1}"
        why = f"no YAML{line}" if mark or isinstance(error, UnicodeDecodeError) else f"refused ({error})"
        raise InputError(f"{path} is {why}; write lines such as 'q: 96'") from None
    if not isinstance(content, dict):
        raise InputError(f"{path} holds no settings; write lines such as 'q: 96'")
    return content


def _check_entry(path: Path, name: object, value: object, known: Mapping[str, Setting]) -> None:
    """Refuse an entry that is unknown or of another type; a file has no texts where there are lists and mappings."""
    if name not in known:
        raise InputError(f"{path}: unknown entry {name!r}{did_you_mean(name, known)}; it knows {', '.join(known)}")
    each = known[str(name)]
    if value is None:
        return
    types = each.read.types
    if (types and not isinstance(value, types)) or (isinstance(value, str) and isinstance(each.default, (int, float))):
        words = "true or false" if each.read is flag else each.read.words
        raise InputError(f"{path}: {name} is {value!r}, not {words}")
    if not types:
        each.of(value, f"{path}: {{name}} is {{value!r}}, {{words}}")
