"""Choose a batch from a library by all workers."""

from beebo_scale.proposal.jobs.chunks import ChunkRunner
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
    choice = choose(toy("exact").posterior, opened, 15, 2.0, limits=limits, runner=ChunkRunner(workers))
    assert choice.certificate["passes"] > 1
    names = ("rows", "gain", "X", "runners_up", "certificate", "counts")
    return {name: getattr(choice, name) for name in names} | {"table": ids(opened, choice)}
