"""What is prepared is not done again: files are opened once, rows are encoded once, molecules have one fingerprint."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from beebo_scale.cli.main import main
from beebo_scale.screening import encoding
from beebo_scale.screening.files import opening
from beebo_scale.screening.packing import pack

LETTERS = "ACDEFGHIKL"
N = 4000


@pytest.fixture
def passes(monkeypatch):
    """Name of each file -> how often its cells are loaded or streamed."""
    counts = {}
    plain = opening._open_file

    def counted(source, wanted=()):
        opened = plain(source, wanted)
        counts.setdefault(opened.name, [])

        def load(columns):
            counts[opened.name].append("load")
            return opened.load(columns)

        def stream(columns, ranges):
            counts[opened.name].append("stream")
            return opened.stream(columns, ranges)

        return replace(opened, load=load, stream=stream)

    monkeypatch.setattr(opening, "_open_file", counted)
    return counts


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["".join(LETTERS[int(d)] for d in f"{i:04d}") for i in np.random.default_rng(0).permutation(10_000)]
    y = [sum(LETTERS.index(letter) * w for letter, w in zip(word, (3, 1, 0.3, 0.1), strict=True)) for word in words]
    frame = pd.DataFrame({"name": [f"v{i}" for i in range(10_000)], "variant": words, "y": y})
    frame.iloc[:40].to_csv("measured.csv", index=False)
    frame.iloc[40 : 40 + N].drop(columns="y").to_csv("library.csv", index=False)
    frame.iloc[100:105][["name"]].to_csv("running.csv", index=False)
    frame.iloc[200:203][["name"]].to_csv("not.csv", index=False)
    return tmp_path


SUGGEST = "suggest --measured measured.csv --target y --features variant:protein --library library.csv --id name -q 8"


def test_a_library_is_read_three_times_at_most(files, passes, monkeypatch):
    encoded = []
    monkeypatch.setattr("beebo_scale.proposal.library.encoded.pack", lambda *a: encoded.append(len(a[1])) or pack(*a))
    more = "--pending running.csv --exclude not.csv --out next.csv"
    assert main(f"{SUGGEST} {more}".split()) == 0
    assert len(passes["library.csv"]) <= 3
    # the first rows of measured.csv once more, for columns that say which values are limits
    assert [len(passes[name]) for name in ("measured.csv", "running.csv", "not.csv")] == [2, 1, 1]
    assert sum(encoded) == N
    batch = pd.read_csv("next.csv")
    assert len(batch) == 8
    assert not batch["name"].isin([*pd.read_csv("running.csv")["name"], *pd.read_csv("not.csv")["name"]]).any()


@pytest.mark.slow
def test_what_cannot_work_is_refused_before_a_fit(files, capsys, monkeypatch):
    monkeypatch.setattr("beebo_scale.surrogates.fit", None)
    for more, words in {
        "--out next.csv --pending measured.csv --exclude library.csv": "can be proposed",
        "--out next.csv -q 4001": "q = 4001, but only",
        "--out next.csv --at-most scaffold:2": "no group column 'scaffold'",
    }.items():
        assert main(f"{SUGGEST} {more}".split()) == 2
        assert words in capsys.readouterr().err


def test_a_molecule_has_one_fingerprint(tmp_path, monkeypatch):
    pytest.importorskip("rdkit")
    monkeypatch.chdir(tmp_path)
    chains = ["C" * i + end for i in range(1, 21) for end in ("O", "N", "F", "Cl")]
    frame = pd.DataFrame({"smiles": chains, "y": np.arange(80.0) % 17})
    frame.iloc[::4].to_csv("measured.csv", index=False)
    frame.iloc[1::4][["smiles"]].to_csv("library.csv", index=False)
    made, plain = [], encoding.packed_fingerprints

    def counted(values, *rest):
        made.extend(values)
        return plain(values, *rest)

    monkeypatch.setattr(encoding, "packed_fingerprints", counted)
    options = "--measured measured.csv --target y --features smiles:smiles --library library.csv -q 4 --out next.csv"
    assert main(f"suggest {options}".split()) == 0
    assert len(made) == len(set(made)) == 40
