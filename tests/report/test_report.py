import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread

import beebo_scale as bs
from beebo_scale.errors import InputError
from beebo_scale.report import write_report
from beebo_scale.report.run import read_training_run, relevance
from tests.training.runs import KINDS, data, module, screen, trainer

BROWSERS = [name for name in ("chromium", "chromium-browser", "google-chrome") if shutil.which(name)]
VOID = {"meta", "img", "br"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of three epochs, with a batch proposed into it."""
    import warnings

    folder = tmp_path_factory.mktemp("report") / "run"
    folder.mkdir()
    source = data(screen(folder / "s.csv"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer(folder, 3).fit(module(), datamodule=source)
    library = pd.DataFrame({"name": [*"cdefg", "<b>", *"ij"], "x": np.linspace(0, 10, 8), "z": 0.9, "c": "b"})
    bs.propose(bs.load_surrogate(folder / "last.ckpt"), 4, library=library, id="name").write(folder / "next.csv")
    return folder


class Tags(HTMLParser):
    """Checks that tags are closed in order, and collects links."""

    def __init__(self):
        super().__init__()
        self.open, self.links, self.images, self.text = [], [], [], []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        found = [value for name, value in attrs if name in ("src", "href")]
        self.links += found
        self.images += [value for value in found if tag == "img"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.mark.slow
def test_the_page_needs_nothing_else_and_shows_everything(folder):
    path = write_report(str(folder))
    assert path == folder / "report.html"
    page = Tags()
    page.feed(path.read_text(encoding="utf-8"))
    assert page.open == []
    assert len(page.images) == 5 + 3 + 1  # curves, judgements, inputs
    assert all(link.startswith("data:image/png;base64,") for link in page.links)
    text = "".join(page.text)
    for words in ("Learning curves", "held-out", "Which inputs matter", "next.csv", "24 (test)", "<b>"):
        assert words in text
    held_out = read_training_run(folder).held_out
    assert f"{held_out.rmse:.4g}" in text


def test_held_out_rows_are_those_of_the_split(folder):
    run = read_training_run(folder)
    table = bs.read_table(folder / "s.csv", "y", features=KINDS)
    mean, std = run.surrogate.predict(table)
    places = [int(np.flatnonzero(table.y == value)[0]) for value in run.held_out.measured]
    np.testing.assert_allclose(run.held_out.mean, mean[places], rtol=1e-9)
    expected = (table.y - mean)[places] / std[places]  # std is that of a measurement
    np.testing.assert_allclose(run.held_out.error, expected, rtol=1e-6)


def test_relevance_is_by_input(folder):
    found = relevance(read_training_run(folder).surrogate)
    assert set(found) == {"x", "z", "c"}
    frame = pd.DataFrame({"v": ["AC", "AD", "CC", "CD", "DC", "DD"], "t": np.arange(6.0), "y": [0.0, 1, 0, 1, 0, 1]})
    surrogate = bs.fit(bs.read_table(frame, "y", features={"v": "protein", "t": "continuous"}))
    found = relevance(surrogate)
    assert list(found) == ["t", "v[1]", "v[2]"]
    assert found["v[2]"] > 3 * found["v[1]"]


@pytest.mark.slow
def test_curves_go_on_over_relaunches(folder, tmp_path):
    logs = shutil.copytree(folder / "logs", tmp_path / "logs")
    shutil.copy(folder / "last.ckpt", tmp_path)
    (logs / "version_1").mkdir()
    pd.DataFrame({"epoch": [2, 3], "val_rmse": [9.0, 8.0]}).to_csv(logs / "version_1" / "metrics.csv", index=False)
    run = read_training_run(tmp_path)
    assert run.curves.index.tolist() == [0, 1, 2, 3]
    assert run.curves["val_rmse"].tolist()[2:] == [9.0, 8.0]
    assert run.held_out is None  # the encoded rows were left behind
    assert "nothing can be judged" in write_report(str(tmp_path)).read_text(encoding="utf-8")


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"holds no best\.ckpt or last\.ckpt"):
        write_report(str(tmp_path))
    with pytest.raises(InputError, match="no such folder"):
        write_report(str(tmp_path / "nowhere"))


@pytest.mark.process
@pytest.mark.skipif(not BROWSERS, reason="needs a Chromium")
def test_a_browser_shows_it(folder, tmp_path):
    page, shot = write_report(str(folder)), tmp_path / "shot.png"
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1280,2400"]
    command = [BROWSERS[0], *options, f"--user-data-dir={tmp_path}", f"--screenshot={shot}", page.as_uri()]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    image = imread(shot)[..., :3]
    ink = (image < 0.9).any(-1)
    used = np.flatnonzero(ink.any(1))
    assert used[-1] > 1500  # the page goes that far down
    assert 0.01 < ink.mean() < 0.4
    accent = np.isclose(image, np.array([0x17, 0x69, 0xAA]) / 255, atol=0.02).all(-1)
    assert accent.sum() > 2000  # curves and bars were drawn
