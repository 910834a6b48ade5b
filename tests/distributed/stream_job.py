"""Run by torchrun: choose a batch from a library by all workers and write what they find, one file for each worker."""

import sys

import torch
import torch.distributed as dist

from beebo_scale.proposal.jobs.chunks import Crew
from beebo_scale.proposal.library import certified as stream
from beebo_scale.proposal.library import lazy_greedy as pool
from beebo_scale.proposal.library.certified import Aim, choose
from beebo_scale.proposal.library.limits import Limits
from beebo_scale.screening.library import open_library
from beebo_scale.workers import Workers
from tests.proposal.library.test_certified import ENCODER, KINDS, toy


def build(workers: Workers, library: str) -> dict:
    """What must not depend on the number of workers."""
    stream.RESERVE, stream.LONG, pool.SHORTLIST = 2, 0, 1  # certificates fail at first
    opened = open_library(library, KINDS, "id", ["scaffold"], 30)
    aim = Aim(15, 2.0, limits=Limits({"scaffold": 6}))
    choice = choose(toy("exact").posterior, ENCODER, opened, aim, Crew(workers))
    assert choice.certificate["passes"] > 1
    names = ("rows", "gain", "X", "runners_up", "certificate", "counts")
    return {name: getattr(choice, name) for name in names} | {"table": choice.table.frame["id"].tolist()}


def main(folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    workers = Workers.current()
    torch.save(build(workers, f"{folder}/library.csv"), f"{folder}/{workers.size}-{workers.rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
