"""One holder at a time, who is named; what is left of a killed one does not matter."""

import os
import threading
import time

import pytest

from beebo_scale import InputError
from beebo_scale.locks import locked


def hold(folder, wait=0.0):
    return locked(folder / "lock", "another job", "wait for it", wait)


def test_the_holder_is_named(tmp_path):
    words = rf"{tmp_path.name} is in use by another job \(process {os.getpid()} on .+\); wait for it"
    with hold(tmp_path), pytest.raises(InputError, match=words), hold(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_what_a_killed_process_left(tmp_path):
    (tmp_path / "lock").write_text("process 1 on a host, as older versions wrote it\n")
    (tmp_path / "lock.holder").write_text("process 1 on a host\n")
    with hold(tmp_path):
        assert (tmp_path / "lock.holder").read_text().startswith(f"process {os.getpid()} on ")
    assert not (tmp_path / "lock.holder").exists()


def test_no_name_yet(tmp_path):
    with hold(tmp_path):
        (tmp_path / "lock.holder").unlink()
        with pytest.raises(InputError, match="in use by another job; wait for it"), hold(tmp_path):
            pass


def test_waiting(tmp_path):
    def other():
        with hold(tmp_path):
            held.set()
            time.sleep(0.3)

    held, thread = threading.Event(), threading.Thread(target=other)
    thread.start()
    held.wait()
    with pytest.raises(InputError, match="in use by"), hold(tmp_path):
        pass
    with hold(tmp_path, wait=30.0):
        thread.join()


def test_it_is_given_back_after_an_error(tmp_path):
    with pytest.raises(KeyError), hold(tmp_path):
        raise KeyError
    with hold(tmp_path):
        pass


def test_no_folder(tmp_path):
    with pytest.raises(OSError, match="No such file"), hold(tmp_path / "none"):
        pass
    assert not (tmp_path / "none").exists()


@pytest.mark.skipif(os.name == "nt", reason="folders have no locks there")
def test_the_lock_survives_that_its_file_is_deleted(tmp_path):
    with hold(tmp_path):
        (tmp_path / "lock").unlink()
        with pytest.raises(InputError, match="in use by another job"), hold(tmp_path, wait=0.1):
            pass
    with hold(tmp_path):
        pass
