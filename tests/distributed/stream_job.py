"""Run by torchrun: choose a batch from a library by all workers and write what they find, one file for each worker."""

import sys

import torch
import torch.distributed as dist

from beebo_scale.proposal.jobs.chunks import Crew
from beebo_scale.proposal.library import certified as stream
from beebo_scale.proposal.library import lazy_greedy as pool
from beebo_scale.screening.library import open_library
from beebo_scale.specs import Limits
from beebo_scale.workers import Workers
from tests.proposal.library.test_certified import KINDS, choose, ids, toy


def build(workers: Workers, library: str) -> dict:
    """What must not depend on the number of workers."""
    stream.RESERVE, stream.LONG, pool.SHORTLIST = 2, 0, 1  # certificates fail at first
    opened = open_library(library, KINDS, "id", ["scaffold"], chunk_rows=30)
    limits = Limits({"scaffold": 6})
    choice = choose(toy("exact").posterior, opened, 15, 2.0, limits=limits, crew=Crew(workers))
    assert choice.certificate["passes"] > 1
    names = ("rows", "gain", "X", "runners_up", "certificate", "counts")
    return {name: getattr(choice, name) for name in names} | {"table": ids(opened, choice)}


def main(folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    workers = Workers.current()
    torch.save(build(workers, f"{folder}/library.csv"), f"{folder}/{workers.size}-{workers.rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
