import gzip
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from beebo_scale.errors import InputError
from beebo_scale.screening.batch import Batch, atomic_write, check_output, run_path


def batch(**run):
    frame = pd.DataFrame(
        {
            "rank": [1, 2],
            "id": ["007", "x"],
            "variant": ["VDGV", "ADGV"],
            "mean": [0.1 + 0.2, 1e-300],
            "std": [1 / 3, 2.0],
            "gain": [np.pi, np.nan],
        }
    )
    return Batch(frame, {"seed": 0, **run})


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_written_batches_read_back_exactly(tmp_path, suffix):
    path = tmp_path / f"next{suffix}"
    batch().write(path)
    if suffix == ".parquet":
        read = pd.read_parquet(path)
    else:
        # Python's own parser: that of pandas may be off by one bit
        read = pd.read_csv(path, dtype=str, keep_default_na=False).replace("", "nan")
        read = read.astype({"rank": int, "mean": float, "std": float, "gain": float})
    pd.testing.assert_frame_equal(read, batch().frame, check_dtype=False, check_exact=True)
    assert json.loads((tmp_path / "next.run.json").read_text()) == {"seed": 0}
    assert sorted(os.listdir(tmp_path)) == sorted([f"next{suffix}", "next.run.json"])


def test_csv_is_plain_text_with_full_floats(tmp_path):
    batch().write(str(tmp_path / "next.csv"))
    text = (tmp_path / "next.csv").read_bytes().decode()
    assert text.splitlines()[:2] == [
        "rank,id,variant,mean,std,gain",
        "1,007,VDGV,0.30000000000000004,0.3333333333333333,3.141592653589793",
    ]
    assert "\r" not in text


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_the_same_batch_gives_the_same_bytes(tmp_path, suffix):
    one, two = tmp_path / f"one{suffix}", tmp_path / f"two{suffix}"
    batch().write(one)
    batch().write(two)
    assert one.read_bytes() == two.read_bytes()
    if suffix == ".csv.gz":
        assert gzip.decompress(one.read_bytes()).startswith(b"rank,")


def test_run_file_is_strict_json(tmp_path):
    run = {"error": float("nan"), "top": [np.float64("inf"), (np.int64(3), True, None)], "x": np.array([1.0, np.nan])}
    batch(**run, name="größe", path=Path("a.csv")).write(tmp_path / "next.csv")
    text = (tmp_path / "next.run.json").read_text(encoding="utf-8")

    def refuse(token):
        raise AssertionError(token)

    read = json.loads(text, parse_constant=refuse)
    assert read == {
        "seed": 0,
        "error": None,
        "top": [None, [3, True, None]],
        "x": [1.0, None],
        "name": "größe",
        "path": "a.csv",
    }


def test_files_have_usual_permissions(tmp_path):
    (tmp_path / "plain").touch()
    batch().write(tmp_path / "next.csv")
    assert (tmp_path / "next.csv").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize(
    ("name", "run"), [("next.csv", "next.run.json"), ("a.b.csv.gz", "a.b.run.json"), ("N.PARQUET", "N.run.json")]
)
def test_run_path(name, run):
    assert run_path(Path("out") / name) == Path("out") / run


# --- atomicity -------------------------------------------------------------------------------------------


def old_files(folder):
    for name in ("next.csv", "next.run.json"):
        (folder / name).write_text("old")


def assert_untouched(folder, names):
    assert sorted(os.listdir(folder)) == sorted(names)
    assert all((folder / name).read_text() == "old" for name in names)


@pytest.mark.parametrize("error", [RuntimeError("no"), KeyboardInterrupt()])
@pytest.mark.parametrize("exists", [True, False])
def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch, error, exists):
    if exists:
        old_files(tmp_path)

    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(pd.DataFrame, "to_csv", fail)
    with pytest.raises(type(error)):
        batch().write(tmp_path / "next.csv")
    assert_untouched(tmp_path, ["next.csv", "next.run.json"] if exists else [])


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path, monkeypatch):
    old_files(tmp_path)

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"cannot be written .No space left on device."):
        batch().write(tmp_path / "next.csv")
    assert_untouched(tmp_path, ["next.csv", "next.run.json"])


def test_a_run_that_is_no_json_leaves_nothing(tmp_path):
    with pytest.raises(TypeError):
        batch(model=object()).write(tmp_path / "next.csv")
    assert os.listdir(tmp_path) == []


def test_the_run_file_is_in_place_before_the_batch(tmp_path, monkeypatch):
    moved = []
    replace = os.replace

    def note(source, target):
        moved.append(Path(target).name)
        assert (Path(source).parent, Path(source).suffix) == (tmp_path, Path(target).suffix)
        replace(source, target)

    monkeypatch.setattr(os, "replace", note)
    batch().write(tmp_path / "next.csv")
    assert moved == ["next.run.json", "next.csv"]


def test_atomic_write(tmp_path):
    path = tmp_path / "model.ckpt"
    atomic_write(path, lambda temporary: temporary.write_text("one"))
    assert path.read_text() == "one"

    def half(temporary):
        temporary.write_text("tw")
        assert path.read_text() == "one"
        raise RuntimeError

    with pytest.raises(RuntimeError):
        atomic_write(str(path), half)
    assert path.read_text() == "one"
    assert os.listdir(tmp_path) == ["model.ckpt"]


# --- paths that cannot be written ------------------------------------------------------------------------


def test_check_output_accepts_and_creates_nothing(tmp_path):
    assert check_output(str(tmp_path / "next.csv.gz")) == tmp_path / "next.csv.gz"
    assert check_output("next.parquet") == Path("next.parquet")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["next.json", "next", "next.csv.xz", ".csv"])
def test_unknown_suffix(tmp_path, name):
    with pytest.raises(InputError, match=rf"{name}: .*\.csv, \.csv\.gz or \.parquet"):
        check_output(tmp_path / name)


def test_folders_that_do_not_do(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"next\.csv: the folder .*missing.* does not exist"):
        check_output(tmp_path / "missing" / "next.csv")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file, not a folder"):
        check_output(tmp_path / "file" / "next.csv")
    (tmp_path / "dir.csv").mkdir()
    with pytest.raises(InputError, match=r"dir\.csv is a folder"):
        check_output(tmp_path / "dir.csv")
    (tmp_path / "next.run.json").mkdir()
    with pytest.raises(InputError, match=r"next\.run\.json is a folder"):
        batch().write(tmp_path / "next.csv")
    monkeypatch.setattr(os, "access", lambda *args: False)
    with pytest.raises(InputError, match="read-only"):
        check_output(tmp_path / "other.csv")
