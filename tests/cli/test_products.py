"""Lists in place of a library, through the commands."""

from pathlib import Path

import pandas as pd
import pytest

import beebo_scale as bs
from beebo_scale.cli.main import main
from tests.product_cases import rows_of

CHOICES = ["--choices", "solvent:solvents.csv", "temp:20|40|60|80|100", "site:A|C|D|E|F|G|H|I|K|L|M|N"]
FEATURES = ["--features", "solvent:categorical", "temp:continuous", "site:protein"]
FIT = ["--target=y", "--transform=none", "--iterations=5", "-q=6"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A list with ids, and measured rows that name its blocks by them."""
    monkeypatch.chdir(tmp_path)
    names = {"THF": "S1", "DMF": "S2", "MeOH": "S3", "water": "S4"}
    pd.DataFrame({"solvent": names.keys(), "id": names.values()}).to_csv("solvents.csv", index=False)
    rows = rows_of(count=50)
    rows.assign(solvent=rows.solvent.map(names)).to_csv("screen.csv", index=False)
    rows.to_csv("by_content.csv", index=False)
    return tmp_path


@pytest.mark.slow
def test_suggest_and_propose(capsys):
    assert (
        main(["suggest", "--measured=screen.csv", *FIT, *FEATURES, *CHOICES, "--out=a.csv", "--save-model=m.ckpt"]) == 0
    )
    said = capsys.readouterr().out
    assert "4 solvent x 5 temp x 12 site: 240 products" in said
    batch = pd.read_csv("a.csv")
    assert batch.columns[:5].tolist() == ["rank", "product", "solvent", "temp", "site"]
    assert batch["product"].str.match(r"S\d\|\d+\|\w").all()
    assert bs.load_surrogate("m.ckpt").design.combine == "combinations"
    # The same by content, by a YAML file, and by the fitted surrogate.
    lists = {line.partition(":")[0]: line.partition(":")[2] for line in CHOICES[1:]}
    Path("lists.yaml").write_text("".join(f"{name}: {value}\n" for name, value in lists.items()))
    yaml = ["--choices", "lists.yaml"]
    assert main(["suggest", "--measured=by_content.csv", *FIT, *FEATURES, *yaml, "--out=b.csv"]) == 0
    assert main(["propose", "--surrogate=m.ckpt", "-q=6", *CHOICES, "--out=c.csv"]) == 0
    assert len({Path(name).read_text() for name in ("a.csv", "b.csv", "c.csv")}) == 1
    # Ids that are pending or excluded are not proposed.
    batch.iloc[:2][["product"]].to_csv("p.csv", index=False)
    batch.iloc[2:3][["product"]].to_csv("x.csv", index=False)
    more = ["--pending=p.csv", "--exclude=x.csv"]
    assert main(["propose", "--surrogate=m.ckpt", "-q=6", *CHOICES, *more, "--out=d.csv"]) == 0
    assert not set(pd.read_csv("d.csv")["product"]) & set(batch["product"][:3])


@pytest.mark.slow
def test_a_campaign(capsys):
    limits = ["--at-most", "solvent:2", "--incompatible", "temp > 80 and solvent == 'S1'"]
    start = ["campaign", "init", "c", "--measured=screen.csv", *FIT, *FEATURES, *CHOICES, *limits]
    assert main(start) == 0
    assert "240 products, 12 of them left out as incompatible" in capsys.readouterr().out
    known = rows_of().set_index(["solvent", "temp", "site"])["y"]
    for number in (1, 2):
        assert main(["campaign", "suggest", "c"]) == 0
        batch = pd.read_csv(f"c/rounds/round-00{number}.csv")
        assert batch["solvent"].value_counts().max() <= 2
        results = batch[["solvent", "temp", "site"]]
        results = results.assign(y=known.loc[list(map(tuple, results.to_numpy()))].to_numpy())
        results.to_csv("r.csv", index=False)
        assert main(["campaign", "record", "c", "--results=r.csv"]) == 0
    assert len(pd.read_csv("c/measured.csv")) == 62


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--choices", "solvent:solvents.csv", "temp:20|40"], "measured block|no id and no block"),
        (["--choices", "solvent:", "temp:20|40"], "is an empty list"),
        (["--choices", "solvent:solvents.csv", "temp:20|20"], "is there twice"),
        (["--choices", "solvent:solvents.csv", "solvent:solvents.csv"], "names 'solvent' twice"),
        ([*CHOICES, "--library=screen.csv"], "lists .* go with neither"),
        ([*CHOICES, "--incompatible", "temp > 0"], r"only 0 of its 240 rows can be proposed"),
        (["--incompatible", "temp > 0", "--library=screen.csv"], "--incompatible goes with --choices only"),
        ([*CHOICES, "--combine=product"], "--combine combinations"),
    ],
)
def test_bad_input_is_one_line(capsys, arguments, message):
    assert main(["suggest", "--measured=screen.csv", *FIT, *FEATURES, *arguments, "--out=a.csv"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert pd.Series([said]).str.contains(message).all(), said


def test_simulate(tmp_path, capsys):
    rows_of().to_csv("scores.csv", index=False)
    play = [
        "simulate",
        "--landscape=scores.csv",
        "--target=y",
        *FEATURES,
        *CHOICES,
        "--run-dir=s",
        "-q=6",
        "--rounds=1",
    ]
    assert main([*play, "--start=20", "--strategies", "random", "block-thompson"]) == 0
    assert "| block-thompson |" in capsys.readouterr().out
