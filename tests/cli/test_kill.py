"""SIGKILL at every file event of `suggest` and of `campaign suggest` and `record`, and the same command again.

One process runs each command once, so that all is loaded, and then forks for each event: the child counts what it does
to files of its folder (opens for writing, renames, removals, new folders) and kills itself before the k-th.
"""

import json
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.process, pytest.mark.slow]

DRIVER = """
import contextlib, hashlib, io, os, shutil, signal, sys, warnings
from pathlib import Path
warnings.simplefilter("ignore")
import numpy as np, pandas as pd, torch
from beebo_scale.cli.main import main
from beebo_scale.campaign import Campaign
from beebo_scale.screening.plates import picture
from matplotlib.figure import Figure
torch.set_num_threads(1)
picture.picture = lambda *_, **__: Figure(figsize=(1, 1))  # what is drawn takes most of the time of suggest

EVENTS = {"os.rename", "os.remove", "os.mkdir"}
base = Path(sys.argv[1]).resolve()

def prepare(folder, start):
    folder.mkdir()
    g = np.random.default_rng(0)
    frame = pd.DataFrame({"x": g.random(10), "z": g.random(10)})
    frame.assign(y=np.sin(4 * frame["x"])).to_csv(folder / "screen.csv", index=False)
    library = pd.DataFrame({"name": list("abcdefgh"), "x": g.random(8), "z": g.random(8)})
    library.to_csv(folder / "library.csv", index=False)
    if start:
        shutil.copytree(start, folder, dirs_exist_ok=True)

def child(folder, arguments, kill_at):
    # the exit code, -9 where it was killed; and how many events there were
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.chdir(folder)
        count = 0
        def hook(event, args):
            nonlocal count
            writes = event == "open" and isinstance(args[0], str) and (args[2] or 0) & (os.O_WRONLY | os.O_RDWR)
            if (event in EVENTS or writes) and not str(args[0]).startswith(("/dev", "/proc")):
                count += 1
                if count == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(hook)
        code = 99
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                code = main(arguments)
        finally:
            os.write(into, str(count).encode())
            os._exit(code)
    os.close(into)
    _, status = os.waitpid(pid, 0)
    said = os.read(out, 100)
    os.close(out)
    return os.waitstatus_to_exitcode(status), int(said or 0)

def results(folder):
    # what people and the next command read; run files have times in them
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*.csv")) + sorted(folder.rglob("*.png"))
        if "/." not in path.as_posix()
    }

def tried(name, arguments, start, check, again):
    whole = base / f"{name}-whole"
    prepare(whole, start)
    warm = base / f"{name}-warm"
    prepare(warm, start)
    with contextlib.chdir(warm), contextlib.redirect_stdout(io.StringIO()):
        assert main(arguments) == 0
    code, events = child(whole, arguments, 0)
    assert code == 0, (name, code)
    expected, inputs = results(whole), {}
    for kill_at in range(1, events + 1):
        folder = base / f"{name}-{kill_at}"
        prepare(folder, start)
        before = results(folder)
        code, _ = child(folder, arguments, kill_at)
        assert code == -9, (name, kill_at, code)
        left = results(folder)
        for path, digest in left.items():  # whole: as before, or as it will be
            assert digest in (before.get(path), expected.get(path)), (name, kill_at, path)
        check(folder, left)
        if kill_at % 9 == 0 or kill_at == events:  # to do them all takes a minute
            if again(folder):
                assert child(folder, arguments, 0)[0] == 0, (name, kill_at)
            else:  # the round stands; the view of what is pending follows with the next command
                Campaign.open(folder / "c").refresh()
            differ = set(results(folder).items()) ^ set(expected.items())
            assert not differ, (name, kill_at, differ)
        shutil.rmtree(folder)
    return whole, events

def batch_has_its_run_file(folder, left):
    if "next.csv" in left:
        assert (folder / "next.run.json").exists() and (folder / "next.plate.csv").exists()

def status_is_sound(folder, left):
    campaign = Campaign.open(folder / "c")
    assert campaign.changes() == []
    campaign.status()

always = lambda folder: True
FIT = ["--target=y", "--kind=exact", "--iterations=2", "--library=library.csv", "--id=name", "--q=2"]
_, suggest = tried(
    "suggest", ["suggest", "--measured=screen.csv", *FIT, "--out=next.csv", "--plate=96", "--save-model=m.ckpt"], None,
    batch_has_its_run_file, always,
)
init, made = tried(
    "init", ["campaign", "init", "c", "--measured=screen.csv", *FIT], None,
    lambda folder, left: None, lambda folder: not (folder / "c").exists(),
)
chosen, round_ = tried(
    "round", ["campaign", "suggest", "c"], init, status_is_sound, always
)
batch = pd.read_csv(chosen / "c/rounds/round-001.csv")
batch.assign(y=0.5).to_csv(chosen / "results.csv", index=False)
_, record = tried(
    "record", ["campaign", "record", "c", "--results=results.csv"], chosen, status_is_sound, always
)
print({"suggest": suggest, "init": made, "round": round_, "record": record})
"""


def test_a_kill_at_every_file_event(tmp_path):
    done = subprocess.run([sys.executable, "-c", DRIVER, str(tmp_path)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    events = json.loads(done.stdout.splitlines()[-1].replace("'", '"'))
    assert min(events.values()) >= 10
