import numpy as np
import pandas as pd
import pytest

from beebo_scale.simulation import Landscape, simulate
from beebo_scale.simulation.problems import functions
from beebo_scale.simulation.results import FIGURES, Results, judge, summarise
from beebo_scale.simulation.strategies import Random


def landscape(minimize=False, top=3):
    """Values 0, 1, ..., 9, where three rows tie at the third place from above and from below."""
    y = np.array([9.0, 8.0, 7.0, 7.0, 7.0, 5.0, 2.0, 2.0, 2.0, 1.0, 0.0])
    return Landscape.read(pd.DataFrame({"x": np.arange(11.0), "y": y}), "y", minimize=minimize, top=top)


def test_figures_of_a_landscape():
    figures = judge(landscape(), [np.array([6, 10]), np.array([3, 4]), np.array([2, 0]), np.array([1, 5])])
    assert figures["measured"].tolist() == [2, 4, 6, 8]
    assert figures["best"].tolist() == [2.0, 7.0, 9.0, 9.0]
    assert np.allclose(figures["normalised"], [2 / 9, 7 / 9, 1.0, 1.0])
    # 9, 8 and one of three 7s are the top three: any 7 counts, and there are no more than three.
    assert np.allclose(figures["recall"], [0.0, 2 / 3, 1.0, 1.0])
    assert figures["batch_mean"].tolist() == [1.0, 7.0, 8.0, 6.5]
    assert np.allclose(figures["relative_regret"], (9 - figures["batch_mean"]) / (9 - 50 / 11))
    assert figures["best_rank"].tolist() == [7, 3, 1, 1]  # 2 shares the ranks 7 to 9, 7 the ranks 3 to 5
    at_random = np.mean([1, 2, 3, 3, 3, 6, 7, 7, 7, 10, 11])
    assert np.allclose(figures["batch_rank"] * at_random, [9.0, 3.0, 2.0, 4.0])


def test_figures_where_small_is_good():
    figures = judge(landscape(minimize=True), [np.array([0, 6]), np.array([9, 7])])
    assert figures["best"].tolist() == [2.0, 1.0]
    assert np.allclose(figures["normalised"], [7 / 9, 8 / 9])
    assert np.allclose(figures["recall"], [1 / 3, 1.0])  # 0, 1 and one of three 2s; found: 2, then 1 and 2
    assert np.allclose(figures["relative_regret"], [5.5 / (50 / 11), 1.5 / (50 / 11)])
    assert figures["best_rank"].tolist() == [3, 2]


def test_a_function_is_judged_without_noise_from_its_start_on():
    world = functions.TestFunction("styblinski-tang", 2, noise=5.0)
    start, batch = world.start(6, 0), world.draw(4, np.empty((0, 2)), 1)
    figures = judge(world, [start, batch])
    top, floor = 2 * 39.16616570377142, world.truth(start).max()
    assert figures["recall"].isna().all()
    assert figures["normalised"][0] == 0.0
    assert np.isclose(figures["normalised"][1], (max(floor, world.truth(batch).max()) - floor) / (top - floor))


def skewed(minimize, n=200):
    """Values over six orders of magnitude."""
    frame = pd.DataFrame({"x": np.arange(float(n)), "y": 10 ** np.linspace(-3, 3, n)})
    return Landscape.read(frame, "y", minimize=minimize)


@pytest.mark.parametrize(
    ("world", "crowded"),
    [
        (skewed(minimize=True), True),
        (skewed(minimize=False), False),  # there the range tells the best apart
        (landscape(), False),
        (landscape(minimize=True), False),
        (functions.TestFunction("levy", 2), False),
    ],
)
def test_values_that_crowd_at_the_good_end_are_noticed(world, crowded):
    assert world.yardstick(world.start(4, 0)).crowded is crowded


@pytest.mark.slow
def test_a_skewed_target_that_is_minimised_is_shown_by_ranks(tmp_path):
    """By value random points are as good as the best: 1.000 for all."""
    world = skewed(minimize=True)
    results = simulate(world, {"chance": Random(), "best": Omniscient()}, tmp_path, q=8, rounds=2, start=8, seeds=3)
    last = results.summary.groupby("strategy").last()
    assert last.loc["chance", "normalised_mean"] > 0.999
    assert last.loc["best", "recall_mean"] == 1.0
    assert last.loc["best", "best_rank_mean"] == 1.0
    assert last.loc["chance", "best_rank_mean"] > 3.0
    assert results.by_rank
    headings = [line for line in results.markdown().splitlines() if line.startswith("## ")]
    assert headings[:3] == ["## Share of the best found", "## Rank of the best so far", "## Rank of the batch"]
    assert "## Best so far" not in headings


@pytest.mark.slow
def test_the_share_found_leads_where_values_tell(tmp_path):
    results = simulate(skewed(minimize=False), ["random"], tmp_path, q=8, rounds=1, start=8)
    assert list(results.shown) == ["recall", "normalised", "relative_regret"]
    results = simulate(functions.TestFunction("levy", 2), ["random"], tmp_path / "f", q=8, rounds=1, start=8)
    assert list(results.shown) == ["normalised", "relative_regret"]  # no rows to count


class Omniscient(Random):
    """The best points that are not measured."""

    def choose(self, state, model):
        free = np.setdiff1d(np.arange(len(state.world)), state.points)
        return free[np.argsort(-state.sign * state.world.truth(free))[: state.q]]


def lines(strategy, seed, values):
    frame = pd.DataFrame(dict.fromkeys(FIGURES, values)).assign(strategy=strategy, seed=seed, round=range(len(values)))
    return frame.assign(measured=10 * (1 + frame["round"]))


def test_means_and_errors_over_the_seeds():
    rounds = pd.concat([lines("b", 0, [0.0, 3.0]), lines("a", 0, [1.0, 1.0]), lines("b", 1, [2.0, 4.0])])
    summary = summarise(rounds)
    assert summary["strategy"].tolist() == ["b", "b", "a", "a"]  # as they were given
    assert summary["seeds"].tolist() == [2, 2, 1, 1]
    assert summary["best_mean"].tolist() == [1.0, 3.5, 1.0, 1.0]
    assert np.allclose(summary["recall_sd"][:2], [2**0.5, 0.5**0.5])
    assert np.allclose(summary["recall_se"][:2], [1.0, 0.5])
    assert summary["recall_se"][2:].isna().all()  # one seed has no error


def test_the_page_and_the_picture(tmp_path):
    pytest.importorskip("matplotlib")
    rounds = pd.concat([lines(name, seed, [0.1 * seed, 0.5]) for name in ("us", "them") for seed in range(3)])
    results = Results(rounds, summarise(rounds), "A test", ("a note",))
    written = results.write(tmp_path)
    assert [path.name for path in written] == ["rounds.csv", "summary.csv", "summary.md", "curves.png"]
    page = (tmp_path / "summary.md").read_text()
    assert "| strategy | 10 | 20 |" in page
    assert "| us | 0.100 (0.058) | 0.500 (0.000) |" in page
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert pd.read_csv(tmp_path / "summary.csv")["normalised_mean"].tolist() == pytest.approx([0.1, 0.5, 0.1, 0.5])
