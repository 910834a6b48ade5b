"""Work in chunks that several workers share out and that a relaunch does not repeat.

A stage of work is cut into chunks by the configuration, never by the number of workers. A chunk that stands in the
ledger is read, the others are dealt out among the workers, and results come back in the order of the chunks: the same
bytes for any number of workers and any number of relaunches.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch.distributed as dist

from ...errors import InputError, WorkerError
from ...workers import Workers

Work = Callable[[Sequence[int]], Iterable[tuple[int, Any]]]


class Ledger(Protocol):
    """Where finished chunks are kept: tensors and plain types, by stage and number."""

    def has(self, stage: str, chunk: int) -> bool:
        """Whether the chunk is finished."""

    def read(self, stage: str, chunk: int) -> Any:
        """What was written."""

    def write(self, stage: str, chunk: int, result: Any) -> None:
        """Keep a finished chunk, whole or not at all."""


@dataclass(frozen=True)
class ChunkRunner:
    """The workers of a job, and the chunks that are finished already.

    Attributes:
        workers: rank of this process and number of all.
        ledger: finished chunks, in a place that all workers see; None keeps nothing.
        prefix: of the names of all stages, for work that is done anew.
    """

    workers: Workers = field(default_factory=Workers)
    ledger: Ledger | None = None
    prefix: str = ""

    def deal(self, stage: str, count: int, work: Work) -> list[Any]:
        """The results of all chunks of a stage, in order, on every worker.

        Args:
            stage: name of the stage, unique within a job.
            count: number of chunks.
            work: takes some of the chunks 0, ..., count - 1, in order, and yields each with its result as it is done
                (tensors on the CPU and plain types).
        """
        parts = gather(self.workers, list(self._results(stage, count, work)))
        everyone = dict(pair for part in parts for pair in part)
        return [everyone[chunk] for chunk in range(count)]

    def reduce(self, stage: str, count: int, work: Work, merge: Callable[[Any, Any], Any]) -> Any:
        """The results of all chunks merged into one, on every worker, no more than a few of them held at once.

        Args:
            stage: name of the stage, unique within a job.
            count: number of chunks, at least one.
            work: as in `deal`.
            merge: two results to one; the outcome must not depend on order or grouping.
        """
        merged = None
        for _, result in self._results(stage, count, work):
            merged = result if merged is None else merge(merged, result)
        parts = [part for part in gather(self.workers, merged) if part is not None]
        return functools.reduce(merge, parts)

    def _results(self, stage: str, count: int, work: Work) -> Iterator[tuple[int, Any]]:
        """This worker's share of the chunks: those that are finished, then those that it has to do."""
        stage = self.prefix + stage
        finished = self._finished(stage, count)
        for chunk in sorted(finished)[self.workers.rank :: self.workers.size]:
            assert self.ledger is not None
            yield chunk, self.ledger.read(stage, chunk)
        missing = [chunk for chunk in range(count) if chunk not in finished]
        try:
            for chunk, result in work(missing[self.workers.rank :: self.workers.size]):
                if self.ledger is not None:
                    self.ledger.write(stage, chunk, result)
                yield chunk, result
        except InputError as error:
            raise WorkerError(str(error)) from error

    def _finished(self, stage: str, count: int) -> set[int]:
        """Chunks that stand in the ledger, as worker 0 sees it: all must deal out the same rest."""
        seen = set()
        if self.ledger is not None and self.workers.rank == 0:
            seen = {chunk for chunk in range(count) if self.ledger.has(stage, chunk)}
        return gather(self.workers, seen)[0]


def gather(workers: Workers, part: Any) -> list[Any]:
    """One object from every worker, on every worker."""
    if workers.size == 1:
        return [part]
    parts = [None] * workers.size
    dist.all_gather_object(parts, part, group=workers.group)
    return parts


def on_first(workers: Workers, function: Callable[[], Any]) -> Any:
    """What worker 0 gets from the function, or the `InputError` it meets, on every worker."""
    outcome, error = None, None
    if workers.rank == 0:
        try:
            outcome = function()
        except InputError as met:
            error = met
    outcome, error = gather(workers, (outcome, error))[0]
    if error is not None:
        raise error
    return outcome
