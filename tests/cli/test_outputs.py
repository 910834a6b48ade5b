"""No command writes over a file that it reads, or that somebody else made; all of them ask before anything runs."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import beebo_scale as bs
from beebo_scale import archives
from beebo_scale.cli.main import main
from beebo_scale.proposal.prepare import BATCH_COLUMNS
from beebo_scale.screening.outputs import LAST, PREDICTED
from beebo_scale.surrogates.data.target import Prediction
from beebo_scale.surrogates.surrogate import FILE_KEY

SUGGEST = ["suggest", "--measured=screen.csv", "--target=y", "--library=library.csv", "--q=2", "--iterations=3"]
FIT = ["fit", "--data.file=screen.csv", "--data.target=y", "--model.kind=exact"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    g = np.random.default_rng(0)
    frame = pd.DataFrame({"x": g.random(14), "z": g.random(14)})
    frame["y"] = np.sin(4 * frame["x"])
    frame.to_csv("screen.csv", index=False)
    pd.DataFrame({"x": g.random(8), "z": g.random(8)}).to_csv("library.csv", index=False)
    (tmp_path / "parts").mkdir()
    frame.to_parquet("parts/a.parquet")
    frame.to_csv("notes.csv", index=False)
    (tmp_path / "run").mkdir()
    archives.save("run/best.ckpt", {FILE_KEY: 1, "state_dict": {}})
    archives.save("own.ckpt", {FILE_KEY: 1})
    return tmp_path


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


CASES = {
    "somebody's table": ([*SUGGEST, "--out=notes.csv"], "notes.csv is there and is not, or no longer, what"),
    "a link to the input": ([*SUGGEST, "--out=link.csv"], "link.csv is also --measured"),
    "a map": ([*SUGGEST, "--out=n.csv", "--plate=96"], "n.plate.csv is there"),
    "a picture": ([*SUGGEST, "--out=p.csv", "--plate=96"], "p.plate.png is there"),
    "a run file": ([*SUGGEST, "--out=j.csv"], "j.run.json is there"),
    "rows left out": ([*SUGGEST, "--out=d.csv", "--drop-invalid"], "d.dropped.csv is there"),
    "pending": ([*SUGGEST, "--out=next.csv", "--pending=next.csv"], "next.csv is also --pending"),
    "a configuration": ([*SUGGEST, "--out=o.csv", "--config=c.yaml", "--save-model=c.yaml"], "c.yaml is also --config"),
    "a checkpoint of a fit": ([*SUGGEST, "--out=o.csv", "--save-model=run/best.ckpt"], "run/best.ckpt is there"),
    "the map as model": ([*SUGGEST, "--out=o.csv", "--plate=96", "--save-model=o.plate.csv"], "also written"),
    "a part of the library": (
        ["suggest", "--measured=screen.csv", "--target=y", "--library=parts", "--out=parts/b.parquet"],
        "parts/b.parquet would become part of --library parts",
    ),
    "propose": (
        ["propose", "--surrogate=own.ckpt", "--bounds", "x:0:1", "z:0:1", "--out=notes.csv"],
        "notes.csv is there",
    ),
    "a batch in a run folder": (
        ["propose", "--surrogate=own.ckpt", "--bounds", "x:0:1", "z:0:1", "--run-dir=."],
        "batch.csv is there",
    ),
    "predict": (
        ["predict", "--ckpt_path=own.ckpt", "--data.file=screen.csv", "--out=screen.csv"],
        "screen.csv is also --data.file",
    ),
    "predict elsewhere": (["predict", "--ckpt_path=own.ckpt", "--data.file=screen.csv", "--out=notes.csv"], "is there"),
    "a used folder": ([*FIT, "--trainer.default_root_dir=run"], "run holds another fit (best.ckpt)"),
    "another fit's checkpoint": (
        [*FIT, "--trainer.default_root_dir=run", "--ckpt_path=own.ckpt"],
        "run holds another fit (best.ckpt)",
    ),
    "report over a checkpoint": (["report", "--run=run", "--out=run/best.ckpt"], "run/best.ckpt is also --run"),
    "report over anything": (["report", "--run=run", "--out=notes.csv"], "notes.csv is there"),
    "simulate": (
        ["simulate", "--function=ackley", "--dimension=2", "--run-dir=.", "--strategies=random", "--rounds=1", "-q=2"],
        "rounds.csv is there",
    ),
    "simulate over its landscape": (
        [
            "simulate",
            "--landscape=rounds.csv",
            "--target=y",
            "--run-dir=.",
            "--strategies=random",
            "--rounds=1",
            "-q=2",
        ],
        "rounds.csv is also --landscape",
    ),
    "simulate in a folder": (
        [
            "simulate",
            "--function=ackley",
            "--dimension=2",
            "--run-dir=sims",
            "--strategies=random",
            "--rounds=1",
            "-q=2",
        ],
        "sims/random-0 is there and is no run of simulate",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_nothing_is_lost(case, folder, capsys):
    arguments, words = CASES[case]
    frame = pd.read_csv("screen.csv")
    for name in ("n.plate.csv", "d.dropped.csv", "batch.csv", "summary.csv"):
        frame.to_csv(name, index=False)
    frame.rename(columns={"x": "a"}).to_csv("rounds.csv", index=False)
    (folder / "sims" / "random-0").mkdir(parents=True)
    for name in ("p.plate.png", "j.run.json", "c.yaml", "sims/random-0/mine.txt"):
        (folder / name).write_text("temperature: 0.5\n")
    if case == "pending":
        frame.to_csv("next.csv", index=False)
    os.symlink("screen.csv", "link.csv")
    before = contents(folder)
    assert main(arguments) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("beebo-scale: ")]
    assert words in line
    after = contents(folder)
    assert {path: after[path] for path in before} == before
    assert not [path for path in after.keys() - before.keys() if path.name != "lock"]


@pytest.mark.slow
def test_a_command_may_be_given_again_until_somebody_worked_on_what_it_wrote(folder, capsys):
    command = [*SUGGEST, "--out=o.csv", "--plate=96", "--save-model=o.ckpt"]
    assert main(command) == main(command) == 0
    for path, words in (("o.csv", "o.csv is there"), ("o.plate.csv", "o.plate.csv is there")):
        before = Path(path).read_bytes()
        pd.read_csv(path).assign(y=1.0).to_csv(path, index=False)
        assert main(command) == 2
        assert words in capsys.readouterr().err
        Path(path).write_bytes(before)
    Path("o.csv").write_bytes(b"")  # nothing to lose
    assert main(command) == 0
    assert bs.load_surrogate("o.ckpt").target == "y"


def test_the_forms_know_the_columns_of_predictions_and_batches():
    assert Prediction.names() == PREDICTED
    assert ("rank", *LAST) == BATCH_COLUMNS


@pytest.mark.slow
def test_a_batch_of_several_targets_and_predictions_may_be_written_again():
    pd.read_csv("screen.csv").assign(v=lambda frame: frame["x"] + frame["z"]).to_csv("two.csv", index=False)
    command = [*SUGGEST, "--measured=two.csv", "--target=y:1,v:-1", "--out=o.csv", "--plate=96", "--save-model=o.ckpt"]
    assert main(command) == main(command) == 0
    assert "noiseless_std of v" in pd.read_csv("o.csv")
    command = [*SUGGEST, "--out=p.csv", "--save-model=p.ckpt"]
    assert main(command) == 0
    predict = ["predict", "--ckpt_path=p.ckpt", "--data.file=library.csv", "--out=found.csv"]
    assert main(predict) == main(predict) == 0
    assert list(pd.read_csv("found.csv")) == ["row", *PREDICTED]


@pytest.mark.slow
def test_an_interrupt_says_what_stands(folder, capsys, monkeypatch):
    """At each move into place in turn: what is named stands, and nothing else does."""
    made = ["o.ckpt", "o.plate.csv", "o.plate.png", "o.run.json", "o.csv"]
    replace = os.replace
    for count, when in [(0, "before"), *((i, "after") for i in range(len(made)))]:
        moves = []

        def interrupted(source, target, moves=moves, count=count, when=when):
            moves.append(target)
            if len(moves) == count + 1 and when == "before":
                raise KeyboardInterrupt
            replace(source, target)
            if len(moves) == count + 1:
                raise KeyboardInterrupt

        for name in made:
            Path(name).unlink(missing_ok=True)
        monkeypatch.setattr(os, "replace", interrupted)
        assert main([*SUGGEST, "--out=o.csv", "--plate=96", "--save-model=o.ckpt"]) == 130
        monkeypatch.setattr(os, "replace", replace)
        stand = [name for name in made if Path(name).exists()]
        assert stand == made[: count + (when == "after")]
        words = f"written and complete: {', '.join(stand)}" if stand else "nothing was written"
        assert capsys.readouterr().err == f"beebo-scale: interrupted, {words}\n"


@pytest.mark.slow
def test_a_disk_that_is_full_at_any_write_is_one_line(folder, capsys, monkeypatch):
    import errno

    fsync, before = os.fsync, contents(folder)
    for count in (0, 1, 4):
        calls = []

        def full(number, calls=calls, count=count):
            calls.append(number)
            if len(calls) > count:
                raise OSError(errno.ENOSPC, "No space left on device")
            fsync(number)

        monkeypatch.setattr(os, "fsync", full)
        assert main([*SUGGEST, "--out=o.csv", "--plate=96", "--save-model=o.ckpt"]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "cannot be written (No space left on device); free the place" in line
        assert not [path for path in folder.rglob(".*") if path.is_file()]
        assert {path: content for path, content in contents(folder).items() if path in before} == before
