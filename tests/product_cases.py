"""A small product of lists of several kinds, and surrogates of some of its rows."""

import itertools

import numpy as np
import pandas as pd
import torch

import beebo_scale as bs
from beebo_scale.proposal import encode_measured
from beebo_scale.screening import Encoder, Table
from beebo_scale.specs import Choice

LISTS = {"solvent": ["THF", "DMF", "MeOH", "water"], "temp": [20, 40, 60, 80, 100], "site": list("ACDEFGHIKLMN")}
KINDS = {"solvent": "categorical", "temp": "continuous", "site": "protein"}


def rows_of(lists=LISTS, count=None, seed=0):
    """All rows of the product (or some at random) with a value."""
    frame = pd.DataFrame(list(itertools.product(*lists.values())), columns=list(lists))
    if count is not None:
        frame = frame.sample(count, random_state=seed).reset_index(drop=True)
    effect = {
        name: dict(zip(v, np.random.default_rng(i).normal(size=len(v)), strict=True))
        for i, (name, v) in enumerate(lists.items())
    }
    parts = [frame[name].map(effect[name]) for name in lists]
    return frame.assign(y=sum(parts) + parts[0] * parts[-1])


def surrogate(count=60, kind="exact", combine="combinations", warm_start=None):
    """Fitted to some rows."""
    table = bs.read_table(rows_of(count=count), "y", features=KINDS)
    more = {"epochs": 3, "inducing_points": 20} if kind == "svgp" else {}
    approximation = bs.specs.Approximation(**more)
    return bs.fit(
        table, kind, combine=combine, transform="none", iterations=5, approximation=approximation, warm_start=warm_start
    )


def encoded_lists(own, lists=LISTS):
    """Blocks of each list by a surrogate's encoder."""
    found = []
    for column in own.encoder.columns:
        values = pd.Series(lists[column.name], dtype=float if column.kind == "continuous" else object)
        table = Table(pd.DataFrame({column.name: values}), {column.name: column.kind}, None, "list")
        found.append(Encoder((column,)).encode(table))
    return found


def measured(frame, **choice):
    """A choice from the lists, the measured rows encoded for it, and a surrogate."""
    asked = Choice(choices=LISTS, **choice)
    own = encode_measured(bs.read_table(frame, "y", features=KINDS), asked)
    return asked, own, bs.fit(own, "exact", transform="none", iterations=5)


def same(a, b):
    """Whether two tensors have the same bytes."""
    return torch.equal(a, b)
