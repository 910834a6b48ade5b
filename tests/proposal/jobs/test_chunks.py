"""Chunks of work: each done once, results in order, nothing repeated after a relaunch."""

import pytest

from beebo_scale.proposal.jobs.chunks import ChunkRunner


class Memory:
    """A ledger that lasts as long as the test."""

    def __init__(self):
        self.kept = {}

    def has(self, stage, chunk):
        return (stage, chunk) in self.kept

    def read(self, stage, chunk):
        return self.kept[stage, chunk]

    def write(self, stage, chunk, result):
        self.kept[stage, chunk] = result


def squares(chunks):
    return ((chunk, chunk**2) for chunk in chunks)


def fails_at(stop):
    def work(chunks):
        for chunk in chunks:
            if chunk == stop:
                raise RuntimeError("killed")
            yield chunk, chunk**2

    return work


def test_results_come_in_order():
    assert ChunkRunner().deal("squares", 5, squares) == [0, 1, 4, 9, 16]


def test_results_are_merged():
    assert ChunkRunner().reduce("squares", 5, squares, lambda a, b: a + b) == 30


@pytest.mark.parametrize("stop", [0, 2, 4])
def test_a_relaunch_does_the_rest(stop):
    memory = Memory()
    with pytest.raises(RuntimeError, match="killed"):
        ChunkRunner(ledger=memory).deal("squares", 5, fails_at(stop))
    assert sorted(memory.kept) == [("squares", chunk) for chunk in range(stop)]
    asked = []

    def rest(chunks):
        asked.extend(chunks)
        return squares(chunks)

    assert ChunkRunner(ledger=memory).deal("squares", 5, rest) == [0, 1, 4, 9, 16]
    assert asked == list(range(stop, 5))
    assert ChunkRunner(ledger=memory).reduce("squares", 5, fails_at(-1), lambda a, b: a + b) == 30


def test_stages_are_kept_apart():
    memory = Memory()
    ChunkRunner(ledger=memory).deal("one", 2, squares)
    assert ChunkRunner(ledger=memory).deal("two", 2, lambda chunks: ((c, "two") for c in chunks)) == ["two", "two"]


def test_work_done_anew_has_names_of_its_own():
    ledger = Memory()
    ChunkRunner(ledger=ledger).deal("squares", 2, squares)
    again = ChunkRunner(ledger=ledger, prefix="again ").deal("squares", 2, lambda chunks: ((c, -c) for c in chunks))
    assert again == [0, -1]
    assert ledger.kept["squares", 1] == 1
    assert ledger.kept["again squares", 1] == -1
