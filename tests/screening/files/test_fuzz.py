"""Whatever a file holds, it is read rightly or refused in one line that names it."""

import numpy as np
import pytest

from beebo_scale import InputError, read_library, read_table
from tests.screening.files.fuzz import KINDS, fuzzed

FILES = 320


def read(file, reader):
    """What a reader makes of a file; None if it refuses it."""
    try:
        return reader()
    except InputError as error:
        text = str(error)
        assert "\n" not in text, text
        assert file.path.name in text, text
        return None


@pytest.mark.slow
def test_files_by_chance_are_read_rightly_or_refused_in_one_line(tmp_path):
    outcomes = {"right": 0, "refused": 0, "damaged": 0}
    for seed in range(FILES):
        file = fuzzed(tmp_path, seed)
        try:
            table = read(file, lambda file=file: read_table(file.path, "y", features=KINDS))
            library = read(file, lambda file=file: read_library(file.path, KINDS))
            read(file, lambda file=file: read_table(file.path, "y"))
        except Exception as error:
            raise AssertionError(f"seed {seed}, {file.path.name}, {file.recipe}: {error!r}") from error
        if file.whole:
            told = f"seed {seed}, {file.path.name}, {file.recipe}"
            measured = ~np.isnan(file.y)
            for found, rows in ((table, measured), (library, np.ones_like(measured))):
                if found is not None:
                    assert np.array_equal(found.frame["a"].to_numpy(), file.a[rows]), told
                    assert found.frame["base"].tolist() == [b for b, r in zip(file.base, rows, strict=True) if r], told
            assert table is None or np.array_equal(table.y, file.y[measured]), told
        outcomes["damaged" if not file.whole else "refused" if table is None or library is None else "right"] += 1
    assert outcomes["right"] > FILES / 3, outcomes
    assert outcomes["refused"] < FILES / 6, outcomes  # what is whole and yet refused leaves a doubt
    print(outcomes)
