"""Runs shared out among processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from typing import Any

import torch
from tqdm import tqdm

from ..errors import InputError
from .loop import Run, run_loop


def run_all(runs: Sequence[Run], base: str, processes: int, on_round: Callable[[], object]) -> None:
    """Do all runs; with one process here, else in so many new ones, each with a run of its own at a time.

    Args:
        runs: all with the same number of threads.
        base: the folder of all runs.
        processes: how many.
        on_round: called after every round of any run.

    Raises:
        InputError: of a run; the others are stopped and can go on later.
        RuntimeError: runs failed, which is told when all others are finished; or a process ended unexpectedly, such
            as for lack of memory.
    """
    failed: list[str] = []
    if processes == 1:
        with _threads(runs[0].threads):
            for run in runs:
                what, text = _done(run, base, on_round)
                _take(what, text, on_round, failed)
    else:
        _deal(runs, base, processes, on_round, failed)
    if failed:
        raise RuntimeError(
            f"{len(failed)} of {len(runs)} runs failed, all others are finished; the same command tries again. "
            f"The first: {min(failed)}"
        )


def _deal(runs: Sequence[Run], base: str, processes: int, on_round: Callable[[], object], failed: list[str]) -> None:
    """All runs in new processes; what failed is added to the list."""
    context = multiprocessing.get_context("spawn")  # a fork would share the locks of torch's threads
    waiting, busy, started = list(reversed(runs)), set(), []
    try:
        for _ in range(min(processes, len(runs))):
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(there, base, runs[0].threads), daemon=True)
            with _interrupts_blocked():
                process.start()
            there.close()  # so that the end of the process is the end of the pipe
            started.append(process)
            here.send(waiting.pop())
            busy.add(here)
        while busy:
            for pipe in wait(list(busy)):
                assert isinstance(pipe, Connection)
                if _heard(pipe, on_round, failed):
                    if waiting:
                        pipe.send(waiting.pop())
                    else:
                        pipe.send(None)
                        busy.remove(pipe)
    finally:
        for process in started:
            if busy:
                process.terminate()
            process.join()


def _heard(pipe: Connection, on_round: Callable[[], object], failed: list[str]) -> bool:
    """Take one message; whether it says that a run is over."""
    try:
        what, text = pipe.recv()
    except EOFError:
        raise RuntimeError("a process of the simulation ended unexpectedly; is the memory too small?") from None
    return _take(what, text, on_round, failed)


def _take(what: str, text: str, on_round: Callable[[], object], failed: list[str]) -> bool:
    """Do what a message asks for; whether it says that a run is over."""
    if what == "refused":
        raise InputError(text)
    if what == "round":
        on_round()
    if what == "failed":
        failed.append(text)
    return what in ("finished", "failed")


def _done(run: Run, base: str, on_round: Callable[[], object]) -> tuple[str, str]:
    """Do a run; how it ended, as a message."""
    try:
        run_loop(run, base, on_round)
    except InputError as error:
        return "refused", str(error)
    except Exception:  # whatever it is: the other runs do not depend on it
        return "failed", f"{run.folder(base).name}\n{traceback.format_exc()}"
    return "finished", ""


def _serve(pipe: Connection, base: str, threads: int) -> None:
    """Body of a process: receives runs and sends messages about them."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.stderr.isatty = lambda: False  # type: ignore[method-assign]  # the parent has the bar
    tqdm.set_lock(threading.RLock())  # its own would be a semaphore, which is left behind when the parent ends us
    torch.set_num_threads(threads)
    while (run := pipe.recv()) is not None:
        pipe.send(_done(run, base, lambda: pipe.send(("round", ""))))


def _end_with_parent() -> None:
    """A run whose parent was killed would keep its folder locked."""
    parent: Any = multiprocessing.parent_process()
    parent.join()
    os._exit(1)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Processes started in here ignore an interrupt from the keyboard: their parent gets it, and ends them."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
