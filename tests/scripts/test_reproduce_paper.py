"""The reproduction of the paper: a tiny one from end to end, and how figures are judged."""

import json

import pandas as pd
import pytest

from tests.scripts.paper import module

pytest.importorskip("matplotlib")


@pytest.fixture
def script():
    """Import a script by name."""
    return module


@pytest.mark.slow
def test_a_tiny_one_and_after_a_kill(script, tmp_path, capsys):
    main = script("reproduce_paper").main
    words = ["--smoke", "--work", str(tmp_path), "--methods", "default", "mean-beebo", "random"]
    assert main([*words, "--report"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(words) == 0
    lines = (tmp_path / "paper_runs.jsonl").read_text().splitlines()
    assert len(lines) == 2 * 3 * 2  # problems, methods, seeds
    figures = json.loads(lines[0])
    assert (figures["normalised"][0], len(figures["normalised"]), len(figures["fit_seconds"])) == (0.0, 3, 2)
    page = (tmp_path / "paper_tables.md").read_text()
    for head in (
        "## In all",
        "## One default against all that is published",
        "## Regret of the last batch, T' = 0.5",
        "## Is mean-beebo better? Best so far",
        "## Not run",
    ):
        assert head in page
    assert "| kb-logei |  | levy-2, cosine-8 | 4 |" in page  # planned and not asked for
    assert (tmp_path / "paper_levy.png").read_bytes().startswith(b"\x89PNG")
    # a kill while the last line was written: the run stands in its folder and is not done again
    (tmp_path / "paper_runs.jsonl").write_text("\n".join([*lines[:-1], lines[-1][:40]]))
    assert main([*words, "--report"]) == 0
    assert "| random |  | cosine-8 | 1 |" in (tmp_path / "paper_tables.md").read_text()
    assert main(words) == 0
    again = (tmp_path / "paper_runs.jsonl").read_text().splitlines()
    assert [*again[:-2], again[-1]] == lines
    assert (tmp_path / "paper_tables.md").read_text() == page


def test_cells_are_counted(script):
    """Ackley in 50 inputs by meanBEEBO at T' = 0.5: 0.342 and 0.738 are published."""
    case = {"problem": "ackley", "d": 50, "method": "mean-beebo", "temperature": 0.5, "last_regret": 0.738}
    runs = pd.DataFrame([{**case, "seed": k, "last_normalised": 0.9 + 0.02 * k} for k in range(3)])
    alone = runs.assign(method="default", temperature=float("nan"))  # there is nothing to compare it with
    found = script("paper_page").cells(pd.concat([runs, alone]))
    assert found[0] == "Best so far: 1 cells better, 0 within, 0 worse, of 1."
    assert found[1] == "Regret of the last batch: 0 cells better, 1 within, 0 worse, of 1."
    assert "in 9% of the cells" in found[2]  # P(t < -2) with two degrees of freedom: 0.092


def test_the_published_figures(script):
    published = script("paper_published")
    known = published.tables()
    assert known["normalised", "ackley", 50, "mean-beebo", 0.5] == published.Published(0.342, 10)
    assert known["regret", "shekel", 4, "max-beebo", 5.0] == published.Published(0.695, 10)
    assert known["normalised", "hartmann", 6, "kb-logei", None] == published.Published(0.988, 5)
    assert len(known) == 2 * 33 * (3 * 3 + 5)


def test_the_five_replicates_are_the_first_of_the_ten(script):
    """Or twice the mean of the ten less that of the five could be anything; no best-so-far is above one."""
    published = script("paper_published")
    ten = pd.read_csv(published.FOLDER / "bee_bo_ten_replicates.csv", dtype={"sqrt_kappa": str})
    for kappa in published.KAPPAS.values():
        five = pd.read_csv(published.FOLDER / f"best_so_far_{kappa}.csv").set_index(["problem", "dim"])
        part = ten[(ten.figure == "best_so_far") & (ten.sqrt_kappa == kappa)].set_index(["problem", "dim"])
        for column in ("beebo", "maxbeebo", "qucb"):
            other = 2.0 * part[column] - five[column]
            assert other.between(0.0, 1.0 + 2e-3).all()
    assert 0.01 < published.halves_error("normalised") < 0.1


@pytest.mark.parametrize(
    ("values", "mean", "larger", "said"),
    [
        ([0.90, 0.92, 0.94, 0.96, 0.98], 0.97, True, "="),  # s = 0.0316, error of the difference with ten 0.0173
        ([0.90, 0.92, 0.94, 0.96, 0.98], 0.98, True, "-"),
        ([0.90, 0.92, 0.94, 0.96, 0.98], 0.98, False, "+"),
        ([1.0, 1.0, 1.0], 0.9996, True, "="),  # rounding
        ([1.0, 1.0, 1.0], 0.999, True, "+"),
        ([1.0], 0.5, True, ""),
    ],
)
def test_verdicts(script, values, mean, larger, said):
    published = script("paper_published")
    assert published.verdict(values, published.Published(mean, 10), larger) == said
    assert published.verdict(values, None, larger) == ""
