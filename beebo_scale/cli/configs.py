"""Configuration files of all commands: read with limits, and found in the package where there is none here."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import yaml  # type: ignore[import-untyped]
from jsonargparse import get_loader, set_loader

from ..specs.yaml_text import Limited

OPTION, FOLDER = "--config", "configs"  # configs/svgp.yaml, as the guides name it


def limit_yaml() -> None:
    """Let both parsers, the commands' and Lightning's, read YAML behind `check_yaml`."""
    load = get_loader("yaml")
    if not isinstance(load, Limited):
        set_loader("yaml", Limited(load), exceptions=(yaml.YAMLError,))


def with_own_configs(arguments: Sequence[str]) -> list[str]:
    """Arguments in which `--config configs/NAME.yaml` names the package's own file where there is no other."""
    found, before = [], ""
    for argument in arguments:
        option, equals, value = argument.partition("=")
        if before == OPTION:
            argument = _own(argument)
        elif option == OPTION and equals:
            argument = f"{OPTION}={_own(value)}"
        found.append(argument)
        before = argument
    return found


def _own(path: str) -> str:
    """The package's file of that name, or the path as it is."""
    own = Path(str(files("beebo_scale"))) / path
    return str(own) if Path(path).parts[:1] == (FOLDER,) and not Path(path).exists() and own.is_file() else path
