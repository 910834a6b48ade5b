import itertools
import math

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from beebo_scale.errors import InputError
from beebo_scale.proposal.jobs.chunks import ChunkRunner
from beebo_scale.proposal.library import certified as stream
from beebo_scale.proposal.library import lazy_greedy as pool
from beebo_scale.proposal.library import shortlist
from beebo_scale.proposal.library.best_rows import best_of
from beebo_scale.proposal.library.certified import choose_certified
from beebo_scale.proposal.library.encoded import EncodedLibrary
from beebo_scale.proposal.library.exclusion import Rules
from beebo_scale.screening import ContinuousColumn, Encoder, read_library
from beebo_scale.screening.library import open_library
from beebo_scale.specs import Choice, Limits
from tests.helpers import LAWS, close, exact_toy, sparse_toy, uniform
from tests.proposal.jobs.test_chunks import Memory

D = 3
NAMES = [f"x{i}" for i in range(D)]
KINDS = dict.fromkeys(NAMES, "continuous")
ENCODER = Encoder(tuple(ContinuousColumn(name, 0.0, 1.0) for name in NAMES))  # codes are the numbers themselves


def toy(name, seed=0):
    return sparse_toy(m=10, d=D, seed=seed) if name == "sparse" else exact_toy(n=15, d=D, seed=seed)


def frame_of(X):
    frame = pd.DataFrame(X.numpy(), columns=NAMES)
    frame.insert(0, "id", [f"r{i}" for i in range(len(X))])
    return frame


def library_of(X, chunk_rows=17, labels=(), **columns):
    return open_library(frame_of(X).assign(**columns), KINDS, "id", labels, chunk_rows=chunk_rows)


def encoded(library, rules=None, limits=None):
    return EncodedLibrary(library, ENCODER, rules or Rules(), limits or Limits())


def choose(posterior, library, q, temperature=0.5, minimize=False, rules=None, limits=None, runner=None):
    asked = Choice(q=q, temperature=temperature, minimize=minimize)
    return choose_certified(posterior, encoded(library, rules, limits), asked, runner)


def ids(library, choice):
    return library.take(choice.rows.numpy()).frame["id"].tolist()


def full_greedy(toy, X, q, temperature, sign=1.0, shut=None):
    """Plain greedy with the covariance of all rows; `shut` tells which rows have no room beside the chosen ones."""
    T = temperature * math.sqrt(toy.posterior.amplitude)
    mean, C, noise = sign * toy.mean(X), toy.covar(X), float(toy.posterior.noise(X[:1]))
    rows, gains = [], []
    for _ in range(q):
        gain = mean + 0.5 * T * torch.log1p(C.diagonal() / noise)
        gain[rows] = -math.inf
        if shut is not None and rows:
            gain[shut(rows)] = -math.inf
        best = int(gain.argmax())
        rows.append(best)
        gains.append(float(gain[best]))
        C = C - torch.outer(C[:, best], C[best]) / (C[best, best] + noise)
    return rows, torch.tensor(gains, dtype=torch.float64)


@pytest.fixture
def short(monkeypatch):
    """Shortlists of q rows, of which no more are kept: every certificate fails at first."""
    monkeypatch.setattr(pool, "SHORTLIST", 1)
    monkeypatch.setattr(stream, "RESERVE", 2)
    monkeypatch.setattr(stream, "LONG", 0)


# --- the choice is the greedy choice over the whole library ----------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize("temperature", [0.05, 0.5, 5.0])
@pytest.mark.parametrize("name", ["exact", "sparse"])
def test_choice_is_the_full_greedy_choice(name, temperature, maximize):
    model, X = toy(name), uniform(120, D, seed=5)
    rows, gains = full_greedy(model, X, 20, temperature, 1.0 if maximize else -1.0)
    choice = choose(model.posterior, library_of(X), 20, temperature, not maximize)
    assert choice.rows.tolist() == rows
    assert ids(library_of(X), choice) == [f"r{row}" for row in rows]
    assert torch.equal(choice.X, X[rows])
    close(choice.gain, gains, atol=1e-9)
    assert choice.certificate["certified"]
    assert choice.certificate["passes"] == 1
    assert choice.certificate["certified_points"] == 20
    assert choice.certificate["smallest_accepted_gain"] == pytest.approx(float(choice.gain[-1]), rel=1e-12)
    assert choice.counts["rows"] == 120


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.05, 0.5, 5.0])
@pytest.mark.parametrize("name", ["exact", "sparse"])
def test_a_failed_certificate_leads_to_another_pass(name, temperature, short):
    model, X = toy(name), uniform(120, D, seed=5)
    rows, gains = full_greedy(model, X, 12, temperature)
    choice = choose(model.posterior, library_of(X), 12, temperature)
    assert choice.rows.tolist() == rows
    close(choice.gain, gains, atol=1e-9)
    certificate = choice.certificate
    assert certificate["certified"]
    if temperature == 5.0:
        assert certificate["passes"] > 1
    left_out = certificate["best_score_left_out"]
    assert left_out is None or certificate["smallest_accepted_gain"] > left_out
    scores = pool.score(model.posterior, X, temperature * math.sqrt(model.outputscale)).sort(descending=True).values
    assert left_out is None or left_out == pytest.approx(float(scores[certificate["shortlist"]]), rel=1e-12)


