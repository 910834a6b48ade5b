"""Files of tensors: the same bytes, whole or not at all, read only if undamaged."""

import os
import subprocess
import sys

import pytest
import torch

from beebo_scale import InputError, archives

CONTENT = {"a": torch.arange(5000.0), "b": [1, 2.5, "x"]}
REFUSAL = "{path}: not a thing ({why}); way out"


def test_the_same_content_gives_the_same_bytes(tmp_path):
    for name in ("one.ckpt", "two.ckpt"):
        archives.save(tmp_path / name, CONTENT)
    assert (tmp_path / "one.ckpt").read_bytes() == (tmp_path / "two.ckpt").read_bytes()
    again = archives.load(tmp_path / "two.ckpt", REFUSAL)
    assert torch.equal(again["a"], CONTENT["a"])
    assert again["b"] == CONTENT["b"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda whole: whole[:-700], "damaged or cut"),
        (lambda whole: whole[: len(whole) // 2], "damaged or cut"),
        (lambda whole: b"", "another kind"),
        (lambda whole: b"x,y\n1,2\n", "another kind"),
        (lambda whole: whole[:9000] + bytes([whole[9000] ^ 1]) + whole[9001:], "the sum of archive/data/0 is wrong"),
    ],
)
def test_damage_is_one_line(tmp_path, change, why):
    path = tmp_path / "{x}.ckpt"
    archives.save(path, CONTENT)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(InputError, match=rf"^.*\{{x\}}\.ckpt: not a thing \([^\n]*{why}[^\n]*\); way out$"):
        archives.load(path, REFUSAL)


def test_what_is_no_file(tmp_path):
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(InputError, match="not a thing"):
            archives.load(path, REFUSAL)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), RuntimeError("[enforce fail] pos 1 vs 2")])
def test_a_writer_that_fails_is_one_line(tmp_path, monkeypatch, error):
    def broken(content, file):
        file.write(b"half")
        raise error

    (tmp_path / "old.ckpt").write_bytes(b"old")
    monkeypatch.setattr(torch, "save", broken)
    with pytest.raises(
        InputError, match=r"old\.ckpt cannot be written \((No space left|\[enforce fail\]).*free the place"
    ):
        archives.save(tmp_path / "old.ckpt", CONTENT)
    assert os.listdir(tmp_path) == ["old.ckpt"]
    assert (tmp_path / "old.ckpt").read_bytes() == b"old"


LIMITED = """
import resource, sys, torch
from beebo_scale import InputError, archives
for limit in (0, 100, 1000, 10_000, 60_000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        archives.save("x.ckpt", {"a": torch.zeros(100_000)})
    except InputError as error:
        print(error)
"""


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="has no such limit")
def test_a_full_disk_is_one_line_wherever_it_comes(tmp_path):
    done = subprocess.run([sys.executable, "-c", LIMITED], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        done.stdout.splitlines()
        == ["x.ckpt cannot be written (File too large); free the place or give another path"] * 5
    )
    assert not os.listdir(tmp_path)
