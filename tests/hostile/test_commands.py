"""Commands with configurations, names, paths and outputs that nobody means well with."""

import io
import os
import subprocess
import sys
import tomllib
import warnings
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from beebo_scale.cli.configs import with_own_configs
from beebo_scale.cli.main import main
from beebo_scale.drawing import label, save
from beebo_scale.specs.yaml_text import load_yaml

ROOT = Path(__file__).parents[2]
LETTERS = "abcdefghi"
LEVELS = "".join(f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in pairwise(LETTERS))
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + LEVELS
YAML = {
    "aliases of aliases": (BOMB + "features: *i\n", "more than 100,000 entries, aliases written out"),
    "an alias of itself": ("features: &a [*a]\n", "the alias *a stands for nothing, or for a part of itself"),
    "lists in lists": ("features: " + "[" * 60 + "]" * 60 + "\n", "50 in each other"),
    "very long": ("# " + "x" * (1 << 20) + "\nq: 2\n", "more than 1,048,576 characters"),
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    pd.DataFrame(rng.random((20, 3)).round(3), columns=["a", "s", "y"]).to_csv("m.csv", index=False)
    pd.DataFrame(1 + rng.random((20, 2)).round(3), columns=["a", "s"]).to_csv("l.csv", index=False)
    return tmp_path


def suggest(*more, measured="m.csv", target="y", out="o.csv"):
    options = [
        f"--measured={measured}",
        f"--target={target}",
        "--library=l.csv",
        f"--out={out}",
        "-q=2",
        "--iterations=5",
    ]
    return main(["suggest", *options, *more])


@pytest.mark.parametrize("name", YAML)
def test_yaml_that_unfolds_to_more_than_settings_are(folder, capsys, name):
    text, words = YAML[name]
    Path("c.yaml").write_text(text)
    assert suggest("--config=c.yaml") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "c.yaml" in line
    assert words in line
    Path("c").mkdir()
    Path("c/campaign.yaml").write_text(f"target: y\n{text}")
    assert main(["campaign", "status", "c"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "campaign.yaml is refused (" in line
    assert words in line


def test_anchors_and_aliases_as_people_use_them():
    assert load_yaml("a: &x {k: [1, 2]}\nb: *x\nc: {d: *x}\n")["c"]["d"] == {"k": [1, 2]}
    with pytest.raises(yaml.YAMLError, match="entries"):
        load_yaml(BOMB)


@pytest.mark.slow
def test_text_in_figures_is_drawn_as_it_is_written():
    from matplotlib.figure import Figure

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for text in (
            "$x$",
            "$\\frac{$",
            "a\\$b$",
            "_hidden$ $",
            "漢字$",
            "\udcff$",
            "$" * 500,
            "{$^_$}",
            "50 % $\\foo$",
        ):
            figure = Figure(layout="constrained")
            axes = figure.add_subplot()
            axes.barh([label(text)], [1.0], label=label(text))
            axes.set(xlabel=label(text), title=label(text))
            axes.legend()
            save(figure, io.BytesIO(), format="png")
            assert len(axes.get_legend_handles_labels()[0]) == 1
    assert label("a $b$") == r"a \$b\$"


@pytest.mark.slow
def test_dollars_in_names_of_columns_controls_and_folders(folder, capsys):
    for name in ("m.csv", "l.csv"):
        pd.read_csv(name).rename(columns={"a": "$a_{$", "y": "y $\\frac{$"}).to_csv(name, index=False)
    os.rename("m.csv", "m$ $.csv")
    file, target = "m$ $.csv", "y $\\frac{$"
    assert suggest("--plate=96", "--controls", "A01:$n$_{", "A02:_p$", measured=file, target=target) == 0
    assert Path("o.plate.png").stat().st_size
    world = ["--landscape", file, "--target", target, "-q=2", "--rounds=1", "--seeds=1", "--start=5"]
    assert main(["simulate", *world, "--strategies", "random", "--run-dir=$r$_{"]) == 0
    assert Path("$r$_{/curves.png").stat().st_size
    fit = [f"--data.file={file}", f"--data.target={target}", "--model.kind=exact", "--model.iterations=3"]
    assert main(["fit", *fit, "--trainer.max_epochs=1", "--trainer.default_root_dir=$f$_{"]) == 0
    assert main(["report", "--run=$f$_{"]) == 0
    before = set(folder.iterdir())
    assert main(["predict", "--data.file=l.csv", "--ckpt_path=$f$_{/best.ckpt", "--out=p.csv"]) == 0
    assert {path.name for path in set(folder.iterdir()) - before} == {"p.csv"}  # no folder runs/


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="others know no such paths")
def test_paths_that_are_no_text(folder, capsys):
    odd = os.fsdecode(b"\xff\xe9")
    os.mkdir(f"d{odd}")
    os.rename("m.csv", f"d{odd}/m{odd}.csv")
    with open(f"d{odd}/p.parquet", "wb") as file:
        pd.read_csv("l.csv").to_parquet(file)
    os.mkdir(f"lib{odd}")
    os.rename(f"d{odd}/p.parquet", f"lib{odd}/p{odd}.parquet")
    measured, model = f"d{odd}/m{odd}.csv", f"s{odd}.ckpt"
    more = [f"--library=lib{odd}", "--plate=96", f"--save-model={model}"]
    for out in (f"o{odd}.csv", f"o{odd}.parquet"):
        Path(model).unlink(missing_ok=True)
        assert suggest(*more, measured=measured, out=out) == 0
        assert Path(out).stat().st_size
    more = [f"--library=lib{odd}", "-q=2", f"--out=q{odd}.csv", f"--run-dir=r{odd}"]
    assert main(["propose", f"--surrogate={model}", *more]) == 0
    start = [f"--measured={measured}", "--target=y", f"--library=lib{odd}", "-q=2", "--iterations=5"]
    assert main(["campaign", "init", f"c{odd}", *start]) == 0
    assert main(["campaign", "suggest", f"c{odd}"]) == 0
    capsys.readouterr()
    assert suggest(measured=f"x{odd}.csv") == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_guides_configurations_are_found_in_the_package(folder):
    """Those that README and guides name are part of the wheel, and a file of the same name here comes first."""
    package = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["beebo_scale"]
    assert "configs/*.yaml" in package
    own = files("beebo_scale").joinpath("configs")
    named = [word for page in (ROOT / "docs").glob("*.md") for word in page.read_text(encoding="utf-8").split()]
    named = {word for word in named if word.startswith("configs/") and word.endswith(".yaml")}
    assert len(named) >= 3
    for name in named:
        assert own.joinpath(name.removeprefix("configs/")).is_file()
        assert with_own_configs(["fit", "--config", name, f"--config={name}"])[2] == str(own.parent.joinpath(name))
        assert with_own_configs([f"--config={name}"]) == [f"--config={own.parent.joinpath(name)}"]
    assert with_own_configs(["--config", "configs/none.yaml", "configs/svgp.yaml"])[1:] == [
        "configs/none.yaml",
        "configs/svgp.yaml",
    ]
    Path("configs").mkdir()
    Path("configs/svgp.yaml").write_text("q: 2\n")
    assert with_own_configs(["--config", "configs/svgp.yaml"])[1] == "configs/svgp.yaml"


COMMANDS = [["--help"], ["--version"], ["suggest", "--help"], ["campaign", "--help"]]
RUN = ["suggest", "--measured=m.csv", "--target=y", "--library=l.csv", "-q=2", "--iterations=5", "--out=o.csv"]


def started(arguments, **streams):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-m", "beebo_scale", *arguments], env=environment, **streams)


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no such device")
@pytest.mark.parametrize("arguments", [*COMMANDS, RUN], ids=" ".join)
def test_a_full_device_as_standard_output_is_one_line(folder, arguments):
    with open("/dev/full", "w") as full:
        job = started(arguments, stdout=full, stderr=subprocess.PIPE, text=True)
        _, errors = job.communicate()
    assert job.returncode == 2
    assert len(errors.splitlines()) == 1
    assert "standard output cannot be written (No space left on device)" in errors


@pytest.mark.process
@pytest.mark.slow
def test_a_reader_that_has_enough_ends_a_command_without_a_word(folder):
    reading, writing = os.pipe()
    os.close(reading)
    with started(["suggest", "--help"], stdout=writing, stderr=subprocess.PIPE) as job:
        os.close(writing)
        assert job.stderr.read() == b""
    assert job.returncode == 141