def test_without_interest_in_information_the_best_means_are_enough(short):
    model, X = toy("exact"), uniform(120, D, seed=5)
    choice = choose(model.posterior, library_of(X), 12, 0.0)
    ranked = model.mean(X).sort(descending=True)
    assert choice.rows.tolist() == ranked.indices[:12].tolist()
    assert (choice.certificate["passes"], choice.certificate["shortlist"]) == (1, 12)
    assert choice.certificate["best_score_left_out"] == pytest.approx(float(ranked.values[12]), rel=1e-12)


def test_a_shortlist_that_may_not_grow_says_so(short, monkeypatch):
    model, X = toy("exact"), uniform(120, D, seed=5)
    monkeypatch.setattr(shortlist, "LARGEST", 8 * D * 14)
    choice = choose(model.posterior, library_of(X), 12, 5.0)
    certificate = choice.certificate
    assert not certificate["certified"]
    assert certificate["shortlist"] == 14
    certain = certificate["certified_points"]
    assert 0 < certain < 12
    assert choice.rows[:certain].tolist() == full_greedy(model, X, certain, 5.0)[0]
    assert float(choice.gain[certain]) <= certificate["best_score_left_out"]
    assert len(set(choice.rows.tolist())) == 12


# --- the same from any source, by any number of workers --------------------------------------------------


@pytest.mark.slow
def test_every_source_gives_the_same_choice(tmp_path):
    model, X = toy("sparse"), uniform(100, D, seed=6)
    frame = frame_of(X)
    frame.to_parquet(tmp_path / "one.parquet", index=False, row_group_size=30)
    frame.to_csv(tmp_path / "one.csv", index=False)
    frame.to_csv(tmp_path / "one.tsv.gz", index=False, sep="\t")
    (tmp_path / "folder").mkdir()
    for i in range(4):
        frame.iloc[25 * i : 25 * i + 25].to_parquet(tmp_path / "folder" / f"part-{i}.parquet", index=False)
    sources = [frame, read_library(frame, KINDS, id="id")]
    sources += [tmp_path / name for name in ("one.parquet", "one.csv", "one.tsv.gz", "folder")]
    rows, gains = full_greedy(model, X, 15, 0.5)
    for source, chunk_rows in itertools.product(sources, (7, 100)):
        library = open_library(source, KINDS, "id", chunk_rows=chunk_rows)
        choice = choose(model.posterior, library, 15)
        assert choice.rows.tolist() == rows
        assert ids(library, choice) == [f"r{row}" for row in rows]
        close(choice.gain, gains, atol=1e-9)


class Shared(ChunkRunner):
    """Workers that take turns in one process: chunks dealt rank::size, parts merged in the order given."""

    def __init__(self, size, order):
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "order", order)

    def deal(self, stage, count, work):
        return [result for _, result in work(range(count))]

    def reduce(self, stage, count, work, merge):
        parts = []
        for rank in range(self.size):
            results = [result for _, result in work(list(range(count))[rank :: self.size])]
            parts += [merge(*results[:2]), *results[2:]] if len(results) > 1 else results
        merged = parts[self.order(len(parts))[0]]
        for i in self.order(len(parts))[1:]:
            merged = merge(parts[i], merged)
        return merged


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_workers_do_not_matter(size, short):
    model = toy("exact")
    X = torch.cat([uniform(100, D, seed=6), uniform(100, D, seed=6)[::3]])  # with repeats in other chunks
    expected = choose(model.posterior, library_of(X), 15, 2.0)
    for order in (range, lambda n: list(reversed(range(n)))):
        choice = choose(model.posterior, library_of(X), 15, 2.0, runner=Shared(size, order))
        assert torch.equal(choice.rows, expected.rows)
        assert torch.equal(choice.gain, expected.gain)
        assert choice.certificate == expected.certificate
        assert choice.counts == expected.counts
        assert torch.equal(choice.runners_up, expected.runners_up)


