"""Lists of blocks as people write them, and what is refused."""

import pandas as pd
import pytest

from beebo_scale.errors import InputError
from beebo_scale.screening.products import open_product
from beebo_scale.specs import Columns, Lists
from beebo_scale.specs.texts import parse_choices

ACIDS = "smiles,name,mass\nCC(=O)O,acetic,60\nOC=O,formic,46\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "acids.csv").write_text(ACIDS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_files_values_and_letters(folder):
    product = open_product(Lists(parse_choices(["acid:acids.csv", "temp:20|40|60", "v:MKLI@2|4=NDT"])))
    assert product.kinds == {"acid": "smiles", "temp": "continuous", "v2": "protein", "v4": "protein"}
    assert product.sizes == [2, 3, 12, 12]
    assert product.describe() == "2 acid x 3 temp x 12 v2 x 12 v4: 864 products"
    row = product.take([863]).frame.iloc[0]
    assert row["product"] == "formic|60|K2Y/I4Y"
    assert row["v"] == "MYLY"
    assert row["acid"] == "OC=O"
    assert product.find(["formic|60|K2Y/I4Y", "acetic|20|I4D", "no|20|WT", "acetic"]).tolist()[0] == 863
    assert (product.find(product.ids(product.index(range(864))).tolist()) == range(864)).all()


def test_a_small_yaml(folder):
    (folder / "sub").mkdir()
    (folder / "sub" / "acids.csv").write_text(ACIDS)
    (folder / "sub" / "l.yaml").write_text(
        "acid: {file: acids.csv, content: smiles, id: name}\ntemp: [20, 40]\n"
        "incompatible: acid.mass < 50 and temp > 30\n"
    )
    product = open_product(Lists(parse_choices(["sub/l.yaml"])))
    assert product.describe() == "2 acid x 2 temp: 4 products, 1 of them left out as incompatible"
    assert product.may_be(product.index(range(4))).tolist() == [True, True, True, False]


def test_measured_rows_name_blocks_by_id_or_by_content(folder):
    product = open_product(Lists({"acid": "acids.csv", "v": {"wild_type": "MKLI", "positions": [2, 4]}}))
    frame = pd.DataFrame({
        "acid": ["acetic", "OC=O", "C(=O)O", "unknown"], "v": ["K2A/I4L", "MALI", "WT", "?"], "y": [1, 2, 3, None],
    })  # fmt: skip
    found = product.measured(frame, Columns("y")).load(["acid", "v2", "v4"])
    assert found["acid"].tolist()[:3] == ["CC(=O)O", "OC=O", "OC=O"]
    assert found[["v2", "v4"]].agg("".join, axis=1).tolist()[:3] == ["AL", "AI", "KI"]


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (["acid:acids.csv", "t:"], "'t:' is an empty list"),
        (["acid:acids.csv", "t:||"], "is an empty list; give at least one block"),
        (["acid:acids.csv", "t:1|2|1"], r"block 1 is there twice \(in rows 1, 3\)"),
        (["acid:acids.csv", "acid:1|2"], "names 'acid' twice"),
        (["acid:acids.csv"], "has one list"),
        (["acid:acids.csv", "t"], "write COLUMN:FILE or COLUMN:A|B|C".replace("|", r"\|")),
        (["t:1|2", "v:MKLI@2|9=NNK"], "position 9 is not in the wild type, 1 to 4"),
        (["t:1|2", "v:MKLI@2|3=NNZ"], "no amino acid"),
        (["t:1|2", "acid:none.csv"], "no such file"),
    ],
)
def test_refused_lists(folder, choices, message):
    with pytest.raises(InputError, match=message):
        open_product(Lists(parse_choices(choices)))


@pytest.mark.parametrize(
    ("acid", "v", "message"),
    [
        ("propionic", "WT", r"column 'acid' holds 'propionic', no id and no block of acids.csv, in row 2"),
        ("acetik", "WT", "did you mean 'acetic'"),
        ("acetic", "MKLA", "differs from the wild type at position 4, which does not vary"),
        ("acetic", "K3A", "mutates position 3, which does not vary"),
        ("acetic", "A2K", "takes the wild type for A at 2, but it is K"),
        ("acetic", "MKL", "neither a sequence nor mutations"),
    ],
)
def test_refused_measured_blocks(folder, acid, v, message):
    product = open_product(Lists({"acid": "acids.csv", "v": {"wild_type": "MKLI", "positions": [2]}}))
    with pytest.raises(InputError, match=message):
        product.measured(pd.DataFrame({"acid": ["acetic", acid], "v": ["WT", v]}))


def test_more_files_that_are_refused(folder):
    (folder / "empty.csv").write_text("smiles,name\n")
    (folder / "twice.csv").write_text("smiles,name\nC,a\nCC,a\n")
    (folder / "bar.csv").write_text("smiles,name\nC,a|b\nCC,c\n")
    (folder / "odd.csv").write_text("x,y\n1,2\n")
    for name, message in {
        "empty.csv": "empty.csv has a header but no rows",
        "twice.csv": r"the id 'a' is there twice \(in rows 1, 2\)",
        "bar.csv": "holds '|', which stands between".replace("|", r"\|"),
        "odd.csv": "which column holds the blocks of 'acid'",
    }.items():
        with pytest.raises(InputError, match=message):
            open_product(Lists({"acid": name, "t": [1, 2]}))


def test_more_rows_than_64_bits_can_count():
    with pytest.raises(InputError, match=r"more than 2\^63"):
        open_product(Lists({f"x{i}": list(range(1000)) for i in range(7)}))
    assert len(open_product(Lists({f"x{i}": list(range(1000)) for i in range(6)}))) == 10**18


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("temp > ", "neither a file nor an expression"),
        ("tmep > 3", "no list 'tmep' .did you mean 'temp'"),
        ("temp > 'a'", "compares numbers with labels"),
        ("__import__('os')", "no list"),
        ("temp.x > 3", "has no column x"),
        ("temp ** 2 > 3", "it may hold names"),
    ],
)
def test_refused_expressions(text, message):
    with pytest.raises(InputError, match=message):
        open_product(Lists({"temp": [1, 2], "s": ["a", "b"]}, (text,)))


def test_counts_with_pairs_of_three_lists():
    lists = Lists({"a": [0, 1, 2], "b": [0, 1, 2], "c": [0, 1, 2], "d": [1, 2]}, ("a == b", "b == c", "a > 2 * c"))
    product = open_product(lists)
    assert product.allowed_count == product.may_be(product.index(range(len(product)))).sum()
    assert product.allowed_count == 2 * sum(
        a != b and b != c and a <= 2 * c for a in range(3) for b in range(3) for c in range(3)
    )
