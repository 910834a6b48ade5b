"""`beebo-scale simulate` from end to end, bad input and an interrupt."""

import os
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest
import yaml

from beebo_scale.cli.main import main
from tests.helpers import INTERRUPTIBLE
from tests.simulation.helpers import protein_frame

OPTIONS = {
    "landscape": "all.csv",
    "target": "y",
    "features": "variant:protein",
    "strategies": "random,mean-beebo",
    "q": "4",
    "start": "8",
    "rounds": "2",
    "iterations": "10",
    "run-dir": "runs",
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    protein_frame().assign(empty="").to_csv("all.csv", index=False)
    return tmp_path


def command(changes):
    options = {name: value for name, value in (OPTIONS | changes).items() if value is not None}
    return ["simulate", *(f"--{name}={value}" if value else f"--{name}" for name, value in options.items())]


@pytest.mark.slow
def test_from_a_configuration_file_to_a_page(folder, capsys):
    frame = pd.read_csv("all.csv")
    frame.loc[3, "y"] = None
    pd.concat([frame, frame.iloc[:2]]).to_csv("all.csv", index=False)
    config = {
        "landscape": "all.csv",
        "target": "y",
        "features": {"variant": "protein"},
        "q": 4,
        "start": 8,
        "rounds": 2,
    }
    config |= {"seeds": 2, "strategies": ["random", "mean-beebo"], "iterations": 10, "top": 5}
    config |= {"temperatures": [1, 0.25], "schedule": "geometric"}
    (folder / "a.yaml").write_text(yaml.safe_dump(config))
    assert main(["simulate", "--config", "a.yaml", "--run-dir", "runs", "--exploit-last", "--minimize"]) == 0
    said = capsys.readouterr().out
    assert (
        "all.csv: 63 distinct inputs, 1 without a target left out, 2 repeats averaged; features: variant (protein)"
        in said
    )
    assert (folder / "runs" / "summary.md").read_text() in said
    summary = pd.read_csv("runs/summary.csv")
    assert summary["measured"].tolist() == [8, 12, 16] * 2
    assert summary["seeds"].tolist() == [2] * 6
    job = (folder / "runs" / "mean-beebo-1" / "job.json").read_text()
    assert "ExploitLast(schedule=Steps(temperatures=(1.0, 0.25)), last=0.0)" in job


@pytest.mark.slow
def test_a_function(folder):
    changes = dict.fromkeys(["landscape", "target", "features"])
    assert main(command(changes | {"function": "levy", "dimension": "2", "noise": "0.1", "strategies": "random"})) == 0
    assert (folder / "runs" / "random-0" / "round-002.csv").read_text().startswith("x1,x2,value\n")


@pytest.mark.slow
def test_the_last_round_exploits_in_every_strategy_that_explores(folder):
    changes = dict.fromkeys(["landscape", "target", "features"]) | {"function": "branin-noise", "exploit-last": ""}
    assert main(command(changes | {"strategies": "gp-bucb,rahbo", "kappa": "2", "risk": "0.5"})) == 0
    job = (folder / "runs" / "rahbo-0" / "job.json").read_text()
    assert all(
        f'"rahbo {name}": "{value}"' in job for name, value in (("kappa", 2.0), ("last_kappa", 0.0), ("risk", 0.5))
    )
    assert len(pd.read_csv("runs/summary.csv")) == 2 * 3


BAD = {
    "unknown strategy": ({"strategies": "random,beebo"}, ["no strategy 'beebo' for a landscape", "mean-beebo"]),
    "no world": ({"landscape": None, "target": None, "features": None}, ["--landscape FILE", "--function NAME"]),
    "two worlds": ({"function": "levy"}, ["give either --landscape"]),
    "no file": ({"landscape": "al.csv"}, ["al.csv: no such file", "did you mean 'all.csv'"]),
    "no target": ({"target": None}, ["--landscape needs --target"]),
    "wrong target": ({"target": "z"}, ["all.csv has no target column 'z'"]),
    "empty target": ({"target": "empty"}, ["column 'empty' is empty in all 64 rows"]),
    "too much": ({"rounds": "15"}, ["68 rows would be measured, but it has 64 distinct inputs", "lower start, q"]),
    "top": ({"top": "64"}, ["top = 64: give 1 or more, and less than the 64 rows"]),
    "noise": ({"noise": "1"}, ["--noise goes with --function only"]),
    "temperature": ({"temperatures": "hot"}, ["--temperatures 'hot' is not a number"]),
    "one end": ({"schedule": "linear", "temperatures": "2"}, ["--schedule leads from the first to the last of two"]),
    "cold temperature": ({"temperatures": "-1"}, ["temperature T' = -1.0 is not usable"]),
    "no variances": (
        {"function": "levy", "dimension": "2", "strategies": "rahbo"},
        ["rahbo needs measurements that come with the variance of their noise", "not those of levy in 2 dimensions"],
    ),
    "kappa": ({"kappa": "-1"}, ["kappa = -1.0: give a finite number", "0 or more"]),
    "seeds": ({"seeds": "0"}, ["--seeds 0: give 1 or more"]),
    "processes": ({"processes": "0"}, ["processes = 0: give 1 or more"]),
    "q": ({"q": "4.5"}, ["q: '4.5' is not a whole number"]),
    "folder": ({"run-dir": "all.csv"}, ["all.csv", "give another"]),
    "no folder": ({"run-dir": None}, ["missing options: --run_dir"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line(folder, capsys, name):
    changes, words = BAD[name]
    if "function" in changes and name != "two worlds":
        changes = dict.fromkeys(["landscape", "target", "features"]) | changes
    if name == "kappa":
        changes = changes | {"strategies": "ucb"}
    assert main(command(changes)) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    assert all(word in lines[0] for word in words), lines[0]
    assert sorted(path.name for path in folder.iterdir()) == ["all.csv"]


@pytest.mark.process
def test_an_interrupt_is_clean_and_the_same_command_goes_on(folder):
    """Two processes at work, of which only the parent hears the interrupt; one process goes on."""
    changes = {"rounds": "5", "seeds": "2", "strategies": "mean-beebo"}
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    program = [sys.executable, "-c", INTERRUPTIBLE, *command(changes | {"processes": "2"})]
    job = subprocess.Popen(program, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 240
    while not list(folder.glob("runs/*/round-001.csv")) and time.monotonic() < deadline:
        time.sleep(0.02)
    job.send_signal(signal.SIGINT)
    _, said = job.communicate(timeout=240)
    assert job.returncode == 130, said
    assert said.count("\n") == 1, said
    assert "finished rounds are kept in runs; the same command goes on with them" in said
    done = len(list(folder.glob("runs/*/round-*.csv")))
    assert 2 <= done < 12
    assert main(command(changes)) == 0
    assert main(command(changes | {"run-dir": "undisturbed"})) == 0
    files = sorted(path.relative_to(folder / "runs") for path in folder.glob("runs/*/round-*.csv"))
    assert len(files) == 12
    assert all((folder / "runs" / file).read_bytes() == (folder / "undisturbed" / file).read_bytes() for file in files)
