"""Labels that were never measured, and predictions that are all equal: refused, or said."""

import pandas as pd
import pytest

import beebo_scale as bs
from beebo_scale.proposal.library.unseen import told_of_library
from beebo_scale.screening import CategoricalColumn, Encoder
from tests.screening.test_table import refuse


def column(levels, named=False):
    return Encoder((CategoricalColumn("solvent", tuple(levels), named),))


def rows(*labels):
    return pd.DataFrame({"solvent": list(labels)})


def test_one_new_label_of_five_is_fine():
    assert told_of_library(rows(*"ABCDE" * 20), column("ABCD")) == ()


def test_a_library_of_labels_that_were_never_measured_is_refused():
    frame = rows("A", *(f"x{i}y" for i in range(199)))
    refuse(
        lambda: told_of_library(frame, column("AB")),
        "1 of 200 labels of column 'solvent' were measured (1 of 200 rows)",
        "declare 'solvent' as categorical",
    )
    (note,) = told_of_library(frame, column("AB", named=True))
    assert "1 of 200 labels" in note
    assert "predicted alike" in note


def test_few_labels_in_many_rows_are_enough_but_said():
    many = rows(*["A"] * 300, *(f"x{i}y" for i in range(199)))
    (note,) = told_of_library(many, column("AB"))
    assert "1 of 200 labels of column 'solvent' were measured (300 of 499 rows)" in note
    (note,) = told_of_library(rows("A", *"CD" * 2), column("AB"))
    assert "1 of 3 labels" in note


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (["CC(=O)O", "CN(C)C=O", "C1CCOC1"], "they look like molecules: name the kind smiles"),
        (["A24G", "K4R", "L5S"], "they look like mutations: give the whole sequences"),
        (["MQYKLILNGKTLKG", "MQYKLILNGKTLKA"], "name the kind protein"),
    ],
)
def test_the_way_out_is_named(labels, words):
    refuse(lambda: told_of_library(rows(*labels), column("AB")), "0 of", words)


def test_labels_are_counted_over_all_chunks(tmp_path, monkeypatch):
    from beebo_scale.proposal.library import unseen

    monkeypatch.setattr(unseen, "REMEMBERED", 5)
    frame = rows(*(f"x{i}y" for i in range(100)))
    opened = bs.screening.library.open_library(frame, {"solvent": "categorical"}, chunk_rows=3)
    refuse(lambda: told_of_library(opened, column("AB")), "of over 6 labels", "(0 of 100 rows)")


def measured():
    return pd.DataFrame({"solvent": ["A", "B", "C"] * 4, "y": [1.0, 2, 3.5] * 4})


def test_equal_predictions_over_a_library_are_said():
    table = bs.read_table(measured(), "y", features={"solvent": "categorical"})
    surrogate = bs.fit(table, seed=0)
    library = rows(*(f"x{i}y" for i in range(9)))
    with pytest.warns(UserWarning, match="0 of 9 labels"):
        batch = bs.propose(surrogate, 2, library, temperature=0.0)
    assert batch.frame["mean"].nunique() == 1
    assert any("may be proposed have the same prediction" in note for note in batch.notes)
    with pytest.warns(UserWarning, match="0 of 9 labels"):
        batch = bs.propose(surrogate, 2, library, temperature=0.5)
    assert any("may be proposed have the same prediction" in note for note in batch.notes)
    some = rows("A", "B", "C", "x1y")
    batch = bs.propose(surrogate, 2, some, temperature=0.0, allow_repeats=True)
    assert batch.notes == ()