def tops(draw, groups):
    numbers = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), max_size=20)
    parts, row = [], itertools.count()
    for part in draw(st.lists(numbers, min_size=1, max_size=5)):
        parts.append(
            {
                "score": torch.tensor([float(score) for score, _ in part], dtype=torch.float64),
                "row": torch.tensor([next(row) for _ in part], dtype=torch.long),
                "groups": torch.tensor([[group] for _, group in part], dtype=torch.long).reshape(-1, 1),
                "counts": {"repeated": len(part)},
            }
        )
    return parts


def plain_best(parts, keep, cap):
    rows = sorted(
        (-score, row, group[0])
        for part in parts
        for score, row, group in zip(part["score"].tolist(), part["row"].tolist(), part["groups"].tolist(), strict=True)
    )
    kept, members = [], {}
    for score, row, group in rows:
        members[group] = members.get(group, 0) + 1
        if cap is None or members[group] <= cap:
            kept.append((-score, row))
    return kept[: keep + 1]


@pytest.mark.slow
@given(data=st.data(), keep=st.integers(1, 12), cap=st.one_of(st.none(), st.integers(1, 4)), seed=st.integers(0, 99))
@LAWS
def test_merging_does_not_depend_on_order_or_grouping(data, keep, cap, seed):
    parts = tops(data.draw, cap is not None)
    generator = np.random.default_rng(seed)
    left = [best_of(part, keep=keep, cap=cap) for part in parts]
    while len(left) > 1:
        i, j = generator.permutation(len(left))[:2]
        merged = best_of(left[i], left[j], keep=keep, cap=cap)
        left = [part for k, part in enumerate(left) if k not in (i, j)] + [merged]
    assert list(zip(left[0]["score"].tolist(), left[0]["row"].tolist(), strict=True)) == plain_best(parts, keep, cap)
    assert left[0]["counts"] == {"repeated": sum(len(part["row"]) for part in parts)}


@pytest.mark.slow
@pytest.mark.parametrize("stop", [0, 3, 6])
def test_a_relaunch_goes_on_where_the_job_was_killed(stop, monkeypatch):
    model, X = toy("exact"), uniform(120, D, seed=5)
    expected = choose(model.posterior, library_of(X), 12)
    ledger, scored = Memory(), []
    true_score = stream.score_rows

    def score(posterior, rows, p, T, sign):
        if len(scored) == stop:
            raise KeyboardInterrupt
        scored.append(p)
        return true_score(posterior, rows, p, T, sign)

    monkeypatch.setattr(stream, "score_rows", score)
    with pytest.raises(KeyboardInterrupt):
        choose(model.posterior, library_of(X), 12, runner=ChunkRunner(ledger=ledger))
    monkeypatch.setattr(stream, "score_rows", true_score)
    assert len(ledger.kept) == stop
    choice = choose(model.posterior, library_of(X), 12, runner=ChunkRunner(ledger=ledger))
    assert torch.equal(choice.rows, expected.rows)
    assert torch.equal(choice.gain, expected.gain)
    monkeypatch.setattr(stream, "score_rows", None)  # all is in the ledger now
    again = choose(model.posterior, library_of(X), 12, runner=ChunkRunner(ledger=ledger))
    assert torch.equal(again.gain, expected.gain)


# --- which rows may be chosen ----------------------------------------------------------------------------


@pytest.mark.slow
def test_repeats_anywhere_in_the_library_count_once():
    model, X = toy("exact"), uniform(40, D, seed=5)
    rows, _ = full_greedy(model, X, 10, 0.5)
    copies = torch.cat([X, X.flip(0), X[:10]])
    for chunk_rows in (9, 40, 1000):
        choice = choose(model.posterior, library_of(copies, chunk_rows), 10)
        assert choice.rows.tolist() == rows
        assert choice.counts == {"rows": 90, "repeated": 50}
        both = choose(model.posterior, library_of(copies, chunk_rows), 80, rules=Rules(allow_repeats=True))
        assert len(set(both.rows.tolist())) == 80


def test_measured_pending_and_excluded_rows_are_not_proposed():
    model, X = toy("exact"), uniform(60, D, seed=5)
    measured, excluded, pending = X[:20], X[20:25], X[25:30]
    rules = Rules(measured, pending, excluded, excluded_ids=frozenset({"r31", "r33", "r20"}))
    choice = choose(model.posterior, library_of(X), 28, rules=rules)
    assert sorted(choice.rows.tolist()) == [30, 32, *range(34, 60)]
    assert choice.counts == {"rows": 60, "measured_already": 20, "pending": 5, "excluded": 7, "repeated": 0}
    loose = Rules(measured, pending, excluded, excluded_ids=frozenset({"r31", "r33", "r20"}), allow_repeats=True)
    assert len(choose(model.posterior, library_of(X), 48, rules=loose).rows) == 48
    with pytest.raises(InputError, match="5 pending, 7 excluded, 0 repeat an earlier row"):
        choose(model.posterior, library_of(X), 29, rules=rules)


