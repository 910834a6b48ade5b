"""What `test_fit_distributed` starts: two processes that fit, say what they hold, predict, and are given bad input."""

import sys

import torch
import torch.distributed as dist

from beebo_scale.cli.main import main
from beebo_scale.cli.training import Command


def work(folder: str) -> None:
    torch.set_num_threads(1)
    fit = ["fit", "--config", f"{folder}/c.yaml", "--trainer.default_root_dir"]
    command = Command([*fit, f"{folder}/two"])
    torch.save(command.model.state_dict(), f"{folder}/{dist.get_rank()}.pt")
    predict = ["predict", "--ckpt_path", f"{folder}/two/best.ckpt", "--data.file", f"{folder}/s.csv", "--data.id", "id"]
    assert main([*predict, "--out", f"{folder}/two.csv", "--trainer.accelerator", "cpu"]) == 0
    assert main([*fit, f"{folder}/bad", "--data.batch_size", "63"]) == 2


if __name__ == "__main__":
    work(sys.argv[1])
