"""A batch chosen from a library by two workers is that of one, bit for bit."""

import os
import subprocess
import sys
from pathlib import Path

import torch

from beebo_scale.proposal.library import certified as stream
from beebo_scale.proposal.library import lazy_greedy as pool
from beebo_scale.workers import Workers
from tests.distributed.stream_job import build
from tests.helpers import uniform
from tests.proposal.library.test_certified import frame_of

ROOT = Path(__file__).parents[2]


def test_two_workers_choose_what_one_chooses(tmp_path, monkeypatch):
    X = uniform(400, 3, seed=5)
    library = frame_of(torch.cat([X, X[:50]])).assign(scaffold=lambda f: (8 * f["x0"]).astype(int))
    library.to_csv(tmp_path / "library.csv", index=False)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["-m", "tests.distributed.stream_job", str(tmp_path)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    job = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert job.returncode == 0, job.stderr
    for module, name in ((stream, "RESERVE"), (stream, "LONG"), (pool, "SHORTLIST")):
        monkeypatch.setattr(module, name, getattr(module, name))  # `build` sets them; put them back afterwards
    alone = build(Workers(), str(tmp_path / "library.csv"))
    for rank in (0, 1):
        result = torch.load(tmp_path / f"2-{rank}.pt")
        for name in ("rows", "gain", "X", "runners_up"):
            assert torch.equal(result[name], alone[name]), name
        assert result["certificate"] == alone["certificate"]
        assert result["counts"] == alone["counts"]
        assert result["table"] == alone["table"]