@pytest.mark.parametrize("chunk_rows", [5, 100])
def test_an_excluded_id_does_not_exclude_another_id_of_the_same_input(chunk_rows):
    model, X = toy("exact"), uniform(10, D, seed=5)
    rules = Rules(excluded_ids=frozenset({"r3", "r13"}))
    choice = choose(model.posterior, library_of(torch.cat([X, X, X]), chunk_rows), 10, rules=rules)
    assert sorted(choice.rows.tolist()) == [0, 1, 2, 4, 5, 6, 7, 8, 9, 23]
    assert choice.counts == {"rows": 30, "excluded": 2, "repeated": 18}


def test_pending_rows_count_in_the_information():
    """Greedy after pending rows is the rest of a greedy choice that began with them."""
    model, X = toy("exact"), uniform(60, D, seed=5)
    rows, gains = full_greedy(model, X, 12, 1.0)
    choice = choose(model.posterior, library_of(X), 8, 1.0, rules=Rules(pending=X[rows[:4]]))
    assert choice.rows.tolist() == rows[4:]
    close(choice.gain, gains[4:], atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("q", [61, 100])
def test_too_few_rows(q, short):
    model, X = toy("exact"), uniform(60, D, seed=5)
    library = library_of(torch.cat([X, X]))
    words = f"table: q = {q}, but only 60 of its 120 rows can be proposed .0 measured already, 60 repeat an earlier"
    with pytest.raises(InputError, match=words):
        choose(model.posterior, library, q)
    with pytest.raises(InputError, match=words):
        encoded(library).check(q)
    encoded(library).check(60)


# --- limits ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.05, 2.0])
@pytest.mark.parametrize("k", [1, 3])
def test_at_most_k_of_a_group(temperature, k, short):
    model, X = toy("exact"), uniform(120, D, seed=5)
    group = (X[:, 0] * 8).long()

    def shut(rows):
        counts = torch.bincount(group[rows], minlength=8)
        return (counts >= k)[group]

    rows, gains = full_greedy(model, X, 7 * k, temperature, shut=shut)
    library = library_of(X, labels=["scaffold"], scaffold=group.numpy())
    choice = choose(model.posterior, library, 7 * k, temperature, limits=Limits({"scaffold": k}))
    assert choice.rows.tolist() == rows
    close(choice.gain, gains, atol=1e-9)
    assert choice.certificate["certified"]
    assert choice.certificate["value"] <= choice.certificate["upper_bound"]
    with pytest.raises(InputError, match=f"only {8 * k} rows can be chosen under the limits"):
        choose(model.posterior, library, 8 * k + 1, limits=Limits({"scaffold": k}))


def test_one_large_group_does_not_fill_the_shortlist(short, monkeypatch):
    """Only a few of a group are kept, however good its rows are."""
    monkeypatch.setattr(pool, "SHORTLIST", 2)
    model, X = toy("exact"), uniform(400, D, seed=5)
    order = model.mean(X).argsort(descending=True)
    group = np.ones(400, dtype=int)
    group[order[300:]] = np.arange(100, 200)  # the best 300 rows are one group
    library = library_of(X, labels=["scaffold"], scaffold=group)
    choice = choose(model.posterior, library, 10, 0.0, limits=Limits({"scaffold": 1}))
    assert choice.rows.tolist() == order[[0, *range(300, 309)]].tolist()
    assert choice.certificate["certified"]
    assert choice.certificate["passes"] == 1


@pytest.mark.slow
def test_two_columns_of_groups_and_a_distance(short):
    model, X = toy("sparse"), uniform(120, D, seed=5)
    scaffold, plate = (X[:, 0] * 8).long(), (X[:, 1] * 4).long()

    def shut(rows):
        full = (torch.bincount(scaffold[rows], minlength=8) >= 3)[scaffold]
        full |= (torch.bincount(plate[rows], minlength=4) >= 4)[plate]
        return full | (torch.cdist(X, X[rows]) < 0.25).any(-1)

    rows, gains = full_greedy(model, X, 12, 1.0, shut=shut)
    library = library_of(X, labels=["scaffold", "plate"], scaffold=scaffold.numpy(), plate=plate.numpy())
    choice = choose(model.posterior, library, 12, 1.0, limits=Limits({"scaffold": 3, "plate": 4}, 0.25))
    assert choice.rows.tolist() == rows
    close(choice.gain, gains, atol=1e-9)
    assert "does not count the minimum distance" in choice.certificate["guarantee"]
