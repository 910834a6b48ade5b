"""SIGKILL at a random moment, and the same command again."""

import random
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest
import torch

import beebo_scale as bs
from beebo_scale.cli.main import main
from tests.helpers import INTERRUPTIBLE
from tests.training.runs import screen

pytestmark = pytest.mark.process
EPOCHS = 25
CONFIG = """
data: {file: %s, target: y, features: {x: continuous, z: continuous, c: categorical}, batch_size: 64}
model: {kind: svgp, inducing_points: 60, iterations: 10}
trainer: {max_epochs: %d, accelerator: cpu, enable_progress_bar: false, default_root_dir: %s}
early_stopping: {patience: 1000000}
"""


def start(config):
    command = [sys.executable, "-c", INTERRUPTIBLE, "fit", "--config", str(config), "--ckpt_path", "last"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def wait_for(path, job):
    while not path.exists():
        assert job.poll() is None, job.stderr.read()
        time.sleep(0.01)


def interrupted(job):
    """What the job said when it was interrupted; once more where Python was just busy and dropped the interrupt."""
    for _ in range(6):
        job.send_signal(signal.SIGINT)
        try:
            return job.communicate(timeout=20)[1]
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError("it goes on")


def rmse(run):
    return (
        pd.concat(pd.read_csv(path) for path in run.glob("logs/version_*/metrics.csv"))
        .groupby("epoch")
        .last()["val_rmse"]
    )


def test_a_killed_run_goes_on_and_ends_where_it_would_have(tmp_path):
    for name in ("whole", "killed"):
        (tmp_path / f"{name}.yaml").write_text(CONFIG % (screen(tmp_path / "s.csv"), EPOCHS, tmp_path / name))
    job = start(tmp_path / "killed.yaml")
    wait_for(tmp_path / "killed" / "last.ckpt", job)
    time.sleep(random.Random(0).uniform(0, 0.5))
    job.send_signal(signal.SIGKILL)
    assert job.wait() == -signal.SIGKILL
    job.stderr.close()
    left = torch.load(tmp_path / "killed" / "last.ckpt", weights_only=True)  # whole
    assert 0 <= left["epoch"] < EPOCHS - 1
    for name in ("killed", "whole"):
        assert main(["fit", "--config", str(tmp_path / f"{name}.yaml"), "--ckpt_path", "last"]) == 0
    whole, killed = rmse(tmp_path / "whole"), rmse(tmp_path / "killed")
    assert killed.index[-1] == EPOCHS - 1
    assert killed.iloc[-1] == pytest.approx(whole.iloc[-1], rel=1e-6)
    assert bs.load_surrogate(tmp_path / "killed" / "last.ckpt").report.iterations == EPOCHS * 3


def test_an_interrupted_run_says_how_to_go_on(tmp_path):
    (tmp_path / "c.yaml").write_text(CONFIG % (screen(tmp_path / "s.csv"), 100_000, tmp_path / "run"))
    job = start(tmp_path / "c.yaml")
    wait_for(tmp_path / "run" / "last.ckpt", job)
    said = interrupted(job)
    assert job.returncode == 130
    assert "beebo-scale: interrupted, a fit goes on by the same command with --ckpt_path last" in said
    assert "Traceback" not in said
