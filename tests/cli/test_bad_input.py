"""Bad input: one line that names the place and the way out, exit code 2, no traceback, no output file."""

import os

import pytest

from beebo_scale.cli.main import main

LETTERS = "ACDEFG"
VARIANTS = [a + b for a in LETTERS for b in LETTERS]
SCREEN = {"variant": VARIANTS[:12], "y": [str(i * i % 7) for i in range(12)], "var": ["0.1"] * 12}
LIBRARY = {"variant": VARIANTS[6:]}
BOX = {"temp": [str(20 + 5 * i) for i in range(8)], "ph": [str(4 + i * 3 % 8) for i in range(8)], "y": list("13254768")}


def text(columns):
    return "\n".join([",".join(columns), *(",".join(row) for row in zip(*columns.values(), strict=True))]) + "\n"


def changed(columns, column, cells):
    """Columns with the first cells of one of them replaced."""
    return columns | {column: [*cells, *columns[column][len(cells) :]]}


def arguments(changes):
    options = {
        "measured": "screen.csv",
        "target": "y",
        "features": "variant:protein",
        "library": "library.csv",
        "q": "3",
        "out": "next.csv",
    } | changes
    return ["suggest", *(f"--{name}={value}" for name, value in options.items() if value is not None)]


BOX_OPTIONS = {"measured": "box.csv", "features": "temp,ph", "library": None, "bounds": "temp:20:80,ph:4:9"}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, columns in {"screen.csv": SCREEN, "library.csv": LIBRARY, "box.csv": BOX}.items():
        (tmp_path / name).write_text(text(columns))
    return tmp_path


def refuse(folder, capsys, words, command):
    """The command must refuse with one line that holds all words, and leave the folder as it was."""
    before = {path: path.is_file() and path.read_bytes() for path in sorted(folder.rglob("*"))}
    assert main(command) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("beebo-scale: ")
    assert "Traceback" not in lines[0]
    for word in words:
        assert word in lines[0], lines[0]
    assert {path: path.is_file() and path.read_bytes() for path in sorted(folder.rglob("*"))} == before


