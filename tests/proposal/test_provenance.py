"""What a run file says about its inputs."""

import hashlib

from beebo_scale.proposal.provenance import input_hashes, versions


def test_files_and_folders(tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    (folder / "b.parquet").write_bytes(b"two")
    (folder / "a.parquet").write_bytes(b"one")
    (folder / "notes.txt").write_bytes(b"not a part")
    first = input_hashes(str(folder / "a.parquet"), str(folder), "table")
    assert first.keys() == {str(folder / "a.parquet"), str(folder)}
    assert first[str(folder / "a.parquet")] == hashlib.sha256(b"one").hexdigest()
    (folder / "notes.txt").write_bytes(b"still none")
    assert input_hashes(str(folder)) == {str(folder): first[str(folder)]}
    (folder / "b.parquet").write_bytes(b"three")
    assert input_hashes(str(folder))[str(folder)] != first[str(folder)]
    (folder / "b.parquet").rename(folder / "c.parquet")
    (folder / "c.parquet").write_bytes(b"two")
    assert input_hashes(str(folder))[str(folder)] != first[str(folder)]


def test_versions_that_decide_the_numbers():
    assert {"beebo-scale", "torch", "gpytorch", "botorch", "python"} <= versions().keys()
