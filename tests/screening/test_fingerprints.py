import numpy as np
import pandas as pd
import pytest
import torch

import beebo_scale as bs
from beebo_scale.errors import InputError
from beebo_scale.screening.encoding import Encoder, FingerprintColumn
from beebo_scale.screening.fingerprints import packed_fingerprints, scaffolds
from beebo_scale.screening.packing import Packing, pack
from beebo_scale.screening.places import Place

SMILES = ["CCO", "OCC", "c1ccccc1O", "CC(=O)Oc1ccccc1C(=O)O", "CN1C=NC2=C1C(=O)N(C(=O)N2C)C", "CCN", "CCCC"]


def place(n, rows=None):
    return Place("s.csv", "m", np.arange(1, n + 1) if rows is None else np.asarray(rows))


def table(**columns):
    frame = pd.DataFrame({"m": SMILES, "y": np.arange(len(SMILES)) % 3 + 1.0, **columns})
    kinds = {name: "continuous" if name == "x" else "protein" for name in columns}
    return bs.read_table(frame, "y", features={"m": "smiles", **kinds})


def test_counts_and_bits_are_rdkits_own():
    from rdkit import Chem
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

    generator = GetMorganGenerator(radius=2, fpSize=2048)
    molecules = [Chem.MolFromSmiles(s) for s in SMILES]
    counts = np.array([generator.GetCountFingerprintAsNumPy(m) for m in molecules])
    X = Encoder.from_table(table()).encode(table())
    assert X.dtype == torch.float64
    assert counts.max() > 1
    np.testing.assert_array_equal(X.numpy(), counts)
    bits = Encoder((FingerprintColumn("m", counts=False),)).encode(table())
    np.testing.assert_array_equal(bits.numpy(), np.array([generator.GetFingerprintAsNumPy(m) for m in molecules]))


def test_a_count_beyond_half_a_byte_is_the_largest():
    X = Encoder.from_table(table()).encode(bs.read_library(pd.DataFrame({"m": ["C" * 40]}), {"m": "smiles"}))
    assert float(X.max()) == 15.0


def test_two_ways_to_write_a_molecule_are_one_input():
    X = Encoder.from_table(table()).encode(table())
    assert torch.equal(X[0], X[1])
    assert int(bs.fit(table(), iterations=1).data.count[0]) == 2


def test_every_unreadable_molecule_is_named_by_its_row():
    text = pd.Series(["CCO", "C1CC", "CC(C)(C)(C)C", "CC", ""])
    with pytest.raises(InputError, match=r"s\.csv: column 'm' holds what is no molecule \('C1CC'\) in rows 20, 30, 50"):
        packed_fingerprints(text, place(5, [10, 20, 30, 40, 50]))
    frame = pd.DataFrame({"m": ["CC", "CCC", "X!", "CO"], "y": [1.0, None, 2.0, 3.0]})
    with pytest.raises(InputError, match="in row 3; correct the SMILES or leave the row out"):
        bs.read_table(frame, "y", features={"m": "smiles"})


def test_rdkit_says_nothing(capfd):
    with pytest.raises(InputError):
        packed_fingerprints(pd.Series(["C1CC"]), place(1))
    assert capfd.readouterr() == ("", "")


def test_without_rdkit_one_line_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "rdkit", None)
    with pytest.raises(InputError, match=r"need RDKit; install it by: pip install 'beebo-scale\[chem\]'"):
        table()


def test_scaffolds():
    found = scaffolds(pd.Series(SMILES), place(len(SMILES)))
    assert found[0] == found[5] == ""
    assert found[2] == found[3] == "c1ccccc1"


def test_a_fingerprint_column_survives_a_file_and_cannot_be_decoded():
    encoder = Encoder.from_table(table())
    assert Encoder.from_dict(encoder.to_dict()) == encoder
    assert encoder.columns == (FingerprintColumn("m"),)
    earlier = encoder.to_dict()
    del earlier["columns"][0]["counts"]  # a file of an earlier version holds bits
    assert Encoder.from_dict(earlier).columns == (FingerprintColumn("m", counts=False),)
    with pytest.raises(InputError, match="no molecule can be read off one: give a library"):
        encoder.decode(torch.zeros(1, 2048))


@pytest.mark.parametrize("counts", [True, False])
def test_packed_rows_are_the_encoded_ones(counts):
    mixed = table(x=np.linspace(-3, 5, len(SMILES)), v=["ACD", "CDA"] * 3 + ["DDD"])
    encoder = Encoder.from_table(mixed)
    encoder = Encoder((FingerprintColumn("m", counts=counts), *encoder.columns[1:]))
    packing = Packing.of(encoder)
    rows = torch.from_numpy(pack(encoder, mixed, np.arange(1, len(mixed) + 1)))
    assert packing.size == (1024 if counts else 256) + 8 + 3
    assert rows.shape == (len(mixed), packing.size)
    X = encoder.encode(mixed)
    assert torch.equal(packing.unpack(rows), X)
    assert packing.unpack(rows, torch.float32).dtype == torch.float32
    assert torch.equal(packing.unpack(rows[2:4]), X[2:4])


def test_molecules_like_the_measured_ones_are_predicted_like_them():
    alcohols, amines = ["C" * i + "CO" for i in range(12)], ["C" * i + "CN" for i in range(12)]
    frame = pd.DataFrame(
        {"m": alcohols + amines, "y": [1.0 + 0.01 * i for i in range(12)] + [0.01 * i for i in range(12)]}
    )
    surrogate = bs.fit(bs.read_table(frame, "y", features={"m": "smiles"}), transform="none")
    library = pd.DataFrame({"m": ["CC(C)CO", "CC(C)CN", "c1ccsc1"]})
    mean, std = surrogate.predict(bs.read_library(library, {"m": "smiles"}))
    assert mean[0] > 0.7
    assert mean[1] < 0.3
    assert std[2] > max(std[:2])  # nothing like it was measured
