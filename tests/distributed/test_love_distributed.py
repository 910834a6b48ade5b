"""A root built by two workers is that built by one, bit for bit."""

import os
import subprocess
import sys
from pathlib import Path

import torch

from beebo_scale.workers import Workers
from tests.distributed.love_job import build

ROOT = Path(__file__).parents[2]


def test_two_workers_build_what_one_builds(tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["-m", "tests.distributed.love_job", str(tmp_path)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    job = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert job.returncode == 0, job.stderr
    alone = build(Workers())
    for rank in (0, 1):
        result = torch.load(tmp_path / f"2-{rank}.pt")
        assert result["report"] == alone["report"]
        for name in ("root", "weights", "odd product", "plain product"):
            assert torch.equal(result[name], alone[name]), name
        assert torch.equal(result["odd product"], result["plain product"])
        torch.testing.assert_close(result["adapted"], alone["adapted"], rtol=1e-8, atol=1e-8)
