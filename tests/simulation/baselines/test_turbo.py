"""TuRBO-1: its state, its box, and a run that was stopped."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from beebo_scale.simulation import Fitting
from beebo_scale.simulation.baselines.turbo import FIRST, LEAST, MOST, Region, Turbo, candidates, replay, sides
from beebo_scale.simulation.loop import Plan, Run, run_loop
from beebo_scale.simulation.problems import functions
from tests.simulation.helpers import encoded, state_of

SHORT = Fitting(iterations=5)


def test_successes_grow_and_failures_shrink():
    region = Region(best=10.0)
    for value, length, successes, failures in (
        (10.02, 0.8, 1, 0),
        (10.1, 0.8, 2, 0),
        (11.0, 1.6, 0, 0),
        (12.0, 1.6, 1, 0),
        (12.01, 1.6, 0, 1),  # less than a thousandth
        (5.0, 0.8, 0, 0),
    ):
        region = region.after(value, tolerance=2)
        assert (region.length, region.successes, region.failures) == (length, successes, failures)
    assert region.best == 12.01
    for k in range(9):
        region = region.after(100.0 + k, 2)
    assert region.length == MOST


def test_the_state_by_replay_is_that_of_going_on():
    rng = np.random.default_rng(0)
    q, d, start = 4, 10, 6
    tolerance = math.ceil(max(4 / q, d / q))
    values, restarts = rng.normal(size=start), 0
    region = Region(best=values.max())
    for _ in range(120):
        assert replay(values, start, q, d) == region
        batch = rng.normal(size=q) + 0.01 * len(values)
        batch -= 3.0 * (rng.random() < 0.7)
        values = np.concatenate([values, batch])
        if region.since + q == len(values):  # the start of a new run
            region = replace(region, best=batch.max())
            continue
        region = region.after(batch.max(), tolerance)
        if region.length < LEAST:
            region, restarts = Region(since=len(values)), restarts + 1
    assert restarts >= 1


def test_the_box_has_the_volume_of_a_cube_and_the_shape_of_the_kernel():
    lengthscales = torch.tensor([0.1, 0.4, 1.6], dtype=torch.float64)
    side = sides(0.5, lengthscales)
    assert math.isclose(float(side.prod()), 0.5**3)
    assert torch.allclose(side / side[0], lengthscales / lengthscales[0])


@pytest.mark.parametrize("d", [3, 60])
def test_candidates_lie_in_the_box_and_differ_from_the_center_in_some_inputs(d):
    generator = torch.Generator().manual_seed(1)
    center = torch.rand(d, generator=generator, dtype=torch.float64)
    side = 0.3 + 0.2 * torch.rand(d, generator=generator, dtype=torch.float64)
    U = candidates(center, side, 100, generator)
    assert len(U) == (2000 if d == 3 else 5000)
    assert ((U >= 0) & (U <= 1)).all()
    assert ((U - center).abs() <= side / 2 + 1e-12).all()
    changed = (center != U).sum(-1)
    assert changed.min() >= 1
    assert abs(float(changed.double().mean()) - min(d, 20)) < 0.5


@pytest.mark.slow
def test_the_batch_lies_in_the_box_around_the_best_point():
    state = state_of(functions.TestFunction("levy", 2), count=12, q=4)
    state = replace(state, round=2)  # two batches of four: the start had four points
    strategy = Turbo(SHORT)
    assert strategy.region(state) == replay(state.values, 4, 4, 2)
    surrogate = strategy.fit(state)
    chosen = strategy.choose(state, surrogate)
    width = (encoded(state, surrogate, np.eye(2)) - encoded(state, surrogate, np.zeros((2, 2)))).diagonal()
    side = sides(strategy.region(state).length, surrogate.posterior().kernel.lengthscales / width).numpy()
    best = state.points[state.values.argmax()]
    assert (np.abs(chosen - best) <= side / 2 + 1e-6).all()
    assert len(np.unique(chosen, axis=0)) == 4
    assert (chosen != strategy.choose(replace(state, seed=9), surrogate)).any()


def test_after_a_restart_all_is_forgotten():
    state = state_of(functions.TestFunction("levy", 2), count=60, q=2)
    falling = replace(state, values=-np.arange(60.0), round=28)
    strategy = Turbo(SHORT)
    halvings = math.ceil(math.log2(FIRST / LEAST) + 1e-9)  # each takes max(4, d) / q = 2 rounds
    since = 4 + 2 * 2 * halvings
    assert strategy.region(falling).since >= since
    restarted = replace(falling, points=falling.points[:since], values=falling.values[:since], round=2 * halvings)
    assert strategy.region(restarted) == Region(since=since)
    assert strategy.fit(restarted) is None
    assert strategy.choose(restarted, None).shape == (2, 2)
    more = replace(
        falling, points=falling.points[: since + 4], values=falling.values[: since + 4], round=2 * halvings + 2
    )
    assert len(strategy.fit(more).data) == 4


class StoppedError(Exception):
    pass


@pytest.mark.slow
def test_a_run_goes_on_to_the_same_bytes(tmp_path):
    run = Run(functions.TestFunction("levy", 2), Turbo(SHORT), "turbo", 0, Plan(q=4, rounds=3, start=6))
    run_loop(run, tmp_path / "whole")
    for stop_after in (2, 3):
        rounds = []

        def stop(rounds=rounds, stop_after=stop_after):
            rounds.append(1)
            if len(rounds) == stop_after:
                raise StoppedError

        with pytest.raises(StoppedError):
            run_loop(run, tmp_path / "cut", stop)
    run_loop(run, tmp_path / "cut")
    files = sorted(path.name for path in run.folder(tmp_path / "whole").glob("round-*.csv"))
    assert len(files) == 4
    for name in files:
        assert (run.folder(tmp_path / "cut") / name).read_bytes() == (
            run.folder(tmp_path / "whole") / name
        ).read_bytes()
