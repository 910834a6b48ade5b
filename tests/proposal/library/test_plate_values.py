"""Rules of the plate against every batch of small libraries, and against every selection of values."""

import contextlib
import itertools
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
import torch

import beebo_scale as bs
from beebo_scale.errors import InputError
from beebo_scale.proposal.library import plate_values
from beebo_scale.proposal.library.certified import choose_certified
from beebo_scale.proposal.library.encoded import EncodedLibrary
from beebo_scale.proposal.library.plate_values import best_of_values
from beebo_scale.screening.library import open_library
from beebo_scale.specs import Box, Choice, Limits
from tests.helpers import uniform
from tests.proposal.library.test_upper_bound import ENCODER, Case, case_of

RULES = [Limits({}, at_most_distinct={"a": 1}), Limits({}, at_most_distinct={"a": 2, "b": 1})]
RULES += [Limits({"b": 2}, at_most_distinct={"a": 2}), Limits({"a": 2}, at_most_distinct={"a": 3})]
RULES += [Limits({}, 1.5, at_most_distinct={"a": 2})]


@dataclass(frozen=True)
class Plate(Case):
    """A case whose limits have rules of the plate."""

    @property
    def library(self):
        frame = pd.DataFrame({"id": [f"r{i}" for i in range(len(self.inputs))], "x": self.inputs.astype(float)})
        frame = pd.concat([frame, self.groups], axis=1)
        opened = open_library(frame, {"x": "continuous"}, "id", self.limits.columns, chunk_rows=3)
        return EncodedLibrary(opened, ENCODER, self.rules, self.limits)

    def fits(self, batch):
        distinct = {c: len({self.codes[c][i] for i in batch}) for c in self.limits.at_most_distinct}
        return super().fits(batch) and all(distinct[c] <= k for c, k in self.limits.at_most_distinct.items())


def plate_of(seed):
    case = case_of(seed)
    limits = RULES[seed % len(RULES)]
    choice = replace(case.choice, q=min(case.choice.q, 3))
    return Plate(case.posterior, case.inputs, case.groups, choice, limits, case.rules)


@pytest.mark.slow
@pytest.mark.parametrize("tries", [64, 2])
def test_batch_and_bound_against_every_batch(tries, monkeypatch):
    monkeypatch.setattr(plate_values.Selections, "tries", tries)
    shares = []
    for seed in range(60):
        case = plate_of(seed)
        every = [b for b in itertools.combinations(range(len(case.inputs)), case.choice.q) if case.fits(b)]
        if not every:
            continue
        try:
            found = choose_certified(case.posterior, case.library, case.choice)
        except InputError:
            assert tries == 2 or case.limits.at_most or case.limits.min_distance  # greedy met a dead end
            continue
        batch, best = found.rows.tolist(), max(map(case.value, every))
        value, bound = found.certificate["value"], found.certificate["upper_bound"]
        assert case.fits(batch)
        assert value == pytest.approx(case.value(batch), abs=1e-9)
        assert value <= best + 1e-9
        assert best <= bound + 1e-9
        assert found.certificate["certified"]
        assert "values on the plate" in found.certificate["guarantee"]
        shares.append(best - value)
    assert len(shares) > 40
    if tries == 64:
        assert np.mean(np.array(shares) < 1e-9) > 0.8  # greedy, but with the best of all selections of values


@pytest.mark.slow
def test_the_values_are_those_of_the_best_greedy_batch():
    for seed in range(20):
        case = replace(plate_of(seed), limits=Limits({}, at_most_distinct={"a": 2}))
        values = sorted(set(case.codes["a"]))
        every = []
        for some in itertools.combinations(values, min(2, len(values))):
            rows = [i for i in range(len(case.inputs)) if case.codes["a"][i] in some]
            own = replace(case, limits=Limits(), inputs=case.inputs[rows], groups=case.groups.iloc[rows].reset_index())
            with contextlib.suppress(InputError):
                every.append(choose_certified(own.posterior, own.library, own.choice).certificate["value"])
        if not every:
            continue
        found = choose_certified(case.posterior, case.library, case.choice).certificate
        assert found["value"] == pytest.approx(max(every), abs=1e-9)
        assert found["selections_compared"] == found["selections"]


@pytest.mark.slow
def test_sum_of_the_best_rows_with_few_values():
    for seed in range(60):
        draw = np.random.default_rng(seed)
        n, q, most = 9, int(draw.integers(1, 5)), int(draw.integers(1, 4))
        bound, codes = torch.from_numpy(draw.normal(size=n)), torch.from_numpy(draw.integers(0, 4, n - seed % 3))
        label = [*codes.tolist(), *([None] * (seed % 3))]
        sums = [
            sum(float(bound[i]) for i in some)
            for some in itertools.combinations(range(n), q)
            if len({label[i] for i in some} - {None}) <= most
        ]
        found = best_of_values(bound, codes, q, most)
        assert found >= max(sums) - 1e-6


@pytest.mark.slow
def test_shared_and_distinct_through_propose():
    rows = pd.DataFrame(uniform(300, 2, seed=4).numpy(), columns=["x", "y"])
    rows["acid"], rows["temp"] = np.array(list("abcde"))[np.arange(300) % 5], (np.arange(300) // 5 % 4 * 10.0)
    rows["yield"] = np.sin(4 * rows["x"]) + rows["y"] + rows["temp"] / 40 + (rows["acid"] == "c")
    surrogate = bs.fit(bs.read_table(rows.iloc[::7], target="yield"))
    batch = bs.propose(
        surrogate, q=12, library=rows, limits=Limits({"acid": 6}, at_most_distinct={"temp": 1, "acid": 2})
    )
    assert batch.frame["temp"].nunique() == 1
    assert batch.frame["acid"].nunique() == 2
    assert batch.frame["acid"].value_counts().max() <= 6
    certificate = batch.run["certificate"]
    assert certificate["certified"]
    assert certificate["selections"] == 4 * 10 == certificate["selections_compared"]
    assert certificate["value"] <= certificate["upper_bound"] < 1.2 * certificate["value"]
    free = bs.propose(surrogate, q=12, library=rows).run["certificate"]
    assert certificate["value"] < free["value"]
    softmax = bs.propose(surrogate, q=12, library=rows, energy="softmax", bounds=Box(shared=["temp"])).frame
    assert softmax["temp"].nunique() == 1  # exchanges keep to the rule


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"limits": Limits({"a": 5}, at_most_distinct={"a": 2})}, "leaves room for 10; lower q, or loosen one"),
        ({"bounds": Box(shared=["a"]), "limits": Limits({}, at_most_distinct={"a": 2})}, "contradict each other"),
        ({"bounds": Box(shared=["a"]), "library": None}, "give either a library or bounds"),
    ],
)
def test_rules_that_contradict_each_other(given, words):
    with pytest.raises(InputError, match=words):
        Choice(**{"q": 96, "library": "lib.csv", **given}).check_source()
    with pytest.raises(InputError, match="at most 0 different values of 'a'"):
        Limits({}, at_most_distinct={"a": 0})
