import os
import subprocess

import pytest
import torch

from beebo_scale.cli.main import main
from beebo_scale.errors import InputError
from beebo_scale.training.callbacks import AtomicCheckpointIO
from tests.training.runs import screen


class Bomb:
    """Fails when it is pickled, after much else was written."""

    def __reduce__(self):
        raise RuntimeError("power cut")


def test_a_checkpoint_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "runs" / "last.ckpt"
    writer = AtomicCheckpointIO()
    writer.save_checkpoint({"x": torch.ones(3)}, path)
    with pytest.raises(InputError, match="cannot be written"):
        writer.save_checkpoint({"x": torch.zeros(100_000), "bomb": Bomb()}, str(path))
    assert torch.equal(torch.load(path)["x"], torch.ones(3))
    assert os.listdir(path.parent) == ["last.ckpt"]


def test_what_a_kill_left_is_cleared_away(tmp_path):
    (tmp_path / ".0123abcd.last.ckpt").write_bytes(b"half")
    (tmp_path / ".0123abcd.best.ckpt").write_bytes(b"another one's")
    AtomicCheckpointIO().save_checkpoint({"x": 1}, tmp_path / "last.ckpt")
    assert sorted(os.listdir(tmp_path)) == [".0123abcd.best.ckpt", "last.ckpt"]


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 64 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small disk needs root")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.process
def test_a_full_disk_is_one_line_and_leaves_the_old_checkpoint(small_disk):
    path, writer = small_disk / "last.ckpt", AtomicCheckpointIO()
    writer.save_checkpoint({"x": torch.ones(3)}, path)
    with pytest.raises(InputError, match=r"last\.ckpt cannot be written \(No space left on device\); free the place"):
        writer.save_checkpoint({"x": torch.zeros(100_000)}, path)
    assert torch.equal(torch.load(path)["x"], torch.ones(3))
    assert os.listdir(small_disk) == ["last.ckpt"]


@pytest.mark.process
def test_fit_on_a_full_disk_is_one_line(small_disk, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    file = screen(tmp_path / "s.csv", 4000)
    options = ["--data.file", file, "--data.target", "y", "--trainer.default_root_dir", str(small_disk)]
    assert main(["fit", *options, "--trainer.accelerator", "cpu"]) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("beebo-scale: ")]
    assert len(lines) == 1
    assert "No space left on device" in lines[0]
    assert not [path for path in small_disk.rglob(".*") if path.is_file()]
