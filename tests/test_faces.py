"""Every setting is in every face, or somebody wrote down why not."""

import inspect
from dataclasses import fields

import pytest

import beebo_scale as bs
from beebo_scale.campaign import settings as campaign_settings
from beebo_scale.cli.faces import FACES
from beebo_scale.cli.main import build_parser
from beebo_scale.specs import Choice, Columns, Fitting, settings_of
from beebo_scale.specs.rounds import Rounds
from beebo_scale.training import data, module

SPECS = (Columns, Fitting, Choice)
PYTHON = {bs.read_table: Columns, bs.fit: Fitting, bs.propose: Choice}


def options_of(command):
    """Destinations of a command's options."""
    name, *action = command.split()
    parser = build_parser(name)
    for word in (name, *action):
        (commands,) = (action.choices for action in parser._actions if isinstance(action.choices, dict))
        parser = commands[word]
    return {action.dest for action in parser._actions}


def holes(names, there, without):
    """Settings that a face lacks without a reason, and reasons for what it has."""
    return [n for n in names if n not in there and not without.get(n)] + [n for n in without if n in there]


@pytest.mark.parametrize("command", FACES)
def test_commands(command):
    face = FACES[command]
    assert set(face.specs) <= {*SPECS, Rounds}
    there = options_of(command)
    assert holes([each.name for spec in SPECS for each in settings_of(spec)], there, face.without) == []


def test_campaign_yaml():
    there = {each.name for each in campaign_settings.entries()}
    names = [each.name for spec in (*SPECS, Rounds) for each in settings_of(spec)]
    assert holes(names, there, campaign_settings.WITHOUT) == []


@pytest.mark.parametrize(
    ("face", "spec", "without"),
    [
        (module.SurrogateModule, Fitting, module.WITHOUT),
        (data.ScreeningDataModule, Columns, data.WITHOUT),
    ],
)
def test_lightning(face, spec, without):
    there = set(inspect.signature(face).parameters)
    assert holes([each.name for each in settings_of(spec)], there, without) == []


@pytest.mark.parametrize("function", PYTHON)
def test_python_keywords(function):
    there = set(inspect.signature(function).parameters)
    assert {field.name for field in fields(PYTHON[function])} <= there


def test_a_setting_is_declared_once():
    names = [each.name for spec in (*SPECS, Rounds) for each in settings_of(spec)]
    # The seeds of a fit and of a choice are one option.
    assert {name for name in names if names.count(name) > 1} == {"seed"}
    for each in (each for spec in (*SPECS, Rounds) for each in settings_of(spec)):
        assert each.help
