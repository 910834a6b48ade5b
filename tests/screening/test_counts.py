import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import beebo_scale as bs
from beebo_scale.screening import noise_from_counts
from tests.helpers import LAWS


def test_by_hand():
    """The wild type of Rubin et al. counts 99.5 -> 199.5 here."""
    value, variance = noise_from_counts([9, 0], [39, 4], reference=(99, 199))
    np.testing.assert_allclose(value, [np.log(39.5 / 9.5 / (199.5 / 99.5)), np.log(4.5 / 0.5 / (199.5 / 99.5))])
    np.testing.assert_allclose(variance, [1 / 9.5 + 1 / 39.5, 1 / 0.5 + 1 / 4.5])
    ratio, spread = noise_from_counts([9, 0], [39, 4], reference=(99, 199), log=False)
    np.testing.assert_allclose(ratio, np.exp(value))
    np.testing.assert_allclose(spread, ratio**2 * variance)


@pytest.mark.parametrize(("before", "after"), [(30, 12), (200, 900), (15, 15)])
def test_against_poisson_draws(before, after):
    rng = np.random.default_rng(0)
    value, variance = noise_from_counts(rng.poisson(before, 40_000), rng.poisson(after, 40_000))
    assert value.mean() == pytest.approx(np.log(after / before), abs=0.02)  # hardly biased
    assert variance.mean() == pytest.approx(value.var(), rel=0.05)
    z = (value - np.log(after / before)) / np.sqrt(variance)
    assert np.mean(np.abs(z) < 1.96) == pytest.approx(0.95, abs=0.015)


def test_ratio_against_poisson_draws():
    rng = np.random.default_rng(1)
    value, variance = noise_from_counts(rng.poisson(300, 40_000), rng.poisson(500, 40_000), log=False)
    assert value.mean() == pytest.approx(5 / 3, rel=0.01)
    assert variance.mean() == pytest.approx(value.var(), rel=0.05)


@LAWS
@given(st.integers(0, 10**9), st.integers(0, 10**9), st.floats(0.1, 10.0))
def test_swapping_input_and_selected_changes_the_sign_only(before, after, pseudocount):
    if before + after == 0:
        return
    value, variance = noise_from_counts([before], [after], pseudocount)
    back, same = noise_from_counts([after], [before], pseudocount)
    np.testing.assert_allclose(back, -value, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(same, variance, rtol=1e-12)
    more, less = noise_from_counts([before], [after + 100], pseudocount)
    assert more > value
    assert less < variance


def test_columns_of_a_frame_become_a_table_with_noise():
    frame = pd.DataFrame({"variant": ["AA", "AC", "CA"], "input": [10, 200, 30], "selected": [5, 900, 31]})
    frame["enrichment"], frame["variance"] = noise_from_counts(frame["input"], frame["selected"])
    table = bs.read_table(frame, "enrichment", features={"variant": "protein"}, noise_variance="variance")
    assert table.noise_variance.argmin() == 1


def test_published_fitness_of_gb1():
    """Wu et al. give the ratio relative to the wild type, VDGV."""
    frame = bs.datasets.gb1()
    frame = frame[(frame["count_input"] > 20) & (frame["count_selected"] > 20)]
    wild = frame[frame["variant"] == "VDGV"].iloc[0]
    reference = (wild["count_input"], wild["count_selected"])
    ratio, _ = noise_from_counts(
        frame["count_input"], frame["count_selected"], pseudocount=1e-9, reference=reference, log=False
    )
    assert np.mean(np.abs(ratio / frame["fitness"] - 1) < 1e-6) > 0.99  # a few were computed otherwise


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (([1, -2], [3, 4]), r"input is negative in row 2; give the counts"),
        (([1, 2], [3, 4.5]), "selected is not a whole number in row 2"),
        (([1, np.nan], [3, 4]), "input is missing or infinite in row 2"),
        (([1, 0, 0], [3, 0, 0]), "both 0 in rows 2, 3; leave"),
        (([1, 2], [3]), "2 input and 1 selected"),
        ((["a"], [3]), "something else than numbers"),
        (([[1]], [3]), "shape"),
        (([1], [3], 0.0), "pseudocount = 0.0"),
        (([1], [3], np.nan), "pseudocount = nan"),
    ],
)
def test_what_are_no_counts(arguments, match):
    with pytest.raises(bs.InputError, match=match):
        noise_from_counts(*arguments)


def test_a_reference_that_is_none():
    with pytest.raises(bs.InputError, match="reference is negative"):
        noise_from_counts([1], [3], reference=(-1, 2))
