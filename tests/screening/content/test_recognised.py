"""Texts that are more than labels: what they are taken for, and what is said."""

from pathlib import Path

import pandas as pd
import pytest

from beebo_scale.screening import Encoder, read_table
from beebo_scale.screening.content.recognised import are_relations, is_limit, recognised
from tests.screening.test_table import refuse

CASES = Path(__file__).parents[2] / "cases" / "columns"
SMILES = ["CC(C)C(=O)N", "c1ccccc1O", "CC#N", "O=C(O)C", "CN(C)C=O", "C1CCOC1"]
PROTEINS = ["MQYKLILNGKTLKG", "MQYKLILNGKTLKA", "MQYKWILNGKTLKG"]


@pytest.mark.parametrize(
    ("texts", "kind", "what"),
    [
        (["A24G", "V39A:D40G", "WT"], "", "mutations"),
        (["3F", "4M", "5A"], "", "mutations"),
        (["p.Ala24Gly", "K4del", "Q2*", "A24="], "", "mutations"),
        (["A24G/D40G", "wild type", "K4R+L5S"], "", "mutations"),
        (["76A>T", "c.80G>C"], "", "mutations"),
        (SMILES, "smiles", "molecules"),
        (PROTEINS, "protein", "sequences of 14 letters"),
        (["ACGTACGTAC", "ACGTACGTTT"], "dna", "sequences of 10 letters"),
        (["acgtacgtac", "acgtacgttt"], "dna", "sequences of 10 letters"),
        (["ACGUACGUAC", "ACGUACGUUU"], "", "sequences of RNA"),
        (["MQYKLILNGKTLKG", "MQYKLILNGKTL", "MQYKLILNGKT"], "", "sequences of 11 to 14 letters"),
        ([a + b + c + "A" for a in "ACD" for b in "EFG" for c in "HIK"], "protein", "sequences of 4 letters"),
    ],
)
def test_content_is_recognised(texts, kind, what):
    found = recognised(texts)
    assert (found.kind, found.what) == (kind, what)
    assert found.kind or found.way


@pytest.mark.parametrize(
    "texts",
    [
        ["DMF", "THF", "DCM", "DMSO"],
        ["DIPEA", "TMEDA"],
        ["CCO", "CCN", "CO"],  # plain words as well as molecules
        ["L1", "L2", "C12"],
        ["K2CO3", "Cs2CO3", "NaOH"],
        ["Pd(OAc)2", "Pd(PPh3)4", "NiCl2"],
        ["toluene", "acetonitrile", "dichloromethane"],
        ["P1", "P2", "P3"],
        ["2-MeTHF", "1,4-dioxane"],
        ["a", "b"],
        [],
    ],
)
def test_labels_stay_labels(texts):
    assert recognised(texts) is None


