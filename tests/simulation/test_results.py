import numpy as np
import pandas as pd
import pytest

from beebo_scale.simulation import Landscape
from beebo_scale.simulation.problems import functions
from beebo_scale.simulation.results import FIGURES, Results, judge, summarise


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


def test_figures_where_small_is_good():
    figures = judge(landscape(minimize=True), [np.array([0, 6]), np.array([9, 7])])
    assert figures["best"].tolist() == [2.0, 1.0]
    assert np.allclose(figures["normalised"], [7 / 9, 8 / 9])
    assert np.allclose(figures["recall"], [1 / 3, 1.0])  # 0, 1 and one of three 2s; found: 2, then 1 and 2
    assert np.allclose(figures["relative_regret"], [5.5 / (50 / 11), 1.5 / (50 / 11)])


def test_a_function_is_judged_without_noise_from_its_start_on():
    world = functions.TestFunction("styblinski-tang", 2, noise=5.0)
    start, batch = world.start(6, 0), world.draw(4, np.empty((0, 2)), 1)
    figures = judge(world, [start, batch])
    top, floor = 2 * 39.16616570377142, world.truth(start).max()
    assert figures["recall"].isna().all()
    assert figures["normalised"][0] == 0.0
    assert np.isclose(figures["normalised"][1], (max(floor, world.truth(batch).max()) - floor) / (top - floor))


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
