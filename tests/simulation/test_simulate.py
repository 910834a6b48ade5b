import multiprocessing
import re
from dataclasses import dataclass

import pytest

import beebo_scale as bs
from beebo_scale import InputError
from beebo_scale.simulation import Fitting, Options, Steps
from beebo_scale.simulation.problems import functions
from beebo_scale.simulation.processes import _heard
from beebo_scale.simulation.strategies import Beebo, Random
from tests.simulation.helpers import protein_landscape

SHORT = Options(Fitting(iterations=10))
LOOP = {"q": 4, "rounds": 2, "start": 8, "seeds": 2, "options": SHORT}
STEADY = ["strategy", "seed", "round", "measured", "best", "normalised", "recall", "batch_mean", "relative_regret"]


@pytest.mark.process
def test_two_processes_do_what_one_does(tmp_path):
    world, names = protein_landscape(), ["random", "mean-beebo"]
    one = bs.simulate(world, names, tmp_path / "one", **LOOP)
    two = bs.simulate(world, names, tmp_path / "two", **LOOP, processes=2)
    assert one.rounds[STEADY].equals(two.rounds[STEADY])
    files = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").glob("*/round-*.csv"))
    assert len(files) == 2 * 2 * 3
    assert all((tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes() for file in files)


def test_words_of_a_process():
    here, there = multiprocessing.Pipe()
    rounds, failed = [], []
    for what in ("round", "finished", "failed", "refused"):
        there.send((what, "q is odd"))
    assert [_heard(here, lambda: rounds.append(1), failed) for _ in range(3)] == [False, True, True]
    assert (rounds, failed) == ([1], ["q is odd"])
    with pytest.raises(InputError, match="q is odd"):
        _heard(here, lambda: None, [])
    there.close()
    with pytest.raises(RuntimeError, match="ended unexpectedly"):
        _heard(here, lambda: None, [])
    here.close()


@dataclass(frozen=True)
class Broken(Random):
    """Fails in its second round."""

    def choose(self, state, model):
        if state.round:
            raise ArithmeticError("one over zero")
        return super().choose(state, model)


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.process)])
def test_a_run_that_fails_leaves_the_others_alone(tmp_path, processes):
    strategies = {"broken": Broken(), "random": Random()}
    words = "2 of 4 runs failed, all others are finished.*broken-0.*ArithmeticError: one over zero"
    with pytest.raises(RuntimeError, match=re.compile(words, re.DOTALL)):
        bs.simulate(protein_landscape(), strategies, tmp_path, **LOOP, processes=processes)
    kept = {path.parent.name: path.name for path in sorted(tmp_path.glob("*/round-*.csv"))}
    assert kept == {
        f"{name}-{seed}": f"round-00{k}.csv" for name, k in (("broken", 1), ("random", 2)) for seed in (0, 1)
    }


@pytest.mark.slow
def test_best_so_far_never_falls_and_own_strategies_have_names(tmp_path):
    strategies = {"hot": Beebo(SHORT.fitting, Steps((2.0,))), "cold": Beebo(SHORT.fitting, Steps((0.0,)))}
    results = bs.simulate(protein_landscape(), strategies, tmp_path, **(LOOP | {"seeds": [5, 3]}))
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"hot-5", "hot-3", "cold-5", "cold-3"}
    for _, run in results.rounds.groupby(["strategy", "seed"]):
        assert run["normalised"].is_monotonic_increasing
        assert run["recall"].is_monotonic_increasing
    finished = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/round-*")}
    bs.simulate(protein_landscape(), strategies, tmp_path, **(LOOP | {"seeds": [5, 3]}))
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/round-*")} == finished  # nothing is done again


LEVY = functions.TestFunction("levy", 2)


@pytest.mark.parametrize(
    ("world", "strategies", "options", "words"),
    [
        ("gb2", ["random"], {}, "'gb2' is no world"),
        (LEVY, ["greedy"], {}, "there is no strategy 'greedy' for a function.*choose from random, thompson"),
        (LEVY, ["random", "random"], {}, "'random' is named twice"),
        (LEVY, [], {}, "give a list of strategies"),
        (LEVY, "random", {}, "give a list of strategies"),
        (LEVY, {"a/b": Random()}, {}, "strategy 'a/b': the name is also that of a folder"),
        (LEVY, ["random"], {"seeds": 0}, "seeds = 0"),
        (LEVY, ["random"], {"seeds": [1, 1]}, "each once"),
        (LEVY, ["random"], {"processes": 0}, "processes = 0"),
        (LEVY, ["random"], {"rounds": 0}, "rounds = 0"),
    ],
)
def test_what_is_refused_leaves_nothing(tmp_path, world, strategies, options, words):
    with pytest.raises(InputError, match=words):
        bs.simulate(world, strategies, tmp_path / "new", **(LOOP | options))
    assert not (tmp_path / "new").exists()