def frame(column, cells):
    return pd.DataFrame({column: cells, "temp": [20.5, 30, 40] * (len(cells) // 3), "y": range(len(cells))})


@pytest.mark.parametrize("repeat", [False, True])
def test_molecules_and_sequences_are_taken_as_such(repeat):
    """With a text that comes twice or without, and although each row has another."""
    many = [f"C{'C' * i}(=O)N" for i in range(24)]
    cells = [*many[:-1], many[0]] if repeat else many
    assert read_table(frame("s", cells), "y").kinds == {"s": "smiles", "temp": "continuous"}
    assert read_table(frame("s", PROTEINS), "y").kinds["s"] == "protein"


def test_a_few_molecules_in_several_rows_each_are_levels():
    table = read_table(CASES / "arylation_measured.csv.gz", "yield")
    assert table.kinds == dict.fromkeys(["Base_SMILES", "Ligand_SMILES", "Solvent_SMILES"], "categorical") | {
        "Concentration": "continuous",
        "Temp_C": "continuous",
    }
    assert "12 molecules" in table.describe()
    assert "name the kind smiles" in table.describe()


def test_mutations_are_refused_unless_declared_or_beside_their_sequences():
    refuse(
        lambda: read_table(CASES / "variants.csv", "activity"),
        "column 'Variant' holds mutations ('3F', '4M', '5A' and 9 more)",
        "give the whole sequences",
    )
    refuse(lambda: read_table(CASES / "multi.csv", "DMS_score", features=["mutant"]), "holds mutations")
    declared = read_table(CASES / "variants.csv", "activity", features={"Variant": "categorical"})
    (column,) = Encoder.from_table(declared).columns
    assert column.named
    both = read_table(CASES / "single.csv", "DMS_score")
    assert both.kinds["mutated_sequence"] == "protein"
    assert next(use.why for use in both.uses if use.column == "mutant").startswith("holds mutations")


def test_relations():
    assert are_relations(["'>'", "'='", "'<'"])
    assert are_relations([">", "~", "="])
    assert not are_relations([">", "5"])
    assert not are_relations([])
    assert [is_limit(text) for text in ("'>'", "=", "'='", "~", "<=", "x")] == [True, False, False, True, True, False]


@pytest.mark.parametrize("features", [{"Smiles": "smiles"}, ["Smiles"], None])
def test_limits_beside_the_value_are_said(features, tmp_path):
    export = pd.read_csv(CASES / "censored_export.csv.gz", sep=";")
    export = export.drop(columns=["pChEMBL Value", "Molecule Name", "Data Validity Comment"])
    for source in (export, tmp_path / "export.csv"):
        if source is not export:
            export.to_csv(source, index=False)
        table = read_table(source, "Standard Value", features=features)
        (note,) = table.notes
        assert "32 of 120 values of 'Standard Value' bear '>' in column 'Standard Relation'" in note
        assert f"note: {note}" in table.describe()
        assert "Standard Relation" not in table.kinds
    export.loc[export["Standard Relation"] == "'>'", "Standard Value"] = None
    left = read_table(export, "Standard Value", features=features)
    assert (len(left), left.dropped, left.notes) == (88, 32, ())


def test_limits_in_the_values_are_refused_in_one_line():
    bad = pd.DataFrame({"a": [1, 2, 3], "y": ["5", ">100", "7"]})
    refuse(lambda: read_table(bad, "y"), "column 'y' is text ('>100' in row 2); a limit is no measured value")


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["Sterile", "FKTNY", "FSFNY", "FAFNY"], ["sequences of 5 letters, but has one of 7 in row 1"]),
        (["FKTNY", "FkTNY", "FAFNY"], ["small letter 'k' in 'FkTNY' in row 2", "D-amino acids"]),
        (["FKTNY", "FKT*Y", "FAFNY"], ["'*' at position 4", "a stop is no letter"]),
        (["FKTNY", "FKT-Y", "FAFNY"], ["'-' at position 4", "a gap"]),
    ],
)
def test_sequences_name_the_row_that_differs(cells, words):
    rows = pd.DataFrame({"s": cells, "y": range(len(cells))})
    refuse(lambda: read_table(rows, "y", features={"s": "protein"}), *words)


def test_small_letters_throughout_are_letters():
    table = read_table(frame("s", ["FKTNY", "fatny", "fkfny"]), "y", features={"s": "protein"})
    assert table.frame["s"].tolist() == ["FKTNY", "FATNY", "FKFNY"]
    assert table.notes == ("2 of 3 sequences of 's' are in small letters and are read as capitals",)
    assert read_table(frame("s", ["fktny", "fatny", "fkfny"]), "y", features={"s": "protein"}).notes == ()
    assert read_table(frame("s", ["fktny", "fatny", "fkfny"]), "y", features={"s": "protein"}).frame["s"][0] == "FKTNY"
    assert read_table(frame("s", ["acGT", "ACGT", "acgt"]), "y", features={"s": "dna"}).frame["s"][0] == "ACGT"
