"""A run folder: chunks are whole, one configuration, one job at a time."""

import json
import os
import signal
import subprocess
import sys

import pytest
import torch

from beebo_scale import InputError
from beebo_scale.proposal.jobs.chunks import ChunkRunner
from beebo_scale.proposal.jobs.run_folder import STOPPED, finishing, open_run, stopping_on_sigterm

IDENTITY = {"q": 96, "temperature": 0.5, "library": "lib.parquet"}


def test_chunks_come_back_as_they_were(tmp_path):
    result = {"rows": torch.arange(3), "score": torch.tensor([0.1, float("-inf")]), "count": 7, "names": ["a", "b"]}
    with open_run(tmp_path / "run", IDENTITY) as ledger:
        assert not ledger.has("score", 4)
        ledger.write("score", 4, result)
    with open_run(tmp_path / "run", IDENTITY) as ledger:
        assert ledger.has("score", 4)
        assert not ledger.has("score", 3)
        again = ledger.read("score", 4)
    assert again.keys() == result.keys()
    assert torch.equal(again["rows"], result["rows"])
    assert torch.equal(again["score"], result["score"])
    assert (again["count"], again["names"]) == (7, ["a", "b"])


def test_a_relaunch_goes_on(tmp_path):
    def square(chunks):
        for chunk in chunks:
            if chunk == 3:
                raise KeyboardInterrupt
            yield chunk, torch.tensor(chunk**2)

    with pytest.raises(KeyboardInterrupt), open_run(tmp_path, IDENTITY) as ledger:
        ChunkRunner(ledger=ledger).deal("square", 5, square)
    asked = []

    def rest(chunks):
        asked.extend(chunks)
        return ((chunk, torch.tensor(chunk**2)) for chunk in chunks)

    with open_run(tmp_path, IDENTITY) as ledger:
        results = ChunkRunner(ledger=ledger).deal("square", 5, rest)
    assert asked == [3, 4]
    assert [int(result) for result in results] == [0, 1, 4, 9, 16]


def test_another_configuration_is_refused(tmp_path):
    with open_run(tmp_path, IDENTITY):
        pass
    with pytest.raises(InputError, match="was started with q = 96, now it is 384"):
        open_run(tmp_path, IDENTITY | {"q": 384}).__enter__()
    with pytest.raises(InputError, match="was started with model = None, now it is 'abc'"):
        open_run(tmp_path, IDENTITY | {"model": "abc"}).__enter__()
    with open_run(tmp_path, IDENTITY):
        pass


def test_two_jobs_on_one_folder(tmp_path):
    refused = pytest.raises(InputError, match=f"in use by another job .process {os.getpid()} on ")
    with open_run(tmp_path, IDENTITY), refused:
        open_run(tmp_path, IDENTITY).__enter__()
    with open_run(tmp_path, IDENTITY):
        pass


def test_folders_that_cannot_be_used(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    for path in (tmp_path / "file", "/proc/run"):
        with pytest.raises(InputError, match="cannot be used as a run folder"):
            open_run(path, IDENTITY).__enter__()
    (tmp_path / "odd" / "chunks").mkdir(parents=True)
    (tmp_path / "odd" / "chunks" / "score-000000.pt").write_bytes(b"")
    with pytest.raises(InputError, match=r"no job\.json"):
        open_run(tmp_path / "odd", IDENTITY).__enter__()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "job.json").write_text("{")
    with pytest.raises(InputError, match=r"job\.json cannot be read"):
        open_run(tmp_path / "broken", IDENTITY).__enter__()


def test_damaged_and_half_written_chunks(tmp_path):
    with open_run(tmp_path, IDENTITY) as ledger:
        ledger.write("score", 0, 1)
    (tmp_path / "chunks" / "score-000000.pt").write_bytes(b"damage")
    (tmp_path / "chunks" / ".0a0b.score-000001.pt").write_bytes(b"half")
    with open_run(tmp_path, IDENTITY) as ledger:
        assert not ledger.has("score", 1)
        with pytest.raises(InputError, match=r"score-000000\.pt is damaged; delete it"):
            ledger.read("score", 0)
    assert [path.name for path in (tmp_path / "chunks").iterdir()] == ["score-000000.pt"]


def test_identity_is_plain_json(tmp_path):
    with open_run(tmp_path, {"bounds": {"ph": (4, 9)}}):
        assert json.loads((tmp_path / "job.json").read_text()) == {"bounds": {"ph": [4, 9]}}
    with open_run(tmp_path, {"bounds": {"ph": (4, 9)}}):
        pass


SCRIPT = """
import os, signal, sys, time
from pathlib import Path
from beebo_scale.proposal.jobs.run_folder import finishing, stopping_on_sigterm
def work(state):
    folder = Path(sys.argv[1], state)
    folder.mkdir()
    with stopping_on_sigterm():
        with finishing() if state == "writing" else open(os.devnull):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.2)
            (folder / "written").touch()
        (folder / "after").touch()
try:
    work("working")
except SystemExit as stopped:
    print(stopped.code)
work("writing")
"""


@pytest.mark.process
def test_sigterm_lets_a_write_finish(tmp_path):
    result = subprocess.run([sys.executable, "-c", SCRIPT, tmp_path], capture_output=True, text=True, timeout=240)
    assert (result.returncode, result.stderr, result.stdout) == (STOPPED, "", f"{STOPPED}\n")
    left = {state: [path.name for path in (tmp_path / state).iterdir()] for state in ("working", "writing")}
    assert left == {"working": [], "writing": ["written"]}


def test_outside_a_job_signals_are_left_alone():
    before = signal.getsignal(signal.SIGTERM)
    with finishing():
        assert signal.getsignal(signal.SIGTERM) is before
    with stopping_on_sigterm():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
