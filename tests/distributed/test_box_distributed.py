"""A batch found by two or three workers is that found by one, bit for bit."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from beebo_scale.proposal.jobs.chunks import Crew
from tests.distributed.box_job import found

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def alone():
    return found(Crew())


@pytest.mark.parametrize("size", [2, 3])
def test_workers_find_what_one_finds(alone, size, tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(size)]
    command += ["-m", "tests.distributed.box_job", str(tmp_path)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    job = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert job.returncode == 0, job.stderr
    for rank in range(size):
        assert torch.load(tmp_path / f"{size}-{rank}.pt") == alone
