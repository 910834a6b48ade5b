"""The batch chosen from a product of lists is that of the library written out, to the last byte."""

import functools

import numpy as np
import pandas as pd
import pytest
import torch

import beebo_scale as bs
from beebo_scale.errors import InputError
from beebo_scale.proposal import choose, encode_measured, prepare, prepare_measured
from beebo_scale.proposal.jobs.chunks import ChunkRunner
from beebo_scale.proposal.library import lazy_greedy
from beebo_scale.proposal.library.products import search
from beebo_scale.specs import Choice, Limits, Lists
from tests.product_cases import KINDS, LISTS, measured, rows_of
from tests.product_cases import surrogate as fitted
from tests.proposal.jobs.test_chunks import Memory


def batches(frame, whole=None, choices=LISTS, **choice):
    """The same choice from the lists and from all of their rows: two batches as text, and the first's record."""
    asked, own, surrogate = measured(frame, **choice)
    asked = asked.but(choices=choices)
    found = choose(prepare_measured(asked, own, None), surrogate)
    written = asked.but(choices=None, library=rows_of().drop(columns="y") if whole is None else whole)
    other = choose(prepare(written, surrogate.encoder, surrogate.measured_rows), surrogate)
    return found.frame[other.frame.columns].to_csv(index=False), other.frame.to_csv(index=False), found.run


