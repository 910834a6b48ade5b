"""Laws of a closed loop, whoever chooses."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
import torch

import beebo_scale as bs
from beebo_scale import InputError
from beebo_scale.simulation import (
    FUNCTION_STRATEGIES,
    LANDSCAPE_STRATEGIES,
    MORE_FUNCTION_STRATEGIES,
    Fitting,
    Landscape,
    Options,
)
from beebo_scale.simulation.loop import Plan, Run, read_run, run_loop
from beebo_scale.simulation.problems import functions
from beebo_scale.simulation.simulate import MAKERS
from beebo_scale.simulation.strategies import Greedy, Random
from tests.simulation.helpers import protein_frame, protein_landscape

SHORT = Options(Fitting(iterations=10), search=bs.BoxSearch(restarts=1, steps=5, polish=0))
PLAN = Plan(q=4, rounds=3, start=8)


def run_of(name, world=None, seed=0, plan=PLAN):
    return Run(world or protein_landscape(), MAKERS[name](SHORT), name, seed, plan)


def bytes_of(run, folder):
    """What the rounds wrote, by round."""
    return [path.read_bytes() for path in sorted(run.folder(folder).glob("round-*.csv"))]


@pytest.mark.slow
@pytest.mark.parametrize("name", LANDSCAPE_STRATEGIES)
def test_no_row_is_measured_twice_and_the_same_seed_gives_the_same_bytes(tmp_path, name):
    run = run_of(name)
    run_loop(run, tmp_path / "a")
    run_loop(run, tmp_path / "b")
    assert bytes_of(run, tmp_path / "a") == bytes_of(run, tmp_path / "b")
    points, notes = read_run(run, tmp_path / "a")
    assert [len(some) for some in points] == [8, 4, 4, 4]
    assert len(set(np.concatenate(points))) == PLAN.total
    assert all(note["choice_seconds"] > 0 for note in notes[1:])
    other = run_of(name, seed=1)
    run_loop(other, tmp_path / "a")
    assert bytes_of(run, tmp_path / "a") != bytes_of(other, tmp_path / "a")


@pytest.mark.slow
def test_a_whole_landscape_can_be_measured(tmp_path):
    run = run_of("mean-beebo", plan=Plan(q=20, rounds=2, start=24))
    run_loop(run, tmp_path)
    assert sorted(np.concatenate(read_run(run, tmp_path)[0])) == list(range(64))


@pytest.mark.slow
@pytest.mark.parametrize("name", [*FUNCTION_STRATEGIES, *MORE_FUNCTION_STRATEGIES])
def test_points_of_a_function_stay_in_the_cube(tmp_path, name):
    run = run_of(name, functions.TestFunction("levy", 2, noise=0.1), plan=Plan(q=3, rounds=1, start=6))
    run_loop(run, tmp_path / "a")
    run_loop(run, tmp_path / "b")
    assert bytes_of(run, tmp_path / "a") == bytes_of(run, tmp_path / "b")
    points = np.concatenate(read_run(run, tmp_path / "a")[0])
    assert points.shape == (9, 2)
    assert ((points >= 0) & (points <= 1)).all()


@pytest.mark.slow
def test_strategies_start_from_the_same_points(tmp_path):
    runs = [run_of("random"), run_of("greedy")]
    for run in runs:
        run_loop(run, tmp_path)
    first, second = (bytes_of(run, tmp_path) for run in runs)
    assert first[0] == second[0]
    assert first[1:] != second[1:]


class StoppedError(Exception):
    pass


@dataclass(frozen=True)
class Interrupted(Greedy):
    """Stops in the middle of a round."""

    def choose(self, state, model):
        if state.round == 1:
            raise StoppedError
        return super().choose(state, model)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["greedy", "mean-beebo"])
def test_a_run_goes_on_to_the_same_bytes(tmp_path, name):
    """Killed between two rounds, and after a model was kept but before its round was written."""
    run = run_of(name)
    run_loop(run, tmp_path / "whole")

    def stop():
        rounds.append(1)
        if len(rounds) == 3:
            raise StoppedError

    rounds = []
    with pytest.raises(StoppedError):
        run_loop(run, tmp_path / "cut", stop)
    assert bytes_of(run, tmp_path / "cut") == bytes_of(run, tmp_path / "whole")[:3]
    (run.folder(tmp_path / "cut") / "round-002.csv").rename(run.folder(tmp_path / "cut") / ".1234.round-002.csv")
    rounds = [0] * 9
    run_loop(run, tmp_path / "cut", stop)
    assert len(rounds) == 9 + 4
    assert bytes_of(run, tmp_path / "cut") == bytes_of(run, tmp_path / "whole")
    assert not list(run.folder(tmp_path / "cut").glob(".*"))


@pytest.mark.slow
def test_a_run_stopped_inside_a_round_goes_on(tmp_path):
    world, fitting = protein_landscape(), Fitting(iterations=10)
    broken, sound = (Run(world, cls(fitting), "greedy", 0, PLAN) for cls in (Interrupted, Greedy))
    with pytest.raises(StoppedError):
        run_loop(broken, tmp_path / "cut")
    job = broken.folder(tmp_path / "cut") / "job.json"
    job.write_text(job.read_text().replace("Interrupted", "Greedy"))
    run_loop(sound, tmp_path / "cut")
    run_loop(sound, tmp_path / "whole")
    assert bytes_of(sound, tmp_path / "cut") == bytes_of(sound, tmp_path / "whole")


@pytest.mark.slow
def test_a_warm_start_begins_where_the_last_round_ended(tmp_path):
    seen = []

    @dataclass(frozen=True)
    class Watched(Greedy):
        def fit(self, state):
            model = super().fit(state)
            seen.append((state.warm, model))
            return model

    run_loop(Run(protein_landscape(), Watched(Fitting(iterations=10)), "greedy", 0, PLAN), tmp_path)
    assert seen[0][0] is None
    for (_, before), (warm, _) in itertools.pairwise(seen):
        ours, theirs = warm.gp.state_dict(), before.gp.state_dict()
        assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
        assert len(warm.data) == 1  # no copy of the measured rows


@pytest.mark.slow
def test_another_configuration_is_refused(tmp_path):
    run_loop(run_of("greedy"), tmp_path)
    with pytest.raises(InputError, match="was started with q = 4, now it is 5"):
        run_loop(run_of("greedy", plan=Plan(5, 3, 8)), tmp_path)
    with pytest.raises(InputError, match=r"greedy fitting = .*iterations=10"):
        run_loop(Run(protein_landscape(), Greedy(Fitting(iterations=11)), "greedy", 0, PLAN), tmp_path)
    with pytest.raises(InputError, match="maximize = True, now it is False"):
        run_loop(run_of("greedy", protein_landscape(minimize=True)), tmp_path)


@pytest.mark.parametrize("text", ["", "row,variant,y\n1,AA,3\n", "row,variant,y\nx,AA,3\n"])
def test_a_damaged_round_is_named(tmp_path, text):
    run = run_of("random")
    run_loop(run, tmp_path)
    (run.folder(tmp_path) / "round-002.csv").write_text(text)
    with pytest.raises(InputError, match=r"round-002\.csv is damaged; delete it"):
        run_loop(run, tmp_path)


def test_nothing_can_be_learned_from_equal_values(tmp_path):
    frame = protein_frame().assign(y=0.0)
    frame.loc[0, "y"] = 1.0
    world = Landscape.read(frame, "y", {"variant": "protein"})
    greedy = run_of("greedy", world, seed=2)
    dull = Run(world, Random(), "random", 2, PLAN)
    run_loop(greedy, tmp_path), run_loop(dull, tmp_path)
    assert 0 not in np.concatenate(read_run(greedy, tmp_path)[0])
    assert bytes_of(greedy, tmp_path) == bytes_of(dull, tmp_path)


@pytest.mark.parametrize("bad", [{"q": 0}, {"rounds": 0}, {"start": 1}, {"q": 2.5}])
def test_plans(bad):
    with pytest.raises(InputError, match="give a whole number"):
        Plan(**({"q": 1, "rounds": 1, "start": 2} | bad))
