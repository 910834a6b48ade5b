import statistics

import numpy as np
import pandas as pd
import pytest

from beebo_scale import InputError
from beebo_scale.screening.plates.layout import well_name
from beebo_scale.screening.plates.normalise import b_score, median_polish, outliers, percent_of_control, robust_z


def screen(seed=0):
    """Two plates of 96 in mixed order: rows, columns and plates have effects; column 1 holds controls."""
    rng = np.random.default_rng(seed)
    rows = []
    for plate in ("p2", "p1"):
        scale, shift = rng.uniform(1, 5), rng.uniform(-3, 3)
        for r in range(8):
            for c in range(12):
                role = ("negative" if r < 4 else "positive") if c == 0 else ""
                level = {"negative": 0.0, "positive": 10.0, "": rng.gamma(1.0)}[role]
                x = shift + scale * (level + 0.3 * r - 0.2 * c + 0.1 * rng.standard_normal())
                rows.append((plate, well_name(r, c), role, x))
    frame = pd.DataFrame(rows, columns=["plate", "well", "role", "x"])
    return frame.sample(frac=1, random_state=1).reset_index(drop=True)


def by_plate(frame):
    return [(frame["plate"] == plate).to_numpy() for plate in ("p1", "p2")]


def test_percent_of_control_by_hand():
    frame = pd.DataFrame(
        {
            "plate": [1, 1, 1, 1, 2, 2, 2],
            "role": ["negative", "positive", "positive", "", "negative", "positive", ""],
            "x": [2.0, 4.0, 6.0, 2.75, -1.0, -5.0, -6.0],
        }
    )
    np.testing.assert_allclose(percent_of_control(frame, "x", "plate", "role"), [0, 200 / 3, 400 / 3, 25, 0, 100, 125])
    np.testing.assert_allclose(
        percent_of_control(frame, "x", "plate", "role", zero=None), [40, 80, 120, 55, 20, 100, 120]
    )


def test_percent_of_control_takes_plates_out():
    frame = screen()
    percent = percent_of_control(frame, "x", "plate", "role")
    frame["moved"] = np.where(frame["plate"] == "p1", 7 * frame["x"] - 3, frame["x"])
    np.testing.assert_allclose(percent_of_control(frame, "moved", "plate", "role"), percent, rtol=1e-9, atol=1e-9)
    for here in by_plate(frame):
        assert percent[here & (frame["role"] == "negative")].mean() == pytest.approx(0, abs=1e-9)
        assert percent[here & (frame["role"] == "positive")].mean() == pytest.approx(100)


@pytest.mark.parametrize("reference", [None, "negative"])
def test_robust_z(reference):
    frame = screen()
    z = robust_z(frame, "x", "plate", None if reference is None else "role", reference)
    for here in by_plate(frame):
        x = frame["x"][here].tolist()
        wells = frame["x"][here & (frame["role"] == reference)].tolist() if reference else x
        middle = statistics.median(wells)
        mad = statistics.median([abs(value - middle) for value in wells])
        np.testing.assert_allclose(z[here], [(value - middle) / (1.4826 * mad) for value in x])


def test_robust_z_of_noise_has_unit_spread():
    frame = pd.DataFrame({"plate": 1, "x": np.random.default_rng(0).standard_normal(20_000) * 7 + 3})
    assert robust_z(frame, "x", "plate").std() == pytest.approx(1.0, rel=0.03)


def polished(grid):
    """Tukey's median polish with plain lists, from the definition."""
    grid = [list(row) for row in grid]
    for _ in range(200):
        for row in grid:
            middle = statistics.median([x for x in row if not np.isnan(x)])
            row[:] = [x - middle for x in row]
        for c in range(len(grid[0])):
            middle = statistics.median([row[c] for row in grid if not np.isnan(row[c])])
            for row in grid:
                row[c] -= middle
    return np.array(grid)


def test_b_score():
    frame = screen().iloc[:-5]  # some wells are empty
    score = b_score(frame, "x", "plate", "well")
    for here in by_plate(frame):
        grid = np.full((8, 12), np.nan)
        cells = [(ord(well[0]) - 65, int(well[1:]) - 1) for well in frame["well"][here]]
        for (r, c), x in zip(cells, frame["x"][here], strict=True):
            grid[r, c] = x
        rest = polished(grid)
        residuals = np.array([rest[cell] for cell in cells])
        mad = np.median(np.abs(residuals - np.median(residuals)))
        np.testing.assert_allclose(score[here], residuals / (1.4826 * mad), rtol=1e-9, atol=1e-9)


