"""The workers of a proposal job: one process, or as many as torchrun started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist

from ...errors import InputError
from ...workers import Workers

JOIN_TIMEOUT = timedelta(minutes=10)  # a worker that is not there by then was killed with its launcher
CHUNK_TIMEOUT = timedelta(days=7)  # a worker may wait long for one with more to do; torchrun ends all when one dies
LAUNCH = "torchrun --standalone --nproc-per-node W -m beebo_scale propose ..."


@contextmanager
def join(expected: int | None = None, threads: int = 1) -> Iterator[Workers]:
    """The workers that torchrun started, or this process alone.

    Args:
        expected: number of workers that there should be; None takes what there are.
        threads: of each worker. Rounding depends on their number, so it must not depend on that of the workers.

    Raises:
        InputError: other workers than expected, or a launcher that does not tell its processes of each other.
    """
    size = _world_size()
    if expected is not None and expected != size:
        raise InputError(
            f"{expected} workers asked for, but {size} {'was' if size == 1 else 'were'} started; "
            f"start them with {LAUNCH.replace('W', str(expected), 1)}"
        )
    torch.set_num_threads(threads)
    if size == 1:
        yield Workers()
        return
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=JOIN_TIMEOUT)
    try:
        yield Workers.current(
            dist.new_group(backend="gloo", timeout=CHUNK_TIMEOUT)
        )  # what is passed on lies on the CPU
    finally:
        dist.destroy_process_group()


def device_of(name: str) -> torch.device:
    """The device of this worker: "cpu", "cuda" (the one of its place on this machine) or "auto".

    Raises:
        InputError: there is no such device, or fewer than workers on this machine.
    """
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    place, count = int(os.environ.get("LOCAL_RANK", 0)), torch.cuda.device_count()
    if place >= count:
        raise InputError(f"device {name}: worker {place} of this machine has no GPU, there are {count}; start {count}")
    torch.cuda.set_device(place)
    return torch.device("cuda", place)


def _world_size() -> int:
    """Number of processes that were started together."""
    tasks = int(os.environ.get("SLURM_NTASKS") or 1)
    if "WORLD_SIZE" not in os.environ:
        if tasks > 1 and "SLURM_PROCID" in os.environ:
            raise InputError(
                f"SLURM started {tasks} tasks that do not know of each other; start one task on each machine and let "
                f"it run {LAUNCH}"
            )
        return 1
    size = int(os.environ["WORLD_SIZE"])
    missing = [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if size > 1 and missing:
        raise InputError(f"WORLD_SIZE is {size}, but {missing[0]} is not set; start the workers with {LAUNCH}")
    return size
