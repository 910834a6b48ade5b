"""The functions of `beebo-scale simulate` by their names."""

import pytest

from beebo_scale.cli.main import main
from beebo_scale.simulation.problems.functions import FUNCTIONS


def test_help_names_all_functions(capsys):
    with pytest.raises(SystemExit):
        main(["simulate", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert all(f" {name}," in said or f", {name} " in said for name in FUNCTIONS)


@pytest.mark.slow
def test_an_embedded_function(tmp_path, capsys):
    options = ["--function=hartmann", "--dimension=20", "--effective=6", "--strategies=random", "-q=2", "--rounds=1"]
    assert main(["simulate", *options, f"--run-dir={tmp_path}"]) == 0
    assert "hartmann in 6 of 20 dimensions" in capsys.readouterr().out
    assert (tmp_path / "random-0" / "round-001.csv").read_text().splitlines()[0].endswith("x20,value")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--function=rover", "--dimension=50"], "rover with 50 inputs: it has 60"),
        (["--function=branin-noise", "--noise=1"], "branin-noise has noise of its own"),
        (["--function=levy", "--dimension=4", "--effective=4"], "effective = 4: give less than dimension = 4"),
        (["--function=ackley"], "ackley: give its dimension"),
        (["--function=rovre"], "there is no function 'rovre' (did you mean 'rover'?)"),
        (["--landscape=gb1", "--effective=4"], "--effective goes with --function only"),
    ],
)
def test_what_there_is_not_is_one_line(tmp_path, capsys, options, words):
    assert main(["simulate", *options, f"--run-dir={tmp_path / 'runs'}"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    assert words in lines[0]
    assert not list(tmp_path.iterdir())
