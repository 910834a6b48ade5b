import numpy as np
import pandas as pd
import pytest

from beebo_scale.screening.plates.grid import grids, read_grids
from beebo_scale.screening.plates.wells import SHAPES, well_name


def rows_of(values, left=1):
    """A grid as rows of cells, with `left` columns before its numbers."""
    height, width = values.shape
    head = [*[""] * left, *range(1, width + 1)]
    return [head, *([*[""] * (left - 1), well_name(r, 0)[:-2], *values[r].tolist()] for r in range(height))]


@pytest.mark.parametrize("plate", SHAPES)
@pytest.mark.parametrize("left", [1, 3])
def test_grids_of_all_plates(plate, left):
    values = np.random.default_rng(plate).normal(size=SHAPES[plate])
    rows = [
        ["Reader", "X"],
        [],
        ["Plate: R1-P1"],
        *rows_of(values, left),
        [],
        ["R1-P2"],
        *rows_of(-values, left),
        ["end"],
    ]
    one, two = grids(rows)
    assert one.titles[0] == "Plate: R1-P1"
    assert (two.titles[0], one.row) == ("R1-P2", 4)
    np.testing.assert_array_equal([float(v) for v in one.values.values()], values.ravel())
    np.testing.assert_array_equal([float(v) for v in two.values.values()], -values.ravel())
    assert list(one.values)[-1] == well_name(*(n - 1 for n in SHAPES[plate]))


@pytest.mark.parametrize(
    "rows",
    [
        [["variant", "y"], ["AA", 1.0], ["BB", 2.0]],
        [["", 1, 2, 3], ["A", 1, 2, 3], ["C", 1, 2, 3]],  # no second row B
        [["", 1, 2, 4], ["A", 1, 2, 3], ["B", 1, 2, 3]],
        [[1, 2, 3], [0.1, 0.2, 0.3], [0.1, 0.2, 0.3]],
        [["", 1, 2, 3], ["A", 1, 2, 3]],  # cut
        [],
    ],
)
def test_what_is_no_grid(rows):
    assert grids(rows) == []


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".txt", ".xlsx"])
def test_files(tmp_path, suffix):
    values = np.random.default_rng(0).normal(size=(8, 12)).round(3)
    path = tmp_path / f"out{suffix}"
    frame = pd.DataFrame([["R1-P1", *[""] * 12], *rows_of(values)])
    if suffix == ".xlsx":
        frame.to_excel(path, header=False, index=False)
    else:
        frame.to_csv(
            path,
            header=False,
            index=False,
            sep={".csv": ";"}.get(suffix, "\t"),
            decimal="," if suffix == ".csv" else ".",
        )
    (grid,) = read_grids(path)
    assert "R1-P1" in grid.titles
    np.testing.assert_array_equal([float(v.replace(",", ".")) for v in grid.values.values()], values.ravel())
