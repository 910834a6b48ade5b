"""One closed loop: measure a start, then round after round fit, choose, measure. It can be stopped at any moment.

    D/<strategy>-<seed>/round-000.csv   the start, then what each round measured; the value is the last column
    D/<strategy>-<seed>/round-001.json  how long fit and choice took; kind, transform and warning of the surrogate
    D/<strategy>-<seed>/chunks/         hyperparameters for the warm start of a later round
    D/<strategy>-<seed>/job.json, lock  what is being computed, and by whom (`proposal.job`)

A file is moved into place when it is whole, the CSV file last: where it stands, its round is finished.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..archives import file_sum
from ..errors import InputError
from ..proposal.jobs.run_folder import FolderLedger, open_run
from ..proposal.provenance import versions
from ..screening.batch import csv_bytes, write_frame, write_text
from ..surrogates import Surrogate
from ..surrogates.factors import Exact
from ..surrogates.surrogate import surrogate_of
from .strategies import Random
from .world import Points, State, Strategy, World


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    Attributes:
        q: batch size.
        rounds: batches that are chosen.
        start: points measured before any choice.
    """

    q: int
    rounds: int
    start: int

    def __post_init__(self) -> None:
        for name, least in {"q": 1, "rounds": 1, "start": 2}.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(f"{name} = {value!r}: give a whole number, {least} or more")

    @property
    def total(self) -> int:
        """Points measured in all."""
        return self.start + self.q * self.rounds

    def size(self, round: int) -> int:
        """Points of a round; round 0 is the start."""
        return self.q if round else self.start


@dataclass(frozen=True, eq=False)
class Run:
    """One strategy and one seed.

    Attributes:
        world: what is measured.
        strategy: that chooses.
        name: of the strategy.
        seed: of the start, and of all else that is drawn.
        plan: how much is measured.
        threads: of torch; rounding depends on it.
    """

    world: World
    strategy: Strategy
    name: str
    seed: int
    plan: Plan
    threads: int = 1

    def folder(self, base: str | os.PathLike[str]) -> Path:
        """Where the run lies."""
        return Path(base) / f"{self.name}-{self.seed}"

    def identity(self) -> dict[str, Any]:
        """All that decides what is measured."""
        options = {f"{self.name} {f.name}": repr(getattr(self.strategy, f.name)) for f in fields(self.strategy)}  # type: ignore[arg-type]
        own = {"strategy": type(self.strategy).__name__, "seed": self.seed, "threads": self.threads, **options}
        return {**self.world.identity(), **vars(self.plan), **own, **versions()}


def run_loop(run: Run, base: str | os.PathLike[str], on_round: Callable[[], object] = lambda: None) -> None:
    """Do the rounds of a run that are not finished; torch must be set to the run's threads.

    Args:
        run: what to do.
        base: the folder of all runs.
        on_round: called after every round, also those that were finished before.

    Raises:
        InputError: the folder holds another run, is in use or damaged, or a strategy refuses its task.
    """
    folder = run.folder(base)
    with open_run(folder, run.identity()) as ledger:
        for leftover in folder.glob(".*.round-*"):  # half written when the run was killed
            leftover.unlink()
        points, values = _finished(run, folder)
        done = len(points)
        for _ in points:
            on_round()
        for k in range(done, run.plan.rounds + 1):
            new = (
                run.world.start(run.plan.start, run.seed) if k == 0 else _round(run, k, points, values, folder, ledger)
            )
            points.append(new)
            values.append(run.world.measure(new, _seed(run.seed, k)))
            frame = run.world.written(points[-1], values[-1])
            ledger.write("sums", k, [zlib.crc32(csv_bytes(frame)), *_sums(_path(folder, k).with_suffix(".json"))])
            write_frame(_path(folder, k), frame)
            on_round()


def read_run(run: Run, base: str | os.PathLike[str]) -> tuple[list[Points], list[dict[str, Any]]]:
    """The points of a finished run by round, and what each round noted."""
    folder = run.folder(base)
    notes = [_path(folder, k).with_suffix(".json") for k in range(1, run.plan.rounds + 1)]
    try:
        return _finished(run, folder)[0], [{}] + [json.loads(path.read_text(encoding="utf-8")) for path in notes]
    except (OSError, ValueError, RecursionError) as error:
        raise error if isinstance(error, InputError) else _damaged(notes[0].with_suffix(".csv")) from error


def _finished(run: Run, folder: Path) -> tuple[list[Points], list[np.ndarray]]:
    """Points and values of the rounds that stand in the folder."""
    import pandas as pd

    points, values, ledger = [], [], FolderLedger(folder / "chunks")
    for k in range(run.plan.rounds + 1):
        path = _path(folder, k)
        if not path.exists():
            break
        if ledger.has("sums", k) and ledger.read("sums", k) != _sums(path, path.with_suffix(".json")):
            raise _damaged(path)
        try:
            some, their = run.world.parsed(pd.read_csv(path, dtype=str, keep_default_na=False))
        except (ValueError, IndexError) as error:
            raise _damaged(path) from error
        if len(some) != run.plan.size(k):
            raise _damaged(path)
        points.append(some)
        values.append(their)
    return points, values


def _sums(*paths: Path) -> list[int]:
    """Of those files that are there."""
    return [file_sum(path) for path in paths if path.exists()]


def _damaged(path: Path) -> InputError:
    return InputError(f"{path} is damaged; delete it and the rounds after it, and they will be computed again")


def _round(
    run: Run, k: int, points: list[Points], values: list[np.ndarray], folder: Path, ledger: FolderLedger
) -> Points:
    """The points that round k = 1, 2, ... chooses."""
    state = State(
        world=run.world,
        points=np.concatenate(points),
        values=np.concatenate(values),
        q=run.plan.q,
        round=k - 1,
        rounds=run.plan.rounds,
        seed=_seed(run.seed, k),
        run_seed=run.seed,
        warm=_warm(ledger, k),
    )
    # Nothing can be learned from values that are all the same.
    strategy = run.strategy if np.ptp(state.values) > 0 else Random()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(state.seed)
        start = time.perf_counter()
        model = strategy.fit(state)
        fitted = time.perf_counter()
        chosen = strategy.choose(state, model)
        note: dict[str, Any] = {"fit_seconds": fitted - start, "choice_seconds": time.perf_counter() - fitted}
    if isinstance(model, Surrogate):
        note |= {"surrogate": model.kind, "transform": model.scale.transform, "warning": model.report.warning}
        ledger.write("model", k, _hyperparameters(model).to_dict())
    write_text(_path(folder, k).with_suffix(".json"), json.dumps(note, indent=2) + "\n")
    return chosen


def _hyperparameters(surrogate: Surrogate) -> Surrogate:
    """All of a surrogate that a warm start looks at: without its rows and its root."""
    none = surrogate.data.take(torch.arange(1))
    return replace(surrogate, kind="exact", data=none, recipe=Exact(), log_variance=None)


def _warm(ledger: FolderLedger, k: int) -> Surrogate | None:
    """The surrogate of the last round before k that had one."""
    before = next((j for j in range(k - 1, 0, -1) if ledger.has("model", j)), None)
    return None if before is None else surrogate_of(ledger.read("model", before))


def _seed(seed: int, k: int) -> int:
    """Of round k, 32 bits; rounds of different runs have nothing in common."""
    return int(np.random.SeedSequence([seed, k]).generate_state(1)[0])


def _path(folder: Path, k: int) -> Path:
    return folder / f"round-{k:03d}.csv"