# name: (columns of bad.csv or its text, options, words of the message)
MEASURED = {
    "missing file": (None, {"measured": "scren.csv"}, ["scren.csv: no such file", "did you mean 'screen.csv'"]),
    "empty file": ("", {}, ["bad.csv is empty (0 bytes)"]),
    "header only": ("variant,y\n", {}, ["bad.csv has a header but no rows"]),
    "missing target": (SCREEN, {"target": "z"}, ["bad.csv has no target column 'z'", "'variant', 'y'"]),
    "nearest target": (SCREEN | {"fitness": SCREEN["y"]}, {"target": "fitnes"}, ["did you mean 'fitness'?"]),
    "missing feature": (
        SCREEN,
        {"features": "varian:protein"},
        ["no feature column 'varian'", "did you mean 'variant'"],
    ),
    "missing id": (SCREEN, {"id": "name"}, ["library.csv has no id column 'name'"]),
    "missing id with a box": (BOX, BOX_OPTIONS | {"measured": "bad.csv", "id": "name"}, ["bad.csv has no id column"]),
    "missing noise": (SCREEN, {"noise-variance": "vari"}, ["no noise variance column 'vari'", "did you mean 'var'"]),
    "bad noise": (changed(SCREEN, "var", ["1", "0"]), {"noise-variance": "var"}, ["'var'", "is 0 in row 2", "above 0"]),
    "unknown kind": (SCREEN, {"features": "variant:protien"}, ["unknown kind 'protien'", "did you mean 'protein'?"]),
    "text target": (changed(SCREEN, "y", ["1", "high"]), {}, ["bad.csv: column 'y' is text ('high' in row 2)"]),
    "infinite target": (changed(SCREEN, "y", ["1", "inf"]), {}, ["bad.csv: column 'y' is infinite in row 2"]),
    "no targets": (SCREEN | {"y": [""] * 12}, {}, ["bad.csv: column 'y' is empty in all 12 rows"]),
    "one row": ("variant,y\nAA,1\n", {}, ["bad.csv: column 'y' has a value in only one row", "at least two"]),
    "one target": (SCREEN | {"y": ["1"] + [""] * 11}, {}, ["bad.csv: column 'y' has a value in only one row"]),
    "constant target": (SCREEN | {"y": ["2"] * 12}, {}, ["bad.csv: column 'y' is 2 in every measured row"]),
    "empty feature": (changed(SCREEN, "variant", ["AA", ""]), {}, ["bad.csv: column 'variant' is empty in row 2"]),
    "length": (
        changed(SCREEN, "variant", ["AA", "A", "A"]),
        {},
        ["bad.csv: column 'variant'", "2 letters", "rows 2, 3"],
    ),
    "letter": (
        changed(SCREEN, "variant", ["AA", "AB"]),
        {},
        ["bad.csv: column 'variant'", "'B' at position 2", "row 2"],
    ),
    "nan": (changed(BOX, "ph", ["4", "nan", ""]), BOX_OPTIONS, ["bad.csv: column 'ph' is empty in rows 2, 3"]),
    "inf": (changed(BOX, "ph", ["4", "inf"]), BOX_OPTIONS, ["bad.csv: column 'ph' is infinite in row 2"]),
    "name of a batch column": (
        BOX | {"gain": BOX["temp"]},
        BOX_OPTIONS | {"features": "gain", "bounds": "gain:0:1"},
        ["column 'gain' has the name of a column that a batch adds", "rename it"],
    ),
    "text feature": (
        changed(BOX, "ph", ["4", "acid"]),
        BOX_OPTIONS | {"features": "temp,ph:continuous"},
        ["bad.csv: column 'ph' is text ('acid' in row 2)"],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MEASURED)
def test_measured_file(folder, capsys, name):
    content, options, words = MEASURED[name]
    if content is not None:
        (folder / "bad.csv").write_text(content if isinstance(content, str) else text(content))
        options = options | {"measured": "bad.csv"}
    refuse(folder, capsys, words, arguments(options))


LIBRARIES = {
    "empty file": ("", {}, ["bad.csv is empty (0 bytes)"]),
    "header only": ("variant\n", {}, ["bad.csv has a header but no rows"]),
    "no feature": ("Variant\nAA\n", {}, ["bad.csv has no feature column 'variant'", "did you mean 'Variant'?"]),
    "no id": (LIBRARY, {"measured": "named.csv", "id": "name"}, ["bad.csv has no id column 'name'"]),
    "ids": (LIBRARY | {"variant": ["AA", "AC", "AA", "AD"]}, {"id": "variant"}, ["'AA' in rows 1, 3"]),
    "empty cell": (LIBRARY | {"variant": ["AA", '""']}, {}, ["bad.csv: column 'variant' is empty in row 2"]),
    "length": (LIBRARY | {"variant": ["AAA", "AAC"]}, {}, ["bad.csv: column 'variant'", "of 2 letters", "one of 3"]),
    "letter": (LIBRARY | {"variant": ["AA", "XA"]}, {}, ["bad.csv: column 'variant'", "'X' at position 1", "row 2"]),
    "few rows": (LIBRARY | {"variant": ["FF", "FG"]}, {}, ["bad.csv: q = 3, but only 2 of its 2 rows"]),
    "few new rows": (
        SCREEN | {"variant": ["FF", *VARIANTS[:11]]},
        {},
        ["only 1 of its 12 rows", "11 measured", "lower q"],
    ),
    "repeats": (LIBRARY | {"variant": ["FF", "FG", "FG"]}, {}, ["only 2 of its 3 rows", "1 repeat an earlier row"]),
}


@pytest.mark.parametrize("name", LIBRARIES)
def test_library(folder, capsys, name):
    content, options, words = LIBRARIES[name]
    (folder / "named.csv").write_text(text(SCREEN | {"name": VARIANTS[:12]}))
    (folder / "bad.csv").write_text(content if isinstance(content, str) else text(content))
    refuse(folder, capsys, words, arguments(options | {"library": "bad.csv"}))


@pytest.mark.parametrize("option", ["measured", "library", "warm-start"])
def test_a_folder_and_a_missing_file_where_a_file_is_read(folder, capsys, option):
    (folder / "folder.csv").mkdir()
    refuse(folder, capsys, ["folder.csv is a folder", "give"], arguments({option: "folder.csv"}))
    refuse(folder, capsys, ["missing.csv: no such"], arguments({option: "missing.csv"}))


OPTIONS = {
    "q zero": ({"q": "0"}, ["q = 0", "at least one", "give 1 or more"]),
    "q negative": ({"q": "-3"}, ["q = -3", "at least one"]),
    "q text": ({"q": "x"}, ["q: 'x' is not a whole number", "beebo-scale suggest --help"]),
    "q fraction": ({"q": "2.5"}, ["q: '2.5' is not a whole number"]),
    "q infinite": ({"q": "inf"}, ["q: 'inf' is not a whole number"]),
    "q empty": ({"q": ""}, ["q: '' is not a whole number"]),
    "T negative": ({"temperature": "-0.5"}, ["temperature T' = -0.5", "0 or more"]),
    "T nan": ({"temperature": "nan"}, ["temperature T' = nan", "finite"]),
    "T infinite": ({"temperature": "inf"}, ["temperature T' = inf", "finite"]),
    "T text": ({"temperature": "hot"}, ["temperature: 'hot' is not a number"]),
    "seed text": ({"seed": "x"}, ["seed: 'x' is not a whole number"]),
    "seed negative": ({"seed": "-1"}, ["seed = -1", "0 to"]),
    "seed too large": ({"seed": str(2**64)}, ["seed = ", "0 to"]),
    "kind": ({"kind": "neural"}, ["kind: invalid choice: 'neural'", "'exact'"]),
    "transform": ({"transform": "cube"}, ["transform: invalid choice: 'cube'", "'sqrt'"]),
    "priors": ({"priors": "flat"}, ["priors: invalid choice: 'flat'", "'paper'"]),
    "sqrt of noise": ({"transform": "sqrt", "noise-variance": "var"}, ["transform 'sqrt'", "without known noise"]),
    "unknown option": ({"batchsize": "3"}, ["not understood: --batchsize=3", "beebo-scale suggest --help"]),
    "abbreviation": ({"measured": None, "meas": "screen.csv"}, ["--meas"]),
    "nothing to choose from": ({"library": None}, ["give either a library or bounds"]),
    "library and box": ({"bounds": "variant:0:1"}, ["give either a library or bounds"]),
    "no name of a feature": ({"features": ":protein"}, ["--features ':protein'", "write COLUMN:KIND"]),
    "feature twice": ({"features": "variant,variant:protein"}, ["--features", "'variant' twice"]),
    "target a feature": ({"features": "variant:protein,y"}, ["screen.csv: column 'y' is the target and a feature"]),
    "out folder": ({"out": "no/next.csv"}, ["no/next.csv: the folder 'no' does not exist; create it"]),
    "out suffix": ({"out": "next.xlsx"}, ["next.xlsx", ".csv, .csv.gz or .parquet"]),
    "out over measured": ({"out": "./screen.csv"}, ["screen.csv is also --measured", "another name"]),
    "out over library": ({"out": "library.csv"}, ["library.csv is also --library", "another name"]),
    "model folder": ({"save-model": "no/m.ckpt"}, ["no/m.ckpt: the folder 'no' does not exist; create it"]),
    "model over measured": ({"save-model": "screen.csv"}, ["screen.csv is also --measured"]),
    "model over the batch": ({"save-model": "./next.csv"}, ["next.csv is also written as the batch"]),
    "model over the run file": ({"save-model": "next.run.json"}, ["next.run.json is also written as the batch"]),
    "model unreadable": ({"warm-start": "screen.csv"}, ["screen.csv: not a readable surrogate", "Surrogate.save"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIONS)
def test_options(folder, capsys, name):
    options, words = OPTIONS[name]
    refuse(folder, capsys, words, arguments(options))


BOUNDS = {
    "low above high": ({"bounds": "temp:80:20,ph:4:9"}, ["bounds: column 'temp' has (80.0, 20.0)", "below"]),
    "low equals high": ({"bounds": "temp:20:80,ph:4:4"}, ["bounds: column 'ph' has (4.0, 4.0)", "below"]),
    "unknown column": (
        {"bounds": "temp:20:80,ph:4:9,tmp:1:2"},
        ["bounds: 'tmp' is no feature", "did you mean 'temp'?"],
    ),
    "missing column": ({"bounds": "temp:20:80"}, ["bounds: column 'ph' has no pair"]),
    "nan": ({"bounds": "temp:20:nan,ph:4:9"}, ["bounds: column 'temp' has (20.0, nan)", "finite"]),
    "infinite": ({"bounds": "temp:20:inf,ph:4:9"}, ["bounds: column 'temp' has (20.0, inf)", "finite"]),
    "a huge range": ({"bounds": "temp:0:1e160,ph:4:9"}, ["bounds: column 'temp' has (0.0, 1e+160), too far from"]),
    "no room": ({"bounds": "temp:1e-320:2e-320,ph:4:9"}, ["bounds: column 'temp' has (1e-320, 2e-320), with hardly"]),
    "no numbers": ({"bounds": "temp:cold:hot,ph:4:9"}, ["--bounds 'temp:cold:hot'", "write COLUMN:LOW:HIGH"]),
    "no high end": ({"bounds": "temp:20:,ph:4:9"}, ["--bounds 'temp:20:'", "write COLUMN:LOW:HIGH"]),
    "twice": ({"bounds": "temp:20:80,temp:1:2,ph:4:9"}, ["--bounds names 'temp' twice"]),
    "a range of labels": (
        {"features": "temp:categorical,ph"},
        ["bounds: column 'temp' has the label 80.0, which was not measured", "give some of '20'"],
    ),
    **{
        f"a label {end}": (
            {"features": "temp:categorical,ph", "bounds": f"temp:{end},ph:4:9"},
            [f"bounds: column 'temp' has the label {float(end.split(':')[0])}, which was not measured"],
        )
        for end in ("nan", "inf", "nan:1", "-inf:1", "1:nan")
    },
}


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds(folder, capsys, name):
    options, words = BOUNDS[name]
    refuse(folder, capsys, words, arguments(BOX_OPTIONS | options))


CONFIGURATIONS = {
    "unknown option": (b"targets: y\n", ["bad.yaml: suggest has no option 'targets'"]),
    "not a mapping": (b"- y\n", ["bad.yaml: this is no configuration"]),
    "damaged": (b"{{target: :", ["bad.yaml: Problems parsing config"]),
    "not text": (b"\xff\xfe\x00", ["bad.yaml: this is not UTF-8 text"]),
    "q": (b"q: many\n", ["bad.yaml: q: 'many' is not a whole number"]),
    "q fraction": (b"q: 1.5\n", ["bad.yaml: q: 1.5 is not a whole number"]),
    "q true": (b"q: true\n", ["bad.yaml: q: True is not a whole number"]),
    "text": (b"target: 7\n", ["target: 7 is not a column or a mapping of columns to weights"]),
    "flag": (b"minimize: maybe\n", ["minimize: 'maybe' is neither true nor false"]),
    **{
        f"bounds {ends}": (b"bounds:\n  temp: %s\n  ph: [4, 9]\n" % ends, ["bounds: column 'temp' has"])
        for ends in (
            b"[.nan, 1]",
            b"[0, .inf]",
            b".nan",
            b"[true, 80]",
            b"true",
            b"[80, 20]",
            b"[1, null]",
            b"[0, 1.e+160]",
        )
    },
    "kind": (b"kind: neural\n", ["bad.yaml: kind: 'neural' not among choices"]),
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_configuration(folder, capsys, name):
    content, words = CONFIGURATIONS[name]
    (folder / "bad.yaml").write_bytes(content)
    # the configuration comes last: it overrides the options before it
    options = {"q": None, "target": None if name == "text" else "y"}
    options |= BOX_OPTIONS | {"bounds": None} if name.startswith("bounds") else {}
    refuse(folder, capsys, words, [*arguments(options), "--config=bad.yaml"])


def test_configuration_that_is_not_there(folder, capsys):
    refuse(folder, capsys, ["missing.yaml", "does not exist"], ["suggest", "--config", "missing.yaml"])
    refuse(folder, capsys, ["not a file"], ["suggest", "--config", "."])


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ([], ["give a command: suggest", "beebo-scale --help"]),
        (["sugest"], ["no command 'sugest'", "suggest"]),
        (["--colour", "suggest"], ["--colour"]),
        (["suggest"], ["missing options: --measured, --out, --target", "beebo-scale suggest --help"]),
        (["suggest", "--features"], ["features: expected at least one argument"]),
    ],
)
def test_commands(folder, capsys, command, words):
    refuse(folder, capsys, words, command)


def test_a_read_only_folder_is_refused_before_any_work(folder, capsys, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *args: False)
    refuse(folder, capsys, ["next.csv: the folder '.' is read-only"], arguments({}))