def test_b_score_takes_rows_and_columns_out():
    frame = screen()
    row = frame["well"].str[0].map(ord)
    column = frame["well"].str[1:].astype(int)
    frame["moved"] = frame["x"] + 5 * row + 0.7 * column**2
    before, after = b_score(frame, "x", "plate", "well"), b_score(frame, "moved", "plate", "well")
    assert np.corrcoef(before, after)[0, 1] > 0.99
    assert np.abs(np.corrcoef(after, row)[0, 1]) < 0.25


def test_wells_may_be_written_in_several_ways():
    frame = screen()
    other = frame.assign(well=[f" {w[0].lower()}{int(w[1:])}" for w in frame["well"]])
    np.testing.assert_array_equal(b_score(other, "x", "plate", "well"), b_score(frame, "x", "plate", "well"))


def test_median_polish_leaves_an_additive_table_empty():
    residuals = median_polish(np.arange(5.0)[:, None] + np.arange(7.0) ** 2)
    np.testing.assert_allclose(residuals, 0, atol=1e-12)
    hole = np.arange(5.0)[:, None] + np.arange(7.0) ** 2
    hole[2] = np.nan  # an empty row
    assert np.isnan(median_polish(hole)).sum() == 7


def test_outliers():
    y = np.random.default_rng(0).standard_normal(10_000)
    assert len(outliers(y)) == 0
    y[[17, 3000]] = [40.0, -12.0]
    assert outliers(y).tolist() == [17, 3000]
    assert outliers(1e6 + 1e-3 * y).tolist() == [17, 3000]
    assert outliers(y, threshold=20).tolist() == [17]
    assert len(outliers(np.array([0.0, 0.0, 0.0, 5.0]))) == 0  # no robust spread


BROKEN = {
    "no control": (
        lambda f: percent_of_control(f[f["role"] != "positive"], "x", "plate", "role"),
        "no 'positive' well",
    ),
    "equal controls": (
        lambda f: percent_of_control(f.assign(x=1.0), "x", "plate", "role"),
        "'p2' the mean of the 'positive' wells is the mean of its 'negative' wells",
    ),
    "no column": (lambda f: robust_z(f, "y", "plate"), "no measured column 'y'"),
    "no plate column": (lambda f: robust_z(f, "x", "Plate"), r"no plate layout column 'Plate' \(did you mean 'plate'"),
    "empty plate": (lambda f: robust_z(f.assign(plate=""), "x", "plate"), r"\(plate\) is empty in rows 1, 2, 3 and"),
    "empty well": (lambda f: robust_z(f.assign(x=[np.nan, *f["x"][1:]]), "x", "plate"), "infinite in row 1; leave"),
    "one reference well": (
        lambda f: robust_z(f.assign(role=["ref", *f["role"][1:]]), "x", "plate", "role", "ref"),
        "has . 'ref' wells, a spread takes 2",
    ),
    "half a reference": (lambda f: robust_z(f, "x", "plate", "role"), "both role and reference"),
    "constant plate": (lambda f: robust_z(f.assign(x=3.0), "x", "plate"), "no robust spread"),
    "additive plate": (
        lambda f: b_score(f.assign(x=1e3 + f["well"].str[1:].astype(float)), "x", "plate", "well"),
        "no robust spread",
    ),
    "no well": (
        lambda f: b_score(f.assign(well=["I1!", *f["well"][1:]]), "x", "plate", "well"),
        "'I1!' in row 1, which",
    ),
    "one well twice": (lambda f: b_score(f.assign(well="A01"), "x", "plate", "well"), "one well twice"),
    "text": (lambda f: robust_z(f.assign(x="high"), "x", "plate"), "is text"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_screens(case):
    step, match = BROKEN[case]
    with pytest.raises(InputError, match=match) as error:
        step(screen().reset_index(drop=True))
    assert "\n" not in str(error.value)
