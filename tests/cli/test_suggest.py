import json
import os
import signal
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import beebo_scale as bs
from beebo_scale.cli.main import main
from tests.helpers import INTERRUPTIBLE

LETTERS = "ACDEFG"
VARIANTS = [a + b for a in LETTERS for b in LETTERS]


def truth(variants):
    return np.array([LETTERS.index(a) + 0.5 * LETTERS.index(b) for a, b in variants])


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A screen of 20 of 36 variants, the library of all, and a screen of settings."""
    monkeypatch.chdir(tmp_path)
    measured = np.random.default_rng(0).permutation(VARIANTS)[:20]
    y = truth(measured) + 0.1 * np.random.default_rng(1).standard_normal(20)
    pd.DataFrame({"variant": measured, "y": y, "var": 0.01}).to_csv("screen.csv", index=False)
    pd.DataFrame({"name": [f"v{i}" for i in range(36)], "variant": VARIANTS}).to_csv("library.csv", index=False)
    settings = np.random.default_rng(2).uniform(size=(25, 2)) * [60, 5] + [20, 4]
    y = -(((settings[:, 0] - 50) / 20) ** 2) - (settings[:, 1] - 6) ** 2
    pd.DataFrame({"temp": settings[:, 0], "ph": settings[:, 1], "y": y}).to_csv("box.csv", index=False)
    return tmp_path


LIBRARY = ["--measured=screen.csv", "--target=y", "--features=variant:protein", "--library=library.csv", "--q=5"]
BOX = ["--measured=box.csv", "--target=y", "--bounds", "temp:20:80", "ph:4:9", "--q=4"]


def suggest(*arguments, out="next.csv"):
    assert main(["suggest", *arguments, f"--out={out}"]) == 0
    return pd.read_parquet(out) if out.endswith(".parquet") else pd.read_csv(out)


def run_file(name="next.run.json"):
    def refuse(token):
        raise AssertionError(f"{token} is not JSON")

    return json.loads(Path(name).read_text(), parse_constant=refuse)


def measured_variants():
    return set(pd.read_csv("screen.csv")["variant"])


# --- what comes out --------------------------------------------------------------------------------------


def test_batch_and_run_file_of_a_library(folder, capsys):
    frame = suggest(*LIBRARY, "--temperature=0.3", "--seed=7")
    assert list(frame) == ["rank", "variant", "mean", "std", "noiseless_mean", "noiseless_std", "gain"]
    assert frame["rank"].tolist() == [1, 2, 3, 4, 5]
    assert frame["variant"].is_unique
    assert not measured_variants() & set(frame["variant"])
    assert (np.diff(frame["gain"]) <= 1e-12).all()
    assert np.corrcoef(frame["mean"], truth(frame["variant"]))[0, 1] > 0.7

    run = run_file()
    expected = {
        "measured": "screen.csv",
        "library": "library.csv",
        "target": "y",
        "q": 5,
        "temperature": 0.3,
        "seed": 7,
    }
    assert expected.items() <= run["configuration"].items()
    assert (run["seed"], run["temperature"], run["information_gain_error"]) == (7, 0.3, 0.0)
    assert run["inputs"] == {
        name: sha256((folder / name).read_bytes()).hexdigest() for name in ("screen.csv", "library.csv")
    }
    assert run["versions"]["torch"] == torch.__version__
    assert run["versions"]["beebo-scale"] == bs.__version__
    certificate = run["certificate"]
    assert certificate["certified"]
    assert certificate["smallest_accepted_gain"] == pytest.approx(frame["gain"].iloc[-1])
    assert certificate["best_score_left_out"] is None  # all rows fit into the shortlist
    assert (certificate["shortlist"], certificate["passes"]) == (16, 1)
    assert certificate["value"] == pytest.approx(frame["gain"].sum())
    assert certificate["value"] <= certificate["upper_bound"]
    assert run["library"] == {"rows": 36, "measured_already": 20, "repeated": 0}
    assert run["measured"] == {"source": "screen.csv", "rows": 20, "dropped": 0}
    assert set(run["timings"]) == {"fit_seconds", "propose_seconds"}
    assert all(seconds >= 0 for seconds in run["timings"].values())
    assert run["surrogate"]["fit"]["rows"] == 20

    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "screen.csv: 20 measured rows",
        "  y        target   named",
        "  variant  protein  named",
        "  var      ignored  not named",
        "next.csv: 5 rows to measure next",
    ]
    assert err == ""
    assert sorted(os.listdir()) == ["box.csv", "library.csv", "next.csv", "next.run.json", "screen.csv"]


@pytest.mark.slow
def test_batch_and_run_file_of_a_box():
    frame = suggest(*BOX)
    assert list(frame) == ["rank", "temp", "ph", "mean", "std", "noiseless_mean", "noiseless_std", "gain"]
    assert frame["temp"].between(20, 80).all()
    assert frame["ph"].between(4, 9).all()
    assert abs(frame["temp"].iloc[0] - 50) < 10
    assert abs(frame["ph"].iloc[0] - 6) < 1
    assert not frame.duplicated(["temp", "ph"]).any()
    run = run_file()
    assert run["configuration"]["bounds"] == {"temp": [20.0, 80.0], "ph": [4.0, 9.0]}
    assert run["configuration"]["search"]["start"] == "greedy"
    assert run["certificate"] is None
    assert run["upper_bound"] is None
    assert "no upper bound" in run["guarantee"]
    assert list(run["inputs"]) == ["box.csv"]
    assert run["surrogate"]["features"] == {"temp": "continuous", "ph": "continuous"}  # all columns but the target


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [LIBRARY, BOX])
def test_the_same_seed_gives_the_same_bytes(arguments):
    suggest(*arguments, "--seed=3", out="one.csv")
    suggest(*arguments, "--seed=3", out="two.csv")
    assert Path("one.csv").read_bytes() == Path("two.csv").read_bytes()


@pytest.mark.slow
def test_all_kinds_of_output_hold_the_same(folder):
    plain = suggest(*LIBRARY)
    pd.testing.assert_frame_equal(suggest(*LIBRARY, out="packed.csv.gz"), plain)
    pd.testing.assert_frame_equal(suggest(*LIBRARY, out="typed.parquet"), plain, check_dtype=False, rtol=1e-12)
    assert run_file("packed.run.json")["certificate"] == run_file("typed.run.json")["certificate"]


def test_an_older_batch_is_replaced():
    Path("next.csv").write_text("rank,variant,mean,std,noiseless_mean,noiseless_std,gain\n1,AAAA,1,1,1,1,1\n")
    assert len(suggest(*LIBRARY)) == 5


# --- options ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_id_column_of_the_library():
    screen = pd.read_csv("screen.csv")
    screen.assign(name=[f"m{i}" for i in range(20)]).to_csv("screen.csv", index=False)
    frame = suggest(*LIBRARY, "--id=name")
    assert list(frame)[:3] == ["rank", "name", "variant"]
    assert [VARIANTS[int(name[1:])] for name in frame["name"]] == frame["variant"].tolist()
    for measured in (screen, screen.assign(name="m0")):  # its names are not needed, and replicates share one
        measured.to_csv("screen.csv", index=False)
        pd.testing.assert_frame_equal(suggest(*LIBRARY, "--id=name"), frame)


@pytest.mark.slow
def test_results_far_from_all_others_are_noted(capsys):
    screen = pd.read_csv("box.csv")
    screen.loc[3, "y"] = np.nan
    screen.loc[[7, 12], "y"] = [99.0, -90.0]
    screen.to_csv("box.csv", index=False)
    note = "note: 1 of 24 results lie far from all others, in row 8 of box.csv: look at them, or take --robust or"
    suggest(*BOX)
    assert "note:" not in capsys.readouterr().out  # two of 24 may be the shape of the target
    screen.loc[12, "y"] = -0.5
    screen.assign(v=0.1).to_csv("box.csv", index=False)
    suggest(*BOX, "--features=temp,ph")
    assert note in capsys.readouterr().out
    suggest(*BOX, "--features=temp,ph", "--noise-variance=v")
    assert "of box.csv: look at them\n" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("where", ["library", "box"])
def test_the_unit_of_a_column_that_never_varied_does_not_matter(where, capsys):
    found = []
    for u in (1.0, 1e-6, 1e6):
        x = np.linspace(0, 1, 20)
        pd.DataFrame({"x": x, "conc": u, "y": np.sin(4 * x)}).to_csv("units.csv", index=False)
        grid = [(a, b * u) for a in (0.1, 0.4, 0.9) for b in (0.1, 1, 10)]
        pd.DataFrame(grid, columns=["x", "conc"]).to_csv("grid.csv", index=False)
        given = ["--library", "grid.csv"] if where == "library" else ["--bounds", "x:0:1", f"conc:{0.1 * u}:{10 * u}"]
        command = ["suggest", "--measured", "units.csv", "--target", "y", *given, "-q", "3", "--out", "o.csv"]
        assert main(command) == 0
        assert f"scaled by the range of the {where}, {9.9 * u:g}" in capsys.readouterr().out
        assert len(run_file("o.run.json")["surrogate"]["notes"]) == 1
        found.append(pd.read_csv("o.csv").assign(conc=lambda frame, u=u: frame["conc"] / u).to_numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-6)


@pytest.mark.parametrize(("size", "said"), [(1e160, "too large"), (1e-170, "too small"), (np.nan, "too large")])
def test_numbers_that_cannot_be_squared_are_refused_with_their_place(size, said, capsys):
    x = np.linspace(0, 1, 20)
    y = np.cos(4 * x) * size
    if np.isnan(size):  # one cell alone
        y = np.where(x == x[3], np.finfo(float).max, np.sin(5 * x))
    pd.DataFrame({"x": x, "y": y}).to_csv("odd.csv", index=False)
    pd.DataFrame({"x": x + 0.01}).to_csv("lib.csv", index=False)
    assert (
        main(["suggest", "--measured", "odd.csv", "--target", "y", "--library", "lib.csv", "-q", "3", "--out", "o.csv"])
        == 2
    )
    (line,) = capsys.readouterr().err.splitlines()
    assert "odd.csv: column 'y' is " in line
    assert said in line
    assert ("in row 4;" if np.isnan(size) else "in rows 1, 2, 3 and 17 more;") in line


@pytest.mark.slow
def test_measured_rows_come_again_only_if_allowed():
    best = "".join(pd.read_csv("screen.csv").nlargest(1, "y")["variant"])
    exploit = [*LIBRARY, "--temperature=0"]
    assert best not in set(suggest(*exploit)["variant"])
    again = suggest(*exploit, "--allow-repeats")
    assert best in set(again["variant"])
    assert run_file()["configuration"]["allow_repeats"] is True
    assert sorted(suggest(*LIBRARY, "--q=36", "--allow-repeats")["variant"]) == VARIANTS
    new = suggest(*LIBRARY, "--q=16")
    assert set(new["variant"]) == set(VARIANTS) - measured_variants()


@pytest.mark.slow
def test_minimize():
    small, large = suggest(*LIBRARY, "--temperature=0", "--minimize"), suggest(*LIBRARY, "--temperature=0")
    assert small["mean"].is_monotonic_increasing
    assert large["mean"].is_monotonic_decreasing
    assert small["mean"].max() < large["mean"].min()


def test_rows_without_a_target_are_dropped_and_counted(capsys):
    screen = pd.read_csv("screen.csv")
    screen.loc[[3, 8], "y"] = np.nan
    dropped = set(screen.loc[[3, 8], "variant"])
    screen.to_csv("screen.csv", index=False)
    frame = suggest(*LIBRARY, "--q=18")
    assert dropped <= set(frame["variant"])
    assert run_file()["measured"] == {"source": "screen.csv", "rows": 18, "dropped": 2}
    assert "screen.csv: 18 measured rows, 2 without y left out" in capsys.readouterr().out


def test_known_noise_is_used(capsys):
    frame = suggest(*LIBRARY, "--noise-variance=var")
    assert run_file()["surrogate"]["noise_std"] == pytest.approx(0.1)
    assert frame["std"].min() > 0
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_features_separated_by_commas_or_spaces():
    screen = pd.read_csv("screen.csv").assign(temp=np.arange(20.0))
    screen.to_csv("screen.csv", index=False)
    pd.read_csv("library.csv").assign(temp=30.0).to_csv("library.csv", index=False)
    rest = ["--measured=screen.csv", "--target=y", "--library=library.csv", "-q", "2"]
    one = suggest(*rest, "--features", "variant:protein,temp")
    two = suggest(*rest, "--features", "variant:protein", "temp:continuous")
    pd.testing.assert_frame_equal(one, two)
    assert run_file()["surrogate"]["features"] == {"variant": "protein", "temp": "continuous"}


def test_options_of_the_fit_arrive():
    suggest(*LIBRARY, "--kind=exact", "--transform=none", "--priors=paper")
    assert (run_file()["surrogate"]["priors"], run_file()["surrogate"]["transform"]) == ("paper", "none")


@pytest.mark.slow
def test_saved_model_starts_the_next_fit_and_is_recorded(folder):
    frame = suggest(*LIBRARY, "--save-model=model.ckpt")
    first = run_file()["surrogate"]["fit"]["iterations"]
    again = suggest(*LIBRARY, "--warm-start=model.ckpt", out="again.csv")
    assert run_file("again.run.json")["surrogate"]["fit"]["iterations"] < first
    assert run_file("again.run.json")["inputs"]["model.ckpt"] == sha256(Path("model.ckpt").read_bytes()).hexdigest()
    assert again["variant"].tolist() == frame["variant"].tolist()
    surrogate = bs.load_surrogate("model.ckpt")
    mean, _ = surrogate.predict(bs.read_library(frame, {"variant": "protein"}))
    np.testing.assert_allclose(mean, frame["mean"], rtol=1e-12)


@pytest.mark.slow
def test_warm_start_of_another_screen_is_refused(capsys):
    suggest(*LIBRARY, "--save-model=model.ckpt")
    capsys.readouterr()
    assert main(["suggest", *BOX, "--warm-start=model.ckpt", "--out=box_next.csv"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "variant (protein of 2)" in line
    assert "box.csv has temp (continuous), ph (continuous)" in line
    assert not Path("box_next.csv").exists()


@pytest.mark.slow
def test_configuration_file_and_options_over_it():
    Path("suggest.yaml").write_text(
        "measured: screen.csv\ntarget: y\nfeatures: {variant: protein}\nlibrary: library.csv\nq: 5\nminimize: true\n"
        "noise-variance: var\n"
    )
    given = suggest("--config=suggest.yaml")
    pd.testing.assert_frame_equal(given, suggest(*LIBRARY, "--minimize", "--noise-variance=var"))
    assert len(suggest("--config=suggest.yaml", "-q", "2")) == 2
    Path("box.yaml").write_text(
        "measured: box.csv\ntarget: y\nbounds: {temp: [20, 80], ph: [4, 9]}\nq: 4\nout: b.csv\n"
    )
    assert main(["suggest", "--config=box.yaml"]) == 0
    pd.testing.assert_frame_equal(pd.read_csv("b.csv"), suggest(*BOX))


@pytest.mark.parametrize("arguments", [["-h"], ["suggest", "-h"], ["--version"]])
def test_help_and_version(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 0
    out, err = capsys.readouterr()
    assert out.strip()
    assert err == ""


# --- as a process ----------------------------------------------------------------------------------------


def run(command, arguments):
    return subprocess.run([*command, "suggest", *arguments], capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.process
def test_script(folder):
    script = Path(sys.executable).with_name("beebo-scale")
    result = run([script], [*LIBRARY, "--out=next.csv"])
    assert (result.returncode, result.stderr) == (0, "")  # and no progress bar where there is no terminal
    assert "\r" not in result.stdout
    assert len(pd.read_csv("next.csv")) == 5


@pytest.mark.process
def test_module_refuses_in_one_line(folder):
    before = sorted(os.listdir())
    result = run([sys.executable, "-m", "beebo_scale"], [*LIBRARY, "--out=next.csv", "--q=17"])
    assert result.returncode == 2
    assert result.stdout.startswith("screen.csv: 20 measured rows")  # with the kinds, which may be what is wrong
    (line,) = result.stderr.splitlines()
    assert line.startswith("beebo-scale: library.csv: q = 17, but only 16 of its 36 rows can be proposed")
    assert sorted(os.listdir()) == before


@pytest.mark.process
def test_interrupt(folder):
    rng = np.random.default_rng(0)
    pd.DataFrame(rng.uniform(size=(1500, 6)), columns=list("abcdef")).assign(y=rng.uniform(size=1500)).to_csv(
        "large.csv", index=False
    )
    before = sorted(os.listdir())
    bounds = [f"{name}:0:1" for name in "abcdef"]
    arguments = ["suggest", "--measured=large.csv", "--target=y", "--bounds", *bounds, "--out=next.csv"]
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("large.csv: 1500 measured rows")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "next.csv" not in out
    assert err == "beebo-scale: interrupted, nothing was written\n"
    assert sorted(os.listdir()) == before