@pytest.mark.parametrize("temperature", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("minimize", [False, True])
def test_the_same_bytes_as_the_written_library(temperature, minimize):
    found, other, run = batches(rows_of(count=60), q=12, temperature=temperature, minimize=minimize)
    assert found == other
    assert run["certificate"]["certified"]
    assert run["library"]["rows"] == 240
    assert run["library"]["measured_already"] == 60


@pytest.mark.slow
def test_the_same_bytes_with_pending_excluded_and_limited_rows():
    frame = rows_of(count=40)
    others = rows_of().drop(columns="y")
    options = {"pending": others.iloc[3:9], "exclude": others.iloc[100:130], "allow_repeats": False}
    found, other, run = batches(frame, q=14, limits=Limits({"solvent": 4, "temp": 5}), **options)
    assert found == other
    assert run["certificate"]["certified"]
    assert pd.Series(found.splitlines()[1:]).str.contains("THF").sum() <= 4


@pytest.mark.slow
def test_incompatible_pairs_by_a_table_and_an_expression():
    table = pd.DataFrame({"solvent": ["THF", "THF"], "site": ["A", "C"]})
    lists = Lists(LISTS, (table, "temp >= 80 and solvent in ('MeOH', 'THF')"))
    whole = rows_of().drop(columns="y")
    hot = (whole.temp >= 80) & whole.solvent.isin(["MeOH", "THF"])
    bad = hot | ((whole.solvent == "THF") & whole.site.isin(["A", "C"]))
    found, other, run = batches(rows_of(count=50), whole[~bad], lists, q=20)
    assert found == other
    assert run["library"]["incompatible"] == bad.sum()


@pytest.mark.slow
def test_blocks_that_are_encoded_alike_are_proposed_once():
    lists = {**LISTS, "solvent": ["THF", "DMF"], "temp": [20.0, 60.0]}
    whole = rows_of(lists).drop(columns="y")
    found, other, _ = batches(rows_of(count=30), whole, lists, q=30, temperature=2.0)
    assert found == other


LARGE = {"a": [f"a{i}" for i in range(40)], "b": np.linspace(0, 1, 50).tolist(), "c": [f"c{i}" for i in range(60)]}


@functools.cache
def large():
    """A surrogate of 300 of 120,000 rows, and the rows."""
    whole = rows_of(LARGE)
    kinds = {"a": "categorical", "b": "continuous", "c": "categorical"}
    table = bs.read_table(whole.sample(300, random_state=1), "y", features=kinds)
    own = encode_measured(table, Choice(choices=LARGE))
    return own, bs.fit(own, "exact", transform="none", iterations=5), whole.drop(columns="y")


@pytest.mark.slow
def test_the_same_bytes_on_a_hundred_thousand_rows_for_any_share_of_the_work(monkeypatch):
    monkeypatch.setattr(search, "CHUNK", 10_000)
    own, surrogate, whole = large()
    asked = Choice(q=30, choices=LARGE, temperature=1.0)
    prepared = prepare(asked, own.encoder, own.X)
    first = choose(prepared, surrogate).frame.to_csv(index=False)
    written = choose(prepare(asked.but(choices=None, library=whole), own.encoder, own.X), surrogate)
    assert first == written.frame.to_csv(index=False)
    half = Memory()
    choose(prepared, surrogate, ChunkRunner(ledger=half))
    for key in list(half.kept)[::2]:
        del half.kept[key]
    assert choose(prepared, surrogate, ChunkRunner(ledger=half)).frame.to_csv(index=False) == first


@pytest.mark.slow
def test_passes_go_on_until_the_batch_is_certain(monkeypatch):
    monkeypatch.setattr(lazy_greedy, "SHORTLIST", 1)
    monkeypatch.setattr(search, "RESERVE", 2)
    monkeypatch.setattr(search, "PROBES", 4)
    found, other, run = batches(rows_of(count=60), q=12, temperature=3.0)
    assert found == other
    assert run["certificate"]["passes"] > 1
    assert run["certificate"]["certified"]


def test_what_cannot_be_kept_costs_the_certificate(monkeypatch):
    monkeypatch.setattr(search, "KEPT", 13)
    asked, own, surrogate = measured(rows_of(count=60), q=12, temperature=3.0)
    run = choose(prepare_measured(asked, own, None), surrogate).run
    assert not run["certificate"]["certified"]
    assert run["certificate"]["certified_points"] < 12


@pytest.mark.parametrize(("kind", "energy"), [("svgp", "mean"), ("exact", "softmax")])
@pytest.mark.slow
def test_other_surrogates_and_energies(kind, energy):
    own = fitted(kind=kind)
    asked = Choice(q=6, choices=LISTS, energy=energy)
    batch = choose(prepare(asked, own.encoder, own.measured), own)
    written = asked.but(choices=None, library=rows_of().drop(columns="y"))
    other = choose(prepare(written, own.encoder, own.measured), own)
    assert batch.run["certificate"]["certified"]
    assert batch.frame.to_csv(index=False) == other.frame.to_csv(index=False)


@pytest.mark.slow
def test_refusals():
    frame = rows_of(count=230)
    asked, own, _ = measured(frame, q=12)
    with pytest.raises(InputError, match=r"q = 12, but only 10 of its 240 rows can be proposed \(230 measured already"):
        prepare_measured(asked, own, None)
    asked, own, surrogate = measured(rows_of(count=40), q=12, limits=Limits({"solvent": 2}))
    with pytest.raises(InputError, match="only 8 rows can be chosen under the limits"):
        choose(prepare_measured(asked, own, None), surrogate)
    with pytest.raises(InputError, match="--at-most 'x' is no list"):
        prepare_measured(asked.but(limits=Limits({"x": 2})), own, None)
    with pytest.raises(InputError, match="--hit goes with a written library"):
        prepare_measured(asked.but(limits=Limits(), hit=1.0), own, None)
    with pytest.raises(InputError, match="--min-distance is for a written library"):
        prepare_measured(asked.but(limits=Limits(min_distance=0.1)), own, None)
    assert KINDS.keys() == LISTS.keys()


def test_no_product_is_ever_written_down():
    """10^9 products: whatever is kept is no list of them."""
    lists = {name: [f"{name}{i}" for i in range(1000)] for name in ("a", "b", "c")}
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({name: draw.choice(values, 20) for name, values in lists.items()}).assign(
        y=draw.normal(size=20)
    )
    asked = Choice(q=4, choices=lists)
    own = encode_measured(bs.read_table(frame, "y", features=dict.fromkeys(lists, "categorical")), asked)
    prepared = prepare_measured(asked, own, None)
    assert prepared.described == "1,000 a x 1,000 b x 1,000 c: 1,000,000,000 products"
    assert torch.equal(prepared.library.eligible(torch.tensor([0, 10**9 - 1])), torch.tensor([True, True]))
