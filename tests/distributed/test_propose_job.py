"""Proposal jobs: the same bytes for any number of workers, whatever happened to them on the way."""

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

import beebo_scale as bs
from beebo_scale.cli.main import main

pytestmark = pytest.mark.process
BOX = ["--bounds", "a:0:1", "b:0:1", "--q", "6", "--restarts", "5", "--steps", "12"]
LIBRARY = ["--library", "library.parquet", "--id", "name", "--q", "12"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A folder with a surrogate and a library."""
    folder = tmp_path_factory.mktemp("job")
    draw = np.random.default_rng(0)
    measured = pd.DataFrame(draw.random((80, 2)), columns=["a", "b"])
    measured["y"] = np.sin(5 * measured["a"]) + measured["b"] ** 2
    bs.fit(bs.read_table(measured, target="y"), iterations=20).save(folder / "model.ckpt")
    library = pd.DataFrame(draw.random((200_000, 2)), columns=["a", "b"])
    library.insert(0, "name", [f"c{i}" for i in range(len(library))])
    library.to_parquet(folder / "library.parquet", index=False)
    return folder


def command(workers, run, what):
    start = [sys.executable]
    if workers > 1:
        start += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(workers)]
    return [*start, "-m", "beebo_scale", "propose", "--surrogate", "model.ckpt", "--run-dir", run, *what]


def alone(folder, run, what):
    """The same by one worker, in this process."""
    with contextlib.chdir(folder):
        assert main(command(1, run, what)[3:]) == 0
    return digest(folder, run)


def propose(folder, workers, run, what):
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    job = subprocess.run(
        command(workers, run, what), cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert job.returncode == 0, job.stderr
    return digest(folder, run)


def digest(folder, run):
    return hashlib.sha256((folder / run / "batch.csv").read_bytes()).hexdigest()


def start(folder, workers, run, what):
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command(workers, run, what),
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for_chunks(folder, run, count):
    chunks = folder / run / "chunks"
    for _ in range(24_000):
        if chunks.exists() and len(list(chunks.glob("[!.]*.pt"))) >= count:
            return
        time.sleep(0.01)
    raise AssertionError("no chunk was finished within four minutes")


@pytest.mark.parametrize(("name", "what", "workers"), [("box", BOX, 3), ("library", LIBRARY, 2)])
def test_any_number_of_workers(model, name, what, workers):
    assert propose(model, workers, f"{name}-many", what) == alone(model, f"{name}-one", what)
    run = json.loads((model / f"{name}-many" / "batch.run.json").read_text())
    assert run["job"] == {"workers": workers, "threads": 1, "device": "cpu"}


def test_killed_stopped_and_continued_by_others(model, capsys):
    """SIGKILL in the middle, SIGTERM in the middle, then two workers to the end; nobody with other options."""
    what = [*BOX[:-1], "300"]
    expected = alone(model, "whole", what)
    killed = start(model, 1, "broken", what)
    wait_for_chunks(model, "broken", 1)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert not (model / "broken" / "batch.csv").exists()

    stopped = start(model, 1, "broken", what)
    wait_for_chunks(model, "broken", 2)
    stopped.terminate()
    _, err = stopped.communicate(timeout=240)
    assert stopped.returncode == 143, err
    assert "finished chunks are kept in broken" in err.splitlines()[-1]
    assert not (model / "broken" / "batch.csv").exists()

    kept = len(list((model / "broken" / "chunks").glob("*.pt")))
    assert 2 <= kept < 5
    assert propose(model, 2, "broken", what) == expected

    capsys.readouterr()
    with contextlib.chdir(model):
        assert main(command(1, "broken", [*what, "--temperature", "2"])[3:]) == 2
    assert capsys.readouterr().err == (
        "beebo-scale: broken was started with temperature = 0.5, now it is 2.0; give another run folder, or go on with "
        "what it was started with\n"
    )
