"""The commands' faces of the specs: which settings each has as options, and why it lacks the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jsonargparse import ArgumentParser, Namespace

from ..specs import Choice, Columns, Fitting, make, settings_of
from ..specs.rounds import Rounds
from ..specs.setting import Setting, flag, text
from .arguments import Typed

TITLES = {
    Columns: "what the columns are",
    Fitting: "the surrogate",
    Choice: "what to choose from, and how",
    Rounds: "T' of each round",
}


@dataclass(frozen=True)
class Face:
    """A command's options that are settings of specs.

    Attributes:
        specs: in the order of the help.
        without: setting -> why the command does not have it.
        defaults: setting -> its default here, where it is another.
        required: settings that must be given.
    """

    specs: tuple[type, ...]
    without: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    required: tuple[str, ...] = ()

    def settings(self, spec: type) -> list[Setting]:
        """Those of a spec that the command has."""
        return [each for each in settings_of(spec) if each.name not in self.without]

    def add_to(self, parser: ArgumentParser) -> None:
        """Add the options, a group for each spec; a setting of two specs is one option."""
        there: set[str] = set()
        for spec in self.specs:
            group = parser.add_argument_group(TITLES[spec])
            for each in self.settings(spec):
                if each.name not in there:
                    _add(group, each, self.defaults.get(each.name, each.default), each.name in self.required)
                there.add(each.name)
            if "likelihood" in there and spec is Fitting:
                group.add_argument("--robust", action="store_true", help="the same as --likelihood student-t")

    def read(self, options: Namespace) -> list[Any]:
        """The specs that the options stand for.

        Raises:
            InputError: a value that cannot be read, or settings that do not go together.
        """
        given = {name: value for name, value in options.as_dict().items() if name not in self.without}
        if Setting("robust", "", False, flag).of(given.get("robust") or False):
            given["likelihood"] = "student-t"
        return [make(spec, given) for spec in self.specs]


def _add(group: Any, each: Setting, default: Any, required: bool) -> None:
    """One option, by what it is read by."""
    dashed, read = f"--{each.name.replace('_', '-')}", each.read
    names = [*(name for name in each.also if len(name) == 2), dashed, *(name for name in each.also if len(name) > 2)]
    if read is flag and default is False:
        group.add_argument(*names, action="store_true", help=each.help)
        return
    options: dict[str, Any] = {"help": each.help, "required": required}
    if not required:
        options["default"] = default if isinstance(default, (str, int, float)) else None
    if read.several:
        options |= {"nargs": "+", "metavar": each.metavar}
    elif read.choices:
        options["choices"] = read.choices
    elif not read.types:  # what is a mapping in a file has no type
        options["type"] = {id(flag): bool, id(text): str}.get(id(read)) or Typed(read)
    group.add_argument(*names, **options)


KNOWN = "the surrogate knows it"
FIXED = "the surrogate is fitted already"
NO_BOX_CHOICE = "a world of its own is what is chosen from"
FACES = {
    "suggest": Face((Columns, Fitting, Choice), required=("target",)),
    "propose": Face(
        (Columns, Choice),
        without={
            **dict.fromkeys(("target", "features", "noise_variance", "batch", "units", "require"), KNOWN),
            **{each.name: FIXED for each in settings_of(Fitting) if each.name != "seed"},
        },
    ),
    "campaign init": Face(
        (Columns, Fitting, Choice, Rounds),
        without={
            "temperature": "T' of each round is --temperatures",
            "pending": "the campaign knows what is running",
        },
        required=("target",),
    ),
    "simulate": Face(
        (Columns, Fitting, Choice, Rounds),
        without={
            "id": "the rows of a landscape are named by their numbers",
            "batch": "a landscape is taken as measured at once",
            "units": "a landscape is one file, whose units are found",
            "require": "baselines know no limits, so that a comparison would be none",
            "likelihood": "the strategies share one Gaussian surrogate",
            "temperature": "T' of each round is --temperatures",
            **dict.fromkeys(("library", "bounds", "integer", "constraints", "shared"), NO_BOX_CHOICE),
            **dict.fromkeys(("pending", "exclude", "allow_repeats"), "the loop knows what was measured"),
            **dict.fromkeys(
                ("at_most", "at_most_distinct", "min_distance"),
                "baselines know no limits, so that a comparison would be none",
            ),
            **dict.fromkeys(("energy", "hit"), "the strategies are named by their energies"),
            "seed": "--seeds and --first-seed are those of the runs",
        },
        defaults={"kind": "exact", "rounds": 4},
    ),
}
