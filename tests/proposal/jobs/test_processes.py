"""Who works on a job: what the environment says, or one clear line."""

import pytest
import torch

from beebo_scale import InputError
from beebo_scale.proposal.jobs.processes import device_of, join
from beebo_scale.workers import Workers


@pytest.fixture(autouse=True)
def _bare(monkeypatch):
    for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "SLURM_NTASKS", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)


def test_alone():
    with join() as workers:
        assert workers == Workers(0, 1)
        assert torch.get_num_threads() == 1
    with join(expected=1) as workers:
        assert workers.size == 1


def test_other_workers_than_expected(monkeypatch):
    with pytest.raises(InputError, match=r"8 workers asked for, but 1 was started; start them with torchrun .* 8 -m"):
        join(expected=8).__enter__()
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", "1")
    with pytest.raises(InputError, match="2 workers asked for, but 4 were started"):
        join(expected=2).__enter__()


def test_launchers_that_leave_processes_alone(monkeypatch):
    monkeypatch.setenv("SLURM_NTASKS", "8")
    monkeypatch.setenv("SLURM_PROCID", "3")
    with pytest.raises(InputError, match="8 tasks that do not know of each other"):
        join().__enter__()
    monkeypatch.setenv("WORLD_SIZE", "8")
    with pytest.raises(InputError, match="WORLD_SIZE is 8, but RANK is not set"):
        join().__enter__()


def test_devices(monkeypatch):
    assert device_of("cpu") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert device_of("auto") == torch.device("cpu")
    with pytest.raises(InputError, match="no GPU"):
        device_of("cuda")
