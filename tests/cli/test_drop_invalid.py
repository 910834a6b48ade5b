"""With --drop-invalid every command does what it does with files that never had the invalid rows."""

import json

import pandas as pd
import pytest

from beebo_scale.cli.main import main

LETTERS = "ACDEFG"
VARIANTS = [a + b for a in LETTERS for b in LETTERS]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, bad in {"bad": ["AX", "", "ACD"], "good": []}.items():
        measured = bad + VARIANTS[:14]
        y = [9] * len(bad) + [i * i % 7 for i in range(14)]
        pd.DataFrame({"variant": measured, "y": y}).to_csv(f"m_{name}.csv", index=False)
        library = VARIANTS[:20] + bad + VARIANTS[20:]
        pd.DataFrame({"variant": library}).to_parquet(f"l_{name}.parquet", index=False)
    return tmp_path


COMMON = ["--target=y", "--features=variant:protein", "-q=4"]


def run(capsys, *arguments):
    code = main(list(arguments))
    out, err = capsys.readouterr()
    assert code == 0, err
    return out.splitlines()


@pytest.mark.slow
def test_suggest_and_propose(folder, capsys):
    inputs = ["--measured=m_bad.csv", "--library=l_bad.parquet"]
    assert main(["suggest", *COMMON, *inputs, "--out=x.csv"]) == 2
    assert "row 2" in capsys.readouterr().err
    said = run(capsys, "suggest", *COMMON, *inputs, "--out=bad.csv", "--save-model=m.ckpt", "--drop-invalid")
    assert said[-1] == "invalid rows left out: 3 of m_bad.csv, 3 of l_bad.parquet; listed in bad.dropped.csv"
    run(capsys, "suggest", *COMMON, "--measured=m_good.csv", "--library=l_good.parquet", "--out=good.csv")
    batch = (folder / "good.csv").read_bytes()
    assert (folder / "bad.csv").read_bytes() == batch
    assert not (folder / "good.dropped.csv").exists()
    record = json.loads((folder / "bad.run.json").read_text())
    clean = json.loads((folder / "good.run.json").read_text())
    assert record["certificate"] == clean["certificate"]
    assert record["library"] == clean["library"] | {"invalid": 3}
    assert record["measured"]["invalid"] == 3
    dropped = pd.read_csv("bad.dropped.csv", keep_default_na=False)
    assert dropped["file"].tolist() == ["m_bad.csv"] * 3 + ["l_bad.parquet"] * 3
    assert dropped["row"].tolist() == [1, 2, 3, 21, 22, 23]
    assert dropped["cell"].tolist() == ["AX", "", "ACD"] * 2

    job = ["--surrogate=m.ckpt", "--library=l_bad.parquet", "-q=4"]
    said = run(capsys, "propose", *job, "--out=again.csv", "--drop-invalid")
    assert said[-1] == "invalid rows left out: 3 of l_bad.parquet; listed in again.dropped.csv"
    assert (folder / "again.csv").read_bytes() == batch


@pytest.mark.slow
def test_campaign(folder, capsys):
    inputs = ["--measured=m_bad.csv", "--library=l_bad.parquet"]
    said = run(capsys, "campaign", "init", "c", *COMMON, *inputs, "--drop-invalid")
    assert said[0] == "c: a campaign with 14 results"
    assert said[-1] == "invalid rows left out: 3 of m_bad.csv; listed in c/dropped.csv"
    assert len(pd.read_csv("c/dropped.csv")) == 3
    assert "drop_invalid: true" in (folder / "c" / "campaign.yaml").read_text()
    said = run(capsys, "campaign", "suggest", "c")
    assert said[-1].endswith("l_bad.parquet; listed in c/rounds/round-001.dropped.csv")
    run(capsys, "campaign", "init", "d", *COMMON, "--measured=m_good.csv", "--library=l_good.parquet")
    run(capsys, "campaign", "suggest", "d")
    first = [(folder / name / "rounds" / "round-001.csv").read_bytes() for name in "cd"]
    assert first[0] == first[1]


@pytest.mark.slow
def test_fit(folder, capsys):
    lines = ["model: {kind: exact}", "trainer: {max_epochs: 1, accelerator: cpu, enable_progress_bar: false}"]
    data = "data: {file: m_bad.csv, target: y, features: {variant: protein}, validation: 0.2, test: 0.2}"
    (folder / "c.yaml").write_text("\n".join([*lines, data]) + "\n")
    command = ["fit", "--config=c.yaml", "--trainer.default_root_dir=r"]
    assert main(command) == 2
    assert "row 2" in capsys.readouterr().err
    said = run(capsys, *command, "--data.drop_invalid=true")
    assert "  variant  protein  named" in said
    listed = next((folder / "r" / "cache").glob("*.dropped.csv"))
    assert pd.read_csv(listed)["row"].tolist() == [1, 2, 3]
    assert f"invalid rows left out: 3 of m_bad.csv; listed in r/cache/{listed.name}" in said


@pytest.mark.slow
def test_predict_and_simulate(folder, capsys):
    run(
        capsys,
        "suggest",
        *COMMON,
        "--measured=m_good.csv",
        "--library=l_good.parquet",
        "--out=o.csv",
        "--save-model=m.pt",
    )
    pd.DataFrame({"id": ["p", "q", "r"], "variant": ["AC", "AX", "CD"]}).to_csv("p.csv", index=False)
    command = ["predict", "--ckpt_path=m.pt", "--data.file=p.csv", "--data.id=id", "--out=predicted.csv"]
    command.append("--trainer.accelerator=cpu")
    assert main(command) == 2
    assert "leave the row out (--data.drop_invalid true)" in capsys.readouterr().err
    said = run(capsys, *command, "--data.drop_invalid=true")
    assert said[-1] == "invalid rows left out: 1 of p.csv; listed in predicted.dropped.csv"
    predicted = pd.read_csv("predicted.csv")
    assert list(predicted)[:2] == ["row", "id"]
    assert predicted["row"].tolist() == [1, 3]
    assert predicted["id"].tolist() == ["p", "r"]

    command = ["simulate", "--target=y", "--features=variant:protein", "--strategies=random", "-q=2", "--rounds=1"]
    assert main([*command, "--landscape=m_bad.csv", "--run-dir=s"]) == 2
    assert "(--drop-invalid)" in capsys.readouterr().err
    said = run(capsys, *command, "--landscape=m_bad.csv", "--run-dir=s", "--drop-invalid")
    assert "invalid rows left out: 3 of m_bad.csv; listed in s/rounds.dropped.csv" in said
    run(capsys, *command, "--landscape=m_good.csv", "--run-dir=t")
    one, other = (pd.read_csv(f"{run}/rounds.csv").filter(regex="^(?!.*seconds)") for run in "st")
    pd.testing.assert_frame_equal(one, other)
