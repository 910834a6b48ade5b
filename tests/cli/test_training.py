"""`beebo-scale fit | validate | test | predict | report` as a modeller types them."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import beebo_scale as bs
from beebo_scale.cli.main import main
from tests.training.runs import KINDS, screen

ROOT = Path(__file__).parents[2]
CONFIG = """
data: {file: s.csv, target: y, features: {x: continuous, z: continuous, c: categorical}, id: id, batch_size: 64}
model: {kind: svgp, inducing_points: 60, iterations: 10}
trainer: {max_epochs: 3, accelerator: cpu, enable_progress_bar: false, default_root_dir: runs/a}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    screen("s.csv")
    (tmp_path / "c.yaml").write_text(CONFIG)
    return tmp_path


@pytest.fixture
def fitted():
    assert main(["fit", "--config", "c.yaml"]) == 0


def epochs():
    logs = pd.concat(pd.read_csv(path) for path in sorted(Path("runs/a").glob("logs/*/metrics.csv")))
    return sorted(logs["epoch"].unique())


@pytest.mark.slow
def test_fit_writes_a_run_that_the_other_commands_read(fitted, capsys):
    surrogate = bs.load_surrogate("runs/a/best.ckpt")
    assert surrogate.encoder.kinds == KINDS
    assert epochs() == [0, 1, 2]
    for command, prefix in (("validate", "val"), ("test", "test")):
        assert main([command, "--config", "c.yaml", "--ckpt_path", "runs/a/last.ckpt"]) == 0
        assert f"{prefix}_nlpd" in capsys.readouterr().out
    assert main(["report", "--run", "runs/a", "--out", "page.html"]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("out", ["pred.csv", "pred.parquet"])
def test_predict_needs_the_checkpoint_and_a_file_alone(fitted, out):
    rows = pd.DataFrame({"name": [f"m{i}" for i in range(2500)], "c": "b", "z": 0.5, "x": np.linspace(0, 12, 2500)})
    rows.to_csv("rows.csv", index=False)
    command = [
        "predict",
        "--ckpt_path",
        "runs/a/best.ckpt",
        "--data.file",
        "rows.csv",
        "--data.id",
        "name",
        "--out",
        out,
    ]
    assert main([*command, "--trainer.enable_progress_bar=false"]) == 0
    found = pd.read_csv(out) if out.endswith("csv") else pd.read_parquet(out)
    assert found["row"].tolist() == list(range(1, 2501))
    assert found["name"].tolist() == rows["name"].tolist()
    surrogate = bs.load_surrogate("runs/a/best.ckpt")
    mean, std = surrogate.predict(bs.read_library("rows.csv", KINDS))
    np.testing.assert_allclose(found["mean"], mean, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found["std"], std, rtol=1e-9)
    assert not [name for name in os.listdir() if "part" in name]


@pytest.mark.slow
def test_the_same_command_goes_on_and_then_does_nothing(fitted):
    assert main(["fit", "--config", "c.yaml", "--ckpt_path", "last", "--trainer.max_epochs", "5"]) == 0
    assert epochs() == [0, 1, 2, 3, 4]
    before = torch.load("runs/a/last.ckpt", weights_only=True)
    assert before["epoch"] == 4
    assert main(["fit", "--config", "c.yaml", "--ckpt_path", "last", "--trainer.max_epochs", "5"]) == 0
    assert torch.load("runs/a/last.ckpt", weights_only=True)["global_step"] == before["global_step"]


@pytest.mark.slow
def test_ckpt_path_last_starts_where_nothing_is_there():
    assert main(["fit", "--config", "c.yaml", "--ckpt_path", "last", "--trainer.max_epochs", "1"]) == 0
    assert epochs() == [0]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_surrogate_and_options_override(folder):
    for name, seed in (("one", 0), ("two", 0), ("three", 1)):
        options = ["--trainer.default_root_dir", name, "--seed_everything", str(seed), "--trainer.max_epochs", "1"]
        assert main(["fit", "--config", "c.yaml", *options, "--model.inducing_points", "25"]) == 0
    one, two, three = (bs.load_surrogate(f"{name}/last.ckpt") for name in ("one", "two", "three"))
    assert len(one.recipe.Z) == 25
    assert torch.equal(one.recipe.weights, two.recipe.weights)
    assert not torch.equal(one.data.y, three.data.y)  # another split


@pytest.mark.slow
def test_early_stopping_stops():
    options = ["--early_stopping.patience", "1", "--early_stopping.min_delta", "10", "--trainer.max_epochs", "9"]
    assert main(["fit", "--config", "c.yaml", *options]) == 0
    assert epochs() == [0, 1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exact", "blocks", "love", "sgpr", "svgp", "svgp_ddp"])
def test_the_example_configurations_fit(name):
    options = ["--data.file", "s.csv", "--data.target", "y", "--data.id", "id", "--data.batch_size", "64"]
    options += ["--model.inducing_points", "30", "--model.iterations", "5"]
    options += ["--trainer.max_epochs", "1", "--trainer.accelerator", "cpu", "--trainer.strategy", "auto"]
    assert main(["fit", "--config", str(ROOT / "configs" / f"{name}.yaml"), *options, "--model.rank", "30"]) == 0
    surrogate = bs.load_surrogate(f"runs/{name}/last.ckpt")
    assert surrogate.kind == name.removesuffix("_ddp")
    assert surrogate.encoder.kinds == KINDS


REFUSED = {
    "unknown key": ("fit", {"model.indcing_points": "9"}, ["indcing_points", "beebo-scale fit --help"]),
    "unknown key in the file": ("fit", {"config": "bad.yaml"}, ["lerning_rate"]),
    "wrong type": ("fit", {"model.lr": "fast"}, ["model.lr", "fast"]),
    "no such kind": ("fit", {"model.kind": "svpg"}, ["svpg"]),
    "robust but exact": (
        "fit",
        {"model.kind": "exact", "model.likelihood": "student-t"},
        ["a robust fit is one by svgp"],
    ),
    "no file": ("fit", {"data.file": "t.csv"}, ["t.csv: no such file", "did you mean 's.csv'"]),
    "text target": ("fit", {"data.target": "c"}, ["is the target and a feature"]),
    "target of text": (
        "fit",
        {"data.target": "id", "data.id": "null"},
        ["s.csv: column 'id' is text ('r0' in rows 1, 2"],
    ),
    "nothing to learn from": ("fit", {"data.validation": "0.5", "data.test": "0.5"}, ["leaves no rows to learn from"]),
    "one group": (
        "fit",
        {"data.split_by": "group", "data.split_column": "g", "data.file": "g.csv"},
        ["all 240 rows are one of the groups of column 'g'"],
    ),
    "batch above N": ("fit", {"data.batch_size": "4096"}, ["batch_size = 4096, but there are 192"]),
    "no checkpoint given": ("predict", {"out": "p.csv"}, ["predict needs the checkpoint of a fit"]),
    "no such checkpoint": ("test", {"ckpt_path": "x.ckpt"}, ["x.ckpt: no such checkpoint"]),
    "not a checkpoint": ("predict", {"out": "p.csv", "ckpt_path": "s.csv"}, ["s.csv"]),
    "odd output": ("predict", {"out": "p.txt", "ckpt_path": "m.ckpt"}, ["p.txt", ".csv"]),
    "no run": ("report", {"run": "runs/b", "config": None}, ["runs/b: no such folder"]),
    "bad step": ("fit", {"model.natural_lr": "2"}, ["natural_lr = 2"]),
    "root folder is a file": ("fit", {"trainer.default_root_dir": "s.csv"}, ["s.csv"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_one_line(case, folder, capsys):
    command, options, words = REFUSED[case]
    (folder / "bad.yaml").write_text(CONFIG + "optimizer: {lerning_rate: 3}\n")
    screen("g.csv", g="all")
    torch.save({"state_dict": {}}, "m.ckpt")
    options = {"config": "c.yaml"} | options
    arguments = [f"--{name}={value}" for name, value in options.items() if value is not None]
    capsys.readouterr()
    assert main([command, *arguments]) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("beebo-scale: ")]
    assert len(lines) == 1
    for word in words:
        assert word in lines[0]
    assert not (folder / "p.csv").exists()


@pytest.mark.parametrize("name", ["RANK", "LOCAL_RANK"])  # of torchrun, and of Lightning's own processes
def test_what_all_processes_meet_is_said_by_the_first(name, monkeypatch, capsys):
    for rank, lines in (("0", 1), ("1", 0)):
        monkeypatch.setenv(name, rank)
        assert main(["report", "--run", "runs/b"]) == 2
        assert len(capsys.readouterr().err.splitlines()) == lines


@pytest.mark.process
def test_other_commands_do_not_wait_for_lightning():
    code = (
        "import sys; from beebo_scale.cli.main import build_parser; build_parser(); print('lightning' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


@pytest.mark.process
def test_the_slurm_script_is_a_script():
    script = ROOT / "scripts" / "slurm_fit.sbatch"
    subprocess.run(["bash", "-n", str(script)], check=True)
    text = script.read_text()
    assert "--ckpt_path last" in text
    assert "#SBATCH --requeue" in text


@pytest.mark.slow
def test_what_an_earlier_version_wrote_is_read_or_refused_with_the_way_out(fitted, capsys):
    old = torch.load("runs/a/last.ckpt", weights_only=True)
    old["hyper_parameters"]["start_iterations"] = 100
    torch.save(old, "runs/a/old.ckpt")
    assert main(["validate", "--config", "c.yaml", "--ckpt_path", "runs/a/old.ckpt"]) == 0
    assert main(["fit", "--config", "c.yaml", "--trainer.max_epochs", "4", "--ckpt_path", "runs/a/old.ckpt"]) == 0
    Path("old.yaml").write_text(CONFIG.replace("iterations", "start_iterations"))
    capsys.readouterr()
    assert main(["fit", "--config", "old.yaml"]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "model.start_iterations is a setting of an earlier version" in line
    assert "model.iterations" in line


# --- files of other commands -----------------------------------------------------------------------------


@pytest.fixture
def model():
    surrogate = bs.fit(bs.read_table("s.csv", "y", features=KINDS, id="id"), "exact", iterations=5)
    surrogate.save("model.ckpt")
    return surrogate


@pytest.mark.slow
def test_predict_takes_a_model_of_suggest(model, capsys):
    command = ["predict", "--ckpt_path", "model.ckpt", "--data.file", "s.csv", "--data.id", "id", "--out", "p.csv"]
    assert main([*command, "--trainer.enable_progress_bar=false"]) == 0
    mean, std = model.predict(bs.read_library("s.csv", KINDS))
    found = pd.read_csv("p.csv")
    np.testing.assert_allclose(found["mean"], mean, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found["std"], std, rtol=1e-9)
    capsys.readouterr()
    for other in ("validate", "test", "fit"):
        assert main([other, "--config", "c.yaml", "--ckpt_path", "model.ckpt"]) == 2
        assert f"model.ckpt is a model, which predict takes; {other} needs a checkpoint" in capsys.readouterr().err


def flipped(path, place):
    whole = bytearray(Path(path).read_bytes())
    whole[place] ^= 1
    Path(path).write_bytes(whole)


@pytest.mark.slow
def test_damage_in_what_a_fit_left(fitted, capsys):
    rows, meta = (next(Path("runs/a/cache").glob(f"{form}")) for form in ("*.rows", "[!s]*.pt"))
    start = next(Path("runs/a/cache").glob("start-*.pt"))
    for path, place, commands in (
        (rows, 500, ["test", "report"]),
        (meta, 2000, ["test", "report"]),
        (start, 1000, ["fit"]),
        (Path("runs/a/best.ckpt"), 30_000, ["test", "report", "fit"]),
    ):
        flipped(path, place)
        for command in commands:
            arguments = ["--config", "c.yaml", "--ckpt_path", "runs/a/best.ckpt"]
            assert main([command, *(["--run", "runs/a"] if command == "report" else arguments)]) == 2, command
            (line,) = capsys.readouterr().err.splitlines()
            assert path.name in line
            assert "damaged" in line
        flipped(path, place)
    assert main(["test", "--config", "c.yaml", "--ckpt_path", "runs/a/best.ckpt"]) == 0
