"""Two workers by torchrun against this process alone."""

import os
import subprocess
import sys
from pathlib import Path

import torch

from tests.distributed.sparse_worker import natural_step, results
from tests.helpers import close

ROOT = Path(__file__).parents[2]


def run(workers, folder):
    """What each worker of a torchrun job found."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={workers}"]
    command += ["-m", "tests.distributed.sparse_worker", str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return [torch.load(folder / f"{rank}.pt") for rank in range(workers)]


def test_two_workers_find_what_one_finds(tmp_path):
    alone, found = {**results(), "P": natural_step(0, 1)}, run(2, tmp_path)
    for worker in found:
        assert worker.keys() == alone.keys()
        close(worker.pop("P"), alone["P"], rtol=1e-12)  # a sum over rows in another order
        for name, value in worker.items():
            expected = alone[name]
            if name == "slopes":
                assert all(torch.equal(a, b) for a, b in zip(value, expected, strict=True))
            elif isinstance(value, torch.Tensor):
                assert torch.equal(value, expected), name
            else:
                assert value == expected, name
