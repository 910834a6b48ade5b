"""Closed loops over a product of lists."""

import numpy as np
import pandas as pd
import pytest

from beebo_scale.errors import InputError
from beebo_scale.simulation import Options, ProductLandscape, simulate
from beebo_scale.simulation.baselines.block_thompson import BlockThompson
from beebo_scale.simulation.world import State
from beebo_scale.specs import Fitting
from tests.product_cases import LISTS, rows_of


def landscape(minimize=False):
    rows = rows_of().sample(frac=1.0, random_state=3)
    kinds = {"solvent": "categorical", "temp": "continuous", "site": "protein"}
    return ProductLandscape.read(rows, "y", LISTS, kinds=kinds, top=10, minimize=minimize)


def test_values_stand_at_the_rows_of_the_product():
    world = landscape()
    table = world.table(np.arange(240), world.truth(np.arange(240)))
    known = rows_of()
    assert table.frame["site"].tolist() == known["site"].tolist()
    np.testing.assert_allclose(table.y, known["y"])
    points = np.array([5, 77])
    assert world.parsed(world.written(points, world.truth(points)).astype(str))[0].tolist() == [5, 77]
    assert not set(world.draw(100, np.arange(100), 0)) & set(range(100))


@pytest.mark.slow
@pytest.mark.parametrize("minimize", [False, True])
def test_all_strategies_play(tmp_path, minimize):
    names = ["random", "greedy", "rf-greedy", "block-thompson", "mean-beebo", "thompson"]
    options = Options(Fitting(kind="exact", transform="none", iterations=5))
    results = simulate(landscape(minimize), names, tmp_path, q=12, rounds=2, start=20, options=options)
    last = results.rounds[results.rounds["round"] == 2].set_index("strategy")
    assert last.loc["mean-beebo", "recall"] > last.loc["random", "recall"]
    assert "4 solvent x 5 temp x 12 site" in results.title
    again = simulate(landscape(minimize), names, tmp_path, q=12, rounds=2, start=20, options=options)
    pd.testing.assert_frame_equal(again.rounds, results.rounds)


@pytest.mark.slow
def test_thompson_sampling_over_blocks_learns_the_good_ones():
    world = landscape()
    points = world.start(120, 0)
    state = State(world, points, world.truth(points), 20, 0, 1, seed=5, run_seed=0)
    strategy = BlockThompson()
    chosen = strategy.choose(state, strategy.fit(state))
    assert len(set(chosen)) == 20
    assert not set(chosen) & set(points)
    assert world.truth(chosen).mean() > world.values.mean() + 0.5 * world.values.std()
    assert len(strategy.choose(State(world, points, state.values, 120, 0, 1, 5, 0), strategy.fit(state))) == 120


def test_refusals():
    rows = rows_of()
    with pytest.raises(InputError, match="has 239 of 240 products; give every product of the lists once"):
        ProductLandscape.read(rows.iloc[1:], "y", LISTS)
    with pytest.raises(InputError, match="has products twice"):
        ProductLandscape.read(pd.concat([rows, rows.iloc[:1]]), "y", LISTS)
    with pytest.raises(InputError, match="no strategy 'max-beebo' for a landscape"):
        simulate(landscape(), ["max-beebo"], "unused", q=4)
