"""Fit and predict by torchrun with two processes, against one process."""

import pandas as pd
import pytest
import torch

from beebo_scale.cli.main import main
from tests.distributed.torchrun import torchrun
from tests.training.runs import screen

pytestmark = pytest.mark.process
CONFIG = """
data: {file: %s, target: y, features: {x: continuous, z: continuous, c: categorical}, batch_size: 64, validation: 0.15}
model: {kind: svgp, inducing_points: 40, iterations: 10}
trainer: {max_epochs: 4, accelerator: cpu, enable_progress_bar: false}
"""


def curves(folder):
    return pd.concat(pd.read_csv(path) for path in folder.glob("logs/version_*/metrics.csv")).groupby("epoch").last()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("jobs")
    (folder / "c.yaml").write_text(CONFIG % screen(folder / "s.csv", 203))  # 30 validation rows, odd test rows
    assert main(["fit", "--config", f"{folder}/c.yaml", "--trainer.default_root_dir", f"{folder}/one"]) == 0
    (folder / "said").write_text(torchrun("fit_worker", 2, folder))
    return folder


def test_all_processes_hold_the_same_parameters(folder):
    first, second = (torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2))
    assert first.keys() == second.keys()
    assert any(name.endswith("lengthscale") for name in first)
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


def test_two_processes_train_as_one_does(folder):
    """The minibatches are the same, so that more than rounding would be an error."""
    one, two = curves(folder / "one"), curves(folder / "two")
    assert one.index.tolist() == two.index.tolist() == [0, 1, 2, 3]
    for name in ("train_loss", "val_rmse", "val_nlpd", "val_coverage95", "val_spearman"):
        torch.testing.assert_close(*(torch.tensor(run[name].to_numpy()) for run in (one, two)), rtol=1e-5, atol=1e-6)


def test_two_processes_predict_every_row_in_order(folder):
    command = ["predict", "--ckpt_path", f"{folder}/two/best.ckpt", "--data.file", f"{folder}/s.csv", "--data.id", "id"]
    assert main([*command, "--out", f"{folder}/one.csv", "--trainer.accelerator", "cpu"]) == 0
    one, two = (pd.read_csv(folder / f"{name}.csv") for name in ("one", "two"))
    assert two["id"].tolist() == [f"r{i}" for i in range(203)]
    pd.testing.assert_frame_equal(one, two, check_exact=False, rtol=1e-12)
    assert not list(folder.glob(".*part*"))


def test_bad_input_is_said_once(folder):
    said = (folder / "said").read_text()
    assert said.count("beebo-scale: data.batch_size = 63 does not divide among 2 processes; give a multiple") == 1
