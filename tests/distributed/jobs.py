"""Run by torchrun: work on what is named by all workers; each writes what it found to FOLDER/NAME-RANK.pt."""

import sys
from collections.abc import Callable

import torch
import torch.distributed as dist

from beebo_scale.proposal.jobs.chunks import ChunkRunner
from beebo_scale.workers import Workers
from tests.distributed import box_job, love_job, sparse_job, stream_job

JOBS: dict[str, Callable[[Workers, str], dict]] = {
    "box": lambda workers, folder: box_job.found(ChunkRunner(workers)),
    "love": lambda workers, folder: love_job.build(workers),
    "sparse": lambda workers, folder: {
        **sparse_job.results(),
        "P": sparse_job.natural_step(workers.rank, workers.size),
    },
    "stream": lambda workers, folder: stream_job.build(workers, f"{folder}/library.csv"),
}


def main(folder: str, *names: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    workers = Workers.current()
    for name in names:
        torch.save(JOBS[name](workers, folder), f"{folder}/{name}-{workers.rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
